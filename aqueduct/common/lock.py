"""A place that one process at a time may have, or several that only look."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct.errors import Refused

READ_ONLY = "its disk is read-only; mount it writable"


@contextmanager
def held(path: Path, otherwise: str) -> Iterator[int]:
    """Hold a lock, which the kernel frees when the process ends, however it does; yield its descriptor.

    Refused, saying `otherwise`, if another one has it.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        reason = READ_ONLY if error.errno == errno.EROFS else error.strerror
        raise Refused("lock-file-unusable", f"{path} can't be written: {reason}.") from None
    with _locked(descriptor, fcntl.LOCK_EX, otherwise):
        yield descriptor


@contextmanager
def shared(path: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock beside others who only look; Refused, saying `otherwise`, if one has it for itself.

    It takes no right to write, for backups may be on a disk that is read-only, or is at another host. A lock
    that can't be made there is not needed: nobody could change anything.
    """
    try:
        descriptor = _readable(path)
    except OSError as error:
        if error.errno == errno.EROFS:
            yield
            return
        raise Refused("lock-file-unusable", f"{path} can't be read: {error.strerror}.") from None
    with _locked(descriptor, fcntl.LOCK_SH, otherwise):
        yield


def _readable(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)


@contextmanager
def _locked(descriptor: int, how: int, otherwise: str) -> Iterator[None]:
    with os.fdopen(descriptor):
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("lock-held", otherwise) from None
        if not os.fstat(descriptor).st_nlink:  # who had it has removed it meanwhile
            raise Refused("lock-held", otherwise)
        yield
