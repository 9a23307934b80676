"""`aqueduct transactions` against real brokers of each supported version that have hanging transactions."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import NewTopic
from kafka.errors import InvalidProducerEpochError
from kit import clients
from kit.clients import SECONDS, unique
from kit.hanging_transactions import UNVERIFIED, Forgotten, hang, one_record

from aqueduct.cli import main
from aqueduct.kafka import client as raw
from aqueduct.kafka.admin import transactions as asking
from aqueduct.kafka.client import Client
from aqueduct.kafka.client_config import End
from servers import broker, zookeeper
from servers.zookeeper import OlderBroker

OLDER = """
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
transaction.partition.verification.enable=false
"""
VERSIONS = sorted({*broker.JARS, zookeeper.VERSION})
Said = tuple[int, str]


@contextmanager
def older(directory: Path) -> Iterator[OlderBroker]:
    (directory / "zookeeper").mkdir()
    with zookeeper.running(directory / "zookeeper") as ensemble:
        started = zookeeper.broker(ensemble.connect, 1, directory / "broker", 1, more=OLDER)
        with started.process.running():
            yield started


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a broker of each supported version."""
    directory = tmp_path_factory.mktemp("hanging")
    making = older(directory)
    if request.param != zookeeper.VERSION:
        making = broker.running(directory, settings=UNVERIFIED, version=request.param)  # type: ignore[assignment]
    with making as started:
        yield started


@pytest.fixture
def asked(kafka: Any) -> Iterator[Client]:
    with raw.connect(End("cluster", kafka.plaintext), "test") as client:
        yield client


def say(capsys: pytest.CaptureFixture[str], kafka: Any, *command: str) -> Said:
    code = main([*command, "--bootstrap-server", kafka.plaintext])
    said = capsys.readouterr()
    return code, said.out + said.err


def commit_offset(kafka: Any, group: str, topic: str, offset: int) -> None:
    reader = clients.consumer(kafka, group)
    try:
        reader.commit(offsets=[Place(topic, 0, offset)], asynchronous=False)
    finally:
        reader.close()


def on(topic: str, start: int) -> list[str]:
    return ["--topic", topic, "--partition", "0", "--start-offset", str(start)]


def read_values(kafka: Any, topic: str, *partitions: int) -> list[bytes | None]:
    return [each.value() for each in clients.read(kafka, topic, *partitions)]


def test_each_supported_version_is_tested() -> None:
    locks = (Path(__file__).resolve().parents[2] / "artifacts").glob("kafka-*.sha256")
    assert {path.stem.removeprefix("kafka-") for path in locks} == set(VERSIONS)


