"""A manifest of a small backup."""

from aqueduct.store.manifest import (
    Chain,
    Instance,
    InstanceState,
    Manifest,
    Segment,
    StoredTopic,
)

NAMES = ["a" * 245 + ".one", "a" * 245 + ".two"]
INSTANCE = Instance(99, "id", InstanceState.PASSIVATE, 0)
SEGMENTS = [
    Segment(name, 99, 0, 0, 10**9, 0, 0, 10**9, 10**10, 10**10, "", 1, "", None, 0, "run", False, False)
    for name in NAMES
]
TOPICS = [
    StoredTopic(name, "id", 1, 1, compacted=False, settings={}, instances=(INSTANCE,)) for name in NAMES
]
MANIFEST = Manifest(
    *(Chain(1, None, None, 1, 0, 0), "store", "run", 0, 0, 0, "cluster", "0.1.0", {}, {}, {}),
    *(tuple(TOPICS), tuple(SEGMENTS), (), (), (), (), (), ()),
)
