"""Manifests of small backups."""

from dataclasses import replace
from typing import Any

from aqueduct.store.manifest import (
    Chain,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    StoredTopic,
)

EMPTY = Manifest(
    chain=Chain(number=1, parent=None, parent_sha256=None, base=1, base_bytes=0, increments_bytes=0),
    store="store",
    run="run",
    created=0,
    started=0,
    ended=0,
    cluster="cluster",
    version="0.1.0",
    options={},
    starts={},
    positions={},
    topics=(),
    segments=(),
    gaps=(),
    groups=(),
    acls=(),
    quotas=(),
    open_transactions=(),
    groups_ahead=(),
)


def manifest(**fields: Any) -> Manifest:
    """Return the first manifest of a store, with these fields and otherwise empty."""
    return replace(EMPTY, **fields)


NAMES = ["a" * 245 + ".one", "a" * 245 + ".two"]
INSTANCE = Instance(99, "id", InstanceState.PASSIVATE, 0)
SEGMENTS = [
    Segment(name, 99, 0, 0, 10**9, 0, 0, 10**9, 10**10, 10**10, "", 1, "", None, 0, "run", False, False)
    for name in NAMES
]
TOPICS = [
    StoredTopic(
        name=name,
        topic_id="id",
        partitions=1,
        replication_factor=1,
        compacted=False,
        settings={},
        instances=(INSTANCE,),
    )
    for name in NAMES
]
MANIFEST = manifest(topics=tuple(TOPICS), segments=tuple(SEGMENTS))
