"""Segments: batches of a partition in an object, with an index.

The uncompressed object is a log segment of Kafka. A compressed one has frames of Zstandard (RFC 8878).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

import zstandard

from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import MOST_UNPACKED, Batch, stated_size, walk
from aqueduct.kafka.batches.offsets import Index
from aqueduct.store import encryption, keyring
from aqueduct.store.encryption import DataKey
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import Segment, StoredPartition
from aqueduct.store.objects import Data, MissingObject, Objects, ObjectTooLarge

# Level 1 is twice as fast as 3, and a tenth larger. It finds little more beyond 128 KiB, and that slowly.
PACKING = zstandard.ZstdCompressionParameters.from_level(1, window_log=17)
FRAME_BYTES = 2 << 20  # at least; packed at once: as a stream the same takes a fifth longer
UNPACK_BYTES = 4 << 20
WINDOW_BYTES = 8 << 20  # at most, that a stored frame may refer back to; written ones have 128 KiB
BATCH_FACTOR = 100  # a batch over MOST_UNPACKED may be so many times as large as its stored segment
MOST_BATCH_BYTES = 256 << 20  # ... and no larger: it is in memory several times. Such batches aren't packed


@dataclass(frozen=True)
class SegmentLimits:
    """The limits at which a segment is full."""

    unpacked_bytes: int = 64 << 20
    records: int = 10_000_000


class Writer:
    """Writes segments of one partition. Call `add` with batches in order, then `finish`."""

    def __init__(
        self,
        objects: Objects,
        partition: StoredPartition,
        run: str,
        start: int,
        *,
        generation: bool,
        limits: SegmentLimits,
        key: DataKey | None = None,
    ) -> None:
        self._objects = objects
        self._partition = partition
        self._run = run
        self._generation = generation
        self._limits = limits
        self._key = key
        self._next = start
        self._frame = BytesIO()  # what is packed next, in memory that is used again and again
        self._begin()

    def _begin(self) -> None:
        self._start = self._next
        self._stored = bytearray()
        self._indexes: list[Index] = []
        self._unpacked = self._records = 0
        self._compressor: zstandard.ZstdCompressor | None = None

    def add(self, batches: Sequence[Batch], next_offset: int) -> list[Segment]:
        """Add all batches up to `next_offset`. Return the segments that are full."""
        made: list[Segment] = []
        begun = 0
        for end, batch in enumerate(batches, 1):
            if len(batch.data) > MOST_UNPACKED and self._unpacked:  # it begins a segment, which is not packed
                self._indexes.append(Index.of(batches[begun : end - 1]))
                self._next = batch.base_offset
                made += filter(None, [self.finish()])
                begun = end - 1
            self._write(batch)
            if self._unpacked < self._limits.unpacked_bytes and self._records < self._limits.records:
                continue
            self._indexes.append(Index.of(batches[begun:end]))
            self._next = batch.last_offset + 1 if end < len(batches) else next_offset
            made += filter(None, [self.finish()])
            begun = end
        if begun < len(batches):
            self._indexes.append(Index.of(batches[begun:]))
        self._next = next_offset
        return made

    def _write(self, batch: Batch) -> None:
        # What producers compress is not compressed twice, and a reader has room for a large batch once.
        if not self._unpacked and batch.codec == "none" and len(batch.data) <= MOST_UNPACKED:
            self._compressor = zstandard.ZstdCompressor(compression_params=PACKING)
        self._unpacked += len(batch.data)
        self._records += batch.count
        if self._compressor is None:
            self._stored += batch.data
            return
        self._frame.write(batch.data)
        if self._frame.tell() >= FRAME_BYTES:
            self._pack(self._compressor)

    def skip(self, stop: int) -> Segment | None:
        """Skip deleted offsets up to `stop`, where the next segment begins. Return the finished segment."""
        segment = self.finish()
        self._next = self._start = stop
        return segment

    def finish(self) -> Segment | None:
        """Write the remaining batches as a segment; None if no offset was added."""
        if self._next == self._start:
            return None
        index = Index.joined(self._indexes)
        segment = Segment(
            *self._partition,
            start=self._start,
            stop=self._next,
            first_offset=int(index.base_offset[0]) if len(index) else None,
            last_offset=int(index.last_offset[-1]) if len(index) else None,
            records=index.records,
            unpacked_bytes=self._unpacked,
            stored_bytes=0,
            sha256="",
            index_bytes=0,
            index_sha256="",
            min_time=None,
            max_time=int(index.max_time.max()) if len(index) else None,
            run=self._run,
            compressed=self._compressor is not None,
            generation=self._generation,
            encrypted=self._key is not None,
        )
        if index.records:
            segment = self._create(segment, index)
        self._begin()
        return segment

    def _pack(self, compressor: zstandard.ZstdCompressor) -> None:
        with self._frame.getbuffer() as whole, whole[: self._frame.tell()] as frame:
            if frame:
                self._stored += compressor.compress(frame)
        self._frame.seek(0)

    def _create(self, segment: Segment, index: Index) -> Segment:
        if self._compressor:
            self._pack(self._compressor)
        described = self._kept(segment.index_path, index.to_bytes())
        stored = self._kept(segment.path, self._stored)
        return segment._replace(
            stored_bytes=len(stored),
            sha256=hashlib.sha256(stored).hexdigest(),
            index_bytes=len(described),
            index_sha256=hashlib.sha256(described).hexdigest(),
        )

    def _kept(self, path: str, content: Data) -> Data:
        """Create an object; return what is stored."""
        if self._key:
            return encryption.create(self._objects, self._key, path, content)
        self._objects.create(path, content)
        return content


def lend(keys: Keyring, every: Iterable[Segment], store: str) -> None:
    """Give tasks the keys of these segments. Locked without one of them."""
    runs = {segment.run for segment in every if segment.encrypted and segment.records}
    keys.lend(runs, f"The data of records in {store}")


def read(objects: Objects, segment: Segment) -> memoryview:
    """Read and decrypt a segment's object. Failed if it is damaged."""
    stored = check(objects, segment)
    return _opened(objects, segment, segment.path, stored)


