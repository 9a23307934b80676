"""The request for a drill."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.selection import TopicSelection
from aqueduct.store.signing import EVERYBODY, Trust

if TYPE_CHECKING:
    from aqueduct.common.keys import ReceiverKey


@dataclass(frozen=True, kw_only=True)
class DrillOrder:
    """The request for a drill: a store, a scratch cluster, and optionally the live cluster."""

    scratch: End
    store: str  # URL
    live: End | None = None
    topics: TopicSelection | None = field(default=None)  # None: all
    snapshot: int | None = None  # None: the newest
    at_least: int | None = None
    trust: Trust = EVERYBODY
    private_keys: "tuple[ReceiverKey, ...]" = ()
    start_seconds: float = 0.0  # how long the start of the scratch cluster has taken so far
    answer_seconds: float = 30  # maximum wait for an answer of the scratch cluster
