"""The records of a batch in plain Python, for few of them, and for hosts without numpy."""

from collections.abc import Iterator

from aqueduct.kafka.batches.batch import Batch, damaged, unpack
from aqueduct.kafka.batches.bodies import get_one


def bodies(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Yield each record's offset, and its key, value and headers as they stand. Damaged at wrong bytes."""
    data = unpack(batch)
    at = 0
    try:
        for _ in range(batch.count):
            length, start = get_one(data, at)
            _, after = get_one(data, start + 1)  # less the attributes; the time
            delta, after = get_one(data, after)
            at = start + length
            if not after <= at <= len(data):
                raise ValueError("a record ends before its body")
            yield batch.base_offset + delta, data[after:at]
    except (IndexError, ValueError):
        raise damaged(batch, "its records do not fill it") from None
    if at != len(data):
        raise damaged(batch, "its records do not fill it")
