"""A place that one process at a time may have."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct.errors import Refused


@contextmanager
def held(path: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock, which the kernel frees when the process ends, however it does.

    Refused, saying `otherwise`, if another one has it.
    """
    try:
        file = path.open("a")
    except OSError as error:
        raise Refused(f"{path} can't be written: {error.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(otherwise) from None
        yield
