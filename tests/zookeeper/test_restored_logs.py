"""An ensemble is lost and restored from a snapshot that is older than the brokers' logs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kit import clients

from aqueduct.cli import main
from servers import zookeeper
from servers.zookeeper import OlderBroker, ZooKeeper, broker

PRODUCERS = 20
TOPICS = {"kept": [[11, 12], [12, 11]], "other": [[12, 11]]}

Run = Callable[..., tuple[int, str]]


@dataclass
class Estate:
    """Two brokers, whose folders outlive the ensembles that they ask."""

    directory: Path
    written: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)  # by topic and partition

    @property
    def store(self) -> str:
        return f"file://{self.directory}/store"

    def folder(self, node_id: int) -> Path:
        return self.directory / str(node_id) / "data"

    @contextmanager
    def ensemble(self, name: str) -> Iterator[ZooKeeper]:
        (self.directory / name).mkdir()
        with zookeeper.running(self.directory / name) as started:
            yield started

    def broker(self, ensemble: ZooKeeper, node_id: int) -> OlderBroker:
        return broker(
            ensemble.connect,
            node_id,
            self.directory / str(node_id),
            more="transaction.state.log.replication.factor=1\ncontrolled.shutdown.enable=true\n",
        )

    def write(self, by: OlderBroker, topic: str, part: int, begin: str, records: int = 100) -> None:
        values = [f"{begin}-{number}".encode() for number in range(records)]
        clients.produce(by, topic, values, part)
        self.written.setdefault((topic, part), []).extend(values)

    def write_each(self, by: OlderBroker, begin: str) -> None:
        """Write a record by each of many producers, the first of their ids."""
        for number in range(PRODUCERS):
            self.write(by, "kept", 0, f"{begin}-{number}", 1)

    def looks(self, aqueduct: Run, *node_ids: int) -> list[str]:
        options = []
        for node_id in node_ids:
            file = self.directory / f"broker-{node_id}.json"
            file.write_text(aqueduct("repair", "inspect", "--data-folder", str(self.folder(node_id)))[1])
            options += ["--inspection", str(file)]
        return options


@pytest.fixture
def aqueduct(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main([*arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def in_sync(by: OlderBroker, isr: set[int], topics: Mapping[str, list[list[int]]] = TOPICS) -> bool:
    found = clients.metadata(clients.admin(by)).topics
    return all(
        topic in found
        and {*found[topic].partitions[number].isrs} == isr
        and found[topic].partitions[number].leader in isr
        for topic, partitions in topics.items()
        for number in range(len(partitions))
    )


def make(by: OlderBroker, topic: str, partitions: list[list[int]]) -> None:
    asked = clients.admin(by)
    asked.create_topics([NewTopic(topic, len(partitions), replica_assignment=partitions)])[topic].result()
    clients.wait_for("its leaders", partial(in_sync, by, {11, 12}, {topic: partitions}))


@pytest.fixture
def lost(tmp_path: Path, aqueduct: Run) -> Estate:
    """Of which a snapshot was kept before leaders changed, a topic was made, and one broker fell behind.

    The other one lost its power in the end: what a disk had not written of a log by then reads as zeros.
    """
    estate = Estate(tmp_path)
    with estate.ensemble("first") as ensemble, ExitStack() as stack:
        first, second = (estate.broker(ensemble, node_id) for node_id in (11, 12))
        for each in (first, second):
            stack.enter_context(each.process.running())
        for topic, partitions in TOPICS.items():
            make(first, topic, partitions)
            for part in range(len(partitions)):
                estate.write(first, topic, part, "before")
        code, said = aqueduct("zookeeper", "backup", "--connect", ensemble.connect, "--store", estate.store)
        assert code == 0, said
        for left, stays in ((first, second), (second, first)) * 2:
            left.process.stop()
            clients.wait_for("one alone", partial(in_sync, stays, {11 if left is second else 12}))
            estate.write(stays, "kept", 1, "by one")
            estate.write_each(stays, "by one")
            left.process.start()
            clients.wait_for("both", partial(in_sync, stays, {11, 12}))
        make(first, "later", [[11, 12]])
        estate.write(first, "later", 0, "later")
        second.process.stop()
        clients.wait_for("one alone", partial(in_sync, first, {11}))
        for topic, part in [*estate.written]:
            estate.write(first, topic, part, "alone")
        estate.write_each(first, "first of its id")
        first.process.kill()
    [*_, newest] = sorted((estate.folder(11) / "kept-1").glob("*.log"))
    with newest.open("ab") as segment:
        segment.write(bytes(100))
    return estate


def values(by: OlderBroker, topic: str, part: int) -> list[bytes | None]:
    return [value for _, value, *_ in clients.records(by, topic, part)]


@pytest.mark.long
def test_no_record_is_cut_off(lost: Estate, aqueduct: Run) -> None:
    """Whichever broker starts first, producers get ids that nobody had, and what is not known is named."""
    with lost.ensemble("second") as ensemble, ExitStack() as stack:
        restore = ("zookeeper", "restore", "--connect", ensemble.connect, "--store", lost.store)
        code, said = aqueduct(*restore, *lost.looks(aqueduct, 11))
        assert code == 2
        assert "[broker-disks-unseen] The disks of brokers 12 were" in said
        code, said = aqueduct(*restore)
        assert code == 0
        assert "The logs of brokers were not inspected. " in said
        looks = lost.looks(aqueduct, 11, 12)
        code, said = aqueduct(*restore, *looks)
        assert code == 3, said
        assert "NOT known: later-0 (topic id " in said
        assert "DAMAGED: kept-1 on broker-11: " in said
        assert "Broker 11 has the longest logs and becomes leader of: kept-0, kept-1, other-0. " in said
        assert "Existing znodes are overwritten to match the logs: /brokers/topics/kept/" in said
        assert "0 znodes created, 4 overwritten" in said
        code, said = aqueduct(*restore, *looks)
        assert (code, "0 znodes created, 0 overwritten" in said) == (3, True), said
        started = {}
        for node_id in (12, 11):
            started[node_id] = lost.broker(ensemble, node_id)
            stack.enter_context(started[node_id].process.running())
        clients.wait_for("both in sync", partial(in_sync, started[11], {11, 12}))
        for topic, part in (("kept", 0), ("kept", 1), ("other", 0)):
            assert values(started[11], topic, part) == lost.written[topic, part]
        lost.write_each(started[11], "again")
        assert values(started[11], "kept", 0) == lost.written["kept", 0]
        assert (lost.folder(11) / "later-0").is_dir()
