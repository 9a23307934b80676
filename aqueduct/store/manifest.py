"""The manifest of one snapshot: what one backup run committed.

A manifest is an increment (with the new segments and gaps) or full (with all live segments and gaps). All
other fields, such as the instances and positions of topics, are complete in each manifest, so a run needs
only the newest one. Each has its store's id and the digest of the manifest that it builds on, so it cannot be
exchanged. The object is JSON, compressed with zstd, optionally with a signature (see signing). Times are
milliseconds since 1970, offsets are Kafka's, and the end of each range is exclusive.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from aqueduct.common import strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.batches.codecs import compress_frame, decompress_frame
from aqueduct.kafka.quotas import Quota as Quota
from aqueduct.store import json_density, names, signing

FORMAT = 1
UNPACKED_BYTES = 16 << 20  # that any manifest may have; a larger one
UNPACKED_FACTOR = 30  # ... so many times what is stored: digests alone keep it below 10
# ... and no more than that: a segment takes 270 bytes, and a partition 80. The largest that was measured, of
# 120,000 partitions and 264,000 segments, unpacks to 80 MB.
MOST_UNPACKED_BYTES = 1 << 30
LEAST_ROW = 8  # bytes of a manifest for each array or object in it
NOT_READ = -1  # the position of a partition that could not be read yet
NO_EPOCH = -1  # of a partition whose leader told none


class StoredPartition(NamedTuple):
    """One partition of one instance of a topic."""

    topic: str
    instance: int
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} (g{self.instance})"


class InstanceState(StrEnum):
    """The state of an instance of a topic, as readers see it."""

    ACTIVATE = "ACTIVATE"  # complete, the one to restore
    PASSIVATE = "PASSIVATE"  # the one before it


class Instance(NamedTuple):
    """A lineage of a topic: a generation of a compacted one, or what was there before it was recreated."""

    number: int
    topic_id: str
    state: InstanceState
    started: int  # when its first offset was read


@dataclass(frozen=True, kw_only=True)
class StoredTopic:
    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    compacted: bool
    settings: Mapping[str, str]  # those set on the topic itself
    instances: tuple[Instance, ...]  # every one that is live, sorted by number


class Segment(NamedTuple):
    """Batches of one partition, in an object and its index; without records there is no object."""

    topic: str
    instance: int
    partition: int
    start: int  # the offsets that it covers, inclusive
    stop: int  # exclusive
    first_offset: int | None  # of its records
    last_offset: int | None  # inclusive
    records: int
    unpacked_bytes: int
    stored_bytes: int
    sha256: str  # of the object
    index_bytes: int
    index_sha256: str
    min_time: int | None  # as far as batch headers tell
    max_time: int | None
    run: str
    compressed: bool
    generation: bool  # lies in a generation's folder
    encrypted: bool = False  # with the key that its run is called after
    # When the store may remove it by a lifecycle rule, milliseconds; None: never. See expiry.
    expires: int | None = None

    @property
    def stored_partition(self) -> StoredPartition:
        return StoredPartition(self.topic, self.instance, self.partition)

    @property
    def path(self) -> str:
        return (
            names.segment(*self._stem(), generation=self._folder(), compressed=self.compressed) + self._suffix
        )

    @property
    def index_path(self) -> str:
        return names.index(*self._stem(), generation=self._folder()) + self._suffix

    @property
    def stem(self) -> str:
        """What both paths begin with."""
        return names.stem(*self._stem(), self._folder())

    @property
    def _suffix(self) -> str:
        return names.ENCRYPTED if self.encrypted else ""

    def _stem(self) -> tuple[str, int, int, str]:
        return self.topic, self.partition, self.start, self.run

    def _folder(self) -> int | None:
        return self.instance if self.generation else None


class Gap(NamedTuple):
    """Offsets that the source had deleted before they were read, or that have expired in the store."""

    topic: str
    instance: int
    partition: int
    start: int  # inclusive
    stop: int  # exclusive
    expired: int | None = None  # when the last of them did, milliseconds; None: the source had deleted them

    @property
    def stored_partition(self) -> StoredPartition:
        return StoredPartition(self.topic, self.instance, self.partition)


class GroupOffset(NamedTuple):
    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True)
class StoredGroup:
    group: str
    protocol: str
    offsets: tuple[GroupOffset, ...]


class OpenTransaction(NamedTuple):
    """A partition whose log continues beyond its last stable offset, where the backup ends."""

    topic: str
    partition: int
    last_stable_offset: int
    end_offset: int


class GroupAhead(NamedTuple):
    """A group that committed more than is stable, so more than is in the snapshot."""

    group: str
    topic: str
    partition: int
    offset: int
    last_stable_offset: int


# (topic, instance) -> an offset of each partition
SnapshotPositions = Mapping[tuple[str, int], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The place of a manifest among the others."""

    number: int
    parent: int | None  # what it follows; None: nothing
    parent_sha256: str | None  # of that object
    base: int  # the newest full manifest, itself if it is full
    base_bytes: int  # the size of that object; 0 if it is this one
    increments_bytes: int  # the sizes of the objects between it and this one
    # When the base was made, milliseconds; 0 if it is this one, or a former version wrote what this follows.
    base_created: int = field(default=0, metadata=strict_json.ADDED)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    chain: Chain
    store: str  # the id in its store.json
    run: str
    created: int
    started: int  # the span of reading
    ended: int
    cluster: str  # Kafka's cluster id
    version: str  # Aqueduct's
    options: Mapping[str, Any]  # what the run was asked for
    starts: SnapshotPositions  # the first offset that an instance covers, for as long as it lives
    positions: SnapshotPositions  # the next offset to read: all before it is in segments and gaps
    topics: tuple[StoredTopic, ...]
    segments: tuple[Segment, ...]  # increment: the new ones
    gaps: tuple[Gap, ...]  # increment: the new ones
    groups: tuple[StoredGroup, ...]
    acls: tuple[Acl, ...]
    quotas: tuple[Quota, ...]
    open_transactions: tuple[OpenTransaction, ...]
    groups_ahead: tuple[GroupAhead, ...]
    # The epoch of each partition's leader when its position was the end: no offset before has a later one.
    epochs: SnapshotPositions = field(default_factory=dict, metadata=strict_json.ADDED)
    # Of each generation of a compacted topic its positions when it was read from the beginning.
    generation_ends: SnapshotPositions = field(default_factory=dict, metadata=strict_json.ADDED)
    # Days after which segments of topics expire, by the bucket's lifecycle rules.
    lifecycle: Mapping[str, int] = field(default_factory=dict, metadata=strict_json.ADDED)
    # Share groups (KIP-932). Former versions would restore one as a consumer group, so they must not find it.
    share_groups: tuple[StoredGroup, ...] = field(default=(), metadata=strict_json.ADDED)

    @property
    def every_group(self) -> tuple[StoredGroup, ...]:
        """Return the groups of all types."""
        return self.groups + self.share_groups

    @property
    def number(self) -> int:
        return self.chain.number

    @property
    def full(self) -> bool:
        return self.chain.base == self.chain.number


