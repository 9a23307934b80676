"""The records of a batch in plain Python, for few of them, and for hosts without numpy."""

from collections.abc import Iterator

from aqueduct.kafka.batches.batch import Batch, damaged, unpack
from aqueduct.kafka.batches.bodies import get_one


def bodies(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Yield each record's offset, and its key, value and headers as they stand. Damaged at wrong bytes."""
    payload = unpack(batch)
    position = 0
    try:
        for _ in range(batch.count):
            length, start = get_one(payload, position)
            _, after = get_one(payload, start + 1)  # less the attributes; the time
            delta, after = get_one(payload, after)
            position = start + length
            if not after <= position <= len(payload):
                raise ValueError("a record ends before its body")
            yield batch.base_offset + delta, payload[after:position]
    except (IndexError, ValueError):
        raise damaged(batch, "its records are shorter than the batch") from None
    if position != len(payload):
        raise damaged(batch, "its records are shorter than the batch")
