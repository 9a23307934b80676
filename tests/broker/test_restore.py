"""Backed up from one cluster and restored into another, as an independent client sees both."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kit import clients
from kit.clients import Record, committed, consumer, create
from kit.cut_logs import cut_log
from kit.identifiers import printed

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka import produce as kafka_produce
from aqueduct.kafka.acls import Acl, AclChanges
from aqueduct.kafka.admin.acls import apply_acls, list_acls
from aqueduct.kafka.admin.quotas import apply_quotas, list_quotas
from aqueduct.kafka.admin.settings import own_settings
from aqueduct.kafka.admin.topics import apply_topics
from aqueduct.kafka.batches import produce as produce_batches
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer
from aqueduct.kafka.quotas import Quota
from aqueduct.kafka.topics import TopicChanges
from aqueduct.link.feed import Feed
from aqueduct.link.wire import position
from aqueduct.link.wire.position import SenderPosition
from aqueduct.mirror.status import SOURCE_CONNECTOR
from aqueduct.snapshots.restore import records
from aqueduct.snapshots.restore import settings as topic_settings
from servers.broker import Broker

Backup = Callable[..., None]
Run = Callable[..., dict[str, Any]]
Said = pytest.CaptureFixture[str]
NOW = 1_700_000_000_000
CREATE_TIME = 1
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def name() -> str:
    return clients.unique("restore")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture
def backup(source: Broker, store: str) -> Backup:
    def run(*topics: str, code: ExitCode = ExitCode.DONE, groups_pattern: str | None = None) -> None:
        argv = ["backup", "--bootstrap-server", source.plaintext, "--store", store]
        argv += ["--topics", ",".join(topics), "--segment-bytes", "3000"]
        argv += ["--groups-pattern", groups_pattern] if groups_pattern else []
        assert main(argv) == code

    return run


@pytest.fixture
def restore(target: Broker, store: str, tmp_path: Path) -> Run:
    def run(*argv: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        common = ["restore", "--bootstrap-server", target.plaintext, "--store", store]
        assert main([*common, "--report", str(report), *argv]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    return run


def held(topic: str) -> list[dict[str, Any]]:
    """Return what a report says of the topic's retention while it is not set back."""
    return [{"id": "retention-held", "topic": topic, "settings": {"retention.ms": "100000"}}]


def skipped(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["id"], each["what"]) for each in report["left_out"]]


def settings(broker: Broker, topic: str) -> dict[str, str]:
    with raw.connect(End("cluster", broker.plaintext), "test") as admin:
        return own_settings(admin, [topic])[topic]


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **config: Any) -> None:
    """Write values, or arguments of produce; five records in a batch."""
    batches = {"linger.ms": 100, "batch.num.messages": 5}
    clients.produce(broker, topic, map(stamped, values), partition, **batches | config)


def transaction(
    broker: Broker, topic: str, values: Iterable[Any], *, commit: bool, partition: int = 0
) -> None:
    clients.transaction(broker, topic, map(stamped, values), "commit" if commit else "abort", partition)


