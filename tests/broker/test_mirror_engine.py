"""`aqueduct replicate` between real brokers, compared with an independent client record by record."""

import json
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest
from kit import clients
from kit.clients import unique
from kit.identifiers import printed
from kit.mirror_engine_flows import Flow

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.estate import model
from aqueduct.kafka.admin.quotas import apply_quotas
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import Retry, TransactionalProducer
from aqueduct.kafka.quotas import Quota
from aqueduct.mirror.engine import run, stalls, upkeep
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.flow import MirrorOrder
from aqueduct.mirror.engine.names import positions_topic, state_topics, task_id
from aqueduct.mirror.engine.position import position_record
from aqueduct.mirror.engine.state import FlowState
from aqueduct.mirror.engine.topics import MirroredTopics
from servers.broker import Broker
from servers.process import suspend


def odd_records(count: int) -> Iterator[dict[str, object]]:
    """Yield records with all that a record may have, or lack."""
    for number in range(count):
        yield {
            "key": (None, b"", b"key")[number % 3],
            "value": (f"value {number}".encode() * 20, b"", None)[number % 7 % 3],
            "headers": [("h", str(number).encode()), ("h", None), ("", b"")][: number % 4],
            "timestamp": 1_700_000_000_000 + number * 7 % 1000,
        }


