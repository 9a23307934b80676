"""A producer writes batches that inflate: what need not be opened is moved, the rest is left out by name."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import clients, landings
from kit.identifiers import printed
from kit.landings import LandingFolder
from kit.links import Link, linked
from kit.mirror_engine_flows import Flow

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode
from aqueduct.kafka import client as kafka
from aqueduct.kafka import groups
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import TransactionalProducer
from aqueduct.land import run
from aqueduct.snapshots.restore import progress, records
from servers.broker import Broker

Run = Callable[..., None]
Restore = Callable[..., dict[str, Any]]
Said = pytest.CaptureFixture[str]
MEBIBYTE = 1 << 20
lake = landings.lake  # a fixture
EARLY, LATE = 1_600_000_000_000, 1_600_000_009_000  # times of records
# Of groups: records 5 to 7 inflate, 8 is a marker.
OFFSETS = {"before": 3, "first": 5, "inside": 6, "after": 11}


def bomb(broker: Broker, topic: str, *times: int) -> None:
    """Write a batch of a few kilobytes, whose records have 50 MiB each."""
    large = body(None, bytes(50 * MEBIBYTE))
    rows = [Record(time, number, large) for number, time in enumerate(times)]
    ready = Ready(bytearray(build(Records.listed(rows), codec="zstd")), len(rows), 0)
    with kafka.connect(End("source", broker.plaintext), "attack") as client:
        producer = TransactionalProducer(client, clients.unique("attack"))
        producer.begin()
        producer.send(topic, 0, ready)
        producer.commit()
    clients.settle(broker, topic)


@pytest.fixture
def attacked(source: Broker, name: str, backup: Run) -> Callable[..., str]:
    """Back up a topic with ten records of others, five before those that inflate and five after."""

    def make(*times: int, **config: str) -> str:
        clients.create(source, name, **config)
        for first in (0, 5):
            clients.produce(source, name, [f"value {number}" for number in range(first, first + 5)])
            if not first:
                bomb(source, name, *times)
        with kafka.connect(End("source", source.plaintext), "attack") as client:
            for group, offset in OFFSETS.items():
                groups.commit(client, f"{name}.{group}", {TopicPartition(name, 0): (offset, "")})
        backup(name, "--groups-pattern", f"{name}.*")
        return name

    return make


def values(broker: Broker, topic: str, **more: Any) -> list[str]:
    clients.settle(broker, topic)
    return [(message.value() or b"").decode() for message in clients.read(broker, topic, 0, **more)]


def test_restore_skips_only_decompression_bomb_batches(
    target: Broker,
    attacked: Callable[..., str],
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
) -> None:
    """With LogAppendTime a batch must be opened, for each record to keep its time."""
    monkeypatch.setattr(
        records, "TRANSACTION_BYTES", 1
    )  # so that positions before and after it are committed
    topic = attacked(*3 * [EARLY], **{"message.timestamp.type": "LogAppendTime"})
    report = restore(topic, "--groups-pattern", f"{topic}.*", code=ExitCode.INCOMPLETE)
    assert printed(capsys.readouterr().out) == ["decompression-limit-exceeded"]
    assert [each["records"] for each in report["partitions"]] == [10]
    assert [(each["id"], each["what"]) for each in report["left_out"]] == [
        ("decompression-limit-exceeded", f"offsets 5 to 7 of the backup of {topic}-0")
    ]
    assert values(target, topic) == [f"value {number}" for number in range(10)]
    expected = {"before": "value 3", "first": "value 5", "inside": "value 5", "after": "value 7"}
    for group, value in expected.items():
        [offset] = clients.committed(target, f"{topic}.{group}").values()
        assert values(target, topic, start=offset)[0] == value
    noted = {each["group"].removeprefix(f"{topic}."): each.get("note", "") for each in report["groups"]}
    told = "its next records were skipped, so it continues after them"
    assert noted == {"before": "", "first": told, "inside": told, "after": ""}
    # It had ended, and still says so.
    restore(topic, "--groups-pattern", f"{topic}.*", code=ExitCode.INCOMPLETE)
    assert printed(capsys.readouterr().out) == ["decompression-limit-exceeded"]


def test_batches_engine_stops_only_partition_with_decompression_bomb(
    source: Broker, target: Broker, name: str, tmp_path: Path
) -> None:
    """With LogAppendTime a batch must be opened, for each record to keep its time."""
    attacked = clients.create(source, f"{name}.attacked", message_timestamp_type="LogAppendTime")
    moved, other = (clients.create(source, f"{name}.{end}") for end in ("moved", "other"))
    for topic in (attacked, moved):
        clients.produce(source, topic, [f"{number}" for number in range(5)])
        bomb(source, topic, *3 * [EARLY])
        clients.produce(source, topic, ["after"])
    clients.produce(source, other, [f"{number}" for number in range(5)])
    flow = Flow(source, target, attacked, tmp_path, rf"{name}\..*")
    assert flow.catch_up("--tasks", "1") == ExitCode.INCOMPLETE
    assert [(of["id"], of["what"]) for of in flow.reported()["left_out"]] == [
        ("mirror-batch-unopened", f"{attacked}-0")
    ]
    assert values(target, attacked) == values(target, other) == [f"{number}" for number in range(5)]
    [end] = clients.ends(target, moved)
    assert values(target, moved, start=end - 2) == ["after"]  # before the marker; librdkafka opens no bomb
    assert json.loads(flow.report.read_text())["records"] == 5 + 5 + 9
    with flow.running():
        clients.produce(source, other, ["more"])
        clients.wait_for("the other topic", lambda: values(target, other)[5:] == ["more"])
        clients.wait_for(
            "the finding", lambda: any("mirror-batch-unopened" in finding for finding in flow.findings())
        )
    assert len(values(target, attacked)) == 5


def test_restore_skips_decompression_bomb_across_time_window_edge(
    target: Broker, attacked: Callable[..., str], restore: Restore, capsys: Said
) -> None:
    topic = attacked(EARLY, EARLY, LATE)
    since = ("--from-time", str(EARLY + 1), "--groups-pattern", f"{topic}.*")
    restore(topic, *since, code=ExitCode.INCOMPLETE)
    assert f"offsets 5 to 7 of the backup of {topic}-0" in capsys.readouterr().out
    assert values(target, topic) == [f"value {number}" for number in range(10)]
    [offset] = clients.committed(target, f"{topic}.after").values()
    assert values(target, topic, start=offset)[0] == "value 7"


def test_what_need_not_be_opened_is_restored(
    target: Broker, attacked: Callable[..., str], restore: Restore
) -> None:
    topic = attacked(*3 * [EARLY])
    report = restore(topic, "--groups-pattern", f"{topic}.*")
    assert [each["records"] for each in report["partitions"]] == [13]
    assert not report["left_out"]
    [end] = clients.ends(target, topic, 0)
    assert end >= 13


def test_restore_progress_holds_maximum_number_of_skipped_batches() -> None:
    largest = (1 << 63) - 1
    full = progress.RestoreProgress(
        topic_id="0" * 36,
        start=largest,
        records=largest,
        bytes=largest,
        producers=tuple(range(largest - 50, largest)),
        unopened=(progress.UnopenedBatch(largest, largest, 1_000_000),) * records.MOST_UNOPENED,
    )
    assert progress.loads(progress.RestoreProgress, progress.dumps(full, "topic-0")) == full


@pytest.fixture
def link(source: Broker, target: Broker, name: str, tmp_path: Path) -> Iterator[Link]:
    """Yield a link for a topic with ten records of others, and between them three that inflate."""
    for broker in (source, target):
        clients.create(broker, name, 2)
    for first in (0, 5):
        clients.produce(source, name, [f"value {number}" for number in range(first, first + 5)])
        if not first:
            bomb(source, name, *3 * [EARLY])
    with linked(tmp_path, source, target, name) as link:
        yield link


def test_link_filter_withholds_unreadable_batch_and_continues(link: Link) -> None:
    link.downstream()
    link.upstream(inputFilterRules="deny:secret")
    clients.wait_for("all as covered", lambda: {(0, offset) for offset in range(14)} <= link.covered())
    assert f"{link.topic}-0: offsets 5 to 7 are not sent, " in link.said("upstream")
    link.check()
    link.dedup()
    assert values(link.target, link.topic) == [f"value {number}" for number in range(10)]


def test_without_a_filter_it_crosses_as_it_is(link: Link) -> None:
    link.downstream()
    link.upstream()
    clients.wait_for("all as covered", lambda: {(0, offset) for offset in range(14)} <= link.covered())
    link.check()
    link.dedup()
    assert clients.settle(link.target, link.topic, 0) >= [13]


def test_record_mode_skips_and_reports_unreadable_batch(link: Link) -> None:
    link.downstream(topics=link.topic, mode="record", rawTopic="")
    link.upstream()
    clients.wait_for("the others", lambda: clients.ends(link.target, link.topic, 0) == [10])
    said = f"{link.topic}-0: offsets 5 to 7 are not written, "
    assert said in link.said("downstream")
    assert link.counted("refused") == 1
    link.check()


@pytest.mark.parametrize("of_a_task", [1_000, 2])  # also where several tasks read parts of it
def test_landing_skips_decompression_bomb_and_lands_surrounding_records(
    lake: LandingFolder, name: str, of_a_task: int, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setattr(run, "TASK_OFFSETS", (of_a_task, of_a_task))
    clients.create(lake.broker, name, 2)
    lake.declare(name)
    good = [b'{"id": 1}'] * 3
    clients.produce(lake.broker, name, good)
    bomb(lake.broker, name, *3 * [EARLY])  # offsets 3 to 5; the transaction's marker is 6
    clients.produce(lake.broker, name, good)
    clients.produce(lake.broker, name, good, 1)
    report = lake.folder / "report.json"
    expected = [*((0, offset) for offset in (0, 1, 2, 7, 8, 9)), *((1, offset) for offset in range(3))]

    assert lake.land(f"--report={report}") == ExitCode.INCOMPLETE
    assert printed(capsys.readouterr().out) == ["decompression-limit-exceeded"]
    [reported] = json.loads(report.read_text())["tables"]
    [skipped] = reported["unopened"]
    assert {key: skipped[key] for key in ("id", "topic", "partition", "from", "to")} == {
        "id": "decompression-limit-exceeded",
        "topic": name,
        "partition": 0,
        "from": 3,
        "to": 6,
    }
    assert not reported["left_out"]
    assert lake.placed() == expected
    assert lake.placed("flights_bad") == []

    clients.produce(lake.broker, name, good)
    expected[6:6] = [(0, offset) for offset in (10, 11, 12)]
    assert lake.land() == ExitCode.DONE
    assert lake.land() == ExitCode.DONE
    assert lake.placed() == expected
    spans = {f"{name}-0": [[3, 5]]}
    assert main(lake.command("status", f"--report={report}")) == ExitCode.DONE
    assert json.loads(report.read_text())["tables"][0]["unopened"] == spans

    # The topic still has what the table has not, and nobody can see whether that are records.
    assert main(lake.command("verify", f"--report={report}")) == ExitCode.INCOMPLETE
    [reported] = json.loads(report.read_text())["tables"]
    assert [skipped["id"] for skipped in reported["left_out"]] == ["decompression-limit-exceeded"]
    assert reported["unopened"] == spans
    assert reported["right"]
    assert not reported["missing"]
    assert not reported["doubled"]
    assert not reported["unknown"]
    clients.delete_records(lake.broker, name, 7)
    assert main(lake.command("verify", f"--report={report}")) == ExitCode.DONE
    assert json.loads(report.read_text())["tables"][0]["unopened"] == spans


def test_landing_skips_decompression_bomb_again_after_reset(lake: LandingFolder, name: str) -> None:
    clients.create(lake.broker, name)
    lake.declare(name)
    clients.produce(lake.broker, name, [b'{"id": 1}'] * 3)
    bomb(lake.broker, name, *3 * [EARLY])
    clients.produce(lake.broker, name, [b'{"id": 1}'] * 3)
    report = lake.folder / "report.json"
    for reset in (1, 4, 7):
        assert lake.land() == ExitCode.INCOMPLETE
        assert lake.placed() == [(0, offset) for offset in (0, 1, 2, 7, 8, 9)]
        assert main(lake.command("verify", f"--report={report}")) == ExitCode.INCOMPLETE
        [reported] = json.loads(report.read_text())["tables"]
        assert (reported["right"], reported["unopened"]) == (True, {f"{name}-0": [[3, 5]]})
        assert main(lake.command("reset", f"--to-offsets={name}:0:{reset}", "--execute")) == ExitCode.DONE
    assert lake.land() == ExitCode.DONE  # after it
    assert lake.placed() == [(0, offset) for offset in (0, 1, 2, 7, 8, 9)]
