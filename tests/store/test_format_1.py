"""A store that the first version wrote. Its files never change: what can't read them can't restore."""

import hashlib
from pathlib import Path

from aqueduct.kafka.acls import Acl
from aqueduct.kafka.batches.records import Records
from aqueduct.snapshots.backup import verify
from aqueduct.store import segments
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import (
    Gap,
    GroupAhead,
    GroupOffset,
    InstanceState,
    Manifest,
    OpenTransaction,
    Quota,
    StoredGroup,
    StoredPartition,
)
from aqueduct.work.workers import Workers

STORE = Path(__file__).parent / "format_1"
SHA256 = "6a7f8ab955e4bb4cd09ef8e4deaf90da387b710ad771c3b454c593c68c1aa718"


def test_the_files_are_the_same() -> None:
    files = sorted(path for path in STORE.rglob("*") if path.is_file())
    told = "".join(
        f"{path.relative_to(STORE).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in files
    )
    assert hashlib.sha256(told.encode()).hexdigest() == SHA256, told


def test_snapshots_are_read() -> None:
    catalog = Catalog.open(open_store(STORE.as_uri()))
    assert catalog.id == "5d41402abc4b2a76"
    assert [(each.number, each.topics, each.records, each.gaps) for each in catalog.summaries()] == [
        (1, 3, 49, 0),
        (2, 3, 54, 1),
        (3, 3, 53, 1),
    ]
    snapshot = catalog.snapshot()
    for name in ("planes", "airports"):
        states = [(each.number, each.state) for each in snapshot.topics[name].instances]
        assert states == [(1, InstanceState.PASSIVATE), (2, InstanceState.ACTIVATE)]
    assert snapshot.topics["flights"].settings == {"retention.ms": "-1"}
    assert snapshot.gaps == {StoredPartition("flights", 1, 1): (Gap("flights", 1, 1, 3, 7),)}
    assert snapshot.manifest.positions == {
        ("flights", 1): (45, 9, 5),
        ("planes", 1): (9,),
        ("planes", 2): (12,),
        ("airports", 1): (2,),
        ("airports", 2): (1,),
    }
    assert snapshot.manifest.starts == {
        **dict.fromkeys(snapshot.manifest.positions, (0,)),
        ("flights", 1): (0, 0, 5),
    }
    _beside_records(catalog.manifest(1))


def _beside_records(first: Manifest) -> None:
    assert first.groups == (StoredGroup("readers", "consumer", (GroupOffset("flights", 0, 3, "note"),)),)
    assert first.acls == (
        Acl(principal="User:a", resource="topic", name="flights", pattern="literal", operation="read"),
    )
    assert first.quotas == (Quota({"user": "a"}, {"producer_byte_rate": 1048576.0}),)
    assert first.open_transactions == (OpenTransaction("flights", 1, 3, 9),)
    assert first.groups_ahead == (GroupAhead("readers", "flights", 1, 5, 3),)


def test_records_are_read() -> None:
    objects = open_store(STORE.as_uri())
    snapshot = Catalog.open(objects).snapshot()

    def offsets(place: StoredPartition) -> list[int]:
        found = []
        for segment in snapshot.segments[place]:
            if segment.records:
                batches = list(segments.batches(segment, segments.read(objects, segment)))
                records = Records.of(batches)
                assert [segment.records, segment.index_bytes > 0] == [len(records), True]
                assert records.times.tolist() == [1_388_534_400_000 + 1000 * at for at in records.offsets]
                found += records.offsets.tolist()
        return found

    assert offsets(StoredPartition("flights", 1, 0)) == list(range(45))
    assert offsets(StoredPartition("flights", 1, 1)) == [0, 1, 2]
    assert offsets(StoredPartition("planes", 1, 0)) == [0, 3, 5, 8]
    assert offsets(StoredPartition("planes", 2, 0)) == [3, 8, 9, 11]
    assert offsets(StoredPartition("airports", 2, 0)) == [0]


def test_nothing_of_it_is_damaged() -> None:
    with Workers("test") as workers:
        assert [verify.verify(STORE.as_uri(), number, workers).faults for number in (1, 2, 3)] == [()] * 3
