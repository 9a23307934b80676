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
    """The days after which lifecycle rules of the bucket delete segments of topics."""

    days: int  # 0: never, and the rules of earlier runs are removed
    topics: Pattern | None = None  # matches whole names; None: all

    def chooses(self, name: str) -> bool:
        return self.topics is None or bool(self.topics.fullmatch(name))


@dataclass(frozen=True, kw_only=True)
class BackupOrder:
    """The request for a backup run: a cluster, a store, and what is backed up."""

    end: End
    store: str  # URL
    topics: TopicSelection
    groups: GroupSelection
    generation_hours: float = 24
    generations: int = 2  # maximum for each compacted topic
    limits: SegmentLimits = field(default_factory=SegmentLimits)
    bytes_per_second: int | None = None  # of the whole run, as stored in Kafka
    options: Mapping[str, object] = field(default_factory=dict)  # as passed, for the manifest
    other_cluster: bool = False  # accept a store with backups of another cluster
    trust: Trust = EVERYBODY  # the accepted signers of earlier snapshots
    signing_key: SigningKey | None = None
    recipients: "tuple[ReceiverPublicKey, ...]" = ()  # who can decrypt the records; none: no encryption
    private_keys: "tuple[ReceiverKey, ...]" = ()  # of this host: they decrypt manifests
    lifecycle: LifecycleWish | None = None  # None: no lifecycle rules were requested
    again: bool = False  # a later round of this process: topics deleted since are skipped, not refused
    past_damage: bool = False  # continue after the newest undamaged snapshot