@pytest.mark.parametrize("coordinator", ["has the epoch", "has a later epoch", "never knew the producer"])
def test_abort_ends_transaction_that_coordinator_does_not_track(
    kafka: Any,
    asked: Client,
    coordinator: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, name, group = clients.create(kafka, unique("hanging")), unique("id"), unique("group")
    clients.produce(kafka, topic, ["before"])
    commit_offset(kafka, group, topic, 1)
    if coordinator == "never knew the producer":
        producer = Forgotten(asked, name)
        producer.begin()
        producer.impersonate(47_110_815, epoch=3)
        producer.write(topic, 0, one_record(asked, kafka))
    else:
        producer = hang(asked, kafka, topic, name)
    if coordinator == "has a later epoch":
        Forgotten(asked, name).begin()  # another process takes the transactional id over
    clients.produce(kafka, topic, ["after"])
    assert read_values(kafka, topic) == [b"before"]

    report = tmp_path / "report.json"
    code, said = say(capsys, kafka, "transactions", "find-hanging", "--report", str(report))
    assert code == 3
    [entry] = [each for each in json.loads(report.read_text())["hanging"] if each["topic"] == topic]
    assert (entry["partition"], entry["start_offset"], entry["end_offset"]) == (0, 1, 3)
    assert entry["waiting"] == [f"group {group}"]
    assert entry["decided"] is None
    assert entry["transactional_id"] == (None if coordinator.startswith("never") else name)
    assert f"{topic}-0 has a hanging transaction of producer {producer.producer_id}" in said
    code, said = say(capsys, kafka, "doctor", "cluster")
    assert code == 3
    assert f"{topic}-0 has a hanging transaction" in said

    assert say(capsys, kafka, "transactions", "commit", *on(topic, 1), "--execute")[0] == 2
    assert say(capsys, kafka, "transactions", "abort", *on(topic, 0), "--execute")[0] == 2
    assert say(capsys, kafka, "transactions", "abort", *on(topic, 1))[0] == 0
    assert read_values(kafka, topic) == [b"before"], "nothing is written without --execute"
    code, said = say(capsys, kafka, "transactions", "abort", *on(topic, 1), "--execute")
    assert code == 0, said
    assert read_values(kafka, topic) == [b"before", b"after"]
    assert say(capsys, kafka, "transactions", "find-hanging", "--topic", topic)[0] == 0
    assert say(capsys, kafka, "transactions", "abort", *on(topic, 1), "--execute")[0] == 2


def test_abort_does_not_fence_producer_with_same_epoch(
    kafka: Any, asked: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = clients.create(kafka, unique("hanging"))
    producer = hang(asked, kafka, topic, unique("id"))
    assert say(capsys, kafka, "transactions", "abort", *on(topic, 0), "--execute")[0] == 0
    producer.commit_next(topic, 0, one_record(asked, kafka, "next"))
    clients.settle(kafka, topic)
    assert read_values(kafka, topic) == [b"next"]


def test_tracked_transaction_is_neither_reported_nor_ended(
    kafka: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = clients.create(kafka, unique("open"))
    producer = clients.transaction(kafka, topic, ["open"], "leave")
    assert say(capsys, kafka, "transactions", "find-hanging", "--topic", topic) == (
        0,
        "No transaction hangs.\n",
    )
    for outcome in ("abort", "commit"):
        code, said = say(capsys, kafka, "transactions", outcome, *on(topic, 0), "--execute")
        assert code == 2
        assert "is in state Ongoing" in said
    producer.commit_transaction()
    clients.settle(kafka, topic)
    assert read_values(kafka, topic) == [b"open"]


def test_transaction_ending_during_search_is_not_hanging(
    kafka: Any, asked: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator forgets it between the questions to the leader and to the coordinator."""
    topic = clients.create(kafka, unique("open"))
    producer = clients.transaction(kafka, topic, ["open"], "leave")
    states = asking._states

    def later(*arguments: Any) -> Any:
        producer.commit_transaction()
        clients.settle(kafka, topic)
        return states(*arguments)

    monkeypatch.setattr(asking, "_states", later)
    partitions = asked.topics([topic])[topic].partitions
    assert asking.find(asked, partitions).hanging == ()


def test_nothing_hangs_before_its_coordinator_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other broker answers as one that is elected, and has not begun to load the transactions."""
    (tmp_path / "first").mkdir()
    with (
        broker.running(tmp_path / "first", settings=UNVERIFIED) as first,
        broker.joining(first, 2, tmp_path / "second").running(),
        raw.connect(End("cluster", first.plaintext), "test") as client,
    ):
        admin = clients.admin(first)
        admin.create_topics([NewTopic("open", 1, replica_assignment=[[1]])])["open"].result()
        clients.wait_for("its leader", lambda: clients.led(admin, "open", 1))
        producer = Forgotten(client, "id")
        producer.begin()
        producer.impersonate(10_000, 0)
        producer.write("open", 0, one_record(client, first))
        partitions = client.topics(["open"])["open"].partitions
        [leader] = (asking._coordinators(client) or {}).values()
        assert len(asking.find(client, partitions).hanging) == 1
        monkeypatch.setattr(raw, "STALL_SECONDS", 1)
        monkeypatch.setattr(asking, "_coordinators", lambda _: {0: 3 - (leader or 0)})
        search = asking.find(client, partitions)
    assert search.hanging == ()
    [unknown] = search.unknown
    assert "a coordinator has not loaded its transactions" in str(unknown)


# The command searches as `find-hanging` does, which is tested with each version.
@pytest.mark.parametrize(
    "kafka",
    [pytest.param(each, marks=() if each == broker.DEFAULT else pytest.mark.long) for each in VERSIONS],
    indirect=True,
)
def test_mirror_wait_reports_hanging_transaction_blocking_worker(
    kafka: Any, asked: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """By this command, site.yml waits for a mirror, and so does each step of authority.yml."""
    flow = unique("flow")
    positions = clients.create(kafka, f"mm2-offsets.{flow}.internal")
    hang(asked, kafka, positions, f"{flow}-mm2-MirrorSourceConnector-0")
    at_both = ["--source-bootstrap-server", kafka.plaintext, "--target-bootstrap-server", kafka.plaintext]
    command = ["mirror", "--flow", flow, *at_both, "--started", "--wait", "1s"]
    assert main(command) == 3
    said = capsys.readouterr().out
    assert f"{positions}-0 has a hanging transaction" in said
    assert f"`aqueduct transactions abort {' '.join(on(positions, 0))}`" in said
    assert f"Start mirror_maker@{flow}" not in said
    assert say(capsys, kafka, "transactions", "abort", *on(positions, 0), "--execute")[0] == 0
    assert main(command) == 3
    assert f"Start mirror_maker@{flow}" in capsys.readouterr().out


def test_what_does_not_exist_is_refused(kafka: Any, capsys: pytest.CaptureFixture[str]) -> None:
    missing = unique("missing")
    code, said = say(capsys, kafka, "transactions", "abort", *on(missing, 0), "--execute")
    assert (code, missing in said) == (2, True)
    topic = clients.create(kafka, unique("small"))
    code, said = say(capsys, kafka, "transactions", "find-hanging", "--topic", topic, "--partition", "7")
    assert (code, "No partition 7" in said) == (2, True)


@pytest.mark.long
def test_commit_delivers_transaction_whose_marker_was_never_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka 4.3.1 skips the marker of a partition without a leader, as in a restart of its only replica."""
    (tmp_path / "first").mkdir()
    with broker.running(tmp_path / "first") as first:
        second = broker.joining(first, 2, tmp_path / "second")
        with second.running():
            asked, topic = clients.admin(first), "orders"
            for name, replicas in (("__transaction_state", [[1]]), (topic, [[2]])):
                made = NewTopic(name, len(replicas), replica_assignment=replicas)
                asked.create_topics([made])[name].result()
                clients.wait_for("its leader", lambda name=name: clients.led(asked, name, 1), SECONDS)
            producer = clients.transaction(first, topic, ["first"], "commit", **{"transactional.id": "shop"})
            clients.settle(first, topic)

            def leaderless() -> bool:
                return clients.metadata(asked).topics[topic].partitions[0].leader < 0

            def leave_without_marker(value: bytes) -> None:
                producer.begin_transaction()
                clients.write(producer, topic, [value])
                producer.flush()
                second.kill()
                clients.wait_for("the end of broker 2", leaderless)
                producer.commit_transaction()
                code, said = say(capsys, first, "transactions", "find-hanging", "--topic", topic)
                assert code == 3
                assert f"It is unknown whether {topic}-0 has hanging transactions" in said
                second.start()
                clients.wait_for("its leader", lambda: clients.led(asked, topic, 1))

            leave_without_marker(b"second")
            commit_offset(first, "desk", topic, 2)

            code, said = say(capsys, first, "doctor", "cluster")
            assert code == 3
            assert re.search(
                r"orders-0 has a hanging transaction of producer \d+ \(transactional id shop\)", said
            )
            assert (
                "wait for this transaction: group desk. The coordinator committed the transaction at 20"
            ) in said
            command = "transactions commit --topic orders --partition 0 --start-offset 2"
            assert f"Run `aqueduct {command}`." in said
            finish = ("transactions", "finish", "--leader", "2")
            code, said = say(capsys, first, *finish, "--execute")
            assert (code, f"Run `aqueduct {command}`." in said) == (3, True), "its producer has the epoch yet"
            assert read_values(first, topic) == [b"first"]
            code, said = say(capsys, first, "transactions", "abort", *on(topic, 2), "--execute")
            assert (code, "loses acknowledged records" in said) == (2, True)
            assert read_values(first, topic) == [b"first"]
            assert say(capsys, first, *command.split(), "--execute")[0] == 0
            assert read_values(first, topic) == [b"first", b"second"]
            well = (0, "Nothing is wrong.\n")
            clients.wait_for("all to be well", lambda: say(capsys, first, "doctor", "cluster") == well)
            producer.begin_transaction()
            clients.write(producer, topic, ["third"])
            producer.commit_transaction()
            clients.settle(first, topic)
            assert read_values(first, topic) == [b"first", b"second", b"third"]

            leave_without_marker(b"fourth")
            clients.transaction(first, topic, [], "leave", **{"transactional.id": "shop"}).abort_transaction()
            assert say(capsys, first, "transactions", "finish", "--leader", "1") == (
                0,
                "No transaction hangs.\n",
            )
            code, said = say(capsys, first, *finish)
            assert (code, "Add --execute to end 1 transaction as decided." in said) == (3, True)
            assert read_values(first, topic) == [b"first", b"second", b"third"]
            with pytest.MonkeyPatch.context() as patched:

                def refused(*_: Any) -> None:
                    raise InvalidProducerEpochError

                patched.setattr(asking, "end", refused)
                code, said = say(capsys, first, *finish, "--execute")
            assert (code, "its leader refused the marker" in said) == (3, True), said
            assert f"{topic}-0 has a hanging transaction" in said
            code, said = say(capsys, first, *finish, "--execute")
            assert code == 0, said
            assert "is committed. The coordinator committed the transaction at 20" in said
            assert read_values(first, topic) == [b"first", b"second", b"third", b"fourth"]
            assert say(capsys, first, *finish, "--execute") == (0, "No transaction hangs.\n")
