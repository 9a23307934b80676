"""Files of services, handled by root so that no service leads it elsewhere.

A service may write below its own folders: at any moment it can put a symbolic link in the place of a file, or
of a folder. So a path is opened step by step, each by the descriptor of the folder above it. What is open
then is what is read, written and given away. Links that root alone made are followed.

Python has no openat2 (RESOLVE_NO_SYMLINKS), and a host has no library for it before its first deployment.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would else be waited for.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_LINKS = 40  # of one path, as Linux has it
MOST_BYTES = 64 << 20  # of a file that is read: reports are smaller, and a service may write what it likes


class UnsafePath(Exception):
    """A path that a service has led elsewhere, or may have."""


class LargeFile(UnsafePath):
    """A file that is larger than what is read of it."""


@dataclass(frozen=True)
class Access:
    """Who owns a file or a folder, and its permissions."""

    user: int
    group: int
    mode: int

    @classmethod
    def of(cls, descriptor: int) -> "Access":
        """Return what an open file or folder has."""
        status = os.fstat(descriptor)
        return cls(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))


def _refused(path: Path, kind: str) -> UnsafePath:
    return UnsafePath(
        f"{path} is {kind}, so root could change another file by mistake. Nothing was done with it. Find out "
        "who created it. Then remove it, and run the playbook again."
    )


def _is_own(folder: os.stat_result) -> bool:
    """Return whether nobody but root can put anything into a folder."""
    return folder.st_uid in (0, os.geteuid()) and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _keeps_links(folder: os.stat_result) -> bool:
    """Return whether nobody but root can replace a link of root's in a folder.

    The sticky bit is enough for that. Others can still make files, folders and hard links there.
    """
    return _is_own(folder) or (folder.st_uid in (0, os.geteuid()) and bool(folder.st_mode & stat.S_ISVTX))


class Folder:
    """An open folder, and what the folder above it is like."""

    def __init__(self, path: Path, descriptor: int, above: os.stat_result) -> None:
        self.path, self.descriptor, self._above = path, descriptor, above
        self._here = os.fstat(descriptor)

    def give(self, access: Access, *, dry: bool = False) -> bool:
        """Give the folder its access; return whether it was another. `dry` changes nothing."""
        return _give(self.descriptor, access, self.path, self._above, dry)

    def give_file(self, name: str, access: Access, *, dry: bool = False) -> bool:
        """Do the same for a file in it."""
        with self.open(name) as descriptor:
            return _give(descriptor, access, self.path / name, self._here, dry)

    def read(self, name: str, most: int = MOST_BYTES) -> bytes | None:
        """Read a file; None if it does not exist. LargeFile if it has more than `most` bytes."""
        try:
            with self.open(name) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(most + 1)
        except FileNotFoundError:
            return None
        if len(content) > most:
            raise LargeFile(
                f"{self.path / name} is larger than {most >> 20} MiB, and was not read. Find out what the "
                "service wrote to this file."
            )
        return content

    @contextmanager
    def open(self, name: str) -> Iterator[int]:
        """Open a file, and nothing that leads to one."""
        descriptor = self._opened(name, FILE)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _refused(self.path / name, "not a regular file")
            if status.st_nlink > 1 and not _is_own(self._here):
                raise _refused(self.path / name, "a hard link to another file")
            yield descriptor
        finally:
            os.close(descriptor)

    def write(self, name: str, content: bytes, access: Access) -> None:
        """Replace a file at once: a reader finds the old or the new one, and only who may read it."""
        self._check(name)
        scratch = f".{name}.{secrets.token_hex(8)}"
        descriptor = os.open(scratch, NEW_FILE, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchown(file.fileno(), access.user, access.group)
                os.fchmod(file.fileno(), access.mode)
            os.replace(scratch, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            self.remove(scratch)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, a link or a folder with all that is in it, if it exists; no link is followed."""
        self._check(name)
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            self._remove_folder(name)

    def _remove_folder(self, top: str) -> None:
        """Remove a folder with all below it, however deep: shutil.rmtree ends at Python's depth of calls.

        Folders are opened one in the other, so that no link is followed, whenever it is made. Only one is
        open at a time; on the way back, `..` must be the folder that the way down led through.
        """
        current = os.dup(self.descriptor)
        levels = [(_inode(current), [top])]
        entered: list[str] = []
        try:
            while levels[-1][1] or entered:
                names = levels[-1][1]
                if names:
                    name = names.pop()
                    descriptor = _subfolder(current, name)
                    if descriptor is None:
                        continue
                    os.close(current)
                    current = descriptor
                    entered.append(name)
                    levels.append((_inode(current), _without_files(current)))
                    continue
                levels.pop()
                above = os.open("..", FOLDER, dir_fd=current)
                os.close(current)
                current = above
                if _inode(current) != levels[-1][0]:
                    raise UnsafePath(
                        f"{self.path / top} was changed while it was removed. Stop the service that owns "
                        "this folder, and run the playbook again."
                    )
                os.rmdir(entered.pop(), dir_fd=current)
        finally:
            os.close(current)

    def exists(self, name: str) -> bool:
        """Return whether something has this name, a link included."""
        self._check(name)
        try:
            os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _check(self, name: str) -> None:
        if "/" in name or name in ("", ".", ".."):
            raise _refused(self.path / name, "not a valid file name")

    def _opened(self, name: str, flags: int) -> int:
        self._check(name)
        try:
            return os.open(name, flags, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _refused(self.path / name, "a symbolic link") from None
            raise


@contextmanager
def folder(path: str | Path, *, make: bool = False) -> Iterator[Folder]:
    """Open a folder by its absolute path; with `make`, what is missing of it is made, and is root's.

    Raises UnsafePath for a link that root cannot have made alone, and what `os.open` raises.
    """
    full_path = Path(path)
    if not full_path.is_absolute():
        raise _refused(full_path, "not an absolute path")
    steps, links, walked = list(full_path.parts[1:]), 0, Path("/")
    descriptor = os.open("/", FOLDER)
    above = os.fstat(descriptor)
    try:
        while steps:
            name = steps.pop(0)
            try:
                following = _step(descriptor, name, make)
            except NotADirectoryError:
                target = _target(descriptor, name, walked)
                links += 1
                if links > MOST_LINKS:
                    raise _refused(full_path, "a loop of symbolic links") from None
                steps[:0] = [part for part in Path(target).parts if part != "/"]
                following = os.open("/" if target.startswith("/") else ".", FOLDER, dir_fd=descriptor)
                walked = Path("/") if target.startswith("/") else walked
            else:
                walked /= name
                above = os.fstat(descriptor)
            os.close(descriptor)
            descriptor = following
        yield Folder(full_path, descriptor, above)
    finally:
        os.close(descriptor)


def _inode(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _subfolder(descriptor: int, name: str) -> "int | None":
    """Open a folder in an open one; what took its place meanwhile is removed."""
    try:
        return os.open(name, FOLDER, dir_fd=descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        os.unlink(name, dir_fd=descriptor)
        return None


def _without_files(descriptor: int) -> list[str]:
    """Remove files and links in an open folder; return the names of its folders."""
    names = []
    with os.scandir(descriptor) as children:
        for entry in children:
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=descriptor)
    return names


def _step(descriptor: int, name: str, make: bool) -> int:
    """Open a folder in an open one; NotADirectoryError for a link, too."""
    try:
        return os.open(name, FOLDER, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
        os.mkdir(name, 0o755, dir_fd=descriptor)
        return os.open(name, FOLDER, dir_fd=descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name) from None
        raise


def _target(descriptor: int, name: str, parent: Path) -> str:
    """Return where a link leads that root alone can have made."""
    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent / name))
    if status.st_uid not in (0, os.geteuid()) or not _keeps_links(os.fstat(descriptor)):
        raise _refused(parent / name, f"a symbolic link that user {status.st_uid} may have created")
    return os.readlink(name, dir_fd=descriptor)


def _give(descriptor: int, access: Access, path: Path, above: os.stat_result, dry: bool) -> bool:
    """Give what is open its access, but nothing of another user that a service may have moved here."""
    has = Access.of(descriptor)
    if has == access:
        return False
    if not _is_own(above) and has.user not in (0, os.geteuid(), access.user, above.st_uid):
        raise _refused(path, f"owned by user {has.user}")
    if not dry:
        os.fchown(descriptor, access.user, access.group)
        os.fchmod(descriptor, access.mode)
    return True
