"""Stores of other programs are imported, verified, restored into a cluster, and read by another client."""

import json
import re
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import clients
from kit.foreign_stores import KafkaBackup, Row, s3_binary, segment
from kit.identifiers import printed

from aqueduct.cli import main
from aqueduct.snapshots.importer import kafka_backup
from aqueduct.snapshots.importer.fields import batches
from aqueduct.snapshots.importer.layout import ForeignFile
from servers.broker import Broker

Said = pytest.CaptureFixture[str]
TIME = 1_700_000_000_000
NO_TIME = -1


def rows(start: int, stop: int, step: int = 1) -> list[Row]:
    """Return records of every kind: without key, value or headers, with empty ones, with headers twice."""
    return [
        Row(
            n,
            TIME + n * 7 % 1000,
            None if n % 5 == 0 else b"" if n % 9 == 0 else b"key-%d" % n,
            None if n % 7 == 0 else b"" if n % 11 == 0 else b"value-%d-" % n + b"x" * (n % 300),
            [(f"h\u00e9{h % 2}", None if h == 1 else b"v%d" % h) for h in range(n % 4)],
        )
        for n in range(start, stop, step)
    ]


def imported(source: str, store: Path, layout: str = "kafka-backup", *more: str) -> int:
    return main(["import", "--from", source, "--format", layout, "--store", store.as_uri(), *more])


def restore(broker: Broker, store: Path, *more: str) -> int:
    argv = ["restore", "--bootstrap-server", broker.plaintext, "--store", store.as_uri()]
    return main([*argv, *more])


