"""The request for a backup run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct.backup.selection import Groups, Topics
from aqueduct.kafka.client_config import End
from aqueduct.store.segments import Limits


@dataclass(frozen=True)
class Order:
    """A cluster, a store, and what of the one goes to the other."""

    end: End
    store: str  # URL
    topics: Topics
    groups: Groups
    generation_hours: float = 24
    limits: Limits = field(default_factory=Limits)
    bytes_per_second: int | None = None  # of the whole run, as Kafka has them
    options: Mapping[str, object] = field(default_factory=dict)  # as they were given, for the manifest
    other_cluster: bool = False  # what is backed up may be another cluster than before
    past_damage: bool = False  # continues after the newest snapshot that is whole