def stamped(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": str(value), "timestamp": NOW}


def read(broker: Broker, topic: str, partition: int = 0, start: int | None = None) -> list[Record]:
    return [record for _, record in numbered(broker, topic, partition, start)]


def numbered(
    broker: Broker, topic: str, partition: int = 0, start: int | None = None
) -> list[tuple[int, Record]]:
    return [
        (message.offset() or 0, clients.record(message))
        for message in clients.read(broker, topic, partition, start=start)
    ]


def commit(broker: Broker, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
    with raw.connect(End("source", broker.plaintext), "test") as client:
        groups.commit(
            client, group, {TopicPartition(*place): (offset, metadata) for place, offset in offsets.items()}
        )


def commit_each(broker: Broker, topic: str, offsets: Iterable[int]) -> None:
    """Commit each of these offsets of partition 0 for a group of its own."""
    with raw.connect(End("source", broker.plaintext), "test") as client:
        for offset in offsets:
            offsets_of_group = {TopicPartition(topic, 0): (offset, f"at {offset}")}
            groups.commit(client, f"{topic}-{offset}", offsets_of_group)


def end(broker: Broker, topic: str, partition: int = 0) -> int:
    return clients.ends(broker, topic, partition, isolation="read_committed")[0]


ODD_RECORDS: list[dict[str, Any]] = [
    {"key": b"twice", "value": b"a", "headers": [("h", b"1"), ("h", b"2"), ("g", b""), ("n", None)]},
    {"key": None, "value": b"no key"},
    {"key": b"", "value": b"empty key"},
    {"key": b"gone", "value": None},
    {"key": b"empty", "value": b""},
    {"key": None, "value": None},
    {"key": b"old", "value": b"1", "timestamp": 1_000},
    {"key": b"first", "value": b"2", "timestamp": 1},
    {"key": b"late", "value": b"3", "timestamp": NOW * 2},
    {"key": b"large", "value": bytes(range(256)) * 3000},
]


def test_every_kind_of_record_is_restored_unchanged(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    """One log has batches of each codec."""
    unlimited = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
    create(source, name, 2, **unlimited)
    odd = [{"timestamp": NOW - number, **each} for number, each in enumerate(ODD_RECORDS)]
    for codec in CODECS:
        produce(source, name, odd * 3, **{"compression.type": codec})
    backup(name)
    report = restore("--topics", name)
    assert read(target, name) == read(source, name)
    written = 3 * len(ODD_RECORDS) * len(CODECS)
    assert len(read(target, name)) == written
    assert read(target, name, 1) == []
    assert [each["records"] for each in report["partitions"]] == [written, 0]
    assert settings(target, name).keys() >= unlimited.keys()


@pytest.mark.usefixtures("each_task_twice")
def test_repeated_restore_tasks_count_records_once(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, capsys: Said
) -> None:
    create(source, name, 2)
    for partition in range(2):
        produce(source, name, range(20), partition)
    backup(name)
    capsys.readouterr()
    report = restore("--topics", name)
    assert [each["records_now"] for each in report["partitions"]] == [20, 20]
    assert [each["bytes_now"] for each in report["partitions"]] == [
        each["bytes"] for each in report["partitions"]
    ]
    assert "of which this run wrote" not in capsys.readouterr().out


def test_names_of_every_form(source: Broker, target: Broker, backup: Backup, restore: Run) -> None:
    stem = uuid4().hex[:6]
    names = [f"{stem}.a-b_c", f"{stem}-", stem * 41 + "xyz", f"{stem}.snapshots"]
    assert max(map(len, names)) == 249
    for name in names:
        create(source, name)
        produce(source, name, [name])
    backup(*names)
    restore("--topics", ",".join(names))
    for name in names:
        assert [value for _, value, _, _ in read(target, name)] == [name.encode()]


def test_group_continues_at_next_record_from_any_position(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    """Check holes by markers and aborted transactions, in topics that have records already, renamed."""
    create(source, name)
    produce(source, name, range(12))
    transaction(source, name, range(12, 20), commit=True)
    transaction(source, name, ["never"] * 5, commit=False)
    produce(source, name, range(20, 23))
    transaction(source, name, range(23, 30), commit=True)
    there = numbered(source, name)
    last = end(source, name)
    commit_each(source, name, range(last + 1))
    renamed = f"{name}-renamed"
    create(target, renamed)
    transaction(target, renamed, ["before"] * 3, commit=True)
    transaction(target, renamed, ["gone"] * 3, commit=False)
    backup(name)
    # Records of transactions are there before the backup: by default they may be an earlier restore's.
    report = restore("--topics", f"{name}:{renamed}", "--append", "--restore-id", f"anew-{uuid4().hex}")
    here = numbered(target, renamed)[3:]
    assert [record for _, record in here] == [record for _, record in there]
    offsets = [offset for offset, _ in here]
    admin, stop = clients.admin(target), end(target, renamed)
    for offset in range(last + 1):
        rank = sum(known < offset for known, _ in there)
        expected = offsets[rank] if rank < len(offsets) else stop
        assert committed(target, f"{name}-{offset}", asked=admin) == {(renamed, 0): expected}
    with raw.connect(End("target", target.plaintext), "test") as client:
        found = groups.committed(client, [f"{name}-3"])
    assert found == {f"{name}-3": {(renamed, 0): (offsets[3], "at 3")}}
    assert len(report["groups"]) == last + 1


def test_a_compacted_topic_and_its_groups(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    compaction = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "1", "delete_retention_ms": "0"}
    create(source, name, cleanup_policy="compact", **compaction)
    for number in range(6):
        produce(source, name, [{"key": f"{key}", "value": f"{number}"} for key in range(number, 10)])
        time.sleep(0.01)

    def compacted() -> bool:
        produce(source, name, [{"key": "9", "value": uuid4().hex}])  # in a new segment: the last is cleaned
        return len(numbered(source, name)) <= 15

    clients.wait_for("compaction", compacted)
    # No more of it at the source, so that the backup has what is read.
    clients.configure(source, name, min_cleanable_dirty_ratio="1.0")
    last = end(source, name)
    commit_each(source, name, range(last + 1))
    backup(name, groups_pattern=f"{name}-.*")
    there = numbered(source, name)
    restore("--topics", name, "--groups-pattern", f"{name}-.*")
    # Compaction may continue at both ends; but a group's next record is the next that the backup had.
    here = {record[:2]: offset for offset, record in numbered(target, name)}
    admin = clients.admin(target)
    for offset in range(last + 1):
        following = [record for known, record in there if known >= offset]
        if following and following[0][:2] in here:
            found = committed(target, f"{name}-{offset}", asked=admin)
            assert found == {(name, 0): here[following[0][:2]]}
    assert settings(target, name)["cleanup.policy"] == "compact"


def test_settings_come_back_and_retention_waits_for_leave(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    mine = {
        "retention.ms": "100000",
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "lz4",
        "max.message.bytes": "200000",
        "min.insync.replicas": "3",
    }
    create(source, name, **{**mine, "message.timestamp.type": "CreateTime", "retention.ms": "-1"})
    create(source, f"{name}.new")
    produce(source, name, range(10))
    with raw.connect(End("cluster", source.plaintext), "test") as admin:
        apply_topics(admin, TopicChanges(create=(), grow={}, alter={name: mine}, unmet=()))
    clients.wait_for("the settings", lambda: settings(source, name) == mine)
    backup(name, f"{name}.new")
    report = restore("--topics", f"{name},{name}.new")
    assert report["held"] == held(name)
    assert read(target, name) == read(source, name)
    lowered = {**mine, "min.insync.replicas": "1"}
    assert settings(target, name) == {**lowered, "retention.ms": "-1"}
    assert settings(target, f"{name}.new") == {}
    assert "min-insync-replicas-reduced" in [each["id"] for each in report["warnings"]]
    again = restore("--topics", f"{name},{name}.new")
    assert again["finished_before"]
    assert again["held"] == report["held"]
    released = restore("--topics", f"{name},{name}.new", "--release-retention")
    assert released["held"] == []
    assert settings(target, name) == lowered


@pytest.mark.parametrize("there", [False, True])
def test_log_append_times_are_kept(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, there: bool
) -> None:
    create(source, name, message_timestamp_type="LogAppendTime")
    if there:
        create(target, name, message_timestamp_type="LogAppendTime")
    produce(source, name, range(10))
    backup(name)
    restore("--topics", name)
    there, here = read(source, name), read(target, name)
    assert [(*each[:3], each[3][1]) for each in here] == [(*each[:3], each[3][1]) for each in there]
    assert {each[3][0] for each in here} == {CREATE_TIME}
    assert settings(target, name) == {"message.timestamp.type": "LogAppendTime"}


def test_restore_keeps_times_despite_log_append_time(
    source: Broker,
    target: Broker,
    name: str,
    backup: Backup,
    restore: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that nothing is committed until a broker knows the topic's new setting."""
    create(source, name)
    produce(source, name, range(10))
    backup(name)
    create(target, name, message_timestamp_type="LogAppendTime")
    with monkeypatch.context() as patched:
        patched.delitem(topic_settings._WHILE_RESTORING, "message.timestamp.type")
        patched.setattr(kafka_produce, "RETRY_SECONDS", 2)
        error = restore("--topics", name, "--no-settings", code=ExitCode.FAILED)["error"]
    assert (error["id"], f"{name}-0" in error["message"]) == ("transaction-failed", True)
    assert read(target, name) == []
    with raw.connect(End("cluster", target.plaintext), "test") as admin:
        create_time = {"message.timestamp.type": "CreateTime"}
        apply_topics(admin, TopicChanges(create=(), grow={}, alter={name: create_time}, unmet=()))
    restore("--topics", name, "--no-settings")
    assert read(target, name) == read(source, name)


def test_only_records_inside_the_window_come(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    times = [*range(NOW, NOW + 50), *range(NOW + 20, NOW + 40)]
    produce(source, name, [{"value": str(each), "timestamp": each} for each in times])
    commit_each(source, name, range(len(times) + 1))
    backup(name)
    first, last = NOW + 17, NOW + 33
    report = restore("--topics", name, "--from-time", str(first), "--to-time", "2023-11-14T22:13:20.033Z")
    here = numbered(target, name)
    kept = [offset for offset, each in enumerate(times) if first <= each <= last]
    assert [int(record[1] or b"") for _, record in here] == [times[offset] for offset in kept]
    clamped = {each["old"] for each in report["groups"] if "window" in each.get("note", "")}
    admin, stop = clients.admin(target), end(target, name)
    for offset in range(len(times) + 1):
        rank = sum(known < offset for known in kept)
        expected = here[rank][0] if rank < len(kept) else stop
        assert committed(target, f"{name}-{offset}", asked=admin) == {(name, 0): expected}
        assert (offset in clamped) == (offset < len(times) and offset not in kept)
    notes = {each["old"]: each.get("note", "") for each in report["groups"]}
    assert notes[0].endswith("continues at the next record inside it")
    assert notes[max(kept) + 1].endswith("continues after its last record")


def test_dry_run_of_window_reports_upper_bound(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, capsys: Said
) -> None:
    create(source, name)
    produce(source, name, [{"value": "v", "timestamp": NOW + 1000 * each} for each in range(10)])
    backup(name)
    gap = "--topics", name, "--from-time", str(NOW + 1), "--to-time", str(NOW + 999)
    capsys.readouterr()
    report = restore(*gap, "--dry-run")
    assert (report["at_most"], report["partitions"][0]["records"]) == (True, 10)
    said = capsys.readouterr()
    assert "at most 10 records" in said.err
    assert "would write at most 10 records" in said.out
    restore(*gap)
    assert "No record was restored" in capsys.readouterr().out
    assert read(target, name) == []
    report = restore("--topics", f"{name}:{name}.all", "--dry-run")
    assert (report["at_most"], report["partitions"][0]["records"]) == (False, 10)
    said = capsys.readouterr()
    assert "at most" not in said.err + said.out
    seconds = str(NOW // 1000)
    restore("--topics", name, "--from-time", seconds, code=ExitCode.REFUSED)
    assert f"write {seconds}000" in capsys.readouterr().err


def test_conflicts_and_unknown_names_are_refused_before_writing(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, capsys: Said
) -> None:
    create(source, name, 2)
    create(source, f"{name}.other")
    produce(source, name, range(3))
    produce(source, f"{name}.other", range(3))
    backup(name, f"{name}.other")
    create(target, name, 3)
    error = restore(code=ExitCode.REFUSED)["error"]
    assert error["id"] == "partition-count-mismatch"
    assert f"{name} (3, in the backup 2)" in error["message"]
    create(target, f"{name}.taken")
    produce(target, f"{name}.taken", ["mine"])
    capsys.readouterr()
    error = restore("--topics", f"{name}.other:{name}.taken", code=ExitCode.REFUSED)["error"]
    assert (error["id"], f"{name}.taken-0" in error["message"]) == ("target-not-empty", True)
    assert capsys.readouterr().err.splitlines()[-1] == f"aqueduct: [target-not-empty] {error['message']}"
    assert [value for _, value, _, _ in read(target, f"{name}.taken")] == [b"mine"]
    for options, id_ in (
        (["--topics", "absent"], "snapshot-topic-unknown"),
        (["--topics", name, "--instance", "g7"], "snapshot-instance-unknown"),
        (["--snapshot", "7"], "snapshot-missing"),
    ):
        assert restore(*options, code=ExitCode.REFUSED)["error"]["id"] == id_
    assert restore("--from-time", "yesterday", code=ExitCode.REFUSED) == {}
    assert printed(capsys.readouterr().err)[-1] == "usage-error"
    assert f"{name}.other" not in clients.topics(target)
    report = restore("--dry-run", "--topics", f"{name}.other")
    assert report["dry_run"]
    assert f"{name}.other" not in clients.topics(target)


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_damaged_object_is_found_before_writing(
    source: Broker,
    target: Broker,
    name: str,
    backup: Backup,
    restore: Run,
    tmp_path: Path,
    harm: str,
) -> None:
    create(source, name)
    produce(source, name, range(50))
    backup(name)
    objects = sorted((tmp_path / "store" / "topics" / name).rglob("*.log.zst"))
    victim = objects[-1]
    data = bytearray(victim.read_bytes())
    victim.chmod(0o600)
    if harm == "remove":
        victim.unlink()
    else:
        data[len(data) // 2] ^= 1
        victim.write_bytes(data if harm == "flip" else data[:-1])
    error = restore("--topics", name, code=ExitCode.FAILED)["error"]
    assert error["id"] == ("object-missing" if harm == "remove" else "checksum-mismatch")
    assert victim.name in error["message"]
    assert name not in clients.topics(target)


def test_group_with_members_is_reported_and_restored_later(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, capsys: Said
) -> None:
    create(source, name)
    produce(source, name, range(10))
    for group in ("live", "idle"):
        commit(source, f"{name}.{group}", {(name, 0): 4})
    backup(name)
    create(target, f"{name}.else")
    member = consumer(target, f"{name}.live")
    member.subscribe([f"{name}.else"])
    while not member.assignment():
        member.poll(0.2)
    report = restore("--topics", name, code=ExitCode.INCOMPLETE)
    assert skipped(report) == [("group-has-members", f"group {name}.live")]
    assert [each["group"] for each in report["groups"]] == [f"{name}.idle"]
    assert committed(target, f"{name}.idle") == {(name, 0): 4}
    again = restore("--topics", name, code=ExitCode.INCOMPLETE)
    assert (again["finished_before"], again["left_out"], again["groups"]) == (True, report["left_out"], [])
    member.close()
    capsys.readouterr()
    last = restore("--topics", name)
    assert committed(target, f"{name}.live") == {(name, 0): 4}
    assert committed(target, f"{name}.idle") == {(name, 0): 4}
    assert [(each["group"], each["old"], each["new"]) for each in last["groups"]] == [(f"{name}.live", 4, 4)]
    said = capsys.readouterr().out
    assert "1 group: 1 offset set." in said
    assert "was already complete: 10 records" in said
    assert restore("--topics", name)["groups"] == []


def test_groups_that_were_left_out_come_later(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    compacted = f"{name}.compacted"
    create(source, name)
    create(source, compacted, cleanup_policy="compact")
    for topic in (name, compacted):
        produce(source, topic, [{"key": "k", "value": f"{number}", "timestamp": NOW} for number in range(10)])
    for group in ("a.one", "b.two", "c.three"):
        commit(source, f"{name}.{group}", {(name, 0): 4}, "m")
    commit(source, f"{name}.d", {(compacted, 0): 4})
    backup(name, compacted)
    topics = "--topics", f"{name},{compacted}"
    assert restore(*topics, "--no-groups")["groups"] == []
    report = restore(*topics, "--groups-pattern", f"{name}.a.*")
    assert [(each["group"], each["new"]) for each in report["groups"]] == [(f"{name}.a.one", 4)]
    assert report["finished_before"]
    report = restore(*topics, "--groups-pattern", f"{name}.a.*|{name}-tpyo", code=ExitCode.INCOMPLETE)
    assert skipped(report) == [("pattern-matches-nothing", f"groups {name}-tpyo")]
    # What these have now is theirs: the first continued, the second began before it was asked for.
    commit(target, f"{name}.a.one", {(name, 0): 7})
    commit(target, f"{name}.b.two", {(name, 0): 9})
    report = restore(*topics, code=ExitCode.INCOMPLETE)
    assert [each["group"] for each in report["groups"]] == [f"{name}.c.three"]
    assert skipped(report) == [
        ("restored-records-compacted", f"group {name}.d, {compacted}-0"),
        ("group-has-offsets", f"group {name}.b.two"),
    ]
    assert committed(target, f"{name}.a.one") == {(name, 0): 7}
    assert committed(target, f"{name}.b.two") == {(name, 0): 9}
    assert committed(target, f"{name}.c.three") == {(name, 0): 4}
    assert committed(target, f"{name}.d") == {}


def test_settings_that_were_left_out_come_later(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    mine = {"retention.ms": "100000", "compression.type": "lz4", "max.message.bytes": "200000"}
    create(source, name, **{**mine, "retention.ms": "-1"})
    produce(source, name, [{"key": "k", "value": "v", "timestamp": NOW}])
    with raw.connect(End("cluster", source.plaintext), "test") as admin:
        apply_topics(admin, TopicChanges(create=(), grow={}, alter={name: mine}, unmet=()))
    clients.wait_for("the settings", lambda: settings(source, name) == mine)
    backup(name)
    create(target, name, segment_ms="7777777")
    first = restore("--topics", name, "--no-settings")
    assert (first["held"], settings(target, name)) == ([], {"segment.ms": "7777777"})
    report = restore("--topics", name)
    assert report["settings_of_backup"] == [name]
    assert report["held"] == held(name)
    assert settings(target, name) == {"segment.ms": "7777777", **mine, "retention.ms": "-1"}
    assert len(read(target, name)) == 1
    assert restore("--topics", name)["settings_of_backup"] == []


def test_a_snapshot_of_groups_alone_is_refused(
    source: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    commit(source, f"{name}.group", {(name, 0): 0})
    backup("__consumer_offsets", groups_pattern=f"{name}.*")
    assert restore(code=ExitCode.REFUSED)["error"]["id"] == "snapshot-without-topics"


def test_reserved_or_rejected_target_topics_are_refused(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    backup(name)
    commit(target, f"{name}.group", {})
    create(target, f"{name}.taken")
    before = settings(target, "__consumer_offsets")
    for other, id_ in (
        ("__consumer_offsets", "topic-reserved"),
        (f"{name}_taken", "topic-rejected"),
        ("a b", "topic-name-invalid"),
        ("x" * 250, "topic-name-invalid"),
    ):
        for dry in ([], ["--dry-run"]):
            refused = restore("--topics", f"{name}:{other}", *dry, code=ExitCode.REFUSED)
            assert refused["error"]["id"] == id_
    assert settings(target, "__consumer_offsets") == before
    refused = restore("--topics", name, "--groups-pattern", "nobody", code=ExitCode.REFUSED)
    assert refused["error"]["id"] == "pattern-matches-nothing"
    assert name not in clients.topics(target)


def test_acls_and_quotas_come_if_asked_for(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    acl = Acl(principal=f"User:{name}", resource="topic", name=name, pattern="literal", operation="read")
    quota = Quota({"user": name}, {"consumer_byte_rate": 1e6})
    with raw.connect(End("cluster", source.plaintext), "test") as admin:
        apply_acls(admin, AclChanges((acl,), ()))
        apply_quotas(admin, [quota])
        while quota not in list_quotas(admin):
            pass
    backup(name)
    with raw.connect(End("cluster", target.plaintext), "test") as admin:
        restore("--topics", name)
        assert acl not in list_acls(admin)
        rights = restore("--topics", name, "--acls")["rights"]
        assert rights["acls"] > 0
        assert rights["quotas"] > 0
        assert acl in list_acls(admin)
        while quota not in list_quotas(admin):
            pass
        again = restore("--topics", name, "--acls")["rights"]
        known = rights["acls"] + rights["known"]
        assert again == {"acls": 0, "known": known, "quotas": rights["quotas"], "denied": []}


def test_restore_grants_only_declared_acls_except_named_principals(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, tmp_path: Path
) -> None:
    """Whoever may write to the store could have planted an ACL."""
    create(source, name)

    def acl(who: str, operation: str, on: str = name, **more: str) -> Acl:
        return Acl(
            principal=f"User:{name}-{who}",
            resource="topic",
            name=on,
            pattern="literal",
            operation=operation,
            **more,
        )

    fine = {acl("reader", "describe"), acl("reader", "read"), acl("reader", "write", permission="deny")}
    fine |= {acl("all", "alter_configs", f"{name}-more")}
    too_much = {acl("reader", "write"), acl("reader", "read", f"other-{name}"), acl("planted", "all", "*")}
    with raw.connect(End("cluster", source.plaintext), "test") as admin:
        apply_acls(admin, AclChanges((*fine, *too_much), ()))
        clients.wait_for("them", lambda: fine | too_much <= list_acls(admin))
    backup(name)
    declared = tmp_path / "acls.json"
    read = {"principal": f"{name}-reader", "resource": "topic", "name": name, "operations": ["read"]}
    every = {"principal": f"{name}-all", "resource": "topic", "name": name, "pattern": "prefixed"}
    declared.write_text(json.dumps([read, every | {"operations": ["all"]}]))
    within = ("--topics", name, "--acls", "--acls-within", str(declared))
    with raw.connect(End("cluster", target.plaintext), "test") as admin:
        report = restore(*within, code=ExitCode.INCOMPLETE)
        assert set(skipped(report)) >= {
            ("acl-not-allowed", f"2 ACLs of User:{name}-reader"),
            ("acl-not-allowed", f"1 ACL of User:{name}-planted"),
        }
        denies = f"deny User:{name}-reader from *: write on topic {name} (literal)"
        assert denies in report["rights"]["denied"]
        assert "acl-denies" in {each["id"] for each in report["warnings"]}
        assert (fine | too_much) & list_acls(admin) == fine
        restore(*within, "--acls-of", f"{name}-planted", code=ExitCode.INCOMPLETE)
        assert (fine | too_much) & list_acls(admin) == fine | {acl("planted", "all", "*")}
    for text in ("{", '[{"principal": "x"}]'):
        declared.write_text(text)
        assert restore(*within, code=ExitCode.REFUSED)["error"]["id"] == "acl-file-invalid"
    declared.unlink()
    assert restore(*within, code=ExitCode.REFUSED)["error"]["id"] == "acl-file-unreadable"
    alone = restore("--topics", name, "--acls-within", str(declared), code=ExitCode.REFUSED)
    assert alone["error"]["id"] == "option-required"


# In a process of its own that sends itself a signal at the call of a function, before or after it is done.
SIGNALLED = """
import os, sys
from importlib import import_module
from itertools import count
from aqueduct.kafka.batches import produce
from aqueduct.snapshots.restore import records
produce.SMALL_BYTES, records.TRANSACTION_BYTES = 0, 500
number, module, owner, function, calls, when = sys.argv[1:7]
holder = import_module(module)
holder = getattr(holder, owner) if owner else holder
real, numbers = getattr(holder, function), count(1)
def signalling(*arguments, **named):
    mine = next(numbers) == int(calls)  # two threads may call
    if mine and when == "before":
        os.kill(os.getpid(), int(number))
    answer = real(*arguments, **named)
    if mine and when == "after":
        os.kill(os.getpid(), int(number))
    return answer
setattr(holder, function, signalling)
from aqueduct.cli import main
sys.exit(main(sys.argv[7:]))
"""
# For a restore that is refused: it looks again after this time, in case it has found its own records.
SOON_REFUSED = "from aqueduct.snapshots.restore import planning\nplanning.ENDING_SECONDS = 1\n"
PRODUCER = "aqueduct.kafka.produce", "TransactionalProducer"
POINTS = [
    (*PRODUCER, "send"),
    (*PRODUCER, "commit_offsets"),
    (*PRODUCER, "commit"),
    (*PRODUCER, "_end"),
    ("aqueduct.snapshots.restore.topics", "", "apply_topics"),
    ("aqueduct.snapshots.restore.topics", "", "remember"),
    ("aqueduct.kafka.groups", "", "commit"),
]


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 5))])
def test_killed_restore_continues_and_doubles_nothing(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, store: str, seed: int
) -> None:
    create(source, name, 3, retention_ms="3600000", cleanup_policy="compact,delete")
    for partition in range(3):
        keyed = [{"key": f"{number}", "value": f"{number}"} for number in range(60)]
        produce(source, name, keyed, partition)
    commit(source, f"{name}.group", {(name, partition): 20 * partition for partition in range(3)})
    backup(name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    dice = random.Random(seed)  # noqa: S311
    for _ in range(7):
        point, calls, when = dice.choice(POINTS), dice.randint(1, 4), dice.choice(["before", "after"])
        print(f"seed {seed}: {point}, call {calls}, {when}")
        arguments = [str(int(signal.SIGKILL)), *point, str(calls), when, *command]
        done = subprocess.run([sys.executable, "-c", SIGNALLED, *arguments], capture_output=True, text=True)
        assert done.returncode in (-9, 0, 2), done.stderr
        if (
            done.returncode != -9
        ):  # 2: the last one was killed at its very end, and this one would be the next
            break
        # A newer snapshot does not change what is resumed.
        produce(source, name, [{"key": "x", "value": "newer"}])
        backup(name)
    else:
        assert main(command) == ExitCode.DONE
    keys = [[key for key, _, _, _ in read(target, name, partition)] for partition in range(3)]
    newer = len(keys[0]) - 60  # as many as there were before the first record was written
    expected = [f"{number}".encode() for number in range(60)]
    assert keys == [expected + [b"x"] * newer, expected, expected]
    assert restore("--topics", name, "--snapshot", str(newer + 1))["finished_before"]
    there = numbered(target, name, 2)
    assert committed(target, f"{name}.group")[name, 2] == there[40][0]
    assert settings(target, name) == {"retention.ms": "3600000", "cleanup.policy": "compact,delete"}


@dataclass
class Ended:
    code: int = -1
    said: str = ""


@contextmanager
def stopped(
    point: Iterable[str], call: int, when: str, command: list[str], *, program: str = SIGNALLED
) -> Iterator[Ended]:
    """Run a command that stands still before or after so many calls of a function.

    Yield its end, which is known after the block.
    """
    arguments = [str(int(signal.SIGSTOP)), *point, str(call), when, *command]
    ended = Ended()
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            yield ended
        finally:
            process.send_signal(signal.SIGCONT)
            _, ended.said = process.communicate(timeout=clients.SECONDS)
            ended.code = process.returncode


def test_running_restore_is_fenced_by_next_run(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, store: str
) -> None:
    create(source, name, 2)
    for partition in range(2):
        produce(source, name, range(60), partition)
    backup(name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    with stopped((*PRODUCER, "send"), 7, "after", command) as first:
        report = restore("--topics", name)
    assert first.code == ExitCode.FAILED
    assert printed(first.said) == ["producer-fenced"]
    assert [each["records"] for each in report["partitions"]] == [60, 60]
    for partition in range(2):
        assert read(target, name, partition) == read(source, name, partition)


APPLY_TOPICS = "aqueduct.snapshots.restore.topics", "", "apply_topics"
CREATE = 2  # the first call only asks whether the controller would


@pytest.mark.parametrize(("when", "code"), [("before", ExitCode.FAILED), ("after", ExitCode.DONE)])
def test_two_first_restores_at_once_break_nothing(
    source: Broker,
    target: Broker,
    name: str,
    backup: Backup,
    restore: Run,
    store: str,
    when: str,
    code: ExitCode,
) -> None:
    create(source, name, retention_ms="-1", segment_ms="7777777")
    produce(source, name, range(60))
    commit(source, f"{name}.group", {(name, 0): 20})
    backup(name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    with stopped(APPLY_TOPICS, CREATE, when, command) as first:
        assert restore("--topics", name)["partitions"][0]["records_now"] == 60
    assert first.code == code
    assert printed(first.said) == (["restore-in-progress"] if code == ExitCode.FAILED else [])
    assert read(target, name) == read(source, name)
    assert committed(target, f"{name}.group") == {(name, 0): 20}
    assert settings(target, name) == {"retention.ms": "-1", "segment.ms": "7777777"}


def test_concurrent_restore_of_same_topic_is_refused(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, store: str
) -> None:
    create(source, name, cleanup_policy="compact")
    produce(source, name, [{"key": f"{number}", "value": "v"} for number in range(60)])
    backup(name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    with stopped((*PRODUCER, "send"), 2, "before", command) as first:
        other = restore("--topics", name, "--append", "--to-time", str(NOW), code=ExitCode.REFUSED)
        assert other["error"]["id"] == "restore-in-progress"
        assert name in other["error"]["message"]
    assert first.code == ExitCode.DONE
    assert read(target, name) == read(source, name)
    assert settings(target, name) == {"cleanup.policy": "compact"}
    error = restore("--topics", name, "--to-time", str(NOW), code=ExitCode.REFUSED)["error"]
    assert (error["id"], "--snapshot 1" in error["message"]) == ("target-not-empty", True)


CHECK_OBJECTS = "aqueduct.snapshots.restore.planning", "", "check_objects"
REMEMBER = "aqueduct.snapshots.restore.topics", "", "remember"


@pytest.mark.parametrize("there", [True, False])
def test_records_of_concurrent_restore_are_not_doubled(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, store: str, there: bool
) -> None:
    """The other restore ends after this one has checked the objects."""
    create(source, name)
    produce(source, name, range(60))
    backup(name)
    if there:
        create(target, name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    slow_command = [*command, "--restore-id", f"slow-{uuid4().hex}"]
    with stopped(CHECK_OBJECTS, 1, "after", slow_command, program=SOON_REFUSED + SIGNALLED) as slow:
        restore("--topics", name)
    assert slow.code == (ExitCode.REFUSED if there else ExitCode.FAILED)
    assert printed(slow.said) == ["target-not-empty" if there else "restore-in-progress"]
    assert read(target, name) == read(source, name)
    restore(
        "--topics", name, "--append", "--restore-id", f"later-{uuid4().hex}"
    )  # the slow one has given the topic up
    assert len(read(target, name)) == 120


def test_one_of_two_simultaneous_restores_completes(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, store: str
) -> None:
    create(source, name)
    produce(source, name, range(60))
    backup(name)
    create(target, name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    with stopped(REMEMBER, 1, "after", command) as first:
        restore("--topics", name, "--restore-id", f"second-{uuid4().hex}", code=ExitCode.REFUSED)
    assert first.code == ExitCode.DONE
    assert read(target, name) == read(source, name)


def test_second_restore_gives_up_after_both_pass_checks(
    source: Broker, target: Broker, name: str, backup: Backup, store: str
) -> None:
    create(source, name)
    produce(source, name, range(60))
    backup(name)
    create(target, name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    other = [*command, "--restore-id", f"second-{uuid4().hex}"]
    with ExitStack() as at_last, ExitStack() as at_first:
        program = SOON_REFUSED + SIGNALLED
        second = at_first.enter_context(stopped(CHECK_OBJECTS, 1, "after", other, program=program))
        first = at_last.enter_context(stopped(REMEMBER, 1, "after", command))
        at_first.close()  # the second continues, and ends, while the first has only begun
        assert second.code == ExitCode.REFUSED
        assert printed(second.said) == ["restore-in-progress"]
    assert first.code == ExitCode.DONE
    assert read(target, name) == read(source, name)


@pytest.mark.parametrize("what", ["records", "partitions"])
def test_what_changed_while_objects_were_read_is_refused(
    source: Broker, target: Broker, name: str, backup: Backup, store: str, what: str
) -> None:
    create(source, name)
    produce(source, name, range(60))
    backup(name)
    create(target, name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    with stopped(CHECK_OBJECTS, 1, "after", command, program=SOON_REFUSED + SIGNALLED) as run:
        if what == "records":
            produce(target, name, range(3))
        else:
            clients.grow(target, name, 2)
    assert run.code == ExitCode.REFUSED
    expected = "target-not-empty" if what == "records" else "partition-count-mismatch"
    assert printed(run.said) == [expected]
    assert len(read(target, name)) == (3 if what == "records" else 0)


def test_append_keeps_offsets_of_existing_group(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    produce(source, name, range(60))
    for group in ("known", "new"):
        commit(source, f"{name}.{group}", {(name, 0): 20})
    backup(name)
    create(target, name)
    produce(target, name, range(10))
    commit(target, f"{name}.known", {(name, 0): 3})
    report = restore("--topics", name, "--append", code=ExitCode.INCOMPLETE)
    assert skipped(report) == [("group-has-offsets", f"group {name}.known")]
    assert committed(target, f"{name}.known") == {(name, 0): 3}
    assert committed(target, f"{name}.new") == {(name, 0): 30}


def test_resumed_restore_counts_its_own_records_separately(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, store: str, capsys: Said
) -> None:
    create(source, name)
    produce(source, name, range(60))
    backup(name)
    command = ["restore", "--bootstrap-server", target.plaintext, "--store", store, "--topics", name]
    arguments = [str(int(signal.SIGKILL)), *PRODUCER, "send", "9", "before", *command]
    killed = subprocess.run([sys.executable, "-c", SIGNALLED, *arguments], capture_output=True)
    assert killed.returncode == -9
    before = len(read(target, name))  # an open transaction is not seen
    assert 0 < before < 60
    report = restore("--topics", name)
    [partition] = report["partitions"]
    assert (partition["records"], partition["records_now"]) == (60, 60 - before)
    assert f"60 records, 0.0 MB, of which this run wrote {60 - before} records" in capsys.readouterr().out
    again = restore("--topics", name)
    assert [(each["records"], each["records_now"]) for each in again["partitions"]] == [(60, 0)]


@pytest.mark.usefixtures("patient")
def test_brokers_may_be_away_for_a_while(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(source, name)
    produce(source, name, range(200))
    backup(name)
    monkeypatch.setattr(produce_batches, "SMALL_BYTES", 0)
    monkeypatch.setattr(records, "TRANSACTION_BYTES", 500)
    sent = 0

    def send(producer: TransactionalProducer, *arguments: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == 23:  # after the progress of some transactions
            target.process.kill()
            starting.submit(target.process.start)
        really_send(producer, *arguments)

    really_send = TransactionalProducer.send
    monkeypatch.setattr(TransactionalProducer, "send", send)
    with ThreadPoolExecutor(1) as starting:
        report = restore("--topics", name)
    assert [each["records"] for each in report["partitions"]] == [200]
    assert read(target, name) == read(source, name)


def test_fewer_brokers_are_told_of(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(source, name)
    backup(name)
    monkeypatch.setattr("aqueduct.snapshots.restore.topics.default_replication_factor", lambda _: 3)
    [warning] = restore("--topics", name, "--no-settings")["warnings"]
    assert (warning["id"], name in warning["message"]) == ("replication-factor-reduced", True)


def test_former_instance_of_recreated_topic_is_restored_separately(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    produce(source, name, ["old"])
    backup(name)
    clients.recreate(source, name)
    produce(source, name, ["new", "newer"])
    commit(source, f"{name}.group", {(name, 0): 1})
    backup(name)
    restore("--topics", name)
    assert [value for _, value, _, _ in read(target, name)] == [b"new", b"newer"]
    assert committed(target, f"{name}.group") == {(name, 0): 1}
    report = restore("--topics", f"{name}:{name}.old", "--instance", "passivate", code=ExitCode.INCOMPLETE)
    assert [value for _, value, _, _ in read(target, f"{name}.old")] == [b"old"]
    assert skipped(report) == [("topic-recreated", f"group offsets of {name}.old")]
    again = restore("--topics", f"{name}:{name}.old", "--instance", "passivate", code=ExitCode.INCOMPLETE)
    assert (again["finished_before"], again["left_out"]) == (True, report["left_out"])


def test_group_beyond_snapshot_is_set_to_log_end(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    """The log was cut below the group's offset. The report names the end of the snapshot."""
    create(source, name)
    for first in (0, 3):
        produce(source, name, range(first, first + 3))
    commit(source, f"{name}.ahead", {(name, 0): 6}, "m")
    cut_log(source, name, 3)
    backup(name)
    report = restore("--topics", name)
    assert [(each["old"], each["new"], each["note"]) for each in report["groups"]] == [
        (6, end(target, name), "the snapshot ends at 3")
    ]


def test_mirrors_continue_at_same_record_unless_reported_ahead(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    """A repeated run reports again where a mirror had read beyond the snapshot."""
    positions = f"mm2-offsets.{name}.internal"
    create(target, positions, cleanup_policy="compact")
    create(source, name, 2)
    transaction(source, name, range(3), commit=True)
    produce(source, name, range(3, 6))
    produce(source, name, range(3), 1)
    keys = [json.dumps([SOURCE_CONNECTOR, {"partition": each, "topic": name}]) for each in range(2)]
    mirrored = [{"key": keys[0], "value": '{"offset":4}'}, {"key": keys[1], "value": '{"offset":8}'}]
    produce(target, positions, mirrored)
    bound = ["mirror", "--flow", name, "--source-bootstrap-server", source.plaintext]
    assert main([*bound, "--before-start", "--target-bootstrap-server", target.plaintext]) == 0
    produce(target, positions, mirrored[1:])  # it has read on
    backup(name)
    command = "--topics", name, "--mirror", f"{name}={target.plaintext}"
    report = restore(*command, code=ExitCode.INCOMPLETE)
    why = f"at {target.plaintext}: {name}-1: it has read up to 9, and the snapshot ends at 3"
    assert report["left_out"] == [{"id": "mirror-ahead", "what": f"mirror {name}", "why": why}]
    following = [record for offset, record in numbered(source, name) if offset > 4]
    offsets = {
        (key or b"").decode(): json.loads(value or b"")["offset"]
        for key, value, _, _ in read(target, positions)
        if value and (key or b"").decode() in keys  # the others are bindings
    }
    moved = [record for offset, record in numbered(target, name) if offset > offsets[keys[0]]]
    assert moved == following
    assert offsets[keys[1]] == end(target, name, 1) - 1
    produce(target, positions, [{"key": keys[0], "value": '{"offset":77}'}])
    again = restore(*command, code=ExitCode.INCOMPLETE)
    assert again["left_out"] == report["left_out"]
    assert read(target, positions)[-1][1] == b'{"offset":77}'  # it continues by itself


def test_progress_of_finished_restore_may_be_deleted(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, capsys: Said
) -> None:
    create(source, name)
    produce(source, name, range(10))
    commit(source, f"{name}.group", {(name, 0): 4})
    backup(name)
    own = "aqueduct-restore-" + restore("--topics", name, "--no-groups")["restore_id"]
    with raw.connect(End("cluster", target.plaintext), "test") as admin:
        groups.delete(admin, [own])
        assert restore("--topics", name, "--no-groups")["finished_before"]
        report = restore("--topics", name, code=ExitCode.INCOMPLETE)
        assert skipped(report) == [("restore-progress-expired", f"group {name}.group, {name}-0")]
        assert f"The number of restored records of {name} is unknown" in capsys.readouterr().out
        groups.delete(admin, [f"{own}.plan"])
    assert restore("--topics", name, code=ExitCode.REFUSED)["error"]["id"] == "target-not-empty"


def test_deleted_topic_is_restored_again_without_touching_others(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, tmp_path: Path
) -> None:
    """Delete a topic of a finished restore, and restore again.

    The target has even forgotten how far the others came, and their objects are damaged by now.
    """
    other = f"{name}.other"
    for topic in (name, other):
        create(source, topic)
        produce(source, topic, range(10))
    backup(name, other)
    own = "aqueduct-restore-" + restore("--topics", f"{name},{other}")["restore_id"]
    clients.delete(target, other)
    clients.wait_for("the deletion", lambda: other not in clients.topics(target))
    with raw.connect(End("cluster", target.plaintext), "test") as ours:
        groups.delete(ours, [own])
    for path in (tmp_path / "store" / "topics" / name).rglob("*.log*"):
        path.unlink()
    report = restore("--topics", f"{name},{other}")
    assert [(each["topic"], each["records"], each["records_now"]) for each in report["partitions"]] == [
        (name, None, 0),
        (other, 10, 10),
    ]
    for topic in (name, other):
        assert read(target, topic) == read(source, topic)


def link_position(broker: Broker, group: str, topic: str, partition: int = 0) -> tuple[int, SenderPosition]:
    with raw.connect(End("target", broker.plaintext), "test") as client:
        offset, metadata = groups.committed(client, [group])[group][topic, partition]
    found = position.loads(metadata)
    assert found
    return offset, found


def topic_id(broker: Broker, topic: str) -> str:
    with raw.connect(End("target", broker.plaintext), "test") as client:
        return str(client.topics([topic])[topic].id)


def test_link_continues_at_same_record_in_new_topic(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name, 2)
    transaction(source, name, range(3), commit=True)
    transaction(source, name, range(3, 6), commit=True)
    sent = SenderPosition(topic_id=topic_id(source, name), from_=0, session=7)
    commit(source, group := f"{name}.link", {(name, 0): end(source, name), (name, 1): 0}, sent.dumps())
    backup(name)
    report = restore("--topics", name, "--link", group)
    assert (report["links_stopped"], report["left_out"], report["groups"]) == ([], [], [])
    at = end(target, name)
    assert at != end(source, name)
    assert link_position(target, group, name) == (
        at,
        SenderPosition(topic_id=topic_id(target, name), from_=at, session=7),
    )

    # What its sending end makes of that: nothing of what was restored, all that comes now.
    produce(target, name, ["now"])
    with (
        raw.connect(End("target", target.plaintext), "test") as client,
        raw.connect(End("target", target.plaintext), "test") as following,
    ):
        wanted: Any = {"session": 8, "shift": 0, "largest": 1 << 20, "from_time": None}
        feed = Feed(client, following, group, lambda topic: topic == name, **wanted)
        frames = clients.wait_for("a frame", lambda: [frame for frame, _ in feed.poll(1)])
        frames += [frame for _ in range(3) for frame, _ in feed.poll(1)]
        assert [(each.partition, each.first, each.last) for each in frames] == [(0, at, at)]
        assert [(told.partition, told.first, told.end) for told in feed.announcements(0)] == [(0, at, at + 1)]
        feed.commit(feed.reached())

    # It continues by itself.
    assert restore("--topics", name, "--link", group)["left_out"] == []
    assert link_position(target, group, name) == (
        at + 1,
        SenderPosition(topic_id=topic_id(target, name), from_=at, session=8, epoch=0),
    )


def test_link_records_possibly_sent_since_backup_are_listed(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    produce(source, name, range(10))
    sent = SenderPosition(topic_id=topic_id(source, name), from_=0, session=7)
    commit(source, group := f"{name}.link", {(name, 0): 4}, sent.dumps())
    backup(name)
    report = restore("--topics", name, "--link", group, code=ExitCode.INCOMPLETE)
    assert skipped(report) == [("link-records-repeated", f"link {group}")]
    assert f"{name}-0 from 4 to 9" in report["left_out"][0]["why"]
    [entry] = report["ranges"]
    assert (entry["flow"], entry["topic"], entry["partition"]) == (f"link {group}", name, 0)
    assert (entry["kind"], entry["from"], entry["to"], entry["log"]) == ("doubled", 4, 10, "backup")
    assert report["links_stopped"] == []
    offset, _ = link_position(target, group, name)
    assert [value for _, value, _, _ in read(target, name, start=offset)] == [b"%d" % n for n in range(4, 10)]


@pytest.mark.parametrize("known", [False, True], ids=["not backed up", "forgotten, but not by the topic"])
def test_link_that_would_resend_everything_stays_stopped(
    source: Broker, target: Broker, name: str, backup: Backup, restore: Run, known: bool
) -> None:
    create(source, name)
    produce(source, name, range(10))
    group = f"{name}.link"
    command = ["--topics", name, "--link", group]
    if known:
        commit(
            source,
            group,
            {(name, 0): 4},
            SenderPosition(topic_id=topic_id(source, name), from_=0, session=7).dumps(),
        )
        command += ["--append", "--bootstrap-server", source.plaintext]
    backup(name)
    if known:
        with raw.connect(End("cluster", source.plaintext), "test") as admin:
            groups.delete(admin, [group])
    report = restore(*command, code=ExitCode.INCOMPLETE)
    assert report["links_stopped"] == [group]
    expected = "link-topic-not-recreated" if known else "link-position-unknown"
    assert skipped(report) == [(expected, f"link {group}")]
    assert committed(source if known else target, group) == {}


def test_link_continues_when_restore_appends_to_its_topic(
    source: Broker, name: str, backup: Backup, restore: Run
) -> None:
    create(source, name)
    produce(source, name, range(10))
    sent = SenderPosition(topic_id=topic_id(source, name), from_=0, session=7)
    commit(source, group := f"{name}.link", {(name, 0): 4}, sent.dumps())
    backup(name)
    appended = ["--topics", name, "--append", "--bootstrap-server", source.plaintext]
    assert restore(*appended, "--link", group)["links_stopped"] == []
    assert link_position(source, group, name) == (4, sent)
