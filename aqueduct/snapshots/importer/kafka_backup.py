"""Backups of OSO's kafka-backup (GitHub: osodevops/kafka-backup), versions 0.2.0 to 0.17.4.

    <backup id>/manifest.json
    <backup id>/consumer-groups-snapshot.json                            since 0.10, not always there
    <backup id>/topics/<topic>/partition=<n>/segment-<number>.bin[.zst|.lz4]

A segment (format 1, little-endian): a header of 32 bytes (KBAK, version, compression, two bytes of nothing,
how many records, first and last offset), records, packed together, and 8 bytes: CRC-32 of all before, BKAE. A
record: its length (4), time (8), offset (8), key, value, a count of headers (2), headers. Keys and values
have a length (4, -1: null), names of headers one of 2.
"""

import re
import struct
import zlib
from array import array as Vector
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import lz4.block
import numpy as np

from aqueduct.common import strict_json
from aqueduct.common.strict_json import ADDED
from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.errors import Failed, LeftOut, Refused, Skipped
from aqueduct.kafka.batches.codecs import decompress
from aqueduct.kafka.batches.records import Records
from aqueduct.kafka.batches.varints import Bytes, Numbers
from aqueduct.snapshots.importer.fields import Fields, HeaderFields, bodies, number
from aqueduct.snapshots.importer.layout import (
    ForeignFile,
    ForeignPartition,
    ForeignStore,
    FoundRecords,
    Missing,
)
from aqueduct.store.manifest import GroupOffset, StoredGroup
from aqueduct.store.validation import MOST_PARTITIONS

PROGRAM = "kafka-backup (0.2.0 to 0.17.4)"
MANIFEST = "manifest.json"
GROUPS = "consumer-groups-snapshot.json"
HEADER = struct.Struct("<4sBB2xQqq")
FOOTER = struct.Struct("<I4s")
LENGTH = struct.Struct("<I")
LEAST_RECORD = 26  # bytes of a record behind its length: without key, value and headers
ANY_RECORDS = 250_000  # that any file may have; a larger one has at most one for each of its bytes
VERSION = 1
NONE, ZSTD, LZ4 = range(3)
PLAIN = re.compile(r"(?!\.\.?/)[^/\0]+(?:/(?!\.\.?(?:/|$))[^/\0]+)*")  # a path that leads nowhere else
MOST_MANIFEST_BYTES = 256 << 20  # of its manifest, and of that of groups: of a million segments
MOST_UNPACKED = 2 << 30  # bytes of a file's records; its default is 128 MB
LEAST_UNPACKED = 256 << 20  # that any file may unpack to; a larger one
UNPACKED_FACTOR = 100  # ... to this many times its stored size
LZ4_RATIO = 255  # the most that a byte of LZ4 can become
LACKS = (
    Skipped(
        "settings of topics, and replication factors",
        "kafka-backup keeps none. Set them after the restore",
        "import-source-lacks",
    ),
    Skipped("ACLs and quotas", "kafka-backup keeps none", "import-source-lacks"),
)


@dataclass(frozen=True, kw_only=True)
class TheirGap:
    start_offset: int
    end_offset: int  # exclusive
    reason: str
    detected_at: int


@dataclass(frozen=True, kw_only=True)
class TheirSegment:
    key: str
    start_offset: int
    end_offset: int  # inclusive
    start_timestamp: int
    end_timestamp: int
    record_count: int
    uncompressed_size: int = field(default=0, metadata=ADDED)
    compressed_size: int = field(default=0, metadata=ADDED)


@dataclass(frozen=True)
class TheirPartition:
    partition_id: int
    segments: tuple[TheirSegment, ...]
    gaps: tuple[TheirGap, ...] = field(default=(), metadata=ADDED)  # since 0.17


@dataclass(frozen=True)
class TheirTopic:
    name: str
    partitions: tuple[TheirPartition, ...]
    original_partition_count: int | None = field(default=None, metadata=ADDED)


@dataclass(frozen=True, kw_only=True)
class TheirManifest:
    backup_id: str
    created_at: int
    topics: tuple[TheirTopic, ...]
    source_cluster_id: str | None = field(default=None, metadata=ADDED)
    source_brokers: tuple[str, ...] = field(default=(), metadata=ADDED)
    compression: str = field(default="", metadata=ADDED)


@dataclass(frozen=True)
class TheirGroup:
    group_id: str
    offsets: Mapping[str, Mapping[str, int]]  # by topic and partition


@dataclass(frozen=True)
class TheirGroups:
    snapshot_time: int
    groups: tuple[TheirGroup, ...]


