"""The classic MirrorMaker between two real brokers: what a kill or a failure left is sent again."""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import KafkaException
from kit import classic, clients
from kit.classic import Mirror
from kit.cut_logs import cut_partitions
from kit.estate_facts import judged
from kit.identifiers import printed

from aqueduct.cli import main
from aqueduct.control_node.status.model import ObjectKind, ObjectState
from servers.broker import Broker
from servers.process import Process, binary

PARTITIONS = 4


def mirror(source: Broker, target: Broker, folder: Path, *topics: str, **options: Any) -> Mirror:
    mine = ("host", "commit_seconds", "tuning", "patience")
    own = {each: options.pop(each) for each in mine if each in options}
    flow = classic.flow(clients.unique("pro").replace(".", "-"), *topics, **options)
    return Mirror(flow, source.plaintext, target.plaintext, folder, **own)


def made(brokers: list[Broker], partitions: int = PARTITIONS, **config: str) -> str:
    """Make one topic at both ends."""
    name = clients.unique("flights")
    clients.create(brokers[0], name, partitions)
    return clients.create(brokers[1], name, partitions, **config)


def values(broker: Broker, topic: str, partitions: int = PARTITIONS) -> list[list[bytes]]:
    """Return what each partition has, in its order."""
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    for each in clients.read(broker, topic, *range(partitions)):
        found[each.partition() or 0].append(each.value() or b"")
    return found


def firsts(found: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(found))


def ended(process: Process) -> int:
    """Wait until a process ends by itself, and return how."""
    try:
        return process._process.wait(400)
    finally:
        process.kill()


def mirrored(source: Broker, ours: Mirror) -> int:
    """Return how many records its group has committed."""
    return sum(clients.committed(source, ours.flow.group).values())


def reconciled(source: Broker, target: Broker, topic: str, report: Path) -> tuple[int, int, int]:
    """Return the exit code of reconcile, how many records are missing, and how many are there beyond them."""
    ask = [
        "reconcile",
        *("--source-bootstrap-server", source.plaintext),
        *("--target-bootstrap-server", target.plaintext),
        *("--topics", topic),
    ]
    code = main([*ask, "--report", str(report)])
    partitions = json.loads(report.read_text())["partitions"]
    missing = sum(each["sources"][0]["missing"]["records"] for each in partitions)
    return code, missing, sum(each["target"]["extra"]["records"] for each in partitions)


def produce_all(broker: Broker, topic: str, records: int, start: int = 0) -> None:
    """Write records without a key, whose place no hash can tell."""
    for partition in range(PARTITIONS):
        numbers = range(start, start + records)
        clients.produce(broker, topic, [f"{partition}-{n}" for n in numbers], partition)


