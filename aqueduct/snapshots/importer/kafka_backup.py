"""Backups of OSO's kafka-backup (GitHub: osodevops/kafka-backup), versions 0.2.0 to 0.17.4.

    <backup id>/manifest.json
    <backup id>/consumer-groups-snapshot.json                            since 0.10, optional
    <backup id>/topics/<topic>/partition=<n>/segment-<number>.bin[.zst|.lz4]

A segment (format 1, little-endian) is: a header of 32 bytes (KBAK, version, compression, two unused bytes,
number of records, first and last offset); the records, compressed together; and 8 bytes: the CRC-32 of all
preceding bytes, BKAE. A record is: its length (4), timestamp (8), offset (8), key, value, number of headers
(2), headers. Keys and values have a length of 4 bytes (-1: null), names of headers one of 2 bytes.
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
LEAST_RECORD = 26  # bytes of a record after its length: without key, value and headers
ANY_RECORDS = 250_000  # allowed in any file; a larger file has at most one record for each of its bytes
VERSION = 1
NONE, ZSTD, LZ4 = range(3)
PLAIN = re.compile(r"(?!\.\.?/)[^/\0]+(?:/(?!\.\.?(?:/|$))[^/\0]+)*")  # a path without `.` and `..`
MOST_MANIFEST_BYTES = 256 << 20  # of the manifest, and of that of groups: enough for a million segments
MOST_UNPACKED = 2 << 30  # bytes of a file's records; the program's default is 128 MB
LEAST_UNPACKED = 256 << 20  # to which any file may decompress; a larger file
UNPACKED_FACTOR = 100  # ... to this many times its stored size
LZ4_RATIO = 255  # the maximum compression ratio of LZ4
LACKS = (
    Skipped(
        "settings of topics, and replication factors",
        "kafka-backup does not store them. Set them after the restore",
        "import-source-lacks",
    ),
    Skipped("ACLs and quotas", "kafka-backup does not store them", "import-source-lacks"),
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
    """Return the contents of a backup from its manifest and its optional snapshot of groups.

    Refused if their version is unknown.
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
            f"{MANIFEST} of {url} lists no topic. Pass another backup with --from.",
        )
    for name, number_of in topics.items():
        if not LEGAL_NAME.fullmatch(name) or not 0 < number_of <= MOST_PARTITIONS:
            raise Refused(
                "import-manifest-invalid",
                f"{url} lists topic {name[:40]!r} with {number_of} partitions, which Kafka does not allow.",
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
                "consumer groups", f"the backup has no {GROUPS}, so none are imported", "import-source-lacks"
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
    """Return the number of partitions. Before 0.13, only the last partition with records indicates it."""
    least = max((partition.partition_id + 1 for partition in topic.partitions), default=0)
    return max(least, topic.original_partition_count or 0)


def _partition(topic: str, theirs: TheirPartition, folder: str, url: str) -> ForeignPartition:
    files = []
    for segment in theirs.segments:
        if not segment.key.startswith(folder) or not PLAIN.fullmatch(segment.key):
            raise Refused(
                "import-manifest-invalid",
                f"{url} lists {segment.key[:80]!r}, which is not below {folder}. No version of {PROGRAM} "
                "writes such a path.",
            )
        if (
            theirs.partition_id < 0
            or not 0 <= segment.start_offset <= segment.end_offset
            or segment.record_count < 1
        ):
            raise Refused(
                "import-manifest-invalid",
                f"{url} lists invalid offsets or a wrong record count for {segment.key[:80]}.",
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
    """Read a segment. Failed if it is damaged; Refused if its version is unknown."""
    where = f"{url}/{file.path}"
    if len(content) < HEADER.size + FOOTER.size:
        raise Failed("import-file-damaged", f"{where} is damaged: it has only {len(content)} bytes.")
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
            f"{where} has {count} records at offsets {first} to {last}, but {MANIFEST} lists {file.records} "
            f"at {file.first} to {file.last}. One of the two files belongs to another backup.",
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
    (size,) = LENGTH.unpack_from(packed)  # the decompressor allocates this many bytes at once
    if size > min(most, LZ4_RATIO * len(packed)):
        raise ValueError(f"it decompresses to {size:,} bytes")
    return bytes(lz4.block.decompress(packed))


def _records(content: bytes, count: int) -> Records:
    """Read this number of records. ValueError or IndexError if they do not match the data."""
    begins, ends = _edges(content, count)
    array = np.frombuffer(content, np.uint8)
    positions, stop = np.array(begins, np.int64), np.array(ends, np.int64)
    times, offsets = number(array, positions, 8), number(array, positions + 8, 8)
    keys, positions = _field(array, positions + 16, 4)
    values, positions = _field(array, positions, 4)
    counts = number(array, positions, 2)
    headers, positions = _headers(array, positions + 2, counts)
    if (positions != stop).any():
        raise ValueError("the length of a record does not match its fields")
    return Records(times, offsets, bodies(content, keys, values, headers))


def _edges(content: bytes, count: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the begin (after the length) and the end of each record.

    Each record must be visited, because only its length indicates the next position. No more than `count`
    records are visited, because a small compressed file can contain millions.
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
        raise ValueError(f"its {count:,} records have {position:,} of {len(content):,} bytes")
    return begins, ends


def _field(array: Bytes, positions: Numbers, size: int) -> tuple[Fields, Numbers]:
    """Read byte strings whose lengths have `size` bytes. Return them, and the positions of their ends."""
    lengths = number(array, positions, size)
    if (lengths < -1).any():
        raise ValueError("a length is negative")
    strings = Fields(positions + size, lengths)
    if (strings.ends > len(array)).any():
        raise ValueError("a record ends before its value")
    return strings, strings.ends


def _headers(array: Bytes, positions: Numbers, counts: Numbers) -> tuple[HeaderFields | None, Numbers]:
    """Read headers: the first one of all records, then the second one, and so on."""
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
        row = row[counts[row] > turn]  # only these: one record may have very many headers
    # The headers are in the order of turns. A stable sort by record keeps it for each record.
    order = np.argsort(np.concatenate(rows), kind="stable")

    def joined(some: list[Fields]) -> Fields:
        return Fields(
            np.concatenate([fields.begins for fields in some])[order],
            np.concatenate([fields.lengths for fields in some])[order],
        )

    return HeaderFields(counts, joined(names), joined(values)), positions
