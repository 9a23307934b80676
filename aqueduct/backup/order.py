"""The request for a backup run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.backup.selection import GroupSelection, TopicSelection
from aqueduct.kafka.client_config import End
from aqueduct.store.segments import SegmentLimits
from aqueduct.store.signing import EVERYBODY, SigningKey, Trust


@dataclass(frozen=True)
class BackupOrder:
    """A cluster, a store, and what of the one goes to the other."""

    end: End
    store: str  # URL
    topics: TopicSelection
    groups: GroupSelection
    generation_hours: float = 24
    limits: SegmentLimits = field(default_factory=SegmentLimits)
    bytes_per_second: int | None = None  # of the whole run, as Kafka has them
    options: Mapping[str, object] = field(default_factory=dict)  # as they were given, for the manifest
    other_cluster: bool = False  # what is backed up may be another cluster than before
    trust: Trust = EVERYBODY  # whose snapshots it goes on after
    signing_key: SigningKey | None = None
    past_damage: bool = False  # continues after the newest snapshot that is whole
