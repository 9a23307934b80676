"""A snapshot of a small backup to restore."""

from typing import Any

from aqueduct.store.manifest import (
    NOT_READ,
    Chain,
    Gap,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    StoredPartition,
    StoredTopic,
)
from aqueduct.store.snapshots import Snapshot

TOPIC = StoredTopic(
    "t", "id", 3, 1, compacted=False, settings={}, instances=(Instance(1, "id", InstanceState.ACTIVATE, 0),)
)
MANIFEST = Manifest(
    *(Chain(7, None, None, 7, 0, 0), "s", "r", 0, 0, 0, "c", "v", {}),
    *({("t", 1): (0, 0, NOT_READ)}, {("t", 1): (30, 0, NOT_READ)}, (TOPIC,), *[()] * 7),
)


def segment(start: int, stop: int, **given: Any) -> Segment:
    made = Segment(
        *("t", 1, 0, start, stop, start, stop - 1, stop - start, 100, 10, "", 1, ""),
        *(None, stop * 10, "r", True, False),
    )
    return made._replace(**given)


SNAPSHOT = Snapshot(
    MANIFEST,
    {"t": TOPIC},
    {
        StoredPartition("t", 1, 0): (
            segment(5, 10),
            segment(10, 20),
            segment(20, 30, records=0, max_time=None),
        )
    },
    {StoredPartition("t", 1, 0): (Gap("t", 1, 0, 0, 5),)},
)
