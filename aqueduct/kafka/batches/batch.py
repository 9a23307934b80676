"""A record batch, told by its header alone.

Its layout: https://kafka.apache.org/documentation/#recordbatch
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from aqueduct.errors import Failed
from aqueduct.kafka.batches.codecs import CODECS, OverLimit, decompress
from aqueduct.kafka.batches.crc import crc32c

# Base offset, length, leader epoch, magic, CRC, attributes, last offset less the base, base time, max time,
# producer id, producer epoch, base sequence, count of records; all big-endian.
HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_AT = 8
EPOCH_AT = 12
LENGTH_FROM = 12  # the length counts what comes after itself
CRC_AT = 17
CRC_FROM = 21  # the attributes: what is before them is the broker's to set
MAGIC = 2
LAST_OFFSET = (1 << 63) - 1  # the largest that there is

# Bits of the attributes.
CODEC = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # the base time is when tombstones may go (KIP-534); records count from it all the same

# Of a batch that is opened: a producer may be anybody, and 32 KB may hold a gigabyte.
MOST_UNPACKED = 100 << 20  # bytes
MOST_RECORDS = 2_000_000

Buffer = bytes | bytearray | memoryview

_WALKED = struct.Struct(">qi4xbIhiqqq6xi")  # HEADER without what a walk has no use for
_CRC = struct.Struct(">I")
_SIGNED = struct.Struct(">i")


class Damaged(Failed):
    """Bytes that aren't batches of this format, or not those that were written."""

    id = "batch-damaged"


class Unopened(Damaged):
    """A batch that is not opened, for what it would take; it may be moved as it is."""

    id = "decompression-limit-exceeded"


class Batch(NamedTuple):
    """One whole batch. Times are milliseconds since 1970, or -1 for none."""

    data: memoryview  # with the header
    base_offset: int
    last_offset: int  # compaction may have removed the record that had it, and the first
    attributes: int
    base_time: int  # what the records' times are counted from: not always the least
    max_time: int
    producer_id: int  # -1: none
    count: int  # type: ignore[assignment]  # of records, 0 if all were compacted; hides tuple.count

    def __len__(self) -> int:
        """Return the size in bytes; so NamedTuple's _replace can't be used."""
        return len(self.data)

    @property
    def codec(self) -> str:
        number = self.attributes & CODEC
        if number >= len(CODECS):
            raise Damaged(
                f"The batch at offset {self.base_offset} has compression type {number}, which is unknown."
            )
        return CODECS[number]

    @property
    def leader_epoch(self) -> int:
        """Return under which leader it was written (KIP-101); -1: that isn't known."""
        return int.from_bytes(self.data[EPOCH_AT : EPOCH_AT + 4], signed=True)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def log_append_time(self) -> bool:
        """Tell whether max_time is every record's time, whatever the record says."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def dense(self) -> bool:
        """Tell whether every offset has its record."""
        return self.last_offset - self.base_offset + 1 == self.count


def walk(buffer: Buffer, *, check_crc: bool = True) -> Iterator[Batch]:
    """Yield the whole batches of what a Fetch returned or a segment holds, as views of `buffer`.

    A last batch that is cut off does not come: where there should be none, compare the batches' lengths with
    that of `buffer`. Damaged at wrong bytes.
    """
    view = memoryview(buffer)
    stop = 0
    while (start := stop) + HEADER.size <= len(view):
        header = _WALKED.unpack_from(view, start)
        base, length, magic, crc, attributes, last, base_time, max_time, producer, count = header
        if magic != MAGIC:
            raise Damaged(
                f"The batch at offset {base} has message format {magic}. Aqueduct can read only message "
                "format 2, which Kafka writes since version 0.11."
            )
        if length < HEADER.size - LENGTH_FROM:
            raise Damaged(f"The batch at offset {base} is damaged: its length {length} is not possible.")
        stop = start + LENGTH_FROM + length
        if stop > len(view):
            return
        if check_crc and crc32c(view[start + CRC_FROM : stop]) != crc:
            raise Damaged(f"The batch at offset {base} is damaged: its CRC does not match its content.")
        if not 0 <= last <= LAST_OFFSET - base:  # no CRC covers the first offset
            raise Damaged(
                f"The batch at offset {base} is damaged: its last offset {base + last} is not possible."
            )
        yield Batch(view[start:stop], base, base + last, attributes, base_time, max_time, producer, count)


def stated_size(buffer: Buffer) -> int:
    """Return the size in bytes that the header of a cut batch states; 0 if that is cut, too."""
    return LENGTH_FROM + _SIGNED.unpack_from(buffer, LENGTH_AT)[0] if len(buffer) >= LENGTH_FROM else 0


def seal(encoded: bytearray) -> None:
    """Set a whole batch's CRC."""
    _CRC.pack_into(encoded, CRC_AT, crc32c(memoryview(encoded)[CRC_FROM:]))


def unpack(batch: Batch, limit: int = MOST_UNPACKED) -> bytes:
    """Return a batch's content after the header, decompressed.

    Damaged if it can't be; Unopened where it is more than `limit` bytes, or of too many records.
    """
    if batch.count > MOST_RECORDS:
        raise _unopened(batch, f"it has {batch.count:,} records, more than the limit of {MOST_RECORDS:,}")
    content = batch.data[HEADER.size :].tobytes()
    if not batch.attributes & CODEC:
        return content
    try:
        return decompress(batch.codec, content, limit)
    except OverLimit as error:
        raise _unopened(batch, str(error)) from None
    except ValueError as error:
        raise damaged(batch, str(error)) from error


def _unopened(batch: Batch, reason: str) -> Unopened:
    return Unopened(f"The batch at offset {batch.base_offset} was not decompressed: {reason}.")


def damaged(batch: Batch, reason: str) -> Damaged:
    return Damaged(f"The batch at offset {batch.base_offset} is damaged: {reason}.")