def read(broker: Broker, topic: str, partition: int) -> list[tuple[object, ...]]:
    return [
        (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
        for message in clients.read(broker, topic, partition)
    ]


def told(found: list[Row]) -> list[tuple[object, ...]]:
    return [(row.key, row.value, list(row.headers), row.time) for row in found]


def test_a_kafka_backup_is_restored_record_for_record(broker: Broker, tmp_path: Path, capsys: Said) -> None:
    topic, other = clients.unique("orders"), clients.unique("other")
    theirs = KafkaBackup(tmp_path / "theirs")
    theirs.topic(topic, 4)
    expected = {}
    for partition, compression in enumerate((1, 2, 0)):
        expected[partition] = rows(5, 105) + rows(105, 400)
        theirs.gap(topic, partition, 0, 5)
        theirs.add(topic, partition, expected[partition][:100], compression)
        theirs.add(topic, partition, expected[partition][100:], compression)
    theirs.add(other, 1, rows(0, 10))
    group = clients.unique("readers")
    url = theirs.finish({group: {topic: {"0": 50, "2": 400}}})
    store, report = tmp_path / "store", tmp_path / "report.json"

    assert imported(url, store, "kafka-backup", "--report", str(report)) == 3
    said = capsys.readouterr().out
    assert f"{topic}-0: offsets 0 to 4 were deleted before they were backed up." in said
    assert "Skipped: [import-source-lacks] settings of topics, and replication factors: " in said
    assert "Skipped: [import-source-lacks] ACLs and quotas: " in said
    assert "Snapshot 1, of kafka-backup (0.2.0 to 0.17.4): 1,195 records" in said
    content = json.loads(report.read_text())
    assert content["exit_code"] == 3
    assert sum(each["records"] for each in content["partitions"]) == 1195
    assert [each["what"] for each in content["left_out"]] == [each.what for each in kafka_backup.LACKS]
    assert {each["id"] for each in content["left_out"]} == {"import-source-lacks"}

    assert main(["verify", "--store", store.as_uri()]) == 0
    assert restore(broker, store) == 0
    for partition, records in expected.items():
        assert read(broker, topic, partition) == told(records)
    assert read(broker, topic, 3) == []
    assert read(broker, other, 0) == []
    assert read(broker, other, 1) == told(rows(0, 10))
    # Offsets 0 to 4 are missing, so that what was 50 comes 45th.
    assert clients.committed(broker, group) == {(topic, 0): 45, (topic, 2): 396}  # a marker ends the log


def test_files_of_a_sink_are_restored(broker: Broker, tmp_path: Path, capsys: Said) -> None:
    topic = clients.unique("sunk")
    theirs = tmp_path / "bucket/prefix"
    every = [row._replace(key=row.key or b"", value=row.value or b"") for row in rows(0, 500)]
    s3_binary(theirs, topic, 0, every[:100])
    s3_binary(theirs, topic, 0, every[100:])
    s3_binary(theirs, topic, 2, every[:50], padded=False)
    s3_binary(theirs, topic, 2, every[60:90], padded=False)
    (theirs / ".indexes").mkdir()
    (theirs / ".indexes/x").write_text("")
    store = tmp_path / "store"
    assert imported(theirs.as_uri(), store, "s3-binary") == 3
    said = capsys.readouterr().out
    for lacking in ("timestamps of records", "headers of records", "consumer groups, ACLs and quotas"):
        assert f"Skipped: [import-source-lacks] {lacking}: " in said
    assert "Skipped: [import-offsets-counted] offsets: " in said
    assert f"Skipped: [import-offsets-unexplained] 10 offsets of {topic}-2 between 0 and 89: " in said
    assert main(["verify", "--store", store.as_uri()]) == 0
    assert restore(broker, store) == 0
    keyed = [(row.key, row.value) for row in every]
    assert [found[:2] for found in read(broker, topic, 0)] == keyed
    assert [found[:2] for found in read(broker, topic, 2)] == keyed[:50] + keyed[60:90]
    assert {found[2:] == ([], NO_TIME) for found in read(broker, topic, 0)} == {True}


def test_offsets_that_come_twice_or_not_at_all(broker: Broker, tmp_path: Path, capsys: Said) -> None:
    """A backup that was killed writes again what it had; compaction and markers leave holes."""
    topic = clients.unique("odd")
    theirs = KafkaBackup(tmp_path / "theirs")
    theirs.add(topic, 0, rows(0, 100))
    theirs.add(topic, 0, rows(50, 150))
    theirs.add(topic, 0, rows(60, 70))
    theirs.add(topic, 0, rows(160, 200, 2))
    theirs.gap(topic, 0, 155, 158)
    theirs.gap(topic, 0, 300, 310)
    theirs.gap(topic, 1, 0, 10)
    store = tmp_path / "store"
    assert imported(theirs.finish({}), store) == 3
    said = capsys.readouterr().out
    assert f"{topic}-0: 60 duplicate records" in said
    # 150 to 154, 158 and 159, 19 between the last ones, 199 to 299.
    holes = f"{5 + 2 + 19 + 101} offsets of {topic}-0 between 0 and 309"
    assert f"Skipped: [import-offsets-unexplained] {holes}: " in said
    assert f"{topic}-0: offsets 155 to 157 were deleted before they were backed up." in said
    assert f"{topic}-0: offsets 300 to 309 were deleted before they were backed up." in said
    assert f"{topic}-1: offsets 0 to 9 were deleted before they were backed up." in said
    assert main(["verify", "--store", store.as_uri()]) == 0
    assert restore(broker, store) == 0
    assert read(broker, topic, 0) == told(rows(0, 150) + rows(160, 200, 2))
    assert read(broker, topic, 1) == []


def test_others_at_the_same_offsets_are_named(tmp_path: Path, capsys: Said) -> None:
    """As of a topic that was recreated, and backed up on to the same place."""
    theirs = KafkaBackup(tmp_path / "theirs")
    theirs.add("a", 0, rows(0, 100))
    same = rows(90, 110)
    others = [row._replace(value=b"another") for row in same[:4]] + [same[4]._replace(time=TIME + 5000)]
    theirs.add("a", 0, others + same[5:])
    assert imported(theirs.finish({}), tmp_path / "store") == 3
    said = capsys.readouterr().out
    assert "a-0: 10 duplicate records" in said
    assert "Skipped: [import-records-differ] 5 records of a-0: " in said


def refused(tmp_path: Path, source: str, capsys: Said, layout: str = "kafka-backup") -> str:
    """Import what can't be; return the sentence, and see that nothing counts."""
    store = tmp_path / "refused"
    code = imported(source, store, layout)
    said = capsys.readouterr().err
    assert not list(store.glob("snapshots/*"))
    shutil.rmtree(store, ignore_errors=True)
    sentence = said.splitlines()[-1]
    assert sentence.startswith("aqueduct: ")
    return f"{code}: {sentence}"


def test_import_refuses_unknown_source_and_fails_on_damage(tmp_path: Path, capsys: Said) -> None:
    theirs = KafkaBackup(tmp_path / "theirs")
    path = theirs.add("a", 0, rows(0, 50))
    url = theirs.finish({"g": {"a": {"0": 3}}})
    whole = path.read_bytes()

    path.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    damaged = "1: aqueduct: [import-file-damaged] "
    error = refused(tmp_path, url, capsys)
    assert (error.startswith(damaged), "CRC" in error) == (True, True), error
    path.unlink()
    missing = "1: aqueduct: [import-file-missing] topics/a/partition=0/"
    assert refused(tmp_path, url, capsys).startswith(missing)
    path.write_bytes(whole[:-1])
    error = refused(tmp_path, url, capsys)
    assert (error.startswith(damaged), f"{len(whole) - 1} bytes" in error) == (True, True), error
    path.write_bytes(segment(rows(0, 50), 1, version=2)[0])
    error = refused(tmp_path, url, capsys)
    unknown = "2: aqueduct: [import-source-unknown] "
    assert (error.startswith(unknown), "4b42414b0201" in error) == (True, True), error
    data = bytearray(whole)
    data[8:16] = struct.pack("<Q", 49)
    path.write_bytes(bytes(data[:-8]) + struct.pack("<I", zlib.crc32(data[:-8])) + b"BKAE")
    error = refused(tmp_path, url, capsys)
    assert (error.startswith(damaged), "49 records at offsets 0 to 49" in error) == (True, True), error
    path.write_bytes(whole)

    manifest = theirs.folder / "manifest.json"
    good_manifest = manifest.read_text()
    for key in ("//etc/passwd", "/./a", "/../a", "/a/..", "/a\\u0000b", "/"):
        told = good_manifest.replace('"key": "nightly/', f'"key": "nightly{key}", "was": "')
        manifest.write_text(re.sub(', "was": "[^"]*"', "", told))
        assert refused(tmp_path, url, capsys).startswith("2: aqueduct: [import-manifest-invalid] ")

    told = json.loads(good_manifest) | {"topics": []}
    manifest.write_text(json.dumps(told))
    assert refused(tmp_path, url, capsys).startswith(unknown)

    theirs.finish({}, format_version=3)
    error = refused(tmp_path, url, capsys)
    assert (error.startswith(unknown), "format_version" in error) == (True, True), error
    (theirs.folder / "manifest.json").unlink()
    assert refused(tmp_path, url, capsys).startswith(unknown)
    inside = refused(tmp_path, (tmp_path / "refused/x").as_uri(), capsys)
    assert inside.startswith("2: aqueduct: [folder-inside-store] ")

    sink = tmp_path / "sink"
    file = s3_binary(sink, "a", 0, [Row(0, 0, b"k", b"v" * 30)])
    good = file.read_bytes()
    file.write_bytes(good[:-1])
    error = refused(tmp_path, sink.as_uri(), capsys, "s3-binary")
    assert (error.startswith(damaged), "byte 0" in error) == (True, True), error
    file.write_bytes(b"")
    assert refused(tmp_path, sink.as_uri(), capsys, "s3-binary").startswith(damaged)
    file.write_bytes(b"value only")
    assert refused(tmp_path, sink.as_uri(), capsys, "s3-binary").startswith(damaged)
    file.write_bytes(good)
    (file.parent / "12.json").write_text("{}")
    error = refused(tmp_path, sink.as_uri(), capsys, "s3-binary")
    assert (error.startswith(unknown), "12.json" in error) == (True, True), error
    assert refused(tmp_path, (tmp_path / "nothing").as_uri(), capsys, "s3-binary").startswith(unknown)


def test_it_goes_into_a_new_store_alone(tmp_path: Path, capsys: Said) -> None:
    theirs = KafkaBackup(tmp_path / "theirs")
    theirs.add("a", 0, rows(0, 5))
    url, store = theirs.finish(), tmp_path / "store"
    assert imported(url, store) == 3
    assert "Skipped: [import-source-lacks] consumer groups: " in capsys.readouterr().out
    assert imported(url, store) == 2
    assert printed(capsys.readouterr().err)[-1:] == ["import-store-not-empty"]


content = st.none() | st.binary(max_size=200)
row = st.builds(
    Row,
    st.just(0),
    st.integers(-1, 1 << 60),
    content,
    content,
    st.lists(st.tuples(st.text(max_size=20), content), max_size=5),
)


@given(st.lists(row, min_size=1, max_size=40), st.lists(st.integers(1, 1 << 33), min_size=40, max_size=40))
def test_any_record_keeps_all_that_it_has(records: list[Row], steps: list[int]) -> None:
    offsets = [sum(steps[: n + 1]) for n in range(len(records))]
    written = [each._replace(offset=at) for each, at in zip(records, offsets, strict=True)]
    data, _ = segment(written, 2)
    file = ForeignFile("x", len(data), offsets[-1], offsets[0], len(written))
    found = kafka_backup.read(memoryview(data), file, "store").records
    decoded = [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for batch in batches(found)
        for each in clients.decoded(batch.data.tobytes())
    ]
    assert decoded == [
        (each.offset, each.time, each.key, each.value, [*map(tuple, each.headers)]) for each in written
    ]
