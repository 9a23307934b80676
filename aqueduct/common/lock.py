"""Lock files: for one process that writes, or for several that only read (flock)."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct.common.folder_owners import path_of_others
from aqueduct.errors import Refused

READ_ONLY = "the file system is read-only; mount it read-write"
# Another user may own the folder, and can replace the file with a link or a pipe.
PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOT_PLAIN = errno.ELOOP, errno.ENXIO  # the errors of a link, and of a pipe without a reader


@contextmanager
def held(path: Path, otherwise: str) -> Iterator[int]:
    """Hold an exclusive lock, and yield its descriptor. The kernel frees the lock when the process ends.

    Refused with the sentence `otherwise` if another process holds the lock. Root creates no lock file in the
    folder of another user, because that user could not use it.
    """
    try:
        new = os.O_CREAT if os.geteuid() or path_of_others(path.parent) is None else 0
        descriptor = os.open(path, os.O_WRONLY | new | PLAIN, 0o666)
    except OSError as error:
        if error.errno in NOT_PLAIN:
            raise _not_plain(path) from None
        reason = f"{error.strerror}; check the owner and mode of the file and its folder"
        if error.errno == errno.EROFS:
            reason = READ_ONLY
        raise Refused("lock-file-unusable", f"Cannot write the lock file {path}: {reason}.") from None
    with _locked(path, descriptor, fcntl.LOCK_EX, otherwise):
        yield descriptor


@contextmanager
def shared(path: Path, otherwise: str) -> Iterator[None]:
    """Hold a shared lock; Refused with the sentence `otherwise` if another process holds an exclusive lock.

    The lock needs no right to write, because backups may be on a read-only disk. If the file system is
    read-only and has no lock file, no lock is needed: no process can change anything. In the folder of
    another user, no lock file is created, because that user could not use it.
    """
    try:
        descriptor = _readable(path)
    except OSError as error:
        if error.errno == errno.EROFS:
            yield
            return
        if error.errno in NOT_PLAIN:
            raise _not_plain(path) from None
        raise Refused(
            "lock-file-unusable",
            f"Cannot read the lock file {path}: {error.strerror}. Check its owner and mode.",
        ) from None
    if descriptor is None:
        yield
        return
    with _locked(path, descriptor, fcntl.LOCK_SH, otherwise):
        yield


def _readable(path: Path) -> int | None:
    """Open a lock file to read; None if it does not exist and another user owns the folder."""
    try:
        return os.open(path, os.O_RDONLY | PLAIN)
    except FileNotFoundError:
        user = os.geteuid()
        if path_of_others(path.parent) if user == 0 else path.parent.stat().st_uid != user:
            return None
        return os.open(path, os.O_RDONLY | os.O_CREAT | PLAIN, 0o666)


def _not_plain(path: Path) -> Refused:
    return Refused(
        "lock-file-unusable",
        f"Cannot use the lock file {path}: it is not a regular file with only one link. Find out who created "
        "it, and move it out of the folder.",
    )


@contextmanager
def _locked(path: Path, descriptor: int, how: int, otherwise: str) -> Iterator[None]:
    with os.fdopen(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise _not_plain(path)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("lock-held", otherwise) from None
        if not os.fstat(descriptor).st_nlink:  # the previous holder has removed the file
            raise Refused("lock-held", otherwise)
        yield
