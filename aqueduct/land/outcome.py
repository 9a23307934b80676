"""What a landing did, how far tables are, and what was found in them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aqueduct.common.offset_ranges import Range
from aqueduct.common.offset_sets import Span, Spans
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, LeftOut
from aqueduct.land.absent_columns import UnseenColumn
from aqueduct.land.log import NeverLanded
from aqueduct.land.plan import LandedPartition, UnopenedRange

Placed = Mapping[TopicPartition, Spans]


def placed(never_landed: Iterable[NeverLanded]) -> Placed:
    """Return the spans of each partition."""
    by_partition: dict[TopicPartition, Spans] = {}
    for span in never_landed:
        by_partition.setdefault(TopicPartition(span.topic, span.partition), []).append(
            (span.first, span.last)
        )
    return by_partition


@dataclass(kw_only=True)
class LandedTable:
    """What was landed of one table."""

    table: str
    commits: int = 0
    rows: int = 0
    late: int = 0  # rows of the table of late ones
    bad: int = 0
    filtered: int = 0  # rows that are left out, as declared
    tombstones: int = 0  # left out, as declared
    files: int = 0
    bytes: int = 0
    gaps: list[Range] = field(default_factory=list)
    unopened: list[UnopenedRange] = field(default_factory=list)
    left_out: LeftOut = ()  # in the last round
    unseen: tuple[UnseenColumn, ...] = ()  # what is told of them once
    failed: Failed | None = None  # why it lands no further; what was committed before counts


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """A table as it is committed."""

    table: str
    commits: int
    committed: str | None  # when the last one was, ISO 8601
    files: int
    rows: int
    bytes: int
    late: int | None  # rows of the table of late ones; None: there is none
    bad: int  # rows of the bad table
    compacted: str | None  # when last, ISO 8601
    partitions: Mapping[TopicPartition, LandedPartition]  # of the declared topics
    deleted: Placed  # offsets that retention deleted before they were read
    unopened: Placed  # offsets of batches that unpack to too much
    catalogue: str | None = None  # what Hive's lacks; empty: nothing; None: it was not asked
    staged: int = 0  # bytes, of runs that have not committed
    dead: int = 0  # of these, of runs that were killed hours ago
    filtered: int | None = None  # offsets whose rows are left out; None: there is no such table
    left_out: LeftOut = ()  # what the next round skips
    # The next offset of partitions that land no more, because their topics are no longer declared.
    undeclared: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class VerifiedTable:
    """What is in a table and its bad table, against its topics."""

    table: str
    rows: int
    files: int
    missing: Placed  # in the topic, and not in a table
    doubled: Placed
    unknown: Placed  # in a table, and not in the topic, which keeps all its records
    passed: Placed  # in the topic, and left out by a reset
    deleted: Placed  # by retention, before they were read
    unopened: Placed  # in no table, for their batches unpack to too much
    commits: int
    damaged: LeftOut  # files
    strays: tuple[str, ...]  # files that readers see, and that no commit added
    left_out: LeftOut  # topics that can't be compared
    ahead: str = ""  # what an Iceberg table has that its log has not
    readers: str = ""  # why they may see something else than the log has

    @property
    def right(self) -> bool:
        wrong = self.missing or self.doubled or self.unknown or self.damaged or self.strays or self.ahead
        return bool(self.commits) and not wrong


@dataclass(kw_only=True)
class CompactedTable:
    """What compaction did to a table."""

    table: str
    landed: bool = False  # anything at all
    commits: int = 0
    before: int = 0  # files that were joined
    after: int = 0  # files that they became
    bytes: int = 0  # of these
    left: int = 0  # files that can't be joined, for they have times that Arrow doesn't read
    expired: int = 0  # files that an earlier compaction replaced, and that went now
    buried: int = 0  # bytes that runs had staged that were killed
    left_out: LeftOut = ()  # a catalogue that is behind, without which nobody knows which files may go
    failed: Failed | None = None  # why it was compacted no further; what was committed before counts


@dataclass(kw_only=True)
class ReplayedTable:
    """What rejected records of a table come to that are tried again, or came to."""

    table: str
    landed: bool = False  # anything at all
    counts: Counter[tuple[str, bool]] = field(
        default_factory=Counter
    )  # by their errors, and whether they fit
    late: int = 0  # of those that fit, rows of the table of late ones
    commits: int = 0
    left_out: LeftOut = ()  # files that can't be read, and a catalogue that is behind
    failed: Failed | None = None  # why no more were tried; what was committed before counts

    @property
    def fit(self) -> int:
        return sum(number for (_, fits), number in self.counts.items() if fits)

    @property
    def stay(self) -> int:
        return self.counts.total() - self.fit


@dataclass(frozen=True)
class ResetMove:
    """A position that a reset changes: the next offset to land."""

    before: int | None  # None: nothing of the partition has landed
    to: int
    never: Span | None  # the first and the last offset that will not land, for it goes ahead


@dataclass(kw_only=True)
class ResetTable:
    """What a reset does to a table, or has done."""

    table: str
    moves: Mapping[TopicPartition, ResetMove]
    left_out: LeftOut  # topics that can't be reset
    rows: int = 0  # that go, and land again
    bad: int = 0
    filtered: int = 0  # offsets that a condition left out, and is asked of again
    files: int = 0  # that had them
    done: bool = False
    failed: Failed | None = None
