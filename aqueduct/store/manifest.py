"""The manifest of one snapshot: what one backup run committed.

A manifest is an increment (of segments and gaps only the new ones) or full (all that are live). All else,
every topic's instances and positions too, is in each, so that a run needs only the newest. Each names its
store and the digest of the one that it builds on, so that none can be another's. As an object it is JSON,
compressed with zstd, and may have a signature (see signing); its time values are milliseconds since 1970, its
offsets Kafka's, and the end of every range is exclusive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

import zstandard

from aqueduct import strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.quotas import Quota as Quota
from aqueduct.store import names, signing

FORMAT = 1
LEVEL = 3  # of zstd
UNPACKED_BYTES = 16 << 20  # that any manifest may have; a larger one
UNPACKED_FACTOR = 30  # ... so many times what is stored: digests alone keep it below 10
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
# What is written only where there is something: other stores stay as former versions read them.
_WHERE_NEEDED = "lifecycle", "generation_ends"


def pack(manifest: Manifest) -> bytes:
    """Return the object of a manifest."""
    columns = dict(_COLUMNS)
    content: dict[str, Any] = {"format": FORMAT, "columns": columns}
    content |= {each.name: getattr(manifest, each.name) for each in fields(manifest)}
    for table, row in _TABLE_OF.items():
        width = _width(row, content[table])
        columns[row.__name__] = _COLUMNS[row.__name__][:width]
        if width < len(_COLUMNS[row.__name__]):
            content[table] = [each[:width] for each in content[table]]
    content |= {name: _by_topic(getattr(manifest, name)) for name in _POSITIONS}
    for name in _WHERE_NEEDED:
        if not content[name]:
            del content[name]
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(strict_json.dumps(content))


def unpack(data: bytes | memoryview, where: str) -> Manifest:
    """Parse a manifest's object, which `where` names in messages.

    Failed if it is damaged; Refused if its format is a newer version's.
    """
    try:
        content = strict_json.parse(_decompressed(data))
        check_format(content, where)
        columns = content.pop("columns", None)
        for table, row in _TABLE_OF.items():
            content[table] = _with_later(content.get(table), row, columns)
        if type(columns) is not dict or {**columns, **_LATER} != {**_COLUMNS, **_LATER}:
            raise strict_json.Unreadable("its columns are not those of its format")
        added: dict[str, Any] = {"epochs": {}, "generation_ends": {}}
        content = {**added, **content}
        starts, positions, epochs, ends = (_positions(content.get(name)) for name in _POSITIONS)
        rest = strict_json.build(Manifest, {**content, **{name: {} for name in _POSITIONS}})
        return replace(rest, starts=starts, positions=positions, epochs=epochs, generation_ends=ends)
    except (strict_json.Unreadable, zstandard.ZstdError) as error:
        raise Failed(f"{where} is damaged: {error}.") from None


def _width(row: Any, rows: Sequence[tuple[Any, ...]]) -> int:
    """Return how many columns of a table are needed: not the later ones at the end that tell nothing."""
    width = len(row._fields)
    for name in reversed(row._fields[-_LATER[row.__name__] :]):
        if any(each[width - 1] != row._field_defaults[name] for each in rows):
            break
        width -= 1
    return width


def _with_later(rows: Any, row: Any, columns: Any) -> Any:
    """Add the columns that a table of a former version lacks; what is no table stays, to be refused."""
    every = list(row._fields)
    found = columns.get(row.__name__) if type(columns) is dict else None
    if type(found) is not list or not len(every) - _LATER[row.__name__] <= len(found) <= len(every):
        raise strict_json.Unreadable("its columns are not those of its format")
    if found != every[: len(found)]:
        raise strict_json.Unreadable("its columns are not those of its format")
    if len(found) == len(every) or type(rows) is not list or set(map(type, rows)) - {list}:
        return rows
    lacking = [row._field_defaults[name] for name in every[len(found) :]]
    return [[*each, *lacking] for each in rows]


def _decompressed(data: bytes | memoryview) -> bytes:
    """Decompress, when the header asks for no more memory than a manifest may take."""
    packed, _ = signing.split(data)
    most = max(UNPACKED_BYTES, len(packed) * UNPACKED_FACTOR)
    size = zstandard.frame_content_size(packed)
    if not 0 <= size <= most:
        raise strict_json.Unreadable(f"it unpacks to {size:,} bytes, and {most:,} at most can be right")
    frame = zstandard.ZstdDecompressor().decompressobj()
    content = frame.decompress(packed)
    if not frame.eof or frame.unused_data:
        raise strict_json.Unreadable("it is cut, or has more than one manifest")
    return content


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
        raise strict_json.Unreadable(f"an instance is called {text}")
    return int(text)


def check_format(content: Any, where: str) -> None:
    """Remove the format's number from parsed content; Refused if it is newer than this program."""
    found = content.pop("format", None) if type(content) is dict else None
    if type(found) is not int:
        raise strict_json.Unreadable("it has no format number")
    if found > FORMAT:
        raise Refused(f"{where} has format {found}, this program knows up to {FORMAT}: update Aqueduct.")
    if found < 1:
        raise strict_json.Unreadable(f"there is no format {found}")
