"""A snapshot of a small backup to restore."""

from typing import Any

from kit.manifests import manifest

from aqueduct.store.manifest import (
    NOT_READ,
    Chain,
    Gap,
    Instance,
    InstanceState,
    Segment,
    StoredPartition,
    StoredTopic,
)
from aqueduct.store.snapshots import Snapshot

TOPIC = StoredTopic(
    name="t",
    topic_id="id",
    partitions=3,
    replication_factor=1,
    compacted=False,
    settings={},
    instances=(Instance(1, "id", InstanceState.ACTIVATE, 0),),
)
MANIFEST = manifest(
    chain=Chain(number=7, parent=None, parent_sha256=None, base=7, base_bytes=0, increments_bytes=0),
    starts={("t", 1): (0, 0, NOT_READ)},
    positions={("t", 1): (30, 0, NOT_READ)},
    topics=(TOPIC,),
)


def segment(start: int, stop: int, **given: Any) -> Segment:
    made = Segment(
        *("t", 1, 0, start, stop, start, stop - 1, stop - start, 100, 10, "", 1, ""),
        *(None, stop * 10, "r", True, False),
    )
    return made._replace(**given)


SNAPSHOT = Snapshot(
    manifest=MANIFEST,
    topics={"t": TOPIC},
    segments={
        StoredPartition("t", 1, 0): (
            segment(5, 10),
            segment(10, 20),
            segment(20, 30, records=0, max_time=None),
        )
    },
    gaps={StoredPartition("t", 1, 0): (Gap("t", 1, 0, 0, 5),)},
)