@pytest.mark.long
def test_records_uncommitted_at_kill_are_doubled_and_reported(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = brokers
    topic = made(brokers)
    produce_all(source, topic, 500)
    first = mirror(source, target, tmp_path / "m", topic, commit_seconds=600)
    with first.process().running() as process:
        clients.wait_for("all records", lambda: sum(clients.ends(target, topic, *range(4))) == 2000)
        process.kill()
    assert clients.committed(source, first.flow.group) == {}
    assert reconciled(source, target, topic, tmp_path / "r.json") == (0, 0, 0)
    capsys.readouterr()

    first.commit_seconds = 1
    with first.process().running():
        clients.wait_for("its commits", lambda: mirrored(source, first) == 2000)
    assert reconciled(source, target, topic, tmp_path / "r.json") == (3, 0, 2000)
    told = capsys.readouterr().out
    assert f"{topic}-0: 500 records of the target are not in the source, first at target offset 500." in told
    there = values(target, topic)
    assert [firsts(each) for each in there] == values(source, topic)
    assert {*Counter(chain(*there)).values()} == {2}


def test_kills_in_the_middle_of_writing_lose_nothing(brokers: list[Broker], tmp_path: Path) -> None:
    source, target = brokers
    topic = made(brokers)
    stop, written = Event(), [0]

    def write() -> None:
        producer = clients.idempotent(source)
        while not stop.wait(0.02):
            numbers = range(written[0], written[0] + 10)
            for partition in range(PARTITIONS):
                clients.write(producer, topic, [f"{partition}-{n}" for n in numbers], partition)
            written[0] += 10
        assert producer.flush(clients.SECONDS) == 0

    writer = Thread(target=write)
    ours = mirror(source, target, tmp_path / "m", topic, threads=2)
    writer.start()
    try:
        for _ in range(2):
            more = sum(clients.ends(target, topic, *range(4))) + 400
            with ours.process().running():
                clients.wait_for("more", lambda more=more: sum(clients.ends(target, topic, *range(4))) > more)
    finally:
        stop.set()
        writer.join()
    with ours.process().running():
        total = written[0] * PARTITIONS
        clients.wait_for("the end", lambda: mirrored(source, ours) == total)
    there = values(target, topic)
    assert [firsts(each) for each in there] == values(source, topic)
    doubled = sum(map(len, there)) - total
    assert doubled > 0
    assert reconciled(source, target, topic, tmp_path / "r.json") == (3, 0, doubled)


@pytest.mark.parametrize("alone", [True, pytest.param(False, marks=pytest.mark.long)])
def test_failed_send_stops_mirror_before_next_commit(
    brokers: list[Broker], tmp_path: Path, alone: bool
) -> None:
    source, target = brokers
    topic = made(brokers, 1, max_message_bytes="2000")
    large = "x" * 100_000
    # Alone in its batch it fails at once; with others that is split and sent again until its time is up.
    after = range(50, 100)
    clients.produce(source, topic, [*range(50), large, *(() if alone else after)])
    tuning = {"request.timeout.ms": 2000}
    ours = mirror(source, target, tmp_path / "m", topic, tuning=tuning, patience=30_000 if alone else 4000)
    process = ours.process()
    for _ in range(2):  # a service that systemd starts again fails there again
        process.start()
        assert ended(process) == 255
    assert ("RecordTooLargeException" if alone else "TimeoutException") in ours.said()
    assert "Exiting on send failure, skip committing offsets" in ours.said()
    assert clients.committed(source, ours.flow.group).get((topic, 0), 0) <= 50
    there = values(target, topic, 1)[0]
    assert large.encode() not in there

    clients.configure(target, topic, max_message_bytes="1000000")
    clients.produce(source, topic, after if alone else ())
    ours.patience = 0
    with ours.process().running():
        clients.wait_for("the end", lambda: mirrored(source, ours) == 101)
    assert {*values(source, topic, 1)[0]} == {*values(target, topic, 1)[0]}
    _, missing, _ = reconciled(source, target, topic, tmp_path / "r.json")
    assert missing == 0


def test_a_target_that_is_silent_is_waited_for(brokers: list[Broker], tmp_path: Path) -> None:
    source, target = brokers
    topic = made(brokers, 1)
    clients.produce(source, topic, range(10))
    ours = mirror(source, target, tmp_path / "m", topic)
    with ours.process().running() as process:
        clients.wait_for("a commit", lambda: mirrored(source, ours) == 10)
        with target.process.silent():
            clients.produce(source, topic, range(10, 500))
            time.sleep(3)
            assert clients.committed(source, ours.flow.group) == {(topic, 0): 10}
        clients.wait_for("the rest", lambda: mirrored(source, ours) == 500)
        assert process._process.poll() is None
    assert reconciled(source, target, topic, tmp_path / "r.json")[1] == 0


def test_two_hosts_share_partitions_and_one_takes_over(brokers: list[Broker], tmp_path: Path) -> None:
    source, target = brokers
    topic = made(brokers)
    one = mirror(source, target, tmp_path / "1", topic)
    other = Mirror(one.flow, one.source, one.target, tmp_path / "2", host="h2")
    group = one.flow.group

    asked = clients.admin(source)

    def members() -> list[int]:
        with suppress(KafkaException):  # a young cluster has no coordinator yet
            described = asked.describe_consumer_groups([group])[group].result()
            return sorted(len(each.assignment.topic_partitions) for each in described.members)
        return []

    with other.process().running():
        with one.process().running():
            clients.wait_for("two halves", lambda: members() == [2, 2])
            produce_all(source, topic, 100)
            clients.wait_for("all", lambda: mirrored(source, one) == 400)
        produce_all(source, topic, 100, 100)
        clients.wait_for("the rest", lambda: mirrored(source, one) == 800)
        clients.wait_for("all of them at one host", lambda: members() == [4])
    assert [firsts(each) for each in values(target, topic)] == values(source, topic)
    for each in (one, other):
        assert f"client.id = {group}-{each.host}" in each.said()


def test_mirror_begins_at_ends_except_for_new_topics(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = brokers
    topic = made(brokers, 2)
    clients.produce(source, topic, range(100))
    late = f"{topic}.late"
    pattern = topic.replace(".", r"\.") + r"(\.late)?"
    ends = mirror(source, target, tmp_path / "m", pattern, naming="prefix")
    flow = ends.flow
    clients.create(target, flow.prefix + topic, 2)
    ask = ["mirror", "--flow", flow.name, "--group", flow.group, "--topics-pattern", flow.topics_pattern]
    ask += ["--source-bootstrap-server", source.plaintext, "--target-bootstrap-server", target.plaintext]
    ask += ["--target-prefix", flow.prefix]

    def said(*more: str) -> tuple[int, str]:
        return main([*ask, *more]), capsys.readouterr().out

    assert said("--begin-at-ends")[1] == f"Group {flow.group} begins at the ends of 2 partitions.\n"
    assert said("--begin-at-ends")[1] == f"Group {flow.group} has positions and continues from them.\n"
    code, text = said()
    assert code == 3
    assert f"No process of the mirror from {flow.name} is a member of its group {flow.group}" in text
    code, text = said("--json")
    [judged_flow] = [
        each
        for each in judged("lake-kafka-1", "flow:pro", text, code).objects
        if each.declared.kind == ObjectKind.FLOW
    ]
    assert judged_flow.state == ObjectState.NEEDS_ACTION
    assert {each.id for each in judged_flow.findings} == {"mirror-workers-missing"}
    assert judged_flow.figures["lag"] == 0, "the group begins at the ends"
    with ends.process().running():
        clients.produce(source, topic, range(100, 110))
        code, text = said("--wait", "300s", "--until-caught-up")
        assert (code, text) == (0, "2 partitions, 0 of them behind by 0 records.\n")
        on_a_host = subprocess.run([*clients.BASE_ONLY, *ask], capture_output=True, text=True)
        assert (on_a_host.returncode, on_a_host.stdout) == (0, text), on_a_host.stderr
        assert printed(on_a_host.stderr) == []
        clients.create(source, late)
        clients.transaction(source, late, range(5), "commit")
        code, text = said()
        assert code == 3
        assert f"{flow.prefix}{late} (1 partition at the source, 0 at the target)" in text
        clients.create(target, flow.prefix + late)
        code, text = said("--topics-pattern", rf"{flow.topics_pattern}|{late}\.(a|b)|{late}\.c")
        assert code == 3
        assert text.count("[pattern-matches-nothing]") == 2
        code, text = said("--wait", "300s", "--until-caught-up")
        # The transaction's marker is no record that could be behind.
        assert (code, text) == (0, "3 partitions, 0 of them behind by 0 records.\n")
    assert values(target, flow.prefix + topic, 2)[0] == [b"%d" % n for n in range(100, 110)]
    assert values(target, flow.prefix + late, 1)[0] == [b"%d" % n for n in range(5)]
    clients.produce(source, topic, range(20))
    clients.delete_records(source, topic, 115)
    code, text = said()
    assert f"deleted records before they were mirrored: {topic}-0 (5 offsets from 110)" in text


Ask = Callable[..., tuple[int, list[str]]]


def asking(source: Broker, target: Broker, ours: Mirror, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return `aqueduct mirror` of the flow: its exit code, and its findings and warnings."""
    flow = ours.flow
    ask = ["mirror", "--flow", flow.name, "--group", flow.group, "--topics-pattern", flow.topics_pattern]
    ask += ["--source-bootstrap-server", source.plaintext, "--target-bootstrap-server", target.plaintext]

    def run(*more: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = main([*ask, *more])
        said = capsys.readouterr()
        return code, re.findall(r"^(?:aqueduct: )?\[([a-z-]+)\]", said.out + said.err, re.MULTILINE)

    return run


UNCHECKED, OUTDATED = "classic-positions-unchecked", "classic-position-outdated"
STOPPED = "mirror-workers-missing"


def test_running_mirror_reports_recreated_topic_until_accepted(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka's consumer may continue in the middle of the new log: its group looks well then."""
    source, target = brokers
    topic = made(brokers, 1)
    clients.produce(source, topic, range(50))
    ours = mirror(source, target, tmp_path / "m", topic.replace(".", r"\."))
    ask = asking(source, target, ours, capsys)
    with ours.process().running():
        clients.wait_for("its commit", lambda: mirrored(source, ours) == 50)
        assert ask() == (0, [UNCHECKED]), "no topic id was stored before"
        assert ask() == (0, [])
        clients.recreate(source, topic)
        clients.produce(source, topic, range(100, 190))
        clients.wait_for("its commit in the new log", lambda: mirrored(source, ours) == 90)
        for more in ((), ("--wait", "2s", "--until-caught-up")):
            assert ask(*more) == (3, [OUTDATED])
        assert ask("--accept-ranges") == (0, [])
        assert ask() == (0, [])


def test_stopped_mirror_reads_recreated_topic_from_start(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = brokers
    topic = made(brokers, 1)
    clients.produce(source, topic, range(50))
    ours = mirror(source, target, tmp_path / "m", topic.replace(".", r"\."))
    ask = asking(source, target, ours, capsys)
    with ours.process().running() as process:
        clients.wait_for("its commit", lambda: mirrored(source, ours) == 50)
        assert ask() == (0, [UNCHECKED])
        process.stop()  # as systemd does: it leaves its group, so nothing waits for the end of its session
    clients.recreate(source, topic)
    clients.produce(source, topic, range(100, 180))
    clients.wait_for("no position", lambda: mirrored(source, ours) == 0)
    clients.wait_for("a group without members", lambda: ask() == (3, [STOPPED]))
    with ours.process().running():
        clients.wait_for("its commit in the new log", lambda: mirrored(source, ours) == 80)
        assert ask("--wait", "60s", "--until-caught-up") == (0, [])
    assert values(target, topic, 1)[0] == [b"%d" % number for number in (*range(50), *range(100, 180))]


def test_truncated_source_log_is_reported_by_each_run(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of partition 0 ends before the position. The log of partition 1 has grown past it again."""
    source, target = brokers
    topic = made(brokers, 2)
    for first in (0, 30):
        for partition in (0, 1):
            clients.produce(source, topic, range(first, first + 30), partition)
    ours = mirror(source, target, tmp_path / "m", topic.replace(".", r"\."))
    ask = asking(source, target, ours, capsys)
    with ours.process().running():
        clients.wait_for("its commits", lambda: mirrored(source, ours) == 120)
        assert ask() == (0, [UNCHECKED])
    cut_partitions(source, topic, {0: 30, 1: 30})
    clients.produce(source, topic, range(100, 110), 0)
    clients.produce(source, topic, range(100, 190), 1)
    clients.wait_for("its coordinator", lambda: mirrored(source, ours) == 120)
    report = tmp_path / "report.json"
    for _ in range(2):
        code, identifiers = ask("--report", str(report))
        others = [identifier for identifier in identifiers if identifier != STOPPED]  # by its session's end
        assert (code, others) == (3, [OUTDATED])
        listed = [(each["partition"], each["to"]) for each in json.loads(report.read_text())["ranges"]]
        assert listed == [(0, 40), (1, 60)]


def test_compiled_partition_handler_matches_its_source(tmp_path: Path) -> None:
    source = classic.HANDLER / "SamePartition.java"
    command = ["javac", "--release", "11", "-g:none", "-cp", f"{binary('AQUEDUCT_OLDER_KAFKA_JARS')}/*"]
    subprocess.run([*command, "-d", str(tmp_path), str(source)], check=True, capture_output=True)
    built = (tmp_path / "SamePartition.class").read_bytes()
    assert built == source.with_suffix(".class").read_bytes()