def store(manifest: bytes | memoryview, groups: bytes | memoryview | None, url: str) -> ForeignStore:
    """Return what a backup has, by its manifest and the snapshot of its groups, if it has one.

    Refused if they are not of a version that is known.
    """
    try:
        their_manifest = strict_json.loads(TheirManifest, manifest)
        of_groups = strict_json.loads(TheirGroups, groups).groups if groups is not None else ()
    except strict_json.Unreadable as error:
        raise Refused(
            "import-source-unknown", f"{url} is not a backup of {PROGRAM}: {error}. Correct --from."
        ) from None
    topics = {topic.name: _partitions(topic) for topic in their_manifest.topics}
    if not topics:
        raise Refused(
            "import-source-unknown",
            f"{url} is a backup without topics, by its {MANIFEST}. Pass another one with --from.",
        )
    for name, number_of in topics.items():
        if not LEGAL_NAME.fullmatch(name) or not 0 < number_of <= MOST_PARTITIONS:
            raise Refused(
                "import-manifest-invalid",
                f"{url} has a topic {name[:40]!r} of {number_of} partitions, which Kafka cannot have.",
            )
    partitions = tuple(
        _partition(topic.name, each, f"{their_manifest.backup_id}/", url)
        for topic in their_manifest.topics
        for each in topic.partitions
        if each.segments or each.gaps
    )
    lacks: LeftOut = LACKS
    if groups is None:
        lacks += (
            Skipped(
                "consumer groups", f"the backup has no {GROUPS}, so groups begin anew", "import-source-lacks"
            ),
        )
    return ForeignStore(
        program=PROGRAM,
        cluster=their_manifest.source_cluster_id or "",
        topics=topics,
        partitions=partitions,
        groups=tuple(_group(group, url) for group in of_groups),
        lacks=lacks,
    )


def _partitions(topic: TheirTopic) -> int:
    """Return how many partitions a topic has: before 0.13, only the last one with records tells."""
    least = max((partition.partition_id + 1 for partition in topic.partitions), default=0)
    return max(least, topic.original_partition_count or 0)


def _partition(topic: str, theirs: TheirPartition, folder: str, url: str) -> ForeignPartition:
    files = []
    for segment in theirs.segments:
        if not segment.key.startswith(folder) or not PLAIN.fullmatch(segment.key):
            raise Refused(
                "import-manifest-invalid",
                f"{url} lists {segment.key[:80]!r}, which is not below {folder}. No version of {PROGRAM} "
                "writes that.",
            )
        if (
            theirs.partition_id < 0
            or not 0 <= segment.start_offset <= segment.end_offset
            or segment.record_count < 1
        ):
            raise Refused(
                "import-manifest-invalid",
                f"{url} has impossible offsets or a wrong count of {segment.key[:80]}.",
            )
        files.append(
            ForeignFile(
                segment.key.removeprefix(folder),
                segment.compressed_size,
                segment.end_offset,
                segment.start_offset,
                segment.record_count,
                segment.uncompressed_size,
            )
        )
    files.sort(key=attrgetter("first", "last"))
    missing = sorted(Missing(gap.start_offset, gap.end_offset) for gap in theirs.gaps)
    return ForeignPartition(
        topic=topic, partition=theirs.partition_id, files=tuple(files), missing=tuple(missing)
    )


def _group(theirs: TheirGroup, url: str) -> StoredGroup:
    try:
        offsets = sorted(
            GroupOffset(topic, int(partition), offset, "")
            for topic, of_topic in theirs.offsets.items()
            for partition, offset in of_topic.items()
        )
    except ValueError as error:
        raise Refused(
            "import-manifest-invalid", f"{url}: group {theirs.group_id} of {GROUPS} cannot be read: {error}."
        ) from None
    return StoredGroup(theirs.group_id, "consumer", tuple(offsets))


