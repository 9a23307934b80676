"""Drills: from a real S3 server into a real scratch cluster, beside a live one."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit.clients import create, produce
from kit.cut_logs import cut_partitions
from kit.identifiers import printed
from prometheus_client.parser import text_string_to_metric_families

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.drill import run as drill_run
from aqueduct.snapshots.drill.scratch import RACK
from aqueduct.snapshots.restore import run as restore
from servers import broker as broker_server
from servers.broker import Broker
from servers.object_store import Gateway

Drill = Callable[..., dict[str, Any]]
Said = pytest.CaptureFixture[str]
NOW = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ODD: list[dict[str, Any]] = [
    {
        "key": b"twice",
        "value": b"a",
        "headers": [("h", b"1"), ("h", b"2"), ("g", b""), ("n", None), ("ü", b"3")],
    },
    {"key": None, "value": b"no key"},
    {"key": b"", "value": b"empty key"},
    {"key": b"gone", "value": None},
    {"key": b"empty", "value": b""},
    {"key": None, "value": None},
    {"key": b"old", "value": b"1", "timestamp": 1_000},
    {"key": b"large", "value": bytes(range(256)) * 3000},
]


@pytest.fixture(scope="module")
def scratch_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"broker.rack": RACK, "log.cleaner.enable": "false"}
    with broker_server.running(tmp_path_factory.mktemp("scratch"), settings=settings) as running:
        yield running


@pytest.fixture
def scratch(scratch_broker: Broker) -> Iterator[Broker]:
    """Yield the scratch cluster, which is empty, as the one that is started for each drill is."""
    yield scratch_broker
    there = topics(scratch_broker)
    for name in there:
        clients.forget(scratch_broker, name)
    clients.wait_for("an empty scratch cluster", lambda: not topics(scratch_broker))
    asked = clients.admin(scratch_broker)
    known = [each.group_id for each in asked.list_consumer_groups().result().valid]
    for future in (asked.delete_consumer_groups(known) if known else {}).values():
        future.result()


def topics(broker: Broker) -> set[str]:
    return {name for name in clients.topics(broker) if not name.startswith("__")}


@pytest.fixture
def name() -> str:
    return clients.unique("drilled")


@pytest.fixture
def store(s3: Gateway, name: str) -> str:
    return f"s3://store/{name}"


@pytest.fixture
def backup(source: Broker, store: str, name: str) -> Callable[..., None]:
    def run(*more: str) -> None:
        argv = ["backup", "--bootstrap-server", source.plaintext, "--store", store]
        argv += ["--topics-pattern", f"{name}.*", "--segment-bytes", "3000"]
        assert main([*argv, *more]) == ExitCode.DONE

    return run


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    return tmp_path / "aqueduct_drill.prom"


@pytest.fixture
def drill(scratch: Broker, store: str, tmp_path: Path, metrics: Path) -> Drill:
    def run(*more: str, code: ExitCode = ExitCode.DONE, at: Broker = scratch) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        argv = ["drill", "--bootstrap-server", at.plaintext, "--store", store, "--report", str(report)]
        assert main([*argv, "--metrics-file", str(metrics), *more]) == code
        return dict(json.loads(report.read_text()))

    return run


def figures(path: Path) -> dict[str, float]:
    families = text_string_to_metric_families(path.read_text())
    return {
        sample.name.removeprefix("aqueduct_drill_")
        + "".join(f".{value}" for value in sample.labels.values()): (sample.value)
        for family in families
        for sample in family.samples
    }


def commit(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        places = {TopicPartition(*place): (offset, "") for place, offset in offsets.items()}
        groups.commit(client, group, places)


def read(broker: Broker, topic: str, partition: int = 0) -> list[clients.Record]:
    return [clients.record(message) for message in clients.read(broker, topic, partition)]


def fill(source: Broker, name: str) -> None:
    """Fill topics with records of every kind, transactions, codecs, a tail that was aborted, and groups."""
    create(source, name, 2)
    odd = [{"timestamp": NOW - number, **each} for number, each in enumerate(ODD)]
    for codec in CODECS:
        produce(source, name, odd, **{"compression.type": codec})
    create(source, f"{name}.transactions")
    clients.transaction(source, f"{name}.transactions", [{"value": b"%d" % n} for n in range(5)], "commit")
    clients.transaction(source, f"{name}.transactions", [{"value": b"never"}] * 3, "abort")
    create(source, f"{name}.by-broker", message_timestamp_type="LogAppendTime")
    produce(source, f"{name}.by-broker", range(10))
    create(source, f"{name}.empty")
    create(source, f"{name}.compacted", cleanup_policy="compact")
    produce(source, f"{name}.compacted", [{"key": f"{n % 3}", "value": f"{n}"} for n in range(30)])
    commit(source, f"{name}-group", {(name, 0): 17, (f"{name}.transactions", 0): 2})


def test_a_good_drill(
    source: Broker,
    scratch: Broker,
    name: str,
    backup: Callable[..., None],
    drill: Drill,
    metrics: Path,
    capsys: Said,
) -> None:
    fill(source, name)
    backup()
    produce(source, name, ["after the backup"] * 7, 1)
    started = metrics.with_name("started")
    started.mkdir()
    capsys.readouterr()
    report = drill("--live-bootstrap-server", source.plaintext, "--started", str(started))
    said = capsys.readouterr().out
    assert said.endswith("The drill succeeded.\n")
    for topic in (f"{name}.transactions", f"{name}.by-broker", f"{name}.compacted"):
        assert [each[:3] for each in read(scratch, topic)] == [each[:3] for each in read(source, topic)] != []
    assert read(scratch, name) == read(source, name)
    assert len(read(source, name)) == 5 * len(ODD)
    assert report["exit_code"] == 0
    assert report["records"] == 5 * len(ODD) + 5 + 10 + 30
    assert report["reconciled"] == {"partitions": 6, "records": report["records"], "unequal": []}
    assert report["live"]["unequal"] == []
    assert report["live"]["cut"] == []
    assert report["live"]["records"] == report["records"]
    assert report["live"]["offsets_behind"][name] == 7 == sum(report["live"]["offsets_behind"].values())
    # A user of the group was given what comes next at the source.
    assert report["consumed"] == {
        "group": f"{name}-group", "group_of_snapshot": True, "topic": name, "partition": 0,
        "stored_offset": 17, "offset": 17, "right": True,
    }  # fmt: skip
    assert clients.committed(scratch, f"{name}-group")[name, 0] == 18
    # The newest record of each topic, and of all; the topic by its broker is of now.
    assert report["newest_records"][name] == "2023-11-14T22:13:20.000Z"
    assert report["newest_records"][f"{name}.empty"] is None
    assert 0 <= report["newest_record_age_seconds"] < 600
    assert report["newest_record_age_seconds"] >= report["snapshot_age_seconds"] > 0
    phases = ("start", "verify", "restore", "reconcile", "consume")
    assert all(report["seconds"][phase] > 0 for phase in (*phases, "live"))
    assert report["recovery_seconds"] == pytest.approx(sum(report["seconds"][phase] for phase in phases))
    found = figures(metrics)
    assert metrics.stat().st_mode & 0o777 == 0o644
    assert found["exit_code"] == found["left_out"] == found["unequal"] == found["live_unequal"] == 0
    assert found["succeeded_time"] == found["time"] > 1_700_000_000
    assert found["records"] == report["records"]
    assert found["live_behind"] == 7
    assert found["seconds.restore"] == pytest.approx(report["seconds"]["restore"])


def objects(s3: Gateway, name: str) -> list[Path]:
    return sorted(path for path in (s3.bucket("store") / name / "topics").rglob("*.log*") if path.is_file())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    with path.open("r+b") as file:  # not another file: the server keeps what it knows of it beside it
        file.write(data)


def test_one_flipped_byte_makes_it_fail_loudly(
    source: Broker, scratch: Broker, s3: Gateway, name: str, backup: Callable[..., None], drill: Drill,
    metrics: Path, capsys: Said,
) -> None:  # fmt: skip
    create(source, name)
    produce(source, name, range(1000))
    backup()
    good = drill()
    assert good["exit_code"] == 0
    before = figures(metrics)["succeeded_time"]
    clients.delete(scratch, name)
    clients.wait_for("an empty scratch cluster", lambda: not topics(scratch))
    damaged = objects(s3, name)[-1]
    flip(damaged)
    capsys.readouterr()
    report = drill(code=ExitCode.FAILED)
    err = capsys.readouterr().err
    assert printed(err) == [report["error"]["id"]] == ["checksum-mismatch"]
    assert damaged.name in report["error"]["message"]
    assert [each["id"] for each in report["left_out"]] == ["checksum-mismatch"]
    assert report["exit_code"] == 1
    assert topics(scratch) == set(), "something was restored of a damaged store"
    found = figures(metrics)
    assert (found["exit_code"], found["succeeded_time"]) == (1, before)
    assert found["time"] > before
    assert "records" not in found, "figures of the drill before look like this one's"


def test_what_is_no_scratch_cluster_is_refused(
    source: Broker, target: Broker, scratch: Broker, store: str, name: str, backup: Callable[..., None],
    drill: Drill, capsys: Said,
) -> None:  # fmt: skip
    create(source, name)
    produce(source, name, range(10))
    backup()
    for live_one in (source, target):
        before = topics(live_one)
        drill(code=ExitCode.REFUSED, at=live_one)
        error = capsys.readouterr().err
        assert (printed(error)[-1:], "broker.rack of broker 1" in error) == (["scratch-cluster-wrong"], True)
        assert topics(live_one) == before
    create(scratch, "somebody-s")
    produce(scratch, "somebody-s", ["precious"])
    drill(code=ExitCode.REFUSED)
    error = capsys.readouterr().err
    assert (printed(error)[-1:], "1 topic already (somebody-s)" in error) == (
        ["scratch-cluster-not-empty"],
        True,
    )
    assert topics(scratch) == {"somebody-s"}
    argv = [
        "backup",
        "--bootstrap-server",
        scratch.plaintext,
        "--store",
        f"{store}-own",
        "--topics",
        "somebody-s",
    ]
    assert main(argv) == 0
    argv = ["drill", "--bootstrap-server", scratch.plaintext, "--store", f"{store}-own"]
    assert main(argv) == ExitCode.REFUSED
    assert printed(capsys.readouterr().err)[-1:] == ["scratch-cluster-wrong"]
    assert [value for _, value, *_ in read(scratch, "somebody-s")] == [b"precious"]


def meddling(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], object]) -> None:
    """Do something to the scratch cluster as soon as the restore has ended."""
    main_ = restore.main

    def run(*arguments: Any) -> Any:
        outcome = main_(*arguments)
        meddle()
        return outcome

    monkeypatch.setattr(drill_run.restore, "main", run)


def test_what_came_back_otherwise_fails_the_drill(
    source: Broker, scratch: Broker, name: str, backup: Callable[..., None], drill: Drill,
    monkeypatch: pytest.MonkeyPatch, capsys: Said,
) -> None:  # fmt: skip
    create(source, name)
    produce(source, name, range(10))
    backup()
    meddling(monkeypatch, lambda: produce(scratch, name, ["one too many"]))
    report = drill(code=ExitCode.FAILED)
    assert len(report["reconciled"]["unequal"]) == 1
    out = capsys.readouterr().out
    assert f"{name}-0: 1 record of the scratch cluster is not in the store, first at" in out
    assert out.splitlines()[-1].startswith("THE DRILL FAILED:")


def test_a_group_that_stands_elsewhere_fails_the_drill(
    source: Broker, scratch: Broker, name: str, backup: Callable[..., None], drill: Drill,
    monkeypatch: pytest.MonkeyPatch, capsys: Said,
) -> None:  # fmt: skip
    create(source, name)
    produce(source, name, range(10))
    commit(source, f"{name}-group", {(name, 0): 4})
    backup()
    meddling(monkeypatch, lambda: commit(scratch, f"{name}-group", {(name, 0): 5}))
    report = drill(code=ExitCode.FAILED)
    assert (report["consumed"]["right"], report["consumed"]["stored_offset"]) == (False, 4)
    assert report["consumed"]["offset"] > 4
    assert f"Group {name}-group received AN UNEXPECTED RECORD of {name}-0" in capsys.readouterr().out


def test_drill_without_usable_group_reads_from_beginning(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    create(source, name, 2)
    produce(source, name, range(10), 1)
    commit(source, f"{name}-at-the-end", {(name, 1): 10})
    backup()
    report = drill()
    assert report["consumed"]["group_of_snapshot"] is False
    assert (report["consumed"]["partition"], report["consumed"]["stored_offset"]) == (1, 0)


def test_only_topics_that_are_asked_for(
    source: Broker, scratch: Broker, name: str, backup: Callable[..., None], drill: Drill, capsys: Said
) -> None:
    for topic in (f"{name}.a", f"{name}.b", f"{name}.c"):
        create(source, topic)
        produce(source, topic, range(3))
    backup()
    report = drill("--topics-pattern", rf"{name}\.[ab]")
    assert topics(scratch) == {f"{name}.a", f"{name}.b"}
    assert report["topics_not_asked_for"] == 1
    assert "1 topic of the snapshot not selected." in capsys.readouterr().out


def test_pattern_part_that_matches_nothing_is_named(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    create(source, f"{name}.a")
    produce(source, f"{name}.a", range(3))
    backup()
    report = drill("--topics-pattern", rf"{name}\.a|{name}\.tpyo", code=ExitCode.INCOMPLETE)
    assert [(skipped["id"], skipped["what"]) for skipped in report["left_out"]] == [
        ("pattern-matches-nothing", rf"topics {name}\.tpyo")
    ]


def test_an_encrypted_store(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill, tmp_path: Path, capsys: Said
) -> None:
    for key in ("reader", "host"):
        argv = ["diode", "keygen", "--kind", "receiver", "--out", str(tmp_path), "--name", key]
        assert main(argv) == 0
    create(source, name)
    produce(source, name, range(100))
    backup("--recipient", str(tmp_path / "reader.pub"), "--private-key", str(tmp_path / "host.key"))
    drill("--private-key", str(tmp_path / "host.key"), code=ExitCode.REFUSED)
    assert drill("--private-key", str(tmp_path / "reader.key"))["records"] == 100


# Beside the live cluster


def test_records_deleted_from_live_cluster_are_no_difference(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    create(source, name)
    produce(source, name, range(20))
    backup()
    clients.delete_records(source, name, 12)
    report = drill("--live-bootstrap-server", source.plaintext)
    assert report["live"]["records"] == 8
    assert report["live"]["unequal"] == []


def await_compaction(source: Broker, name: str) -> None:
    """Write until only the newest record of each of three keys remains."""

    def compacted() -> bool:
        time.sleep(0.3)  # the cleaner looks every three seconds
        produce(source, name, [{"key": "other", "value": "x"}])
        return len([each for each in read(source, name) if each[0] != b"other"]) == 3

    clients.wait_for("compaction", compacted)


def test_compaction_is_no_difference(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill, capsys: Said
) -> None:
    compaction = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "100"}
    create(source, name, cleanup_policy="compact", **compaction)
    produce(source, name, [{"key": f"{n % 3}", "value": f"{n}"} for n in range(30)])
    backup()

    await_compaction(source, name)
    report = drill("--live-bootstrap-server", source.plaintext)
    assert report["live"]["thinned_partitions"] == 1
    assert "1 partition of compacted topics" in capsys.readouterr().out


def test_records_missing_in_uncompacted_topic_are_a_difference(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill, capsys: Said
) -> None:
    """Somebody compacted it for a while: what is gone in the middle of it was not to go."""
    create(source, name, min_cleanable_dirty_ratio="0.001", segment_ms="100")
    produce(source, name, [{"key": f"{n % 3}", "value": f"{n}"} for n in range(30)])
    backup()
    clients.configure(source, name, cleanup_policy="compact")

    await_compaction(source, name)
    clients.configure(source, name, cleanup_policy="delete")
    report = drill("--live-bootstrap-server", source.plaintext, code=ExitCode.INCOMPLETE)
    assert report["live"]["thinned_partitions"] == 0
    assert len(report["live"]["unequal"]) == 1
    assert f"{name}-0: 27 records of the store are not in the live cluster" in capsys.readouterr().out


def test_another_topic_of_the_name_is_left_out(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    create(source, name)
    produce(source, name, range(5))
    create(source, f"{name}.gone")
    backup()
    clients.recreate(source, name)
    produce(source, name, range(100, 120))  # beyond the offsets of the backup
    clients.delete(source, f"{name}.gone")
    report = drill("--live-bootstrap-server", source.plaintext, code=ExitCode.INCOMPLETE)
    # All that is left was recreated or is gone, so nothing was compared.
    assert [each["id"] for each in report["left_out"]] == ["topic-recreated"]


def test_deleted_topic_is_reported_without_failing_drill(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    for topic in (name, f"{name}.gone"):
        create(source, topic)
        produce(source, topic, range(5))
    backup()
    clients.delete(source, f"{name}.gone")
    report = drill("--live-bootstrap-server", source.plaintext)
    assert (report["live"]["gone"], report["live"]["records"]) == ([f"{name}.gone"], 5)


def test_another_cluster_is_not_compared(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    create(source, name)
    produce(source, name, range(5))
    backup()
    report = drill("--live-bootstrap-server", target.plaintext, code=ExitCode.INCOMPLETE)
    [left_out] = report["left_out"]
    assert target.cluster_id in left_out["why"]
    assert source.cluster_id in left_out["why"]
    assert report["live"]["partitions"] == 0


def test_drill_reports_changed_and_cut_live_partitions(
    source: Broker, name: str, backup: Callable[..., None], drill: Drill
) -> None:
    """As after an unclean election of a leader. One partition grows again past the end of the snapshot."""
    create(source, name, 2)
    for partition, cut in ((0, 4), (1, 6)):
        produce(source, name, range(cut), partition)
        produce(source, name, range(cut, 10), partition)
    backup()
    cut_partitions(source, name, {0: 4, 1: 6})
    produce(source, name, range(100, 120))
    report = drill("--live-bootstrap-server", source.plaintext, code=ExitCode.INCOMPLETE)
    assert [each["what"] for each in report["live"]["unequal"]] == [f"{name}-0"]
    assert report["live"]["cut"] == [f"{name}-1 ends at 6 in the live cluster, and at 10 in the snapshot"]


# reconcile --store STORE


def test_a_store_as_a_source(
    source: Broker,
    target: Broker,
    store: str,
    name: str,
    backup: Callable[..., None],
    capsys: Said,
) -> None:
    create(source, name, 2)
    odd = [{"timestamp": NOW - number, **each} for number, each in enumerate(ODD)]
    for codec in CODECS:
        produce(source, name, odd * 2, **{"compression.type": codec})
    backup()
    produce(source, name, ["of the next snapshot"], 1)
    backup()
    compared = ["reconcile", "--store", store, "--topics", name, "--target-bootstrap-server"]
    assert main([*compared, source.plaintext]) == 0
    records = 2 * len(CODECS) * len(ODD) + 1
    assert f"2 partitions, none unequal; {records} records in" in capsys.readouterr().out
    assert main([*compared, source.plaintext, "--snapshot", "1"]) == ExitCode.INCOMPLETE
    assert "1 record of the target is not in the source, first at target offset 0" in capsys.readouterr().out
    assert main([*compared, target.plaintext]) == ExitCode.INCOMPLETE
    assert f"{name}: this topic does not exist at the target" in capsys.readouterr().out
