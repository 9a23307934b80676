"""A store that grows run by run, as backups make it: snapshots of a plain topic and of generations."""

from functools import cached_property
from unittest.mock import patch

from kit.manifests import manifest
from made_store import batch

from aqueduct.snapshots.backup import verify
from aqueduct.store.backends import open_editable
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKey
from aqueduct.store.manifest import Instance, InstanceState, Manifest, Segment, StoredPartition, StoredTopic
from aqueduct.store.objects import EditableObjects
from aqueduct.store.segments import SegmentLimits, Writer
from aqueduct.store.signing import SigningKey
from aqueduct.store.snapshots import Broken
from aqueduct.work.workers import Workers

BEGAN = 1_788_220_800_000  # 2026-09-01
HOURS = 6  # from run to run
CHAIN = 4  # snapshots, of which the first is full
RUNS_OF_GENERATION = 3


class Grown:
    """Ten offsets of `flights` a run, and every third run a new generation of `planes`; two are live."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: EditableObjects = open_editable(url)

    @cached_property
    def catalog(self) -> Catalog:
        return Catalog.open_or_make(self.objects)

    def run(
        self,
        times: int = 1,
        *,
        catalog: Catalog | None = None,
        signing_key: SigningKey | None = None,
        encrypting: DataKey | None = None,
    ) -> Manifest:
        """Back up so many times; return the last manifest that was written."""
        for _ in range(times):
            written = self.commit(self.read(catalog), catalog, signing_key, encrypting)
        return written

    def read(self, catalog: Catalog | None = None) -> Manifest:
        """Do what a run does before it commits: its segments are there."""
        catalog = catalog or self.catalog
        parent = catalog.parent()
        number = parent.number
        before = parent.manifest
        generation = 1 + (number - 1) // RUNS_OF_GENERATION
        live = [each for each in (generation - 1, generation) if each]
        new = before is None or ("planes", generation) not in before.positions
        segments = [self._segment(StoredPartition("flights", 1, 0), 10 * number - 10, 10 * number, number)]
        if new:
            segments.append(self._segment(StoredPartition("planes", generation, 0), 0, 9, number))
        created = BEGAN + number * HOURS * 3_600_000
        positions = {("flights", 1): (10 * number,), **{("planes", each): (9,) for each in live}}
        return manifest(
            chain=parent.follow(),
            store=catalog.id,
            run=f"{number:08x}",
            created=created,
            started=created,
            ended=created,
            starts=dict.fromkeys(positions, (0,)),
            positions=positions,
            topics=(_topic("flights", 1), _topic("planes", *live)),
            segments=tuple(segments),
        )

    def commit(
        self,
        increment: Manifest,
        catalog: Catalog | None = None,
        signing_key: SigningKey | None = None,
        encrypting: DataKey | None = None,
    ) -> Manifest:
        """Commit it; each CHAIN-th is full, however small this store is."""
        with patch("aqueduct.store.catalog.full_due", lambda each: each.number % CHAIN == 1):
            return (catalog or self.catalog).commit(increment, signing_key, encrypting)

    def _segment(self, place: StoredPartition, start: int, stop: int, number: int) -> Segment:
        writer = Writer(
            self.objects,
            place,
            f"{number:08x}",
            start,
            generation=place.topic == "planes",
            limits=SegmentLimits(),
        )
        writer.add((batch(range(start, stop)),), stop)
        made = writer.finish()
        assert made
        return made

    def paths(self) -> set[str]:
        """Return all objects of topics that are there."""
        return {each.path for each in self.objects.list("topics")}

    def named(self) -> set[str]:
        """Return all objects that manifests name which are there."""
        every = [self.catalog.manifest(number).segments for number in self.catalog.numbers()]
        return {path for some in every for each in some for path in (each.path, each.index_path)}

    def check(self, numbers: list[int] | None = None) -> list[int]:
        """Hold that every snapshot that is there is whole, with its objects; return their numbers."""
        there = list(self.catalog.summaries())
        assert [each for each in there if isinstance(each, Broken)] == []
        found = [each.number for each in there if not isinstance(each, Broken)]
        assert found == self.catalog.numbers()
        with Workers("test") as workers:
            for number in found if numbers is None else numbers:
                assert verify.verify(self.url, number, workers).faults == ()
        return found


def _topic(name: str, *live: int) -> StoredTopic:
    states = [InstanceState.PASSIVATE] * (len(live) - 1) + [InstanceState.ACTIVATE]
    instances = tuple(Instance(each, "YWZ0", state, BEGAN) for each, state in zip(live, states, strict=True))
    return StoredTopic(
        name=name,
        topic_id="YWZ0",
        partitions=1,
        replication_factor=1,
        compacted=name == "planes",
        settings={},
        instances=instances,
    )
