"""Frames of batches, and announcements: what crosses a link, and both as a raw topic's records.

A record's value is what crossed the link, byte for byte; its key tells without the value what it covers:

    topic/partition/first/last                        a frame; `last` inclusive
    topic/partition/first/end/delete|compact          an announcement; `end` exclusive
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import zstandard

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.errors import Failed
from aqueduct.kafka.batches import codecs
from aqueduct.kafka.batches.batch import Batch, Buffer, Damaged, walk

# Version, kind, flags, length of the topic's name, partition, topic id, two offsets, the batches' length.
HEADER = struct.Struct(">BBBBi16sqqI")
VERSION = 1
FRAME, ANNOUNCEMENT = 0, 1
COMPRESSED = 1  # a frame's flag: what follows is one Zstandard frame
COMPACTED = 1  # an announcement's flag

LARGEST = 256 << 20  # bytes of a frame's batches, unless told otherwise

_KEY = re.compile(rb"([a-zA-Z0-9._-]{1,249})/(\d{1,10})/(\d{1,19})/(\d{1,19})(?:/(delete|compact))?")


class Malformed(Failed):
    """Bytes that are neither a frame nor an announcement of this format."""

    id = "raw-record-malformed"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """All that one partition (by the downstream's number) holds from offset `first` to `last`, inclusive.

    `batches` are Kafka's, verbatim; none where the source has no record there, or withholds them.
    """

    topic: str
    topic_id: UUID
    partition: int
    first: int
    last: int
    batches: bytes


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """The sender's log holds `first` to `end`, exclusive: the last stable offset."""

    topic: str
    topic_id: UUID
    partition: int
    first: int
    end: int
    compacted: bool  # only compaction deletes there: what is below `first` was not lost


@dataclass(frozen=True, kw_only=True)
class FrameKey:
    """A raw record's key: the offsets, both inside, of a frame or, where `announced`, of the source's log."""

    topic: str
    partition: int
    first: int
    last: int
    announced: bool
    compacted: bool = False


def key(of: Frame | Announcement) -> bytes:
    if isinstance(of, Frame):
        return _frame_key(of.topic, of.partition, of.first, of.last)
    return _announcement_key(of.topic, of.partition, of.first, of.end, of.compacted)


def read_key(raw_key: bytes) -> FrameKey:
    """Parse a raw record's key; Malformed if it isn't one."""
    match = _KEY.fullmatch(raw_key)
    if not match:
        raise Malformed(f"{raw_key[:300]!r} is not the key of a record of a raw topic.")
    topic, partition, first, second, policy = match.groups()
    announced = policy is not None
    last = int(second) - announced  # an announcement's is the end
    return FrameKey(
        topic=topic.decode(),
        partition=int(partition),
        first=int(first),
        last=last,
        announced=announced,
        compacted=policy == b"compact",
    )


def pack(of: Frame | Announcement, *, compress_above: int = 0) -> bytes:
    """Pack the raw record's value.

    Batches longer than `compress_above` bytes (0: none) are compressed if that makes them smaller.
    """
    topic = of.topic.encode()
    if isinstance(of, Announcement):
        kind, flags, first, second = ANNOUNCEMENT, int(of.compacted), of.first, of.end
        body, length = b"", 0
    else:
        kind, flags, first, second = FRAME, 0, of.first, of.last
        body, length = of.batches, len(of.batches)
        if 0 < compress_above < length:
            compressed = codecs.compress("zstd", body)
            if len(compressed) < length:
                flags, body = COMPRESSED, compressed
    header = HEADER.pack(
        VERSION, kind, flags, len(topic), of.partition, of.topic_id.bytes, first, second, length
    )
    return b"".join((header, topic, body))


def unpack(value: Buffer, *, largest: int = LARGEST) -> Frame | Announcement:
    """Unpack a value. Malformed: it is not of this format, or has more than `largest` bytes of batches."""
    kind, flags, topic, partition, topic_id, first, second, length, start = _header(value)
    body = memoryview(value)[start:]
    if kind == ANNOUNCEMENT:
        return Announcement(
            topic=topic,
            topic_id=UUID(bytes=topic_id),
            partition=partition,
            first=first,
            end=second,
            compacted=flags == COMPACTED,
        )
    if length > largest:
        raise Malformed(
            f"A frame of {topic}-{partition} has {length} bytes, more than the limit of {largest} bytes."
        )
    batches = _decompressed(body, length) if flags == COMPRESSED else bytes(body)
    return Frame(
        topic=topic,
        topic_id=UUID(bytes=topic_id),
        partition=partition,
        first=first,
        last=second,
        batches=batches,
    )


def unpacked_size(value: Buffer) -> int:
    """Return how many bytes of batches a packed value has, by its header alone; Malformed as in `key_of`."""
    *_, length, _ = _header(value)
    return length


def batches_of(frame: Frame) -> Iterator[Batch]:
    """Yield the batches of a frame in the order of their offsets.

    Damaged if they do not fill it, are not in that order, or have offsets that the frame does not cover:
    records in them would count as arrived, and not be written, or be written twice.
    """
    size, least = 0, frame.first
    for batch in walk(frame.batches):
        if not least <= batch.base_offset <= batch.last_offset <= frame.last:
            raise Damaged(
                f"A batch has offsets {batch.base_offset} to {batch.last_offset}, but offsets {least} to "
                f"{frame.last} remain in its frame."
            )
        size, least = size + len(batch), batch.last_offset + 1
        yield batch
    if size != len(frame.batches):
        raise Damaged(
            f"The last batch of a frame is incomplete: {len(frame.batches) - size} bytes follow the last "
            "complete batch."
        )


def key_of(value: Buffer) -> bytes:
    """Return a packed value's key, by its header alone; Malformed as in `unpack`, but for the batches."""
    kind, flags, topic, partition, _, first, second, *_ = _header(value)
    if kind == FRAME:
        return _frame_key(topic, partition, first, second)
    return _announcement_key(topic, partition, first, second, flags == COMPACTED)


def _frame_key(topic: str, partition: int, first: int, last: int) -> bytes:
    return f"{topic}/{partition}/{first}/{last}".encode()


def _announcement_key(topic: str, partition: int, first: int, end: int, compacted: bool) -> bytes:
    return f"{topic}/{partition}/{first}/{end}/{'compact' if compacted else 'delete'}".encode()


def _header(value: Buffer) -> tuple[int, int, str, int, bytes, int, int, int, int]:
    """Return, checked: kind, flags, topic, partition, topic id, two offsets, batches' length and start."""
    try:
        version, kind, flags, name, partition, topic_id, first, second, length = HEADER.unpack_from(value)
    except struct.error:
        raise Malformed(f"{len(value)} bytes are not enough for a frame.") from None
    if version != VERSION:
        raise Malformed(f"The frame has version {version}; this release reads version {VERSION}.")
    start = HEADER.size + name
    try:
        topic = bytes(value[HEADER.size : start]).decode("ascii")
    except UnicodeDecodeError:
        topic = ""
    if len(topic) != name or not LEGAL_NAME.fullmatch(topic):
        raise Malformed("The topic name of the frame is not valid.")
    body = len(value) - start
    if kind == FRAME:
        # A range is never empty; an announced log may be.
        right = first <= second and (body == length if not flags else flags == COMPRESSED and body < length)
    else:
        right = (
            kind == ANNOUNCEMENT and first <= second and flags in (0, COMPACTED) and not length and not body
        )
    if not right or first < 0 or partition < 0:
        raise Malformed(f"The header of a frame of {topic}-{partition} has contradictory values.")
    return kind, flags, topic, partition, topic_id, first, second, length, start


def _decompressed(body: memoryview, length: int) -> bytes:
    """Decompress batches.

    This takes no more memory than `length`, whatever the data say: for the result, and for looking back.
    """
    try:
        if zstandard.frame_content_size(body) != length:
            raise Malformed("The length of a frame's compressed batches differs from its header.")
        reader = zstandard.ZstdDecompressor(max_window_size=max(1 << 10, 1 << length.bit_length()))
        return reader.decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Malformed(f"A frame cannot be decompressed: {error}.") from None
