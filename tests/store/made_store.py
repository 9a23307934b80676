"""A small store with something of everything: `python tests/store/made_store.py DIRECTORY` made format_1.

flights: a plain topic; partition 0 has segments of every codec, partition 1 a gap and, at its end, offsets
without records, partition 2 is empty, but was not always. planes: compacted, with holes, in two generations.
airports: was recreated under its old name.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from aqueduct.kafka.acls import Acl
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.codecs import CODECS
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.quotas import Quota
from aqueduct.store import names
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import (
    Gap,
    GroupAhead,
    GroupOffset,
    Instance,
    InstanceState,
    Manifest,
    OpenTransaction,
    Segment,
    StoredGroup,
    StoredPartition,
    StoredTopic,
)
from aqueduct.store.objects import Objects
from aqueduct.store.segments import SegmentLimits, Writer

ID = "5d41402abc4b2a76"
BEGAN = 1_388_534_400_000  # 2014-01-01
OLD, NEW = InstanceState.PASSIVATE, InstanceState.ACTIVATE


def batch(offsets: Iterable[int], codec: str = "none") -> Batch:
    """Build a batch with a record a second, five keys in turn; each seventh is a tombstone."""
    rows = [Record(BEGAN + 1000 * offset, offset, _body(offset)) for offset in offsets]
    (made,) = walk(build(Records.listed(rows), codec=codec))
    return made


def _body(offset: int) -> bytes:
    """Encode key, value, no headers; lengths are zigzag varints of one byte."""
    key, value = b"N%d" % (offset % 5), b"flight %d" % offset
    value = b"\x01" if offset % 7 == 0 else bytes([2 * len(value)]) + value
    return bytes([2 * len(key)]) + key + value + b"\0"


def segment(
    objects: Objects,
    place: StoredPartition,
    start: int,
    stop: int,
    *batches: Batch,
    run: str = "0a",
    generation: bool = False,
) -> Segment:
    writer = Writer(objects, place, run, start, generation=generation, limits=SegmentLimits())
    writer.add(batches, stop)
    made = writer.finish()
    assert made
    return made


def make(url: str, identity: str = ID) -> None:
    """Make the store, in a directory that is empty."""
    objects = open_store(url)
    objects.create(names.STORE, b'{"format":1,"id":"%s"}' % identity.encode())
    catalog = Catalog.open(objects)
    for manifest in _manifests(objects, identity):
        catalog.commit(replace(manifest, chain=catalog.parent().follow()))


def _manifests(objects: Objects, identity: str) -> Iterable[Manifest]:
    flights, planes, airports = (StoredPartition(name, 1, 0) for name in ("flights", "planes", "airports"))
    first = Manifest(
        chain=Catalog(objects, identity).parent().follow(),
        store=identity,
        run="0a",
        created=BEGAN + 3_000,
        started=BEGAN + 1_000,
        ended=BEGAN + 2_000,
        cluster="MkU3OEVBNTcwNTJENDM2Qg",
        version="0.1.0",
        options={"topics": ["flights", "planes", "airports"]},
        starts={("flights", 1): (0, 0, 5), ("planes", 1): (0,), ("airports", 1): (0,)},
        positions={("flights", 1): (40, 3, 5), ("planes", 1): (9,), ("airports", 1): (2,)},
        topics=(
            stored_topic("flights", 3, instance(1), settings={"retention.ms": "-1"}),
            stored_topic("planes", 1, instance(1), settings={"cleanup.policy": "compact"}),
            stored_topic("airports", 1, instance(1)),
        ),
        segments=(
            *(
                segment(objects, flights, at * 8, at * 8 + 8, batch(range(at * 8, at * 8 + 8), codec))
                for at, codec in enumerate(CODECS)
            ),
            segment(objects, flights._replace(partition=1), 0, 3, batch([0]), batch([1, 2])),
            segment(objects, planes, 0, 9, batch([0, 3]), batch([5, 8]), generation=True),
            segment(objects, airports, 0, 2, batch([0, 1])),
        ),
        gaps=(),
        groups=(StoredGroup("readers", "consumer", (GroupOffset("flights", 0, 3, "note"),)),),
        acls=(
            Acl(principal="User:a", resource="topic", name="flights", pattern="literal", operation="read"),
        ),
        quotas=(Quota({"user": "a"}, {"producer_byte_rate": 1048576.0}),),
        open_transactions=(OpenTransaction("flights", 1, 3, 9),),
        groups_ahead=(GroupAhead("readers", "flights", 1, 5, 3),),
    )
    yield first
    second = replace(
        first,
        run="0b",
        created=BEGAN + 7_200_000,
        positions={**first.positions, ("flights", 1): (45, 7, 5)},
        segments=(segment(objects, flights, 40, 45, batch(range(40, 45), "lz4"), run="0b"),),
        gaps=(Gap("flights", 1, 1, 3, 7),),
        open_transactions=(),
        groups_ahead=(),
    )
    yield second
    yield replace(
        second,
        run="0c",
        created=BEGAN + 86_400_000,
        starts={**first.starts, ("planes", 2): (0,), ("airports", 2): (0,)},
        positions={
            ("flights", 1): (45, 9, 5),
            ("planes", 1): (9,),
            ("planes", 2): (12,),
            ("airports", 1): (2,),
            ("airports", 2): (1,),
        },
        topics=(
            first.topics[0],
            stored_topic("planes", 1, instance(1, state=OLD), instance(2), settings=first.topics[1].settings),
            stored_topic("airports", 1, instance(1, state=OLD), instance(2, "YmFr")),
        ),
        segments=(
            segment(objects, flights._replace(partition=1), 7, 9, run="0c"),
            segment(
                objects,
                planes._replace(instance=2),
                0,
                12,
                batch([3, 8]),
                batch([9, 11]),
                run="0c",
                generation=True,
            ),
            segment(objects, airports._replace(instance=2), 0, 1, batch([0], "zstd"), run="0c"),
        ),
        gaps=(),
    )


def stored_topic(
    name: str, partitions: int, *instances: Instance, settings: Mapping[str, str] | None = None
) -> StoredTopic:
    settings = settings or {}
    return StoredTopic(
        name=name,
        topic_id=instances[-1].topic_id,
        partitions=partitions,
        replication_factor=1,
        compacted="cleanup.policy" in settings,
        settings=settings,
        instances=instances,
    )


def instance(number: int, topic_id: str = "YWZ0", state: InstanceState = NEW) -> Instance:
    return Instance(number, topic_id, state, BEGAN)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute().as_uri())
