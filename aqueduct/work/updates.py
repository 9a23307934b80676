"""Updates of Spark accumulators, parsed without unpickling.

The driver's JVM sends the updates of tasks to PySpark's server in this process, which would unpickle them. An
update of Aqueduct is a pickle of two integers: the id of an accumulator, and the added number. This module
parses only such a pickle.
"""

import re
import threading
from typing import IO, Any

from pyspark import accumulators
from pyspark.serializers import FramedSerializer, read_int

_NUMBER = rb"(?:K(.)|M(..)|J(....)|\x8a\x05(.{5})|\x8a\x06(.{6})|\x8a\x07(.{7})|\x8a\x08(.{8}))"
_PICKLED = re.compile(rb"\x80[\x04\x05]\x95.{8}" + _NUMBER + _NUMBER + rb"\x86\x94\.", re.DOTALL)
MOST = 64  # bytes of an update
NOBODY = -1, 0  # an update that changes no accumulator, because ids are not negative

_invalid = threading.Event()


def guard() -> None:
    """Replace PySpark's parser of updates. Call it before a context is created."""
    accumulators.pickleSer = Updates()  # type: ignore[assignment]


def take_invalid() -> bool:
    """Return whether an invalid update was received since the last call."""
    is_invalid = _invalid.is_set()
    _invalid.clear()
    return is_invalid


def parse(update: bytes) -> tuple[int, int] | None:
    """Return the id of the accumulator and the added number; None if the update is not valid."""
    match = _PICKLED.fullmatch(update)
    if not match:
        return None
    id_, number = (part for part in match.groups() if part is not None)
    return _number(id_), _number(number)


def _number(part: bytes) -> int:
    return int.from_bytes(part, "little", signed=len(part) > 2)  # as in pickles


class Updates(FramedSerializer):
    """A serializer for PySpark's server of accumulators, which accepts only valid updates."""

    def _read_with_length(self, stream: IO[bytes]) -> Any:
        length = read_int(stream)  # type: ignore[no-untyped-call]
        update = parse(stream.read(length)) if 0 <= length <= MOST else None
        if update:
            return update
        _invalid.set()
        left = length if length > MOST else 0
        while left and (passed := stream.read(min(left, 1 << 16))):  # the JVM waits until all bytes are read
            left -= len(passed)
        return NOBODY
