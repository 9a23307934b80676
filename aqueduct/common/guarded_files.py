"""Files for Spark tasks, read while Spark's JVM runs: the JVM may be compromised and has this user's rights.

The JVM cannot read hidden keys, but it can replace another file with a link to a key, or with the key itself.
Therefore a file is opened one folder after the other. A symbolic link in its path is followed only if it was
the same before the JVM started, or if this user cannot change its folder. The opened file must not be a
hidden key.
"""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from aqueduct.errors import Failed

LINKS = 40  # symbolic links in one path, the limit of Linux

Mark = tuple[int, int, bytes]  # device, inode, digest; the digest of an empty file is empty

_marks: dict[str, set[Mark]] = {}  # marks of a key, by the path of the key
_links: dict[str, str] = {}  # targets of links before the JVM started, by the path of the link
_first: dict[str, Mark] = {}  # marks of files for tasks before the JVM started, by path
_given: dict[str, set[str]] = {}  # paths that the user passed for a key, by the path of the key
_running = [False]  # whether this process has started a JVM


def mark(key: str, named: str = "") -> None:
    """Remember the identity and the digest of a key file, and the path that the user passed for it."""
    if named:
        _given.setdefault(key, set()).add(str(Path(named).absolute()))
    with suppress(OSError):
        status = Path(key).stat()
        if stat.S_ISREG(status.st_mode):  # a pipe can be read only once
            content = Path(key).read_bytes()
            _marks.setdefault(key, set()).add(_mark(status, content))


def forget() -> None:
    """Forget keys and files. Whether a JVM was started is kept, because it may still run."""
    for memory in (_marks, _given, _links, _first):
        memory.clear()


def is_running() -> bool:
    """Return whether this process has started Spark's JVM, which may have changed files since then."""
    return _running[0]


def fix(names: Collection[str]) -> None:
    """Remember the files that tasks need, and the links in their paths, before the JVM starts.

    A file of tasks that is also a hidden key is then sent to them, for example if both ends have the same
    client properties.
    """
    if _running[0]:
        return
    for name in names:
        with suppress(OSError):
            opened = _open(name)
            try:
                status = os.fstat(opened)
                if stat.S_ISREG(status.st_mode):
                    _first[name] = _mark(status, _content(opened))
            finally:
                os.close(opened)
    _running[0] = True


def read(name: str) -> bytes | None:
    """Return the content of a file; None if there is no regular file.

    Failed if the file cannot be read, is a hidden key, or is reached by a link that the JVM may have created.
    """
    try:
        opened = _open(name)
    except OSError:
        return None
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            return None
        content = _content(opened)
    except OSError as error:
        raise Failed(
            "task-file-unreadable",
            f"Cannot read {name}, which Spark tasks need: {error.strerror}. Check its owner and mode.",
        ) from None
    finally:
        os.close(opened)
    refuse_key(name, status, content, _first.get(name))
    return content


def refuse_key(name: str, status: os.stat_result, content: bytes = b"", first: Mark | None = None) -> None:
    """Raise Failed for a file that is a hidden key or has its content, unless tasks need this key.

    `first`: the mark of the file before the JVM started. Until then, no file can have been replaced.
    """
    now = _mark(status, content)
    if now == first or not _running[0]:
        return
    for key, marks in _marks.items():
        mark(key)  # it may have been renewed
        if str(Path(name).absolute()) in _given.get(key, ()):
            continue
        if first and any(_is_same(first, other) for other in marks):
            continue
        if any(_is_same(now, other) for other in marks):
            raise Failed(
                "task-file-replaced",
                f"{name} was replaced by the key {key}, which must not leave this process. Check this host "
                "and the workers of Spark for a compromise, replace the key, and restore the file.",
            )


def _is_same(mark: Mark, other: Mark) -> bool:
    return mark[:2] == other[:2] or (mark[2] != b"" and mark[2] == other[2])


def _mark(status: os.stat_result, content: bytes) -> Mark:
    return status.st_dev, status.st_ino, sha256(content).digest() if content else b""


def _content(opened: int) -> bytes:
    """Return the content of the file of an O_PATH descriptor."""
    again = os.open(f"/proc/self/fd/{opened}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(again, "rb") as stream:
        return stream.read()


def _open(name: str) -> int:
    """Open a file with O_PATH; OSError if it does not exist, Failed if its path has a new link."""
    processes = Path("/proc").stat().st_dev
    steps, path, links = [*reversed(Path(name).absolute().parts[1:])], Path("/"), 0
    current = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while steps:
            step = steps.pop()
            entry = os.open(step, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            status = os.fstat(entry)
            if not stat.S_ISLNK(status.st_mode):
                os.close(current)
                current, path = entry, path.parent if step == ".." else path / step
                continue
            try:
                target, links = os.readlink("", dir_fd=entry), links + 1
            finally:
                os.close(entry)
            if (
                status.st_dev == processes
            ):  # links of /proc cannot be changed, and their files may have no name
                entry = os.open(step, os.O_PATH | os.O_CLOEXEC, dir_fd=current)
                os.close(current)
                current, path = entry, path / step
                continue
            if links > LINKS:
                raise OSError(f"{name} has too many links")
            _check(name, str(path / step), target, current)
            if target.startswith("/"):
                root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                os.close(current)
                current, path = root, Path("/")
            steps.extend(reversed([part for part in target.split("/") if part]))
    except BaseException:
        os.close(current)
        raise
    return current


def _check(name: str, link: str, target: str, folder: int) -> None:
    """Raise Failed for a link that the JVM may have created."""
    if not _running[0]:
        _links[link] = target
    elif _links.get(link) != target and _is_changeable(folder):
        raise Failed(
            "task-file-replaced",
            f"Spark tasks need {name}, but {link} in its path is a symbolic link to {target}, and Spark's "
            "JVM may have created this link. Replace the link with a file or a folder, and run the command "
            "again.",
        )


def _is_changeable(folder: int) -> bool:
    """Return whether this user can create links in a folder, or can give itself the right to do so."""
    if os.fstatvfs(folder).f_flag & os.ST_RDONLY:  # for example, secrets of Kubernetes
        return False
    return os.fstat(folder).st_uid == os.geteuid() or os.access(
        f"/proc/self/fd/{folder}", os.W_OK, effective_ids=True
    )
