"""What a store asks of its server and what it holds stay within bounds as the estate and its runs grow."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import clients
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.snapshots.prune import run as prune
from aqueduct.snapshots.prune.policy import KeepPolicy
from aqueduct.store import catalog as catalogs
from aqueduct.store.backends import open_editable
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import Manifest, pack, unpack
from aqueduct.store.names import SNAPSHOTS
from aqueduct.store.snapshots import Broken
from bench.counted import LIST_KEYS, Counted
from bench.estate import Estate, run
from bench.scale import Place
from servers.object_store import running

KINDS = {"GetObject": "GET", "HeadObject": "HEAD", "PutObject": "PUT", "ListObjectsV2": "LIST"}
IDLE = Counter(GET=4, PUT=2, LIST=1)  # store.json, read, tried to be written, and read; the newest manifest


def grown(url: str, estate: Estate, runs: int) -> Place:
    catalog = Catalog.open_or_make(open_editable(url))
    for number in range(1, runs + 1):
        run(catalog, estate, estate.survey(number), number)
    return Place(url, estate, runs)


def idle(place: Place) -> Counted:
    """Do a run that finds nothing new."""
    objects = place.objects()
    run(Catalog.open_or_make(objects), place.estate, place.estate.survey(place.runs), place.runs + 1)
    return objects


@pytest.mark.parametrize(
    ("topics", "segments", "runs"), [(1, 0, 1), (1, 0, 20), (200, 0, 3), (40, 2000, 3), (40, 2000, 20)]
)
def test_idle_backup_sends_same_requests_at_any_size(
    topics: int, segments: int, runs: int, tmp_path: Path
) -> None:
    place = grown(tmp_path.as_uri(), Estate(topics, 12, segments, busy=0.1), runs)
    newest = max(tmp_path.glob(f"{SNAPSHOTS}/*"))
    before = newest.stat().st_size
    asked = idle(place).requests
    if not due(place):
        assert asked.of == IDLE
        assert asked.read_bytes <= before + 1000
    written = max(tmp_path.glob(f"{SNAPSHOTS}/*"))
    assert asked.written_bytes == written.stat().st_size
    if not due(place):
        assert written.stat().st_size < 2_000 + 100 * topics + 10 * 12 * topics


def due(place: Place) -> bool:
    """Tell whether the newest manifest is full: then what it adds up was read."""
    found = Catalog.open(open_editable(place.url))
    return found.manifest(max(found.numbers())).full


def test_a_server_is_asked_for_what_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "access.log"
    with running(tmp_path, None, "--access-log", str(log)) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        place = grown("s3://store/one", Estate(20, 12, busy=0.1), 3)
        begun = len(log.read_text().splitlines())
        counted = idle(place).requests.of

        def told() -> Counter[str]:
            lines = log.read_text().splitlines()[begun:]
            asked = (re.search(r" s3_(\w+) ", line) for line in lines)
            return Counter(KINDS[each[1]] if each else "unknown" for each in asked)

        # The server may answer before it writes the line of that.
        clients.wait_for("a line for each request", lambda: told() == counted)


def test_prune_reads_each_manifest_and_lists_objects_once(tmp_path: Path) -> None:
    place = grown(tmp_path.as_uri(), Estate(20, 12, 2_000, busy=0.2), 40)
    objects = place.objects()
    with patch.object(prune, "open_editable", lambda _: objects):
        order = prune.PruneOrder(store=place.url, keep=KeepPolicy(daily=1), copied_through=40, sample_bytes=0)
        found = prune.prune(order)
    asked = objects.requests.of
    there = sum(1 for _ in place.objects().list("topics"))
    assert there > 4_000
    assert asked["LIST"] <= there / LIST_KEYS + 5  # manifests; leases before, between, and after
    assert asked["GET"] == 1 + 40 + len(found.plan.stay)
    assert asked["PUT"] == asked["DELETE"] == 0
    assert found.plan.go
    assert not found.swept.strange.count
    assert not found.swept.orphans.count


@given(
    topics=st.integers(1, 30),
    partitions=st.integers(1, 24),
    each=st.integers(1, 8),
    kilobytes=st.integers(64, 1024),
)
@settings(max_examples=40, deadline=None)
def test_full_manifest_is_below_one_percent_of_data(
    topics: int, partitions: int, each: int, kilobytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    estate = Estate(topics, partitions, topics * partitions * each, segment_bytes=kilobytes << 10)
    store = tmp_path_factory.mktemp("store")
    grown(store.as_uri(), estate, 1)
    [path] = store.glob(f"{SNAPSHOTS}/*")
    named = Catalog.open(open_editable(store.as_uri())).manifest(1).segments
    assert len(named) == topics * partitions * each
    data = sum(segment.stored_bytes + segment.index_bytes for segment in named)
    assert path.stat().st_size < 2_000 + data / 100


def test_manifests_read_in_sequence_equal_single_reads(tmp_path: Path) -> None:
    grown(tmp_path.as_uri(), Estate(30, 3, 300, busy=0.1, minutes=300), 12)
    catalog = Catalog.open(open_editable(tmp_path.as_uri()))
    alone = [catalog.manifest(number) for number in catalog.numbers()]
    assert [*catalog.every(catalog.listed())] == [replace(each, groups=()) for each in alone]
    assert any(each.full for each in alone[1:])
    assert not all(each.full for each in alone)


def test_manifest_too_large_for_readers_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = grown(tmp_path.as_uri(), Estate(1, 1), 2)
    monkeypatch.setattr(catalogs.validation, "MOST_MANIFEST_BYTES", 2000)
    with raises(Failed, "manifest-too-large") as failed:
        idle(replace(place, estate=Estate(200, 12)))
    assert "2,000" in str(failed.value)
    assert Catalog.open(open_editable(place.url)).numbers() == [1, 2]


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Manifest]:
    """Yield a manifest that says the same again and again, when little would be taken for a bomb."""
    grown(tmp_path.as_uri(), Estate(20, 12), 1)
    found = Catalog.open(open_editable(tmp_path.as_uri())).manifest(1)
    many = tuple(replace(found.groups[0], group=f"{at}") for at in range(500))
    with patch("aqueduct.store.manifest.UNPACKED_BYTES", 100_000):
        yield replace(found, groups=many)


def test_repetitive_manifest_can_be_read_back(groups: Manifest) -> None:
    assert unpack(pack(groups), "it") == groups


def test_summaries_of_all_snapshots_equal_single_reads(tmp_path: Path) -> None:
    grown(tmp_path.as_uri(), Estate(30, 3, 300, busy=0.1, minutes=300), 12)
    catalog = Catalog.open(open_editable(tmp_path.as_uri()))
    for each in catalog.summaries():
        assert not isinstance(each, Broken)
        whole = catalog.snapshot(each.number)
        assert each.records == sum(segment.records for some in whole.segments.values() for segment in some)
