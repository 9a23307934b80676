"""Kafka's varints (Protocol Buffers' zigzag numbers of at most 64 bits), many at a time."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Zigzags = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_LIMITS = np.uint64(1) << np.arange(7, 64, 7, np.uint64)  # the least zigzags of 2, 3, ... 10 bytes


def zigzag(numbers: Numbers) -> Zigzags:
    """Map 0, -1, 1, -2, ... to 0, 1, 2, 3, ..."""
    zigzags: Zigzags = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return zigzags


def sizes(zigzags: Zigzags) -> Numbers:
    """Return each varint's size in bytes."""
    return np.searchsorted(_LIMITS, zigzags, side="right") + 1


def put(out: Bytes, positions: Numbers, zigzags: Zigzags) -> None:
    """Write one number at each position."""
    while len(positions):
        more = zigzags >= 0x80
        out[positions] = (zigzags & 0x7F) | (more.astype(np.uint64) << 7)
        positions = positions[more] + 1
        zigzags = zigzags[more] >> np.uint64(7)


def get(encoded: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Return the number at each position, and the positions after them.

    IndexError beyond the data; ValueError at a number of more than 64 bits.
    """
    zigzags = np.zeros(len(positions), np.uint64)
    after = positions.copy()
    unended = np.arange(len(positions))
    for shift in range(0, 70, 7):
        byte = encoded[after[unended]]
        zigzags[unended] |= (byte & 0x7F).astype(np.uint64) << shift
        after[unended] += 1
        unended = unended[byte >= 0x80]
        if not len(unended):
            return ((zigzags >> 1) ^ -(zigzags & 1)).view(np.int64), after
    raise ValueError("a number has more than 64 bits")


def fields(encoded: Bytes, positions: Numbers) -> tuple[Numbers, Numbers, Mask]:
    """Return where fields begin and end that have their lengths at these places, and which are null.

    IndexError or ValueError where there is none.
    """
    lengths, begins = get(encoded, positions)
    if (lengths > len(encoded)).any():
        raise ValueError("a field is longer than all records")
    return begins, begins + np.maximum(lengths, 0), lengths < 0
