"""A job: an order, with what the store and the target had for it when the run began."""

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
    """An order, with what was found for it when the run began."""

    order: RestoreOrder
    id: str
    request: str  # the request's digest
    snapshot: Snapshot
    plan: RestorePlan
    there: Mapping[str, Topic]  # topics that the target has already
    known: Mapping[str, TopicState]  # what an earlier run remembered
    others: Mapping[str, list[TopicState]]  # what other restores did, by their ids
    groups: tuple[str, ...]  # that are to be set
    written: Mapping[TopicPartition, Written]  # of topics that earlier runs have ended
    dropped: tuple[DroppedSetting, ...] = ()
    earlier: Earlier = field(
        default_factory=dict
    )  # what other restores wrote, after which this one continues

    @cached_property
    def ended(self) -> Set[str]:
        """Topics of which earlier runs have written all."""
        return {name for name, state in self.known.items() if state.done}

    @property
    def done(self) -> bool:
        return self.ended == self.plan.topics.keys()

    @cached_property
    def lanes(self) -> tuple[RestoreLane, ...]:
        """Return the lanes that are still to be written, or may be."""
        unknown = self.plan.unknown_partitions
        return tuple(
            lane for lane in self.plan.lanes if lane.topic not in self.ended and lane.target not in unknown
        )

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Topics that were restored without the settings that are asked for now."""
        return tuple(
            sorted(name for name in self.ended if self.order.settings and not self.known[name].of_backup)
        )


def connected(order: RestoreOrder) -> AbstractContextManager[Client]:
    """Return a client of the target."""
    return connect(order.end, CLIENT)
