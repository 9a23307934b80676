"""A place that one process at a time may have, or several that only look."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct.errors import Refused


@contextmanager
def held(path: Path, otherwise: str, *, shared: bool = False) -> Iterator[int]:
    """Hold a lock, which the kernel frees when the process ends, however it does; yield its descriptor.

    Refused, saying `otherwise`, if another one has it.
    """
    try:
        file = path.open("a")
    except OSError as error:
        raise Refused(f"{path} can't be written: {error.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(otherwise) from None
        yield file.fileno()
