"""Files that are read while Spark's JVM runs, which may be compromised and has the rights of this user.

The JVM cannot read the hidden keys, but it can make a link to one, or rename it, where another file was. So a
file is opened one folder after the other. A link on the way is followed only if it was the same before the
JVM started, or if this user cannot change its folder. What was opened must not be a hidden key.
"""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from aqueduct.errors import Failed

LINKS = 40  # on one way, as the kernel has it

Mark = tuple[int, int, bytes]  # device, inode, digest; of a file without content, the digest is empty

_marks: dict[str, set[Mark]] = {}  # by the path of a key
_links: dict[str, str] = {}  # by the path of a link, its target before the JVM started
_first: dict[str, Mark] = {}  # by path, a file that tasks need, before the JVM started
_given: dict[str, set[str]] = {}  # by the path of a key, how the user named it
_running = [False]  # whether this process has started a JVM


def mark(key: str, named: str = "") -> None:
    """Remember which file a key is, its digest, and how the user named it."""
    if named:
        _given.setdefault(key, set()).add(str(Path(named).absolute()))
    with suppress(OSError):
        status = Path(key).stat()
        if stat.S_ISREG(status.st_mode):  # a pipe can be read only once
            content = Path(key).read_bytes()
            _marks.setdefault(key, set()).add(_mark(status, content))


def forget() -> None:
    """Forget keys and files. A JVM that was started may live on."""
    for memory in (_marks, _given, _links, _first):
        memory.clear()


def is_running() -> bool:
    """Return whether Spark's JVM was started, which may have changed files since."""
    return _running[0]


def fix(names: Collection[str]) -> None:
    """Fix the files that tasks need, and the links on the way to them, before the JVM starts.

    A file that is a key too, for example because both ends have the same client properties, is then sent.
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
    """Return the content of a file, None if there is none; Failed if it can't be read or is a hidden key."""
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
    """Refuse, Failed, a file that is a key or has its content, unless the user gave tasks this key.

    `first` is the file before the JVM started. Before that, every file is what the user named.
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
    """Read the file of a descriptor that is a path alone."""
    again = os.open(f"/proc/self/fd/{opened}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(again, "rb") as stream:
        return stream.read()


def _open(name: str) -> int:
    """Open a file, as a path alone; OSError if there is none, Failed if a link leads there that is new."""
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
            if status.st_dev == processes:  # nobody can change it, and it may lead to a file without a name
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
    """Refuse, Failed, a link that the JVM may have made."""
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
    """Return whether this user can make a link in a folder, or give itself the right to."""
    if os.fstatvfs(folder).f_flag & os.ST_RDONLY:  # as Kubernetes mounts secrets
        return False
    return os.fstat(folder).st_uid == os.geteuid() or os.access(
        f"/proc/self/fd/{folder}", os.W_OK, effective_ids=True
    )
