"""A store is exported: what files have is what its objects have, by another decoder; and never half of it."""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from grown_store import Grown
from kit import clients, exports
from kit.exports import Row
from kit.identifiers import assert_printed, printed, raises
from kit.interruption import EITHER, Interruption, steps
from made_store import BEGAN, segment

from aqueduct.cli import main
from aqueduct.errors import ExitCode, Refused
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.snapshots.export import files, plan, rows
from aqueduct.snapshots.export import run as export_run
from aqueduct.store.backends import _Directory, open_store
from aqueduct.store.manifest import StoredPartition
from aqueduct.work import runner

Said = pytest.CaptureFixture[str]
FORMAT_1 = Path(__file__).parent / "format_1"
FORMATS = ["parquet", "avro"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return shutil.copytree(FORMAT_1, tmp_path / "store")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a part, and a share, for each segment."""
    monkeypatch.setattr(plan, "PART_BYTES", 1)


def export(store: Path | str, to: Path | str, *more: str, code: int = 0, format_: str = "parquet") -> None:
    urls = [each if isinstance(each, str) else each.as_uri() for each in (store, to)]
    argv = ["export", "--store", urls[0], "--to", urls[1], "--format", format_, *more]
    assert main(argv) == code


def stored(*objects: Path, topic: str, partition: int = 0) -> list[Row]:
    """Return what rows of these segments have to be."""
    found = []
    for path in objects:
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
        found += clients.decoded(data)
    return [
        {
            "key": each.key,
            "value": each.value,
            "topic": topic,
            "partition": partition,
            "offset": each.offset,
            "timestamp": each.timestamp,
            "timestampType": each.timestamp_type,
            "headers": list(each.headers),
        }
        for each in found
    ]


def everything(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".writing" not in path.parts
    }


@pytest.mark.parametrize("format_", FORMATS)
def test_a_store_of_the_first_version(store: Path, tmp_path: Path, format_: str, capsys: Said) -> None:
    to = tmp_path / "exported"
    export(store, to, code=ExitCode.INCOMPLETE, format_=format_)
    assert "flights-1: offsets 3 to 6 were deleted before they were backed up." in capsys.readouterr().out
    topics = store / "topics"
    flights = [
        *stored(*sorted((topics / "flights/0").glob("*.log*")), topic="flights"),
        *stored(*sorted((topics / "flights/1").glob("*.log*")), topic="flights", partition=1),
    ]
    assert len(flights) == 48
    assert exports.rows(to / "flights") == flights
    assert exports.rows(to / "planes") == stored(*(topics / "planes/g2/0").glob("*.log*"), topic="planes")
    newest = topics / "airports/0/00000000000000000000.0c.log"
    assert exports.rows(to / "airports") == stored(newest, topic="airports")
    export(store, tmp_path / "g1", "--instance", "g1", "--topics", "planes,airports", format_=format_)
    former = stored(*(topics / "planes/g1/0").glob("*.log*"), topic="planes")
    assert exports.rows(tmp_path / "g1/planes") == former
    assert [each["offset"] for each in former] == [0, 3, 5, 8]


def test_what_was_written_is_told_with_its_digests(store: Path, tmp_path: Path) -> None:
    to = tmp_path / "exported"
    report = tmp_path / "report.json"
    export(store, to, "--report", str(report), code=ExitCode.INCOMPLETE)
    told = json.loads((to / "_export.json").read_text())
    found = everything(to)
    assert {each[0] for each in told["files"]} == found.keys() - {"_export.json", "_export/begun.json"}
    for path, _, _, first, last, records, size, sha256, bad in told["files"]:
        data = found[path]
        assert (len(data), hashlib.sha256(data).hexdigest(), bad) == (size, sha256, False)
        offsets = exports.pyarrow.parquet.read_table(to / path).column("offset").to_pylist()
        assert (offsets[0], offsets[-1], len(offsets)) == (first, last, records)
    by_partition = {tuple(each[:2]): each[2] for each in told["counts"]}
    assert by_partition[("flights", 0)] == 45
    assert by_partition[("flights", 2)] == 0
    reported = json.loads(report.read_text())
    assert {
        (each["topic"], each["partition"]): each["rows"] for each in reported["partitions"]
    } == by_partition


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format_", FORMATS)
def test_files_are_the_same_each_time(store: Path, tmp_path: Path, format_: str) -> None:
    for name in ("one", "other"):
        export(store, tmp_path / name, code=ExitCode.INCOMPLETE, format_=format_)
    assert everything(tmp_path / "one") == everything(tmp_path / "other")
    assert len(everything(tmp_path / "one")) > 10


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("after", EITHER)
def test_export_killed_at_any_step_resumes_without_repeats(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    export(store, tmp_path / "whole", code=ExitCode.INCOMPLETE)
    expected = everything(tmp_path / "whole")
    to = tmp_path / "exported"
    create = _Directory.create
    for at in steps():
        shutil.rmtree(to, ignore_errors=True)
        with monkeypatch.context() as patch:
            stopped = Interruption(patch, _Directory, at, after=after)
            code = main(["export", "--store", store.as_uri(), "--to", to.as_uri(), "--format", "parquet"])
            if code == ExitCode.INCOMPLETE:
                break
            assert (code, stopped.calls >= at) == (130, True)
        there = everything(to)
        assert {path: data for path, data in there.items() if path in expected}.items() <= expected.items()
        done = {path for path in there if path.startswith("_export/0")}
        finished = {each[0] for path in done for each in json.loads(there[path])["files"]}
        written = []
        with monkeypatch.context() as patch:

            def noted(self: Any, path: str, data: bytes) -> None:
                written.append(path)  # noqa: B023
                create(self, path, data)

            patch.setattr(_Directory, "create", noted)
            export(store, to, code=ExitCode.INCOMPLETE)
        assert everything(to) == expected
        assert not (done | finished) & {*written}
    assert at > 20


def test_finished_export_is_checked_but_not_rewritten(store: Path, tmp_path: Path, capsys: Said) -> None:
    to = tmp_path / "exported"
    export(store, to, code=ExitCode.INCOMPLETE)
    before = {path: path.stat().st_mtime_ns for path in to.rglob("*")}
    capsys.readouterr()
    export(store, to, code=ExitCode.INCOMPLETE)
    assert "was already complete: 53 records" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in to.rglob("*")} == before
    path = exports.files(to / "flights")[0]
    for change in (b"cut", None):
        path.write_bytes(change) if change else path.unlink()
        export(store, to, code=ExitCode.FAILED)
        assert f"flights/{path.name} ({'3 bytes' if change else 'deleted'}" in capsys.readouterr().err


def test_foreign_file_among_exported_files_is_found(store: Path, tmp_path: Path, capsys: Said) -> None:
    to = tmp_path / "exported"
    export(store, to, code=ExitCode.INCOMPLETE)
    shutil.copy(exports.files(to / "flights")[0], to / "flights/more.parquet")
    export(store, to, code=ExitCode.FAILED)
    error = capsys.readouterr().err
    assert (printed(error)[-1:], "flights/more.parquet" in error) == (["export-files-changed"], True)


def test_resumed_export_ignores_newer_snapshot(tmp_path: Path, capsys: Said) -> None:
    grown = Grown(f"file://{tmp_path}/store")
    grown.run(2)
    to = tmp_path / "exported"
    export(grown.url, to)
    grown.run(1)
    capsys.readouterr()
    export(grown.url, to)
    assert "Export of snapshot 2" in capsys.readouterr().out
    export(grown.url, to, "--snapshot", "3", code=ExitCode.REFUSED)
    error = capsys.readouterr().err
    assert (printed(error)[-1:], "snapshot 2, not 3" in error) == (["export-folder-taken"], True)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--topics", "planes"], "topics all, not planes"),
        (["--instance", "g1"], "instance activate, not g1"),
        (["--from-time", "2014-01-01T00:00:00Z"], "from_time"),
    ],
)
def test_another_export_is_refused(
    store: Path, tmp_path: Path, capsys: Said, more: list[str], sentence: str
) -> None:
    to = tmp_path / "exported"
    export(store, to, code=ExitCode.INCOMPLETE)
    before = everything(to)
    export(store, to, *more, code=ExitCode.REFUSED)
    assert sentence in capsys.readouterr().err
    assert everything(to) == before


def test_another_format_and_another_version_are_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    to = tmp_path / "exported"
    with monkeypatch.context() as patch:
        Interruption(patch, _Directory, 4, after=False)
        export(store, to, code=130)
    export(store, to, format_="avro", code=ExitCode.REFUSED)
    assert "files parquet, not avro" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(export_run, "version", lambda name: "9")
        export(store, to, code=ExitCode.REFUSED)
        assert "this is aqueduct 9, pyarrow 9" in capsys.readouterr().err
    export(store, to, code=ExitCode.INCOMPLETE)
    monkeypatch.setattr(export_run, "version", lambda name: "9")
    export(store, to, code=ExitCode.INCOMPLETE)


def test_a_folder_with_something_else_is_refused(store: Path, tmp_path: Path, capsys: Said) -> None:
    to = tmp_path / "exported"
    (to / "deep").mkdir(parents=True)
    export(store, to, code=ExitCode.INCOMPLETE)
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    (other / "deep/mine.txt").write_text("mine")
    export(store, other, code=ExitCode.REFUSED)
    error = capsys.readouterr().err
    assert (printed(error)[-1:], "deep/mine.txt" in error) == (["export-folder-taken"], True)
    assert everything(other) == {"deep/mine.txt": b"mine"}


@pytest.mark.parametrize("to", ["store", "store/topics/more", ""])
def test_export_folder_inside_or_around_store_is_refused(
    store: Path, tmp_path: Path, capsys: Said, to: str
) -> None:
    before = everything(store)
    export(store, tmp_path / to, code=ExitCode.REFUSED)
    assert printed(capsys.readouterr().err)[-1:] == ["folder-inside-store"]
    assert everything(store) == before


@pytest.mark.parametrize("more", [[], ["--skip-verify"]])
def test_a_damaged_object_is_never_believed(
    store: Path, tmp_path: Path, capsys: Said, more: list[str]
) -> None:
    [path] = (store / "topics/flights/0").glob("*16.0a.log")
    good = path.read_bytes()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    path.write_bytes(bad)
    to = tmp_path / "exported"
    export(store, to, *more, code=ExitCode.FAILED)
    said = capsys.readouterr().err
    assert (printed(said)[-1:], "16.0a.log" in said) == (["checksum-mismatch"], True)
    assert ("nothing was exported" in said) == (not more)
    assert not (to / "_export.json").exists()
    assert to.exists() == bool(more)
    path.write_bytes(good)
    export(store, to, *more, code=ExitCode.INCOMPLETE)
    assert len(exports.rows(to / "flights")) == 48


def test_root_of_bucket_or_hdfs_contains_all_folders(capsys: Said) -> None:
    for store, to in (("s3://b", "s3://b/x"), ("s3://b/x", "s3://b/"), ("hdfs://h:1", "hdfs://h:1/x")):
        export(store, to, code=ExitCode.REFUSED)
        assert printed(capsys.readouterr().err)[-1:] == ["folder-inside-store"]


@pytest.mark.parametrize("lost", ["rows", "file"])
def test_what_is_lost_on_the_way_is_found(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said, lost: str
) -> None:
    """Whatever loses a record: counts of rows, files and the snapshot must be one."""
    to = tmp_path / "exported"
    if lost == "rows":
        read = rows.KafkaRows.read

        def less(*arguments: Any) -> rows.ExportRows:
            found = read(*arguments)
            return replace(found, table=found.table[1:])

        monkeypatch.setattr(rows.KafkaRows, "read", less)
    else:
        add = files.FileMaker.add
        monkeypatch.setattr(files.FileMaker, "add", lambda maker, table: add(maker, table[1:]))
    export(store, to, code=ExitCode.FAILED)
    said = capsys.readouterr().err
    assert printed(said)[-1:] == ["export-count-mismatch"]
    assert {"rows": "records of 45 of the snapshot)", "file": "rejected records in its files)"}[lost] in said
    assert not (to / "_export.json").exists()


def test_full_disk_leaves_no_partial_export_file(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    to = tmp_path / "exported"
    fsync, calls = os.fsync, 0

    def fail(descriptor: int) -> None:
        nonlocal calls
        calls += Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(to / ".writing")
        if calls > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(runner, "THREADS", 1)  # so that one file is written first
        export(store, to, code=ExitCode.FAILED)
    assert_printed(capsys.readouterr().err, "store-request-failed", "No space left on device")
    assert {path.parent.name for path in to.rglob("*") if path.is_file()} <= {"_export", "airports"}
    assert not [*(to / ".writing").iterdir()]
    export(store, to, code=ExitCode.INCOMPLETE)
    assert len(exports.rows(to / "flights")) == 48


@pytest.mark.parametrize("kind", ["s3", "hdfs"])
def test_into_other_kinds_of_stores(
    request: pytest.FixtureRequest, store: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "s3":
        request.getfixturevalue("s3")
        to = f"s3://store/{secrets.token_hex(4)}/exported"
    else:
        to = f"{request.getfixturevalue('hdfs').url}/{secrets.token_hex(4)}"
    export(store, tmp_path / "here", code=ExitCode.INCOMPLETE)
    for _ in range(2):
        export(store, to, code=ExitCode.INCOMPLETE)
    objects = open_store(to)
    found = {each.path: bytes(objects.read(each.path)) for each in objects.list("")}
    assert found == everything(tmp_path / "here")
    export(store, to, "--topics", "planes", code=ExitCode.REFUSED)


class Odd:
    """A store of one topic, `odd`, with records as nobody should write them."""

    def __init__(self, url: str) -> None:
        self.grown = Grown(url)

    def commit(self, *batches: Batch) -> None:
        manifest = self.grown.read()
        stop = batches[-1].last_offset + 1
        made = segment(self.grown.objects, StoredPartition("flights", 1, 0), 0, stop, *batches)
        positions = {**manifest.positions, ("flights", 1): (stop,)}
        others = [each for each in manifest.segments if each.topic != "flights"]
        self.grown.commit(replace(manifest, segments=(made, *others), positions=positions))


def batch_of(records: Iterable[Record], codec: str = "none") -> Batch:
    (made,) = walk(build(Records.listed(records), codec=codec))
    return made


def test_records_that_cannot_be_rows_get_separate_files(tmp_path: Path, capsys: Said) -> None:
    odd = Odd(f"file://{tmp_path}/store")
    named = [(b"h", b"1"), (b"\xff", b"2"), (b"h", None)]
    odd.commit(
        batch_of(
            [
                Record(BEGAN, 0, body(b"k", b"v", [(b"h", b"1")])),
                Record(BEGAN, 1, body(b"k", b"v", named)),
                Record(-1, 2, body(None, b"no time")),
                Record(1 << 62, 3, body(b"late", None)),
                Record(-(1 << 61), 4, body(b"early", b"")),
            ]
        )
    )
    for format_ in FORMATS:
        to = tmp_path / format_
        export(odd.grown.url, to, "--topics", "flights", format_=format_)
        assert "3 rejected records of flights written to files _bad-" in capsys.readouterr().out
        found = exports.rows(to / "flights")
        assert [(each["offset"], each["timestamp"]) for each in found] == [(0, BEGAN), (2, None)]
        bad = exports.bad_rows(to / "flights")
        assert [(each["offset"], each["timestamp"], each["error"]) for each in bad] == [
            (1, BEGAN, rows.WRONG_HEADER),
            (3, 1 << 62, rows.WRONG_TIME),
            (4, -(1 << 61), rows.WRONG_TIME),
        ]
        assert [(each["key"], each["value"], each["headers"]) for each in bad] == [
            (b"k", b"v", named),
            (b"late", None, []),
            (b"early", b"", []),
        ]
    export(odd.grown.url, tmp_path / "poison", "--topics", "flights", "--fail-on-poison", code=3)


def test_what_is_not_opened_is_named(tmp_path: Path, capsys: Said) -> None:
    """Records that inflate, and one with more headers than anybody means."""
    odd = Odd(f"file://{tmp_path}/store")
    odd.commit(
        batch_of([Record(BEGAN, 0, body(b"k", b"first"))]),
        batch_of([Record(BEGAN, at, body(None, bytes(50 << 20))) for at in (1, 2, 3)], "zstd"),
        batch_of(
            [
                Record(BEGAN, 4, body(b"k", b"many", [(b"", None)] * 1001)),
                Record(BEGAN, 5, body(b"k", b"last", [(b"", None)] * 1000)),
            ]
        ),
    )
    to = tmp_path / "exported"
    export(odd.grown.url, to, "--topics", "flights", code=ExitCode.INCOMPLETE)
    said = capsys.readouterr().out
    assert (
        "Skipped: offsets 1 to 3 of flights-0: 3 records: The batch at offset 1 was not decompressed"
    ) in said
    assert "Skipped: offset 4 of flights-0: 1 record: it has more than 1,000 headers." in said
    found = exports.rows(to / "flights")
    assert [(each["offset"], each["value"], len(each["headers"])) for each in found] == [
        (0, b"first", 0),
        (5, b"last", 1000),
    ]
    lanes = json.loads((to / "_export.json").read_text())["counts"]
    assert ["flights", 0, 2, 0, 0, 0, 4] in lanes


def test_many_skipped_records_are_counted_and_some_named(tmp_path: Path, capsys: Said) -> None:
    odd = Odd(f"file://{tmp_path}/store")
    many = body(b"k", b"many", [(b"", None)] * 1001)
    odd.commit(batch_of(Record(BEGAN + at, at, many) for at in range(30)))
    to, report = tmp_path / "exported", tmp_path / "report.json"
    export(odd.grown.url, to, "--topics", "flights", "--report", str(report), code=ExitCode.INCOMPLETE)
    left_out = json.loads(report.read_text())["left_out"]
    assert [each["what"] for each in left_out] == [
        *(f"offset {at} of flights-0" for at in range(20)),
        "10 more records of flights-0",
    ]
    assert exports.rows(to / "flights") == []
    inside = ("--from-time", "2014-01-01T00:00:00.029Z")  # what is not in the window is not left out
    capsys.readouterr()
    export(odd.grown.url, tmp_path / "last", "--topics", "flights", *inside, code=ExitCode.INCOMPLETE)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Skipped")]
    assert told == ["Skipped: offset 29 of flights-0: 1 record: it has more than 1,000 headers."]


@pytest.mark.parametrize("name", ["_export", "_export.json"])
def test_topics_named_like_export_files_are_refused(name: str) -> None:
    with raises(Refused, "export-name-reserved"):
        plan.check_names([name, "flights"])