def test_records_arrive_as_they_are(source: Broker, target: Broker, tmp_path: Path) -> None:
    """Each topic of the flow has another codec."""
    name = unique("codecs")
    topics = {codec: f"{name}.{codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    for codec, topic in topics.items():
        clients.create(source, topic, 2)
        settings = {"compression.type": codec, "linger.ms": 50}
        for partition in (0, 1):
            clients.produce(source, topic, odd_records(1_000), partition, **settings)
    flow = Flow(source, target, topics["none"], tmp_path, rf"{re.escape(name)}\..*")
    assert flow.catch_up() == 0
    for topic in topics.values():
        arrived = clients.records(target, topic, 0, 1)
        assert arrived == clients.records(source, topic, 0, 1)
        assert len(arrived) == 2_000
    # Nothing is new.
    ends = [clients.ends(target, topic, 0, 1) for topic in topics.values()]
    assert flow.catch_up() == 0
    assert [clients.ends(target, topic, 0, 1) for topic in topics.values()] == ends


def test_batches_of_one_record_arrive(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, odd_records(500), **{"batch.num.messages": 1, "linger.ms": 0})
    assert flow.catch_up() == 0
    assert flow.is_equal(0)


def test_only_committed_records_arrive(flow: Flow) -> None:
    for number in range(4):
        end = ("commit", "abort")[number % 2]
        clients.transaction(flow.source, flow.topic, [f"{number} {n}" for n in range(20)], end, 0, 1)
        clients.produce(flow.source, flow.topic, [f"idempotent {number}"])
    assert flow.catch_up() == 0
    assert flow.is_equal(0, 1)
    assert len(clients.records(flow.target, flow.topic, 1)) == 40
    open_ = clients.transaction(flow.source, flow.topic, ["open"], "leave")
    clients.produce(flow.source, flow.topic, ["after"])
    assert flow.catch_up() == 0  # what is behind an open transaction is not committed for any reader
    assert [value for _, value, _, _ in clients.records(flow.target, flow.topic)][-1] == b"idempotent 3"
    open_.abort_transaction()
    clients.settle(flow.source, flow.topic)
    assert flow.catch_up() == 0
    assert flow.is_equal(0, 1)


def test_mirror_continues_after_kill(flow: Flow) -> None:
    for partition in (0, 1):
        clients.produce(flow.source, flow.topic, odd_records(5_000), partition)
    for kills in range(4):
        before = sum(ends(flow))
        clients.produce(flow.source, flow.topic, odd_records(1_000), kills % 2)
        with flow.running() as process:
            clients.wait_for("records", partial(has_more, flow, before))
            clients.produce(flow.source, flow.topic, odd_records(1_000), kills % 2)
            process.kill()
    assert flow.catch_up() == 0
    assert flow.is_equal(0, 1)
    assert len(clients.records(flow.target, flow.topic, 0, 1)) == 18_000


def has_more(flow: Flow, before: int) -> bool:
    return sum(ends(flow)) > before


def ends(flow: Flow) -> Sequence[int]:
    return (
        clients.ends(flow.target, flow.topic, 0, 1) if flow.topic in clients.topics(flow.target) else (0, 0)
    )


def test_suspended_worker_is_fenced_by_its_successor(flow: Flow, tmp_path: Path) -> None:
    clients.produce(flow.source, flow.topic, odd_records(1_000))
    journal = tmp_path / "former"
    with journal.open("w+") as output, flow.running(output=output) as former:
        clients.wait_for("the first records", lambda: ends(flow)[0] >= 1_000)
        suspend(former.pid)
        clients.produce(flow.source, flow.topic, odd_records(5_000))
        with flow.running() as successor:
            clients.wait_for("the successor", lambda: ends(flow)[0] >= 6_000)
            former.send_signal(signal.SIGCONT)
            clients.produce(flow.source, flow.topic, odd_records(5_000))
            assert former.wait(clients.SECONDS) == 1
            assert "[producer-fenced]" in journal.read_text()
            clients.wait_for("all records", lambda: ends(flow)[0] >= 11_000)
            successor.terminate()
            assert successor.wait(clients.SECONDS) == 0
    assert flow.catch_up() == 0
    assert flow.is_equal(0)


def test_positions_of_another_number_of_tasks_are_refused(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task that does not find the position of a partition would mirror it from its beginning again."""
    clients.grow(flow.source, flow.topic, 4)
    for partition in range(4):
        clients.produce(flow.source, flow.topic, range(3), partition)
    assert flow.catch_up() == 0
    for topic in state_topics(flow.name):
        clients.grow(flow.target, topic, 3)
    assert flow.catch_up() == 2
    assert printed(capsys.readouterr().err) == ["mirror-tasks-differ"]
    assert flow.is_equal(*range(4))


def test_task_count_change_during_flow_is_reported(flow: Flow) -> None:
    with flow.running():
        clients.produce(flow.source, flow.topic, range(3))
        clients.wait_for("the records", lambda: has_more(flow, 2))
        for topic in state_topics(flow.name):
            clients.grow(flow.target, topic, 3)
        clients.wait_for("the finding", lambda: any("mirror-tasks-differ" in one for one in flow.findings()))
        clients.produce(flow.source, flow.topic, range(3, 6))
        clients.wait_for("more records", lambda: flow.is_equal(0))


def test_task_count_change_before_first_topic_is_reported(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    flow = Flow(source, target, unique("later"), tmp_path)
    with flow.running():
        clients.wait_for("its topics", lambda: set(state_topics(flow.name)) <= clients.topics(target))
        clients.wait_for("its tasks", lambda: any(task["running"] for task in flow.looked()["tasks"]))
        for topic in state_topics(flow.name):
            clients.grow(target, topic, 3)
        clients.wait_for("the finding", lambda: any("mirror-tasks-differ" in one for one in flow.findings()))


def test_target_prefix_and_settings(source: Broker, target: Broker, tmp_path: Path) -> None:
    settings = {"retention_ms": "987654321000", "min_insync_replicas": "1", "max_message_bytes": "200000"}
    topic = clients.create(source, unique("mirrored"), 3, **settings)
    clients.produce(source, topic, ["one"], 2)
    flow = Flow(source, target, topic, tmp_path)
    prefix = unique("from")
    assert flow.catch_up("--target-prefix", f"{prefix}.") == 0
    assert [value for _, value, _, _ in clients.records(target, f"{prefix}.{topic}", 2)] == [b"one"]
    found = clients.settings_of(target, f"{prefix}.{topic}")
    assert (found["retention.ms"], found["max.message.bytes"]) == ("987654321000", "200000")
    clients.configure(source, topic, retention_ms="987654322000")
    clients.grow(source, topic, 5)
    clients.produce(source, topic, ["two"], 4)
    assert flow.catch_up("--target-prefix", f"{prefix}.") == 0
    assert clients.settings_of(target, f"{prefix}.{topic}")["retention.ms"] == "987654322000"
    assert [value for _, value, _, _ in clients.records(target, f"{prefix}.{topic}", 4)] == [b"two"]


def test_flow_without_positions_is_refused_beside_records(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    clients.produce(flow.source, flow.topic, odd_records(10))
    clients.create(flow.target, flow.topic, 2)
    clients.produce(flow.target, flow.topic, ["was there"])
    assert flow.catch_up() == 2
    assert "[mirror-position-missing]" in capsys.readouterr().err
    assert len(clients.records(flow.target, flow.topic)) == 1
    assert flow.catch_up("--first-start") == 0
    assert clients.records(flow.target, flow.topic)[1:] == clients.records(flow.source, flow.topic)
    clients.delete(flow.target, positions_topic(flow.name))
    assert flow.catch_up() == 2
    assert flow.catch_up("--first-start") == 3  # its checkpoints show that it has mirrored
    assert flow.identifiers() == ["mirror-position-missing"] * 2
    assert len(clients.records(flow.target, flow.topic)) == 11


def test_added_topic_with_target_records_is_refused_alone(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    """Another engine may have mirrored it; or another flow feeds it, which the operator says."""
    name = unique("added")
    first = clients.create(source, f"{name}.first")
    flow = Flow(source, target, first, tmp_path, rf"{re.escape(name)}\..*")
    clients.produce(source, first, odd_records(10))
    assert flow.catch_up() == 0
    added, later = (clients.create(source, f"{name}.{end}", 2) for end in ("added", "later"))
    clients.create(target, added, 2)
    clients.produce(target, added, ["was there"])
    for topic in (first, added, later):
        clients.produce(source, topic, odd_records(5))
        clients.produce(source, topic, odd_records(5), int(topic != first))
    for _ in range(2):
        assert flow.catch_up() == 3
        assert [(of["id"], of["what"]) for of in flow.reported()["left_out"]] == [
            ("mirror-position-missing", f"{added}-0")
        ]
        assert len(clients.records(target, added)) == 1
    assert clients.records(target, added, 1) == clients.records(source, added, 1)
    for topic in (first, later):
        assert clients.records(target, topic) == clients.records(source, topic)
    assert flow.catch_up("--first-start") == 0
    assert clients.records(target, added)[1:] == clients.records(source, added)
    assert flow.catch_up() == 0  # it has a position now


def test_recreated_source_topic_is_mirrored_from_start(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    clients.recreate(flow.source, flow.topic, 2)
    clients.produce(flow.source, flow.topic, odd_records(30))
    assert flow.catch_up() == 3
    assert clients.records(flow.target, flow.topic)[10:] == clients.records(flow.source, flow.topic)


def mirror_report(flow: Flow, tmp_path: Path) -> tuple[int, list[dict[str, object]]]:
    """Return exit code and ranges of `aqueduct mirror`."""
    report = tmp_path / "mirror.json"
    argv = ["mirror", "--flow", flow.name, "--engine", "batches", "--topics-pattern", flow.topic]
    argv += ["--source-bootstrap-server", flow.source.plaintext, "--report", str(report)]
    code = main([*argv, "--target-bootstrap-server", flow.target.plaintext])
    return code, json.loads(report.read_text())["ranges"]


def test_losses_of_deleted_topic_are_listed_until_accepted(flow: Flow, tmp_path: Path) -> None:
    """The flow had not mirrored the newest offsets of the topic when it was deleted."""
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    clients.produce(flow.source, flow.topic, odd_records(5))  # nothing mirrors or sees them
    clients.recreate(flow.source, flow.topic, 2)
    clients.produce(flow.source, flow.topic, odd_records(30))
    for _ in range(2):
        assert flow.catch_up() == 3
        ranges = {(entry["partition"], entry["kind"], entry["from"]) for entry in flow.reported()["ranges"]}
        assert ranges == {(0, "lost_earlier", 10), (1, "lost_earlier", 0)}
    code, listed = mirror_report(flow, tmp_path)
    assert code == 3
    assert {(entry["partition"], entry["kind"], entry["from"]) for entry in listed} == ranges
    assert flow.catch_up("--accept-ranges") == 0
    assert mirror_report(flow, tmp_path) == (0, [])
    clients.recreate(flow.source, flow.topic, 2)
    assert flow.catch_up("--accept-ranges") == 3  # no report has listed these


def test_deleted_topic_is_reported_until_accepted(source: Broker, target: Broker, tmp_path: Path) -> None:
    """The flow's pattern still matches another topic."""
    prefix = unique("gone")
    kept, deleted = (clients.create(source, f"{prefix}.{name}", 2) for name in ("kept", "deleted"))
    flow = Flow(source, target, kept, tmp_path, pattern=rf"{re.escape(prefix)}\..*")
    for topic in (kept, deleted):
        clients.produce(source, topic, odd_records(10))
    assert flow.catch_up() == 0
    assert flow.findings() == []
    clients.delete(source, deleted)
    [finding] = flow.findings()
    assert "[mirror-source-topic-deleted]" in finding
    assert f"{deleted}-0 (position 10" in finding
    assert kept not in finding
    assert flow.catch_up("--accept-ranges") == 0
    assert flow.findings() == []
    clients.create(source, deleted, 2)
    clients.produce(source, deleted, odd_records(3))
    assert flow.catch_up() == 3
    assert flow.catch_up("--accept-ranges") == 0
    clients.delete(source, deleted)
    [finding] = flow.findings()
    assert "[mirror-source-topic-deleted]" in finding


def test_run_options_survive_failed_first_transaction(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as when the leader of the positions moves: the task begins again."""
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    clients.recreate(flow.source, flow.topic, 2)
    clients.produce(flow.source, flow.topic, odd_records(30))
    assert flow.catch_up() == 3  # ranges of both partitions
    commit = TransactionalProducer.commit
    failed: list[TransactionalProducer] = []

    def fail_first(producer: TransactionalProducer) -> None:
        if not failed:
            failed.append(producer)
            raise Retry("the leader has moved")
        commit(producer)

    monkeypatch.setattr(TransactionalProducer, "commit", fail_first)
    assert flow.catch_up("--accept-ranges") == 0
    assert failed
    clients.delete(flow.target, flow.topic)
    failed.clear()
    assert flow.catch_up("--again", flow.topic) == 0
    assert failed
    assert flow.is_equal(0, 1)


def test_restore_of_a_mirrored_topic_is_refused(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flow would mirror all records of the restored topic again."""
    common = ("--bootstrap-server", flow.source.plaintext, "--store", f"file://{tmp_path}/store")
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    assert main(["backup", *common, "--topics", flow.topic]) == 0
    clients.delete(flow.source, flow.topic)
    mirror = ("--mirror", f"{flow.name}={flow.target.plaintext}")
    assert main(["restore", *common, "--topics", flow.topic, *mirror]) == 2
    assert "[mirror-batches-restored]" in capsys.readouterr().err
    assert flow.topic not in clients.admin(flow.source).list_topics(timeout=30).topics
    # Under another name it is a topic that the flow does not mirror.
    assert main(["restore", *common, "--topics", f"{flow.topic}:{flow.topic}-restored", *mirror]) == 0


def test_restore_with_unreadable_positions_is_refused_before_writing(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has the key of the mirror can write such a record. Keys of other programs are ignored."""
    common = ("--bootstrap-server", flow.source.plaintext, "--store", f"file://{tmp_path}/store")
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    assert main(["backup", *common, "--topics", flow.topic]) == 0
    mirror = ("--mirror", f"{flow.name}={flow.target.plaintext}")
    for key, code in ((b"x", 0), (b'{"x":1}', 2)):
        clients.produce(flow.target, positions_topic(flow.name), [{"key": key, "value": b"{}"}])
        restored = f"{flow.topic}-restored-{code}"
        asked = ["restore", *common, "--topics", f"{flow.topic}:{restored}", *mirror]
        for options in (["--dry-run"], []):
            assert main(asked + options) == code
            printed = capsys.readouterr().err
            assert ("[mirror-position-unreadable]" in printed) == (code == 2)
            assert (positions_topic(flow.name) in printed) == (code == 2)
        assert (restored in clients.admin(flow.source).list_topics(timeout=30).topics) == (code == 0)


def test_source_topic_that_is_recreated_meanwhile(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, odd_records(10))
    with flow.running():
        clients.wait_for("the first records", lambda: ends(flow)[0] >= 10)
        clients.recreate(flow.source, flow.topic, 2)
        clients.produce(flow.source, flow.topic, odd_records(30))
        clients.wait_for("the others", lambda: len(clients.records(flow.target, flow.topic)) >= 40)
    assert flow.catch_up() == 3
    assert {entry["kind"] for entry in flow.reported()["ranges"]} == {"lost_earlier"}
    assert flow.catch_up("--accept-ranges") == 0
    assert clients.records(flow.target, flow.topic)[10:] == clients.records(flow.source, flow.topic)


def test_leader_without_epoch_of_position_is_refused(flow: Flow) -> None:
    """A source that lost its metadata begins its leader epochs again. Nobody knows what its logs lost."""
    for partition in (0, 1):
        clients.produce(flow.source, flow.topic, odd_records(10), partition)
    assert flow.catch_up() == 0
    with connect(End("target", flow.target.plaintext), "test") as client:
        state = FlowState(client, flow.name, range(2))
        state.refresh()
    diverged = TopicPartition(flow.topic, 0)
    position = state.positions[diverged]
    key, value = position_record(diverged, replace(position, epoch=position.epoch + 99))
    clients.produce(
        flow.target, positions_topic(flow.name), [{"key": key, "value": value}], state.tasks[diverged]
    )
    for partition in (0, 1):
        clients.produce(flow.source, flow.topic, odd_records(5), partition)
    assert flow.catch_up() == 3
    assert [(of["id"], of["what"]) for of in flow.reported()["left_out"]] == [
        ("mirror-source-diverged", str(diverged))
    ]
    assert flow.is_equal(1)
    assert len(clients.records(flow.target, flow.topic)) == 10


def test_records_deleted_by_retention_during_flow_are_listed(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, odd_records(10))
    with flow.running() as process:
        clients.wait_for("the first records", lambda: ends(flow)[0] >= 10)
        suspend(process.pid)
        # The fetch that is under way brings one record, or nothing: the next one comes too late.
        clients.produce(flow.source, flow.topic, odd_records(1))
        clients.produce(flow.source, flow.topic, odd_records(30))
        clients.delete_records(flow.source, flow.topic, 25)
        process.send_signal(signal.SIGCONT)
        present = clients.records(flow.source, flow.topic)
        assert len(present) == 16
        clients.wait_for(
            "the other records", lambda: clients.records(flow.target, flow.topic)[-16:] == present
        )
    assert flow.catch_up() == 3
    [lost] = flow.reported()["ranges"]
    assert (lost["kind"], lost["partition"], lost["to"]) == ("lost", 0, 25)
    assert lost["from"] in (10, 11)
    arrived = clients.records(flow.target, flow.topic)
    assert len(arrived) == lost["from"] + 16
    assert arrived[-16:] == present


def test_records_that_retention_deleted_are_listed(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    clients.produce(flow.source, flow.topic, odd_records(30))
    clients.delete_records(flow.source, flow.topic, 25)
    assert flow.catch_up() == 3
    [lost] = flow.reported()["ranges"]
    assert (lost["kind"], lost["partition"], lost["from"], lost["to"]) == ("lost", 0, 10, 25)
    assert clients.records(flow.target, flow.topic)[10:] == clients.records(flow.source, flow.topic)


def test_target_topic_that_is_recreated_is_refused(flow: Flow) -> None:
    clients.produce(flow.source, flow.topic, odd_records(10))
    assert flow.catch_up() == 0
    clients.recreate(flow.target, flow.topic, 2)
    assert flow.catch_up() == 3
    assert flow.identifiers() == ["mirror-target-recreated"] * 2
    assert flow.catch_up("--again", flow.topic) == 0
    assert flow.is_equal(0)


def test_too_large_record_stops_only_its_partition(flow: Flow) -> None:
    clients.create(flow.target, flow.topic, 2, max_message_bytes="10000")
    clients.produce(flow.source, flow.topic, [b"x" * 50_000])
    clients.produce(flow.source, flow.topic, [b"y" * 4_000] * 10, 1)
    assert flow.catch_up() == 3
    assert flow.identifiers() == ["record-too-large"]
    assert flow.is_equal(1)
    assert clients.records(flow.target, flow.topic, 0) == []
    clients.configure(flow.target, flow.topic, max_message_bytes="100000")
    assert flow.catch_up() == 0
    assert flow.is_equal(0, 1)


def test_compacted_topic_arrives_without_what_compaction_removed(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    compaction = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "1", "delete_retention_ms": "0"}
    topic = clients.create(source, unique("compacted"), cleanup_policy="compact", **compaction)
    for number in range(6):
        clients.produce(source, topic, [{"key": f"{k}", "value": f"{number}"} for k in range(number, 10)])
        time.sleep(0.01)

    def is_compacted() -> bool:
        clients.produce(source, topic, [{"key": "9", "value": unique("value")}])
        return len(clients.records(source, topic)) <= 15

    clients.wait_for("compaction", is_compacted)
    # No more of it, at the target neither, so that both ends have what is compared.
    clients.configure(source, topic, min_cleanable_dirty_ratio="1.0", segment_ms="604800000")
    flow = Flow(source, target, topic, tmp_path)
    assert flow.catch_up() == 0
    written = clients.records(source, topic)
    assert 10 <= len(written) <= 15
    assert clients.ends(source, topic)[0] > len(written)
    assert clients.records(target, topic) == written


def test_times_that_the_source_gave_are_kept(source: Broker, target: Broker, tmp_path: Path) -> None:
    topic = clients.create(source, unique("timed"), message_timestamp_type="LogAppendTime")
    clients.produce(source, topic, odd_records(50), **{"compression.type": "zstd"})
    flow = Flow(source, target, topic, tmp_path)
    assert flow.catch_up() == 0
    written, arrived = clients.records(source, topic), clients.records(target, topic)
    assert [(*record[:3], record[3][1]) for record in written] == [
        (*record[:3], record[3][1]) for record in arrived
    ]


def test_record_with_rejected_time_stops_only_its_partition(flow: Flow) -> None:
    clients.create(flow.target, flow.topic, 2, message_timestamp_before_max_ms="3600000")
    clients.produce(flow.source, flow.topic, odd_records(3))
    clients.produce(flow.source, flow.topic, ["of now"] * 3, 1)
    assert flow.catch_up() == 3
    assert [(of["id"], of["what"]) for of in flow.reported()["left_out"]] == [
        ("mirror-time-rejected", f"{flow.topic}-0")
    ]
    assert flow.is_equal(1)
    assert clients.records(flow.target, flow.topic, 0) == []
    clients.configure(flow.target, flow.topic, message_timestamp_before_max_ms=str((1 << 63) - 1))
    assert flow.catch_up() == 0
    assert flow.is_equal(0, 1)


def test_merging_two_flows_never_loses_or_doubles_records(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    """Each has another topic of the source, and one of them a prefix. Both are killed while they write."""
    prefix, name = unique("from"), unique("merged")
    merged = f"{prefix}.{name}"
    topics = [clients.create(source, topic, 2) for topic in (merged, name)]
    flows = [(Flow(source, target, topic, tmp_path), topic) for topic in topics]
    options: dict[str, tuple[str, ...]] = {merged: (), name: ("--target-prefix", f"{prefix}.")}

    def values(broker: Broker, topic: str, partition: int) -> list[bytes]:
        return [value or b"" for _, value, _, _ in clients.records(broker, topic, partition)]

    def write(count: int) -> None:
        for topic in topics:
            for partition in (0, 1):
                clients.produce(source, topic, [f"{topic} {n}" for n in range(count)], partition)

    write(1_000)
    (first, _), (second, _) = flows
    assert first.catch_up() == 0
    assert second.catch_up(*options[name]) == 2  # the target's records may be its own
    assert second.catch_up(*options[name], "--first-start") == 0
    for _ in range(2):
        before = sum(ends(first))
        with first.running(), second.running(*options[name]):
            write(2_000)
            clients.wait_for("records", partial(has_more, first, before))
    for flow, topic in flows:
        assert flow.catch_up(*options[topic]) == 0
    for partition in (0, 1):
        arrived = values(target, merged, partition)
        assert len(arrived) == 10_000
        for topic in topics:
            own = [value for value in arrived if value.startswith(f"{topic} ".encode())]
            assert own == values(source, topic, partition)


def test_nothing_goes_round_between_two_clusters(source: Broker, target: Broker, tmp_path: Path) -> None:
    """Flows of both directions and a chain, with the names and patterns that an estate gives its flows."""
    name = unique("circle")
    one, other = f"one{name[-8:]}", f"other{name[-8:]}"  # the sites
    brokers = {one: source, other: target}
    topics = {site: clients.create(broker, f"{name}-{site}") for site, broker in brokers.items()}
    declared = [
        model.Flow(source=start, target=end, topics=(rf"(.*\.)?{name}.*",), naming="prefix", engine="batches")
        for start, end in ((one, other), (other, one))
    ]
    # A chain: what came from the first site goes on to another name.
    onward = ("--target-prefix", f"onward.{other}.")
    chain = Flow(target, source, topics[one], tmp_path, re.escape(f"{one}.{topics[one]}"))
    flows = [
        (
            Flow(brokers[of.source], brokers[of.target], topics[of.source], tmp_path, of.topics_pattern),
            ("--target-prefix", of.prefix),
        )
        for of in declared
    ]

    def named(broker: Broker) -> set[str]:
        return {topic for topic in clients.topics(broker) if name in topic and "internal" not in topic}

    for turn in range(2):  # in the second one, each flow finds what the others have written in the first
        for site, broker in brokers.items():
            clients.produce(broker, topics[site], [f"{site} {turn}"])
        for flow, options in [*flows, (chain, onward)]:
            assert flow.catch_up(*options) == 0
    chained = f"onward.{other}.{one}.{topics[one]}"
    assert named(source) == {topics[one], f"{other}.{topics[other]}", chained}
    assert named(target) == {topics[other], f"{one}.{topics[one]}"}
    for broker, topic, site in (
        (target, f"{one}.{topics[one]}", one),
        (source, f"{other}.{topics[other]}", other),
        (source, chained, one),
    ):
        arrived = [value for _, value, _, _ in clients.records(broker, topic)]
        assert arrived == [f"{site} {turn}".encode() for turn in range(2)]


def test_topic_with_replaced_timestamps_is_not_mirrored(flow: Flow) -> None:
    clients.create(flow.target, flow.topic, 2, message_timestamp_type="LogAppendTime")
    clients.produce(flow.source, flow.topic, ["one"])
    assert flow.catch_up() == 3
    assert flow.identifiers() == ["mirror-times-replaced"]
    assert clients.ends(flow.target, flow.topic) == [0]


def test_topics_and_partitions_that_are_new_are_mirrored(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    first = clients.create(source, unique("growing"), 1)
    flow = Flow(source, target, first, tmp_path, f"{first}.*")
    with flow.running():
        clients.produce(source, first, ["one"])
        clients.wait_for("the first topic", lambda: first in clients.topics(target))
        clients.grow(source, first, 10)
        for partition in range(10):
            clients.produce(source, first, [f"{partition}"], partition)
        second = clients.create(source, f"{first}.second", 3)
        clients.produce(source, second, ["two"], 2)
        clients.wait_for("the second topic", lambda: second in clients.topics(target))
        clients.wait_for("its record", lambda: clients.ends(target, second, 2)[0] > 0)
    assert flow.catch_up() == 0
    for topic, partitions in ((first, range(10)), (second, range(3))):
        assert clients.records(target, topic, *partitions) == clients.records(source, topic, *partitions)


def test_topic_rejected_by_target_does_not_stop_others(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    name = unique("collision")
    refused, other = (clients.create(source, f"{name}{end}", 2) for end in (".first", "-second"))
    clients.create(target, f"{name}_first")  # Kafka refuses names that differ in . and _ only
    for topic in (refused, other):
        clients.produce(source, topic, ["one"], 1)
    flow = Flow(source, target, other, tmp_path, rf"{name}\.first|{name}-.*")
    assert flow.catch_up() == 3
    assert [(of["id"], of["what"]) for of in flow.reported()["left_out"]] == [("topic-rejected", refused)]
    assert flow.is_equal(0, 1)
    with flow.running():
        clients.wait_for("the finding", lambda: len(flow.findings()) == 1)
        assert flow.findings()[0].startswith(f"[topic-rejected] Not mirrored: {refused}")
        third = clients.create(source, f"{name}-third")
        clients.produce(source, third, ["three"])
        clients.wait_for("a new topic", lambda: third in clients.topics(target))
        clients.delete(target, f"{name}_first")
        clients.wait_for("the topic", lambda: refused in clients.topics(target))
    assert flow.catch_up() == 0
    assert clients.records(target, refused, 0, 1) == clients.records(source, refused, 0, 1)


def test_partition_that_makes_no_progress_is_listed(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "STALLED_SECONDS", 1)
    monkeypatch.setattr(upkeep, "PROGRESS_SECONDS", 0.5)
    order = MirrorOrder(
        flow=flow.name,
        source=End("source", flow.source.plaintext),
        target=End("target", flow.target.plaintext),
        topics=MirroredTopics(re.compile(re.escape(flow.topic))),
        tasks=1,
    )
    slow = Quota({"client-id": task_id(flow.name, 0)}, {"consumer_byte_rate": 1})
    with connect(End("source", flow.source.plaintext), "test") as client:
        apply_quotas(client, [slow])
    clients.produce(flow.source, flow.topic, [b"x" * 100_000] * 20, **{"batch.num.messages": 1})
    figures, stopping = MirrorFigures(), Event()
    runner = Thread(target=run.run, args=(order, stopping, figures))
    runner.start()
    try:
        listed = {("mirror-partition-stalled", f"{flow.topic}-0")}
        clients.wait_for("the metric", lambda: {(of.id, of.what) for of in figures.skipped} == listed)
        clients.wait_for(
            "the finding", lambda: any("mirror-partition-stalled" in one for one in flow.findings())
        )
    finally:
        stopping.set()
        runner.join()


def test_pattern_that_matches_nothing_is_reported(source: Broker, target: Broker, tmp_path: Path) -> None:
    flow = Flow(source, target, unique("nothing"), tmp_path)
    assert flow.catch_up() == 3
    assert flow.identifiers() == ["pattern-matches-nothing"]


def test_each_unmatched_pattern_part_is_reported(source: Broker, target: Broker, tmp_path: Path) -> None:
    topic = clients.create(source, unique("parts"))
    clients.produce(source, topic, ["one"])
    flow = Flow(source, target, topic, tmp_path, rf"(?!(?:__.*)$)(?:{topic}|{topic}\.a|{topic}\.(b|c))")
    unmatched = [rf"{topic}\.(b|c)", rf"{topic}\.a"]
    assert flow.catch_up("--groups-pattern", f"{topic}-group|.*") == 3
    assert flow.is_equal(0)
    assert [(of["id"], of["what"]) for of in flow.reported()["left_out"]] == [
        *(("pattern-matches-nothing", part) for part in unmatched),
        ("pattern-matches-nothing", f"groups {topic}-group"),
    ]
    with flow.running():
        clients.wait_for("its record", lambda: flow.findings("--started") == [])
        findings = flow.findings()
    assert len(findings) == 2
    assert all(finding.startswith("[pattern-matches-nothing] ") for finding in findings)
