"""Integers of ORC's streams, by ORC's run length encoding of version 2, and times in them.

The encoding is that of the specification, ORC v1, "Integer Run Length Encoding, version 2".
"""

import sys
from collections.abc import Iterator

import numpy as np

from aqueduct.kafka.batches.varints import Numbers, Zigzags, zigzag

OrcBytes = bytes | memoryview
# Bits of a value, by their code in a run's header.
WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
SHORT_REPEAT, DIRECT, PATCHED_BASE = 0, 1, 2  # else: delta
RUN = 512  # values, at most
BLOCK = 1 << 16  # values that are in memory together, at least
MOST_BITS = 64  # of a number
MOST_ZEROS = 8  # that are left out at the end of nanoseconds


def decode(encoded: OrcBytes, *, signed: bool) -> Numbers:
    """Return the values of a stream that this program wrote; as `blocks` does."""
    return np.concatenate([np.empty(0, np.int64), *blocks(encoded, signed=signed, most=sys.maxsize)])


def blocks(encoded: OrcBytes, *, signed: bool, most: int) -> Iterator[Numbers]:
    """Yield the values of a stream in blocks of BLOCK values, of which the last one may have fewer.

    Unsigned values of more than 63 bits are negative. ValueError or IndexError if the stream ends within a
    run, or has more than `most` values: a run of 512 takes 4 bytes.
    """
    runs: list[Numbers] = []
    offset = values = pending = 0
    while offset < len(encoded):
        kind = encoded[offset] >> 6
        if kind == SHORT_REPEAT:
            run, offset = _short_repeat(encoded, offset, signed)
        elif kind == DIRECT:
            run, offset = _direct(encoded, offset, signed)
        elif kind == PATCHED_BASE:
            run, offset = _patched_base(encoded, offset)
        else:
            run, offset = _delta(encoded, offset, signed)
        runs.append(run)
        values += len(run)
        pending += len(run)
        if values > most:
            raise ValueError(f"a stream has more than {most:,} values")
        if pending >= BLOCK:
            joined = np.concatenate(runs)
            yield joined[:BLOCK]
            runs, pending = [joined[BLOCK:]], pending - BLOCK
    if offset > len(encoded):
        raise ValueError("it ends within a run")
    if pending:
        yield np.concatenate(runs)


def encode(values: Numbers, *, signed: bool) -> bytes:
    """Encode values, in runs of the kind that needs no search: all with the bits of the widest."""
    zigzags = zigzag(values) if signed else values.view(np.uint64)
    runs = []
    for first in range(0, len(values), RUN):
        run = zigzags[first : first + RUN]
        code = _code(max(1, int(run.max()).bit_length()))
        bits = np.unpackbits(run.astype(">u8").view(np.uint8)).reshape(len(run), 64)[:, 64 - WIDTHS[code] :]
        header = DIRECT << 14 | code << 9 | (len(run) - 1)
        runs.append(header.to_bytes(2, "big") + np.packbits(bits).tobytes())
    return b"".join(runs)


def nanoseconds(encoded: Numbers) -> Numbers:
    """Return nanoseconds of a second out of the numbers that a timestamp's second stream has."""
    zeros = encoded & 7
    nanos: Numbers = (encoded >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    return nanos


def encoded_nanoseconds(nanos: Numbers) -> Numbers:
    """Return nanoseconds of a second as a timestamp's second stream has them: without two to eight zeros."""
    zeros = np.zeros(len(nanos), np.int64)
    for number in range(2, MOST_ZEROS + 1):
        zeros[(nanos != 0) & (nanos % 10**number == 0)] = number
    return np.where(zeros > 0, (nanos // 10**zeros) << 3 | (zeros - 1), nanos << 3)


def _short_repeat(encoded: OrcBytes, offset: int, signed: bool) -> tuple[Numbers, int]:
    width = (encoded[offset] >> 3 & 7) + 1
    value = np.array([int.from_bytes(encoded[offset + 1 : offset + 1 + width], "big")], np.uint64)
    return _plain(np.repeat(value, (encoded[offset] & 7) + 3), signed), offset + 1 + width


def _direct(encoded: OrcBytes, offset: int, signed: bool) -> tuple[Numbers, int]:
    width, length = _header(encoded, offset)
    values, after = _unpacked(encoded, offset + 2, width, length)
    return _plain(values, signed), after


def _patched_base(encoded: OrcBytes, offset: int) -> tuple[Numbers, int]:
    """Read values above a base, of which some have higher bits in a list of patches."""
    width, length = _header(encoded, offset)
    base_bytes, patch_width = (encoded[offset + 2] >> 5) + 1, WIDTHS[encoded[offset + 2] & 31]
    gap_width, patches = (encoded[offset + 3] >> 5) + 1, encoded[offset + 3] & 31
    base = int.from_bytes(encoded[offset + 4 : offset + 4 + base_bytes], "big")
    negative = 1 << (8 * base_bytes - 1)
    base = -(base - negative) if base & negative else base
    values, after = _unpacked(encoded, offset + 4 + base_bytes, width, length)
    entries, after = _unpacked(encoded, after, WIDTHS[_code(gap_width + patch_width)], patches)
    index = 0
    for entry in entries.tolist():
        index += entry >> patch_width
        values[index] |= np.uint64((entry & ((1 << patch_width) - 1)) << width)
    return values.view(np.int64) + base, after


def _delta(encoded: OrcBytes, offset: int, signed: bool) -> tuple[Numbers, int]:
    width, length = _header(encoded, offset)
    if encoded[offset] >> 1 & 31 == 0:
        width = 0
    base, offset = varint(encoded, offset + 2)
    step, offset = varint(encoded, offset)
    first = int(_plain(np.array([base], np.uint64), signed)[0])
    delta = int(_plain(np.array([step], np.uint64), True)[0])
    values = np.full(length, delta, np.int64)
    values[0] = first
    if width:
        steps, offset = _unpacked(encoded, offset, width, length - 2)
        values[2:] = steps.view(np.int64) * (-1 if delta < 0 else 1)
    return np.cumsum(values), offset


def _header(encoded: OrcBytes, offset: int) -> tuple[int, int]:
    """Return the width of a run's values, and how many there are."""
    return WIDTHS[encoded[offset] >> 1 & 31], ((encoded[offset] & 1) << 8 | encoded[offset + 1]) + 1


def _code(bits: int) -> int:
    return next(code for code, width in enumerate(WIDTHS) if width >= bits)


def _unpacked(encoded: OrcBytes, offset: int, width: int, count: int) -> tuple[Zigzags, int]:
    after = offset + (width * count + 7) // 8
    if after > len(encoded):
        raise ValueError("it ends within a run")
    bits = np.zeros((count, 64), np.uint8)
    packed = np.frombuffer(encoded, np.uint8, after - offset, offset)
    bits[:, 64 - width :] = np.unpackbits(packed, count=width * count).reshape(count, width)
    return np.packbits(bits).view(">u8").astype(np.uint64), after


def varint(encoded: OrcBytes, offset: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset behind it.

    ValueError if it has more bytes than 64 bits take: one without an end would cost the square of its length.
    """
    value = 0
    for shift in range(0, MOST_BITS, 7):
        byte = encoded[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << MOST_BITS) - 1, offset
    raise ValueError("a number has more than 64 bits")


def _plain(values: Zigzags, signed: bool) -> Numbers:
    return ((values >> 1) ^ -(values & 1)).view(np.int64) if signed else values.view(np.int64)
