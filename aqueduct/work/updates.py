"""Updates of accumulators, read without unpickling them.

The driver's JVM passes what tasks add to PySpark's server in this process, which unpickles it. Our updates
are two whole numbers: the id of an accumulator, and what is added. The pickle of two numbers has one form,
which is parsed here.
"""

import re
import threading
from typing import IO, Any

from pyspark import accumulators
from pyspark.serializers import FramedSerializer, read_int

_NUMBER = rb"(?:K(.)|M(..)|J(....)|\x8a\x05(.{5})|\x8a\x06(.{6})|\x8a\x07(.{7})|\x8a\x08(.{8}))"
_PICKLED = re.compile(rb"\x80[\x04\x05]\x95.{8}" + _NUMBER + _NUMBER + rb"\x86\x94\.", re.DOTALL)
MOST = 64  # bytes of one
NOBODY = -1, 0  # an update of no accumulator: their ids are not negative

_invalid = threading.Event()


def guard() -> None:
    """Have this process read what tasks send, instead of PySpark: before a context is made."""
    accumulators.pickleSer = Updates()  # type: ignore[assignment]


def take_invalid() -> bool:
    """Return whether something else than an update came since the last call."""
    is_invalid = _invalid.is_set()
    _invalid.clear()
    return is_invalid


def parse(update: bytes) -> tuple[int, int] | None:
    """Return the id and the number of an update; None if it is anything else."""
    match = _PICKLED.fullmatch(update)
    if not match:
        return None
    id_, number = (part for part in match.groups() if part is not None)
    return _number(id_), _number(number)


def _number(part: bytes) -> int:
    return int.from_bytes(part, "little", signed=len(part) > 2)  # as pickles have them


class Updates(FramedSerializer):
    """The serializer of PySpark's server."""

    def _read_with_length(self, stream: IO[bytes]) -> Any:
        length = read_int(stream)  # type: ignore[no-untyped-call]
        update = parse(stream.read(length)) if 0 <= length <= MOST else None
        if update:
            return update
        _invalid.set()
        left = length if length > MOST else 0
        while left and (passed := stream.read(min(left, 1 << 16))):  # the JVM waits until all is read
            left -= len(passed)
        return NOBODY
