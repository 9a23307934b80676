"""A job: an order, with the state of store and target when the run began."""

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.outcome import DroppedSetting, Written
from aqueduct.snapshots.restore.plan import RestoreLane, RestorePlan
from aqueduct.snapshots.restore.progress import Earlier, TopicState
from aqueduct.store.snapshots import Snapshot

CLIENT = "aqueduct-restore"


@dataclass(frozen=True, kw_only=True)
class Job:
    """An order, with the state of store and target when the run began."""

    order: RestoreOrder
    id: str
    request: str  # digest of the request
    snapshot: Snapshot
    plan: RestorePlan
    there: Mapping[str, Topic]  # topics that already exist at the target
    known: Mapping[str, TopicState]  # states that an earlier run of this restore stored
    others: Mapping[str, list[TopicState]]  # states of other restores, by their ids
    groups: tuple[str, ...]  # to be set
    written: Mapping[TopicPartition, Written]  # of topics that earlier runs have completed
    dropped: tuple[DroppedSetting, ...] = ()
    earlier: Earlier = field(default_factory=dict)  # records of other restores, which this one continues

    @cached_property
    def ended(self) -> Set[str]:
        """Topics whose records earlier runs have completely written."""
        return {name for name, state in self.known.items() if state.done}

    @property
    def done(self) -> bool:
        return self.ended == self.plan.topics.keys()

    @cached_property
    def lanes(self) -> tuple[RestoreLane, ...]:
        """Return the lanes that are not, or may not be, completely written."""
        unknown = self.plan.unknown_partitions
        return tuple(
            lane for lane in self.plan.lanes if lane.topic not in self.ended and lane.target not in unknown
        )

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Topics that were restored without the settings that are requested now."""
        return tuple(
            sorted(name for name in self.ended if self.order.settings and not self.known[name].of_backup)
        )


def connected(order: RestoreOrder) -> AbstractContextManager[Client]:
    """Return a client of the target."""
    return connect(order.end, CLIENT)
