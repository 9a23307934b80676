"""The request for a backup run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.selection import GroupSelection, Pattern, TopicSelection
from aqueduct.store.segments import SegmentLimits
from aqueduct.store.signing import EVERYBODY, SigningKey, Trust

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey, ReceiverPublicKey


@dataclass(frozen=True)
class LifecycleWish:
    """The days after which the store removes segments of topics, by its bucket's lifecycle rules."""

    days: int  # 0: never, and rules of former runs go
    topics: Pattern | None = None  # by whole name; None: all

    def chooses(self, name: str) -> bool:
        return self.topics is None or bool(self.topics.fullmatch(name))


@dataclass(frozen=True, kw_only=True)
class BackupOrder:
    """A cluster, a store, and what of the one goes to the other."""

    end: End
    store: str  # URL
    topics: TopicSelection
    groups: GroupSelection
    generation_hours: float = 24
    generations: int = 2  # of a compacted topic at most
    limits: SegmentLimits = field(default_factory=SegmentLimits)
    bytes_per_second: int | None = None  # of the whole run, as Kafka has them
    options: Mapping[str, object] = field(default_factory=dict)  # as they were given, for the manifest
    other_cluster: bool = False  # what is backed up may be another cluster than before
    trust: Trust = EVERYBODY  # whose snapshots it goes on after
    signing_key: SigningKey | None = None
    recipients: "tuple[ReceiverPublicKey, ...]" = ()  # who may read what is backed up; none: all can
    private_keys: "tuple[ReceiverKey, ...]" = ()  # of this host: they open manifests
    lifecycle: LifecycleWish | None = None  # None: as no run before has asked for it
    again: bool = False  # this process has backed up before: what is gone since is skipped, not refused
    past_damage: bool = False  # continues after the newest snapshot that is whole