def read(content: memoryview, file: ForeignFile, url: str) -> FoundRecords:
    """Read a segment; Failed if it is not what was written, Refused if it is of an unknown version."""
    where = f"{url}/{file.path}"
    if len(content) < HEADER.size + FOOTER.size:
        raise Failed("import-file-damaged", f"{where} is damaged: it has {len(content)} bytes.")
    magic, version, compression, count, first, last = HEADER.unpack_from(content)
    if magic != b"KBAK" or version != VERSION or compression > LZ4:
        raise Refused(
            "import-source-unknown",
            f"{where} is not a segment of {PROGRAM}: it begins with {bytes(content[:6]).hex()}, not with "
            "4b42414b01 and 00, 01 or 02.",
        )
    crc, end = FOOTER.unpack_from(content, len(content) - FOOTER.size)
    if end != b"BKAE" or zlib.crc32(content[: -FOOTER.size]) != crc:
        raise Failed("import-file-damaged", f"{where} is damaged: its CRC is wrong.")
    if (first, last, count) != (file.first, file.last, file.records):
        raise Failed(
            "import-file-damaged",
            f"{where} has {count} records from {first} to {last}, and {MANIFEST} lists "
            f"{file.records} from {file.first} to {file.last}. One of them is of another backup.",
        )
    try:
        if count > max(ANY_RECORDS, len(content)):
            raise ValueError(f"it has {count:,} records in {len(content):,} bytes")
        unpacked = _unpacked(content[HEADER.size : -FOOTER.size], compression)
        found_records = _records(unpacked, count)
    except (IndexError, ValueError, struct.error, lz4.block.LZ4BlockError) as error:
        raise Failed("import-file-damaged", f"{where} is damaged: {str(error).rstrip('.')}.") from None
    offsets = found_records.offsets
    if offsets[0] != first or offsets[-1] != last or (offsets[1:] <= offsets[:-1]).any():
        raise Failed(
            "import-file-damaged", f"{where} is damaged: its records are not in the order of their offsets."
        )
    return FoundRecords(found_records, last + 1)


def _unpacked(packed: memoryview, compression: int) -> bytes:
    if compression == NONE:
        return packed.tobytes()
    most = min(MOST_UNPACKED, max(LEAST_UNPACKED, UNPACKED_FACTOR * len(packed)))
    if compression == ZSTD:
        return decompress("zstd", packed.tobytes(), most)
    (size,) = LENGTH.unpack_from(packed)  # memory is taken for it at once
    if size > min(most, LZ4_RATIO * len(packed)):
        raise ValueError(f"it unpacks to {size:,} bytes")
    return bytes(lz4.block.decompress(packed))


def _records(content: bytes, count: int) -> Records:
    """Read so many records; ValueError or IndexError where they do not fill the data."""
    begins, ends = _edges(content, count)
    array = np.frombuffer(content, np.uint8)
    positions, stop = np.array(begins, np.int64), np.array(ends, np.int64)
    times, offsets = number(array, positions, 8), number(array, positions + 8, 8)
    keys, positions = _field(array, positions + 16, 4)
    values, positions = _field(array, positions, 4)
    counts = number(array, positions, 2)
    headers, positions = _headers(array, positions + 2, counts)
    if (positions != stop).any():
        raise ValueError("a record does not end where it should")
    return Records(times, offsets, bodies(content, keys, values, headers))


def _edges(content: bytes, count: int) -> tuple[Sequence[int], Sequence[int]]:
    """Find where so many records begin, behind their lengths, and end.

    Only a length says where the next one is. No more is read than the records that are told, because what
    packs well can have millions.
    """
    begins, ends = Vector("q"), Vector("q")
    position = 0
    for _ in range(count):
        (size,) = LENGTH.unpack_from(content, position)
        if size < LEAST_RECORD:
            raise ValueError(f"a record has {size} bytes")
        begins.append(position + LENGTH.size)
        position += LENGTH.size + size
        ends.append(position)
    if position != len(content):
        raise ValueError(f"its {count:,} records do not fill it")
    return begins, ends


def _field(array: Bytes, positions: Numbers, size: int) -> tuple[Fields, Numbers]:
    """Read byte strings whose lengths have so many bytes; and where they end."""
    lengths = number(array, positions, size)
    if (lengths < -1).any():
        raise ValueError("a length is negative")
    strings = Fields(positions + size, lengths)
    if (strings.ends > len(array)).any():
        raise ValueError("a record ends before its value")
    return strings, strings.ends


def _headers(array: Bytes, positions: Numbers, counts: Numbers) -> tuple[HeaderFields | None, Numbers]:
    """Read headers: of all records the first ones, then the second ones, and so on."""
    if not counts.any():
        return None, positions
    positions = positions.copy()
    rows, names, values = [], [], []
    turn, row = 0, np.flatnonzero(counts)
    while len(row):
        name, after = _field(array, positions[row], 2)
        value, positions[row] = _field(array, after, 4)
        rows.append(row)
        names.append(name)
        values.append(value)
        turn += 1
        row = row[counts[row] > turn]  # of these alone: one record may have very many
    # Turns are in order, and a stable sort keeps that: so each record's headers are, too.
    order = np.argsort(np.concatenate(rows), kind="stable")

    def joined(some: list[Fields]) -> Fields:
        return Fields(
            np.concatenate([fields.begins for fields in some])[order],
            np.concatenate([fields.lengths for fields in some])[order],
        )

    return HeaderFields(counts, joined(names), joined(values)), positions