def check(objects: Objects, segment: Segment) -> memoryview:
    """Read a segment's stored object. Failed if it is damaged."""
    return _checked(objects, segment.path, segment.stored_bytes, segment.sha256)


def check_index(objects: Objects, segment: Segment) -> memoryview:
    """Read an index's stored object. Failed if it is damaged."""
    return _checked(objects, segment.index_path, segment.index_bytes, segment.index_sha256)


def readable(segment: Segment) -> bool:
    """Return whether this process has the key of a segment, or it is not encrypted."""
    return not segment.encrypted or keyring.lent(segment.run) is not None


def _opened(objects: Objects, segment: Segment, path: str, stored: memoryview) -> memoryview:
    if not segment.encrypted:
        return stored
    key = keyring.lent(segment.run)
    if key is None:
        raise Failed("decryption-key-missing", f"{objects.url}/{path} is encrypted. Pass --private-key.")
    return encryption.decrypt(key, path, stored, objects.url)


def read_index(objects: Objects, segment: Segment) -> Index:
    """Read and decrypt the index of a segment's batches. Failed if it is damaged."""
    index_bytes = _opened(objects, segment, segment.index_path, check_index(objects, segment))
    return Index.from_bytes(bytes(index_bytes), segment.unpacked_bytes)


def batches(segment: Segment, stored: memoryview, *, check_crc: bool = True) -> Iterator[Batch]:
    """Yield the batches of a stored object in order. It is decompressed in parts."""
    if not segment.compressed:
        size = 0
        for batch in walk(stored, check_crc=check_crc):
            size += len(batch)
            yield batch
        if size != len(stored):
            raise Failed("object-damaged", f"{segment.path} ends in the middle of a batch.")
        return
    rest, unpacked, lacking = b"", 0, 0
    most = max(MOST_UNPACKED, min(MOST_BATCH_BYTES, BATCH_FACTOR * len(stored)))
    reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
    frames = reader.stream_reader(stored, read_across_frames=True)
    while chunk := frames.read(max(UNPACK_BYTES, lacking)):
        unpacked += len(chunk)
        if unpacked > segment.unpacked_bytes:
            raise Failed(
                "object-damaged",
                f"{segment.path} decompresses to more than {segment.unpacked_bytes} bytes, its size in the "
                "manifest.",
            )
        joined = rest + chunk
        used = 0
        for batch in walk(joined, check_crc=check_crc):
            used += len(batch)
            yield batch
        rest = joined[used:]
        if (size := stated_size(rest)) > most:
            raise Failed(
                "decompression-limit-exceeded",
                f"{segment.path} has a batch of {size:,} bytes, but at most {most:,} are valid.",
            )
        lacking = size - len(rest)
    if rest:
        raise Failed("object-damaged", f"{segment.path} ends in the middle of a batch.")


def _checked(objects: Objects, path: str, size: int, sha256: str) -> memoryview:
    try:
        content = objects.read(path, at_most=size)
    except MissingObject:
        raise Failed(
            "object-missing",
            f"{path} is missing in {objects.url}, but a snapshot lists it. Restore it from a copy of the "
            "store.",
        ) from None
    except ObjectTooLarge:
        raise Failed(
            "checksum-mismatch",
            f"{objects.url}/{path} is damaged: it has more than {size} bytes, its size in the manifest.",
        ) from None
    if len(content) != size:
        raise Failed(
            "checksum-mismatch",
            f"{objects.url}/{path} is damaged: it has {len(content)} bytes instead of {size}.",
        )
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Failed(
            "checksum-mismatch",
            f"{objects.url}/{path} is damaged: its SHA-256 differs from the manifest.",
        )
    return content
