"""The outcome of a restore."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import LeftOut
from aqueduct.mirror.binding import RestoreRange
from aqueduct.snapshots.restore.plan import RestorePlan
from aqueduct.snapshots.restore.progress import RestoreProgress

DOUBLED, AHEAD, UNBOUND = "doubled", "ahead", "unbound"  # kinds of ranges: see RestoreRange
IN_TOPIC, IN_BACKUP, IN_EARLIER = "topic", "backup", "earlier"  # whose offsets they are
NAMED = 5  # of many parts, those that a sentence lists


def listed(names: Sequence[str], limit: int = NAMED) -> str:
    """List the first names; beyond `limit` say how many more there are, and where all are listed."""
    more = " (all: ranges of --report)" if len(names) > limit else ""
    return some(names, limit) + more


@dataclass(frozen=True, kw_only=True)
class Move:
    """A group's committed offset of one partition."""

    group: str
    topic: str  # at the target
    partition: int
    old: int  # in the snapshot
    new: int
    metadata: str
    note: str = ""  # why it does not mean the very next record, and what it means
    share: bool = False  # the offset is a share group's start offset

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, kw_only=True)
class DroppedSetting:
    """A setting of a topic that was backed up, and that the target refuses."""

    topic: str  # at the target
    key: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The outcome of --acls: how many were set now, and how many ACLs existed."""

    acls: int = 0
    known: int = 0
    quotas: int = 0
    denied: tuple[str, ...] = ()  # the ACLs that deny, of those that were set now


@dataclass(frozen=True)
class Written:
    """The outcome for one partition of the target."""

    progress: RestoreProgress  # of this restore in all
    records: int  # by this run
    bytes: int


@dataclass(frozen=True)
class Recount:
    """How many partitions were looked at again, and hold what was restored."""

    partitions: int
    read: int  # of them, those whose batch headers were read


@dataclass(frozen=True)
class Warned:
    """A warning: an identifier of `aqueduct.messages`, and a sentence."""

    id: str
    message: str


@dataclass(frozen=True)
class FlowRange:
    """Offsets that do not arrive once at the target of a mirror or a one-way link."""

    flow: str  # such as "mirror pro1" or "link diode"
    partition: TopicPartition
    range: RestoreRange

    def entry(self) -> dict[str, Any]:
        """Return the range as JSON reports have it."""
        return {
            "flow": self.flow,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "kind": self.range.kind,
            "from": self.range.start,
            "to": self.range.stop,
            "log": self.range.log,
            "at_most": self.range.at_most,
        }


@dataclass(frozen=True, kw_only=True)
class RestoreOutcome:
    restore_id: str
    plan: RestorePlan
    written: Mapping[TopicPartition, Written] = field(default_factory=dict)  # by topic at the target
    moves: tuple[Move, ...] = ()  # by this run
    settled: tuple[str, ...] = ()  # topics that got settings after their restore had ended
    rights: Rights | None = None  # None: not asked for
    recount: Recount | None = None  # None: all was written by earlier runs
    held: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)  # topic: settings it shall get
    warnings: tuple[Warned, ...] = ()
    left_out: LeftOut = ()
    ranges: tuple[FlowRange, ...] = ()  # all that are lost or doubled at the targets of mirrors and links
    dropped: tuple[DroppedSetting, ...] = ()
    stopped: tuple[str, ...] = ()  # one-way links that must not be started, by their groups
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
    before: bool = False  # all records were written by earlier runs, which ended
    dry_run: bool = False

    @property
    def planned(self) -> bool:
        """Return whether this tells what would be written, not what was."""
        return self.dry_run and not self.before

    @property
    def forgotten(self) -> Set[str]:
        """Topics of which the target does not know any more how much was restored."""
        written = {name for name, _ in self.written}
        return set() if self.planned else self.plan.topics.keys() - written
