"""A store is broken in every way, and verify names what was broken, and nothing else."""

import json
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import made_store
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import assert_printed, raises
from made_store import batch

from aqueduct import cli
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch
from aqueduct.snapshots.backup import verify
from aqueduct.snapshots.backup.faults import Fault
from aqueduct.store import names
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.manifest import Segment, StoredPartition, pack, unpack
from aqueduct.work.options import SparkOptions
from aqueduct.work.workers import Workers
from servers.object_store import Gateway

FORMAT_1 = Path(__file__).parent / "format_1"
LIVE = sorted(path.relative_to(FORMAT_1) for path in (FORMAT_1 / "topics").rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return shutil.copytree(FORMAT_1, tmp_path / "store")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the store for tests that leave it as they found it."""
    return shutil.copytree(FORMAT_1, tmp_path_factory.mktemp("shared") / "store")


def damaged(store: Path | str, *, whole: bool = True, master: str | None = None) -> list[str]:
    """Return the paths of damaged objects."""
    url = store if isinstance(store, str) else store.as_uri()
    snapshot = Catalog.open(open_store(url)).snapshot()
    every = [segment for of_place in snapshot.segments.values() for segment in of_place]
    with Workers("test", SparkOptions(master)) as workers:
        return [fault.path for fault in verify.verify_segments(url, every, workers, whole=whole)]


@given(path=st.sampled_from(LIVE), at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_flipped_bit_is_found(shared: Path, path: Path, at: float, bit: int) -> None:
    good = (shared / path).read_bytes()
    bad = bytearray(good)
    bad[int(at * len(bad))] ^= 1 << bit
    (shared / path).write_bytes(bad)
    try:
        assert damaged(shared, whole=False) == damaged(shared) == [str(path)]
    finally:
        (shared / path).write_bytes(good)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "{path} is missing in "),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "/{path} is damaged: it has "),
        (lambda path: path.write_bytes(b""), "/{path} is damaged: it has 0 bytes instead of "),
        (lambda path: path.write_bytes(path.read_bytes() + b"a"), "/{path} is damaged: it has "),
        (lambda path: path.write_bytes(path.read_bytes()[::-1]), "/{path} is damaged: its SHA-256 differs "),
        (lambda path: (path.unlink(), path.mkdir()), "{url}/{path} is damaged: it is not a regular file"),
    ],
    ids=["missing", "cut", "empty", "longer", "other", "unreadable"],
)
@pytest.mark.parametrize("number", [0, 1, 2, len(LIVE) - 1])
def test_every_damage_is_named(store: Path, change: object, why: str, number: int) -> None:
    path = LIVE[number]
    change(store / path)  # type: ignore[operator]
    with Workers("test") as workers:
        (fault,) = verify.verify(store.as_uri(), None, workers).faults
    assert fault.path == str(path)
    assert why.format(path=path, url=store.as_uri()) in fault.why


def test_all_that_is_damaged_is_named(store: Path) -> None:
    for path in LIVE:
        (store / path).unlink()
    assert sorted(damaged(store)) == sorted(damaged(store, whole=False)) == list(map(str, LIVE))


def test_missing_store_is_not_reported_as_damage(store: Path) -> None:
    snapshot = Catalog.open(open_store(store.as_uri())).snapshot()
    shutil.rmtree(store)
    with (
        Workers("test") as workers,
        raises(Failed, "backup-missing", store.as_uri(), names.STORE),
    ):
        verify.verify_segments(
            store.as_uri(), snapshot.segments[StoredPartition("flights", 1, 0)], workers, whole=False
        )


def test_spark_finds_the_same(store: Path) -> None:
    (store / LIVE[0]).unlink()
    (store / LIVE[-1]).write_bytes(b"")
    assert damaged(store, master="local[2]") == damaged(store)


def test_s3(s3: Gateway) -> None:
    made_store.make("s3://store/verified")
    assert damaged("s3://store/verified") == []
    (s3.bucket("store") / "verified" / LIVE[3]).unlink()
    assert damaged("s3://store/verified") == [str(LIVE[3])]


class TestWrittenWrongly:
    """Objects read back as they were written, so that hashes say nothing."""

    @staticmethod
    def faults(directory: Path, *batches: Batch, stop: int = 9, **claims: object) -> list[Fault]:
        url = directory.as_uri()
        objects = open_store(url)
        made_store.make(url)
        segment = made_store.segment(objects, StoredPartition("written", 1, 0), 0, stop, *batches)
        claimed: Segment = segment._replace(**claims)  # type: ignore[arg-type]
        with Workers("test") as workers:
            assert verify.verify_segments(url, [claimed], workers, whole=False) == []
            return verify.verify_segments(url, [claimed], workers, whole=True)

    def test_nothing(self, tmp_path: Path) -> None:
        assert self.faults(tmp_path, batch([0, 1]), batch([2, 8])) == []

    @pytest.mark.parametrize("codec", ["none", "lz4"])
    def test_a_crc(self, tmp_path: Path, codec: str) -> None:
        good = batch([2, 3], codec)
        data = bytearray(good.data)
        data[-1] ^= 1
        bad = Batch(memoryview(data), *good[1:])
        (fault,) = self.faults(tmp_path, batch([0, 1], codec), bad)
        assert fault.why == (
            f"{tmp_path.as_uri()}/{fault.path} is not a valid segment: The batch at offset 2 is damaged: "
            "its CRC does not match its content."
        )

    def test_a_cut_batch(self, tmp_path: Path) -> None:
        for codec in ("none", "lz4"):
            good = batch([0, 1], codec)
            bad = Batch(good.data[:-1], *good[1:])
            (fault,) = self.faults(tmp_path / codec, bad)
            assert "is not a valid segment" in fault.why

    @pytest.mark.parametrize(
        ("claim", "why"),
        [
            ({"first_offset": 1}, "first_offset: 0 in the segment, 1 in the manifest"),
            ({"last_offset": 7}, "last_offset: 8 in the segment, 7 in the manifest"),
            ({"records": 5}, "records: 4 in the segment, 5 in the manifest"),
            ({"unpacked_bytes": 1}, "decompresses to more than 1 bytes, its size in the manifest"),
            ({"max_time": 0}, "max_time: 1388534408000 in the segment, 0 in the manifest"),
            ({"stop": 8}, "it has offsets outside its range, 0 to 7"),
        ],
    )
    def test_claims(self, tmp_path: Path, claim: dict[str, object], why: str) -> None:
        (fault,) = self.faults(tmp_path, batch([0, 1]), batch([2, 8]), **claim)
        assert fault.why.endswith(f"{why}.")

    def test_order(self, tmp_path: Path) -> None:
        (fault,) = self.faults(tmp_path, batch([0, 4]), batch([3, 5]))
        assert fault.why.endswith("its offsets do not ascend from batch to batch.")


def test_verify_shares_and_faults_can_be_pickled() -> None:
    snapshot = Catalog.open(open_store(FORMAT_1.as_uri())).snapshot()
    (segment, *_) = snapshot.segments[StoredPartition("flights", 1, 0)]
    for each in (
        verify.VerifyShare(store="file:///a", segments=(segment,), whole=True),
        Fault(segment, "path", "why"),
    ):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301


class TestCommandLine:
    def test_intact(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["verify", "--store", FORMAT_1.as_uri()]) == 0
        out, err = capsys.readouterr()
        assert err.startswith("Reading 11 segments")
        assert "flights-1 (g1): offsets 3 to 6 are not in the backup" in out
        assert out.endswith("No object is damaged.\n")

    def test_damaged(self, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = "topics/flights/0/00000000000000000008.0a.log"
        (store / path).unlink()
        report = tmp_path / "report.json"
        assert cli.main(["verify", "--store", store.as_uri(), "--report", str(report)]) == 1
        out, _ = capsys.readouterr()
        (told,) = (line for line in out.splitlines() if line.startswith("DAMAGED: "))
        assert told.startswith("DAMAGED: flights-0 (g1), offsets 8 to 15: ")
        assert path in told
        assert "Damaged: 1 segment. " in out
        content = json.loads(report.read_text())
        assert (content["verb"], content["exit_code"], content["snapshot"]) == ("verify", 1, 3)
        place = {"topic": "flights", "instance": 1, "partition": 0}
        (whole,) = (each for each in content["partitions"] if place.items() <= each.items())
        assert whole.items() >= {"from": 0, "to": 45, "records": 45}.items()
        assert content["gaps"] == [{**place, "partition": 1, "from": 3, "to": 7}]
        (fault,) = content["damaged"]
        expected = {**place, "from": 8, "to": 16, "object": path, "id": "object-missing"}
        assert expected.items() <= fault.items()

    def test_an_older_snapshot_does_without_later_objects(self, store: Path) -> None:
        (store / "topics/flights/0/00000000000000000040.0b.log").unlink()
        assert cli.main(["verify", "--store", store.as_uri(), "--snapshot", "1"]) == 0
        assert cli.main(["verify", "--store", store.as_uri(), "--snapshot", "2"]) == 1

    def test_a_damaged_manifest(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = store / "snapshots/0000000002.json.zst"
        path.write_bytes(path.read_bytes()[:-9])
        assert cli.main(["verify", "--store", store.as_uri()]) == 1
        said = capsys.readouterr().err
        assert said.startswith("aqueduct: [snapshot-unusable] Snapshot 3 builds on snapshot 2, which cannot ")
        assert path.as_uri() in said
        assert "--snapshot 1" in said
        assert said.count("\n") == 1
        assert cli.main(["verify", "--store", store.as_uri(), "--snapshot", "1"]) == 0

    def test_a_partition_whose_segments_a_manifest_has_lost(
        self, store: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        newest = store / names.snapshot(3)
        manifest = unpack(newest.read_bytes(), "it")
        kept = tuple(each for each in manifest.segments if each.topic != "airports")
        newest.write_bytes(pack(replace(manifest, segments=kept)))
        assert cli.main(["verify", "--store", store.as_uri()]) == 1
        assert "Snapshot 3 is damaged: airports-0 (g2) lacks offsets 0 to 0." in capsys.readouterr().err

    @pytest.mark.parametrize("whole", [True, False], ids=["all manifests", "one manifest"])
    def test_a_store_put_together_from_two(
        self, store: Path, tmp_path: Path, whole: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = tmp_path / "other"
        made_store.make(other.as_uri(), "0123456789abcdef")
        for number in (1, 2, 3) if whole else (3,):
            shutil.copy(other / names.snapshot(number), store / names.snapshot(number))
        assert cli.main(["verify", "--store", store.as_uri()]) == 1
        told = capsys.readouterr().err
        assert_printed(told, "snapshot-unusable", "Snapshot 3", "0123456789abcdef", made_store.ID)
        assert ("--snapshot 2" in told) == (not whole)

    def test_store_json_is_lost(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (store / "store.json").unlink()
        for verb in ("verify", "snapshots"):
            assert cli.main([verb, "--store", store.as_uri()]) == 1
            told = capsys.readouterr().err
            assert_printed(told, "store-identity-damaged", "store.json", "snapshot 3")
        [content] = re.findall(r"\{.*\}", told)
        (store / "store.json").write_text(f"{content}\n")
        assert cli.main(["verify", "--store", store.as_uri()]) == 0

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ([], "the following arguments are required: --store"),
            (["--store", "file:///none/at/all"], "file:///none/at/all has no backup"),
            (["--store", FORMAT_1.as_uri(), "--snapshot", "4"], " has no snapshot 4."),
            (["--store", FORMAT_1.as_uri(), "--snapshot", "new"], "--snapshot: 'new' is not a whole number"),
            (["--store", "ftp://a"], "must begin with s3://"),
        ],
    )
    def test_refusals(self, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["verify", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert sentence in err
        assert err.count("\n") == 1