_TABLES = (Instance, Segment, Gap, GroupOffset, OpenTransaction, GroupAhead)
_COLUMNS = {table.__name__: list(table._fields) for table in _TABLES}
# How many columns at the end are later ones: former versions read a table only if it has none that it needs.
_LATER = {Segment.__name__: 2, Gap.__name__: 1}
_TABLE_OF: Mapping[str, Any] = {"segments": Segment, "gaps": Gap}
_POSITIONS = "starts", "positions", "epochs", "generation_ends"
_ADDED = "epochs", "generation_ends"  # by later versions of the format
# What is written only where there is something: other stores stay as former versions read them.
_WHERE_NEEDED = "lifecycle", "generation_ends", "share_groups"
# Nothing that adds up.
_OF_ONE = "groups", "share_groups", "acls", "quotas", "open_transactions", "groups_ahead"
_LINE = b",\n"
_MOST_LINES = len(fields(Manifest)) + len(("format", "columns"))
_LOT = b",\t"  # between rows, too, there may be a blank
_ROWS = 10_000
_ARRAY = b'"segments":['
_FIELD = re.compile(rb'"([a-z_]+)":')


@strict_json.uncollected()
def pack(manifest: Manifest) -> bytes:
    """Return the content of a manifest's object."""
    columns = dict(_COLUMNS)
    content: dict[str, Any] = {"format": FORMAT, "columns": columns}
    content |= {attribute.name: getattr(manifest, attribute.name) for attribute in fields(manifest)}
    for table, row in _TABLE_OF.items():
        width = _width(row, content[table])
        columns[row.__name__] = _COLUMNS[row.__name__][:width]
        if width < len(_COLUMNS[row.__name__]):
            content[table] = [stored_row[:width] for stored_row in content[table]]
    content |= {name: _by_topic(getattr(manifest, name)) for name in _POSITIONS}
    for name in _WHERE_NEEDED:
        if not content[name]:
            del content[name]
    # A field a line: no string of JSON has a line's end in it, so a reader finds fields without reading them.
    lines = (
        strict_json.dumps(name) + b":" + (_in_lots(value) if name == "segments" else strict_json.dumps(value))
        for name, value in content.items()
    )
    return _compressed(b"{" + _LINE.join(lines) + b"}")


