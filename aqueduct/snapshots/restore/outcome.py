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
IN_TOPIC, IN_BACKUP, IN_EARLIER = "topic", "backup", "earlier"  # the log to which the offsets belong
NAMED = 5  # maximum number of parts that a sentence lists


def listed(names: Sequence[str], limit: int = NAMED) -> str:
    """List the first names. With more than `limit`, add the number of others and where they are listed."""
    more = " (--report lists all of them)" if len(names) > limit else ""
    return some(names, limit) + more


@dataclass(frozen=True, kw_only=True)
class Move:
    """The change of a group's committed offset in one partition."""

    group: str
    topic: str  # at the target
    partition: int
    old: int  # in the snapshot
    new: int
    metadata: str
    note: str = ""  # why the offset does not refer to the very next record, and to which one it refers
    share: bool = False  # the offset is a share group's start offset

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, kw_only=True)
class DroppedSetting:
    """A backed-up topic setting that the target refuses."""

    topic: str  # at the target
    key: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The result of --acls: how many ACLs and quotas were set now, and how many ACLs already existed."""

    acls: int = 0
    known: int = 0
    quotas: int = 0
    denied: tuple[str, ...] = ()  # the DENY ACLs among those that were set now


@dataclass(frozen=True)
class Written:
    """The result for one partition of the target."""

    progress: RestoreProgress  # of all runs of this restore
    records: int  # by this run
    bytes: int


@dataclass(frozen=True)
class Recount:
    """The final check: the number of partitions that contain all restored records."""

    partitions: int
    read: int  # partitions whose batch headers were read


@dataclass(frozen=True)
class Warned:
    """A warning: an identifier of `aqueduct.messages` and a sentence."""

    id: str
    message: str


@dataclass(frozen=True)
class FlowRange:
    """Offsets that do not arrive exactly once at the target of a mirror or a one-way link."""

    flow: str  # such as "mirror pro1" or "link diode"
    partition: TopicPartition
    range: RestoreRange

    def entry(self) -> dict[str, Any]:
        """Return the range in the format of JSON reports."""
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
    settled: tuple[str, ...] = ()  # topics whose settings were set after their restore was complete
    rights: Rights | None = None  # None: not requested
    recount: Recount | None = None  # None: earlier runs wrote all records
    held: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)  # topic: settings to set
    warnings: tuple[Warned, ...] = ()
    left_out: LeftOut = ()
    ranges: tuple[FlowRange, ...] = ()  # lost or doubled at the targets of mirrors and links
    dropped: tuple[DroppedSetting, ...] = ()
    stopped: tuple[str, ...] = ()  # one-way links that must not be started, by their groups
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
    before: bool = False  # whether earlier runs completed the restore
    dry_run: bool = False

    @property
    def planned(self) -> bool:
        """Return whether this is a preview."""
        return self.dry_run and not self.before

    @property
    def forgotten(self) -> Set[str]:
        """Topics whose progress the target has deleted."""
        written = {name for name, _ in self.written}
        return set() if self.planned else self.plan.topics.keys() - written