def _in_lots(rows: Sequence[Any]) -> bytes:
    """Return an array, cut where a reader may read on without all of it in memory."""
    lots = (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))
    return b"[" + _LOT.join(strict_json.dumps(lot)[1:-1] for lot in lots) + b"]"


def _compressed(content: bytes) -> bytes:
    """Compress a manifest, with a lower ratio if readers would reject it as a decompression bomb.

    Thousands of groups of the same topics can compress to a hundredth of their size.
    """
    try:
        return compress_frame(content, _most_unpacked, checksum=True)
    except ValueError:
        raise Failed(
            "manifest-too-large",
            f"The manifest would have {len(content):,} bytes, which is above the limit for reading. Nothing "
            "was committed. Back up fewer topics into one store.",
        ) from None


@dataclass
class Former:
    """The fields of the previous manifest when many are read in order: most of the next are the same."""

    lines: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def repeated_fields(self, lines: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the parsed fields whose bytes are the same in the next manifest."""
        if lines.get("columns") != self.lines.get("columns"):  # they say what other fields mean
            return {}
        return {name: made for name, made in self.made.items() if lines.get(name) == self.lines[name]}

    def remember(self, lines: Mapping[str, bytes], manifest: Manifest) -> None:
        """Store the fields that the next manifest may repeat, without segments and gaps."""
        kept = lines.keys() - {"segments", "gaps"}
        self.lines = {name: lines[name] for name in kept}
        self.made = {
            attribute.name: getattr(manifest, attribute.name)
            for attribute in fields(manifest)
            if attribute.name in kept
        }


@strict_json.uncollected()
def unpack(stored: bytes | memoryview, where: str, former: Former | None = None) -> Manifest:
    """Parse a manifest's object. `where`: its name in messages.

    `former`, which is changed, is for the reading of many manifests: fields that only a restore needs are
    then empty. Failed if the manifest is damaged. Refused if its format is newer.
    """
    try:
        text = _decompressed(stored)
        lines = _lines(text)
        made: dict[str, Any] = {}
        if lines:
            del text
            if former:
                made = former.repeated_fields(lines) | {name: () for name in _OF_ONE if name in lines}
            rows = _lots(lines.get("segments", b""))
            content = _parsed(
                {name: line for name, line in lines.items() if name not in made | {"segments": 0}}
            )
        else:
            content = strict_json.parse(text)
            rows = iter([content.pop("segments", None)] if type(content) is dict else ())
        check_format(content, where)
        columns = content.pop("columns", None)
        if type(columns) is not dict or {**columns, **_LATER} != {**_COLUMNS, **_LATER}:
            raise strict_json.Unreadable("its columns are not those of its format")
        made["segments"] = tuple(
            segment
            for lot in rows
            for segment in strict_json.build(tuple[Segment, ...], _with_later(lot, Segment, columns))
        )
        content["gaps"] = _with_later(content.get("gaps"), Gap, columns)
        for name in _POSITIONS:
            if name not in made:
                made[name] = _positions(content.pop(name, {} if name in _ADDED else None))
        parsed = strict_json.build(Manifest, content, made)
    except ValueError as error:
        raise Failed("object-damaged", f"{where} is damaged: {error}.") from None
    if former:
        former.remember(lines, parsed)
    return parsed


def _lines(text: bytes) -> dict[str, bytes]:
    """Return the fields of a manifest that has one a line; none of another's, as former versions wrote.

    Unreadable, before they are cut apart, if there are more lines than a manifest has fields.
    """
    if text.count(_LINE) >= _MOST_LINES:
        raise strict_json.Unreadable(f"it has more than {_MOST_LINES} lines")
    lines = text[1:-1].split(_LINE)
    named = [(_FIELD.match(line), line) for line in lines]
    by_name = {name[1].decode(): line for name, line in named if name}
    return by_name if text[:1] == b"{" and text[-1:] == b"}" and len(by_name) == len(lines) > 1 else {}


def _lots(line: bytes) -> Iterator[Any]:
    """Parse the array that `_in_lots` made, lot by lot."""
    begun, end = len(_ARRAY), len(line) - 1
    if line[:begun] != _ARRAY or line[end:] != b"]":
        raise strict_json.Unreadable("segments is not an array")
    while True:
        stop = line.find(_LOT, begun)
        yield strict_json.parse(b"[" + line[begun : end if stop < 0 else stop] + b"]")
        if stop < 0:
            return
        begun = stop + len(_LOT)


def _parsed(lines: Mapping[str, bytes]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, line in lines.items():
        parsed = strict_json.parse(b"{" + line + b"}")
        if parsed.keys() != {name}:
            raise strict_json.Unreadable(f"the line of {name} has another field")
        content |= parsed
    return content


def _width(row: Any, rows: Sequence[tuple[Any, ...]]) -> int:
    """Return how many columns of a table are needed: not the later ones at the end that tell nothing."""
    width = len(row._fields)
    for name in reversed(row._fields[-_LATER[row.__name__] :]):
        if any(stored_row[width - 1] != row._field_defaults[name] for stored_row in rows):
            break
        width -= 1
    return width


def _with_later(rows: Any, row: Any, columns: Any) -> Any:
    """Add the columns that a table of a former version lacks; what is no table stays, to be refused."""
    every = list(row._fields)
    header = columns.get(row.__name__) if type(columns) is dict else None
    if type(header) is not list or not len(every) - _LATER[row.__name__] <= len(header) <= len(every):
        raise strict_json.Unreadable("its columns are not those of its format")
    if header != every[: len(header)]:
        raise strict_json.Unreadable("its columns are not those of its format")
    if len(header) == len(every) or type(rows) is not list or set(map(type, rows)) - {list}:
        return rows
    lacking = [row._field_defaults[name] for name in every[len(header) :]]
    return [[*stored_row, *lacking] for stored_row in rows]


def _decompressed(stored: bytes | memoryview) -> bytes:
    """Decompress a manifest; ValueError if it is damaged, or unpacks to more than a manifest may have."""
    packed, _ = signing.split(stored)
    text = decompress_frame(packed, _most_unpacked(packed))
    # An empty array of three bytes takes 64 in memory. No row of a manifest is as short as that.
    most = 1_000 + len(text) // LEAST_ROW
    if json_density.has_more(text, json_density.ARRAYS, most):
        raise strict_json.Unreadable("it has too many arrays and objects for its size")
    return text


def _most_unpacked(packed: bytes | memoryview) -> int:
    return min(MOST_UNPACKED_BYTES, max(UNPACKED_BYTES, len(packed) * UNPACKED_FACTOR))


def _by_topic(positions: SnapshotPositions) -> dict[str, dict[str, tuple[int, ...]]]:
    by_topic: dict[str, dict[str, tuple[int, ...]]] = {}
    for (topic, instance), offsets in positions.items():
        by_topic.setdefault(topic, {})[str(instance)] = offsets
    return by_topic


def _positions(content: Any) -> SnapshotPositions:
    by_topic = strict_json.build(_Positions, {"positions": content}).positions
    return {
        (topic, _number(instance)): offsets
        for topic, instances in by_topic.items()
        for instance, offsets in instances.items()
    }


@dataclass(frozen=True)
class _Positions:
    positions: Mapping[str, Mapping[str, tuple[int, ...]]]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise strict_json.Unreadable(f"an instance has the number {text}")
    return int(text)


def check_format(content: Any, where: str) -> None:
    """Remove the format number from parsed content. Refused if this version does not support it."""
    format_number = content.pop("format", None) if type(content) is dict else None
    if type(format_number) is not int:
        raise strict_json.Unreadable("it has no format number")
    if format_number > FORMAT:
        raise Refused(
            "store-format-unsupported",
            f"{where} has format {format_number}, but this version of Aqueduct supports formats up to "
            f"{FORMAT}. "
            "Update Aqueduct.",
        )
    if format_number < 1:
        raise strict_json.Unreadable(f"format {format_number} does not exist")
