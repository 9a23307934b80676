"""A broker that came back with another id on its data folder: the old id again, or its logs for the new."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from unittest.mock import ANY

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec, PartitionMetadata
from kit import clients
from kit.identifiers import assert_printed

from aqueduct import cli
from aqueduct.kafka import client as raw
from aqueduct.kafka.admin.cluster import describe_by_controller
from aqueduct.kafka.client_config import End
from servers import broker, quorum, zookeeper
from servers.broker import Broker
from servers.process import Process
from servers.zookeeper import OlderBroker

OFFSETS = "__consumer_offsets"
TOPICS = {"lost": [[1], [2]], "kept": [[2, 1], [1, 2]], OFFSETS: [[1], [2]]}
GROUPS = [f"readers-{number}" for number in range(8)]
RECORDS = 500


@dataclass
class Cluster:
    """Two brokers: the first one stays, the second one gets other ids."""

    directory: Path
    first: Broker | OlderBroker
    second: Callable[[int, Path], Process]
    before: object = None  # what clients saw

    @property
    def folder(self) -> str:
        return str(self.directory / "second/data")

    def with_id(self, node_id: int) -> AbstractContextManager[Process]:
        """Run the second broker on its data folder, with this id."""
        # One that comes back before its session has ended finds itself there in ZooKeeper, and ends.
        clients.wait_for("the end of its session", lambda: node_id not in self.brokers())
        return self.second(node_id, self.directory / "second").running()

    def fill(self) -> None:
        asked = clients.admin(self.first)
        for topic, replicas in TOPICS.items():
            config = {"cleanup.policy": "compact"} if topic == OFFSETS else {"segment.bytes": "1048576"}
            made = NewTopic(topic, 2, replica_assignment=replicas, config=config)
            asked.create_topics([made])[topic].result()
        clients.wait_for("leaders", self.led)
        for topic in ("lost", "kept"):
            for partition in range(2):
                values = (f"{partition}-{n}" + "x" * 5000 for n in range(RECORDS))
                clients.produce(self.first, topic, values, partition)
        for number, group in enumerate(GROUPS):
            clients.set_position(self.first, group, "lost", number)
        self.before = self.seen()

    def seen(self) -> object:
        asked = clients.admin(self.first)  # whose answers don't come when it is gone
        wanted = {TopicPartition("lost", number): OffsetSpec.max_timestamp() for number in range(2)}

        def newest() -> list[int]:
            with suppress(KafkaException):  # a broker has just started to lead
                return [each.result().timestamp for each in asked.list_offsets(wanted).values()]
            return []

        return (
            clients.wait_for("times of records", newest),  # retention goes by them
            [
                clients.records(self.first, topic, partition)
                for topic in ("lost", "kept")
                for partition in range(2)
            ],
            clients.all_coordinated(self.first, GROUPS, "lost", clients.SECONDS),
        )

    def led(self) -> bool:
        asked = clients.admin(self.first)
        return all(clients.led(asked, topic, 2) for topic in TOPICS)

    def assigned(self) -> set[int]:
        """Return all brokers that have a replica of something, or are said to."""
        topics = clients.metadata(clients.admin(self.first)).topics.values()
        return {node for topic in topics for each in topic.partitions.values() for node in each.replicas}

    def await_second(self, node_id: int) -> None:
        clients.wait_for("the broker", lambda: node_id in self.brokers())

    def brokers(self) -> set[int]:
        return {*clients.metadata(clients.admin(self.first)).brokers}


@contextmanager
def kraft(directory: Path) -> Iterator[Cluster]:
    (directory / "first").mkdir()
    with broker.running(directory / "first", coordinators=2) as first:
        yield Cluster(directory, first, lambda node_id, folder: broker.joining(first, node_id, folder))


@contextmanager
def with_zookeeper(directory: Path) -> Iterator[Cluster]:
    (directory / "zookeeper").mkdir()
    with zookeeper.running(directory / "zookeeper") as ensemble:
        first = zookeeper.broker(ensemble.connect, 1, directory / "first")
        with first.process.running():
            yield Cluster(
                directory,
                first,
                lambda node_id, folder: zookeeper.broker(ensemble.connect, node_id, folder).process,
            )


# Scenario old_estate does it with ZooKeeper.
@pytest.fixture(params=[kraft, pytest.param(with_zookeeper, marks=pytest.mark.long)])
def changed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Yield a cluster whose second broker, which stands still, is to be 12."""
    with request.param(tmp_path) as cluster:
        with cluster.with_id(2):
            cluster.fill()
        # As people do: a broker refuses another id than this file's, and in KRaft the controller one in it.
        (tmp_path / "second/data/meta.properties").unlink()
        yield cluster


@pytest.fixture
def aqueduct(changed: Cluster, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return what runs a command of `aqueduct repair`, and takes its output; with `look`, at both brokers."""

    def run(*arguments: str, look: bool = True) -> tuple[int, str]:
        if look:
            arguments += ("--bootstrap-server", changed.first.plaintext)
            for name in ("first", "second"):
                assert (
                    cli.main(
                        ["repair", "inspect", *("--data-folder", str(changed.directory / name / "data"))]
                    )
                    == 0
                )
                seen = changed.directory / f"{name}.json"
                seen.write_text(capsys.readouterr().out)
                arguments += ("--inspection", str(seen))
        code = cli.main(["repair", *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


Repair = Callable[..., tuple[int, str]]


def doctor(first: Broker | OlderBroker, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert cli.main(["doctor", "cluster", "--bootstrap-server", first.plaintext, *options]) == 3
    return capsys.readouterr().out.splitlines()


def report_of_unread(changed: Cluster, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the doctor's report once it has partitions without a leader, or nothing once all have one.

    The controller elects broker 2 if that reports its folder before it is unfenced, as on a slow machine.
    """
    unread = "2 partitions cannot be read or written (__consumer_offsets-1, lost-1)"

    def report() -> str:
        cli.main(["doctor", "cluster", "--bootstrap-server", changed.first.plaintext])
        return capsys.readouterr().out

    clients.wait_for("a finding, or leaders", lambda: unread in report() or changed.led())
    last = report()
    return last if unread in last else ""


def test_it_gets_its_old_id_back(
    changed: Cluster, aqueduct: Repair, capsys: pytest.CaptureFixture[str]
) -> None:
    back = ("restore-logs", "--data-folder", changed.folder, "--node-id", "2")
    with changed.with_id(12):
        clients.wait_for("the end of broker 2", lambda: not changed.led())
        assert None in clients.all_coordinated(changed.first, GROUPS, "lost", seconds=5)
        code, said = aqueduct(*back, look=False)
        assert code == 2
        assert_printed(said, "broker-running", changed.folder)
        code, said = aqueduct("plan")
        assert code == 3
        assert "second was broker 2 and is broker 12 now. It has logs of 4 partitions of broker 2" in said
        assert "give second the id 2 again" in said
        # What becomes of its logs while it has another id.
        strays = [*Path(changed.folder).glob("*-stray")]
        # Beside other findings: a broker that has just started may not answer yet.
        found = "\n".join(doctor(changed.first, capsys, "--data-folder", changed.folder))
        if isinstance(changed.first, Broker):
            assert len(strays) == 4
            assert f"{changed.folder} contains 4 stray logs: " in found
        else:
            assert strays == []
            assert " A broker with ZooKeeper keeps these logs in the folder" in found
    assert aqueduct(*back, look=False) == (0, ANY)
    with changed.with_id(2):
        changed.await_second(2)
        # To a KRaft controller its folder is a new one: it elects nobody when it learns of the logs in it.
        if isinstance(changed.first, Broker) and (report := report_of_unread(changed, capsys)):
            assert "broker 2 runs. The controller counts no replica on running brokers as in sync." in report
            assert (
                "`aqueduct repair inspect` on the host of each broker. Then run `aqueduct repair elect`"
                in report
            )
        assert aqueduct("elect") == (0, ANY)
        clients.wait_for("leaders", changed.led)
        assert changed.seen() == changed.before
        assert aqueduct("plan") == (0, "No id was changed.\n")


def restore_logs(changed: Cluster, aqueduct: Repair) -> None:
    """Restore the logs; those of `kept` may have come from its other replica before broker 12 stopped."""
    code, said = aqueduct("restore-logs", "--data-folder", changed.folder, look=False)
    aside = [line for line in said.splitlines() if " was not restored: " in line]
    assert code == (3 if aside else 0)
    assert all("/kept-" in line for line in aside)


@pytest.mark.long  # the next test assigns and elects with --replaced, a lost disk's with --lost
def test_its_logs_are_assigned_to_the_new_id(changed: Cluster, aqueduct: Repair) -> None:
    with changed.with_id(12):
        clients.wait_for("the end of broker 2", lambda: not changed.led())
        code, said = aqueduct("assign")
        assert (code, said.splitlines()[1:]) == (
            0,
            ["Broker 2 is broker 12 now: run `aqueduct repair elect` with --lost 2."],
        )
    restore_logs(changed, aqueduct)
    with changed.with_id(12):
        changed.await_second(12)
        code, said = aqueduct("elect")
        assert (code, said.splitlines()[0]) == (3, "0 partitions got leaders.")
        assert "lost-1 has no leader: broker 2 was not inspected;" in said
        assert aqueduct("elect", "--lost", "2") == (0, ANY)
        clients.wait_for("leaders", changed.led)
        assert changed.seen() == changed.before
        clients.wait_for("the end of what is reassigned", lambda: changed.assigned() == {1, 12})
        clients.produce(changed.first, "lost", ["one more"], 1)
        assert aqueduct("plan") == (0, "No id was changed.\n")


def test_run_that_was_cut_after_assign_continues(changed: Cluster, aqueduct: Repair, tmp_path: Path) -> None:
    """All of it again, as the playbook does: nobody has to know which id was replaced."""
    replaced = ("--replaced", str(tmp_path / "ids.json"))
    with changed.with_id(12):
        clients.wait_for("the end of broker 2", lambda: not changed.led())
        code, said = aqueduct("assign", *replaced)
        assert (code, said.splitlines()[1:]) == (
            0,
            ["Broker 2 is broker 12 now: run `aqueduct repair elect` with the same --replaced."],
        )
        code, said = aqueduct("plan", *replaced)
        assert (code, "was not inspected" in said) == (3, False)
    restore_logs(changed, aqueduct)
    with changed.with_id(12):
        changed.await_second(12)
        assert aqueduct("assign", *replaced) == (0, ANY)
        code, said = aqueduct("elect")
        assert (code, said.splitlines()[0]) == (3, "0 partitions got leaders.")
        assert "lost-1 has no leader: broker 2 was not inspected;" in said
        assert aqueduct("elect", *replaced) == (0, ANY)
        assert not (tmp_path / "ids.json").exists()
        clients.wait_for("leaders", changed.led)
        assert changed.seen() == changed.before
        clients.wait_for("the end of what is reassigned", lambda: changed.assigned() == {1, 12})
        clients.produce(changed.first, "lost", ["one more"], 1)
        assert aqueduct("plan", *replaced) == (0, "No id was changed.\n")


def test_what_has_no_log_any_more_begins_anew(changed: Cluster, aqueduct: Repair, tmp_path: Path) -> None:
    """Its groups have no positions; those of a backup are set by another command."""
    with changed.with_id(12):
        clients.wait_for("the end of broker 2", lambda: not changed.led())
    shutil.rmtree(changed.folder)
    empty, gone = f"lost:1,{OFFSETS}:1", ("--lost", "2")
    with changed.with_id(12):
        changed.await_second(12)
        code, said = aqueduct("assign", "--empty", empty)
        assert code == 2
        assert_printed(said, "partition-may-have-logs", f"{OFFSETS}-1", "broker 2")
        code, said = aqueduct("assign", "--empty", "kept:0", *gone)
        assert code == 2
        assert_printed(said, "partition-may-have-logs", "kept-0")
        code, said = aqueduct("assign", *gone)
        assert (code, said.splitlines()[1:]) == (
            3,
            [
                f"{each} has no leader: no inspected folder has a log of it."
                for each in (f"{OFFSETS}-1", "lost-1")
            ],
        )
        assert aqueduct("assign", "--empty", empty, *gone) == (0, ANY)
        code, said = aqueduct("elect", "--empty", empty, *gone)
        assert (code, said.splitlines()[1:]) == (
            0, ["`aqueduct restore --groups-only` restores the lost offsets of groups from a backup."],
        )  # fmt: skip
        clients.wait_for("leaders", changed.led)
        (_, kept, positions), (_, former, earlier) = changed.seen(), changed.before  # type: ignore[misc, attr-defined]
        assert kept == [former[0], [], *former[2:]]
        assert set(positions) ^ set(earlier) == {-1001} | {each for each in earlier if each not in positions}
        assert -1001 in positions


def test_logs_beside_a_lost_disk_are_assigned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of two data folders is lost, and the broker comes back with another id and the other folder."""
    directory = tmp_path / "second"
    gone = directory / "more"
    (tmp_path / "first").mkdir()
    with broker.running(tmp_path / "first") as first:
        asked = clients.admin(first)
        with broker.joining(first, 2, directory, folders=("data", "more")).running():
            made = NewTopic("lost", 4, replica_assignment=[[2]] * 4)
            asked.create_topics([made])["lost"].result()
            clients.wait_for("leaders", lambda: clients.led(asked, "lost", 4))
            for partition in range(4):
                clients.produce(first, "lost", (f"{partition}-{n}" for n in range(20)), partition)
            before = {partition: clients.records(first, "lost", partition) for partition in range(4)}
        clients.wait_for("the end of broker 2", lambda: 2 not in clients.metadata(asked).brokers)
        lost = sorted(int(log.name.removeprefix("lost-")) for log in gone.glob("lost-?"))
        assert 0 < len(lost) < len(before)
        shutil.rmtree(gone)
        (directory / "data/meta.properties").unlink()

        def repair(*arguments: str) -> tuple[int, str]:
            for name, more in {"first": (), "second": ("--lost-folder", str(gone))}.items():
                folder = ("--data-folder", str(tmp_path / name / "data"))
                assert cli.main(["repair", "inspect", *folder, *more]) == 0
                (tmp_path / f"{name}.json").write_text(capsys.readouterr().out)
            looked = [f"--inspection={tmp_path}/{name}.json" for name in ("first", "second")]
            code = cli.main(["repair", *arguments, "--bootstrap-server", first.plaintext, *looked])
            said = capsys.readouterr()
            return code, said.out + said.err

        without = sorted(f"lost-{number} has no leader" for number in lost)
        with broker.joining(first, 12, directory).running():
            code, said = repair("plan")
            assert (code, f"{gone} of second" in said) == (3, True), said
            code, said = repair("assign")
            assert (code, sorted(re.findall(r"lost-\d has no leader", said))) == (3, without), said
            renamed = "Broker 2 is broker 12 now: run `aqueduct repair elect` with --lost 2."
            assert renamed in said.splitlines()
        assert cli.main(["repair", "restore-logs", "--data-folder", str(directory / "data")]) == 0
        capsys.readouterr()
        with broker.joining(first, 12, directory).running():
            code, said = repair("elect", "--lost", "2")
            assert (code, sorted(re.findall(r"lost-\d has no leader", said))) == (3, without), said
            empty = ("--empty", ",".join(f"lost:{number}" for number in lost), "--lost", "2")
            assert repair("assign", *empty) == (0, ANY)
            assert repair("elect", *empty) == (0, ANY)
            clients.wait_for("leaders", lambda: clients.led(asked, "lost", 4))
            found = {partition: clients.records(first, "lost", partition) for partition in range(4)}
            assert found == before | {partition: [] for partition in lost}


def test_leftover_logs_make_no_broker_of_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 2 is only down; broker 1 has a log of one of its partitions, as from before a reassignment."""
    with kraft(tmp_path) as cluster:
        with cluster.with_id(2):
            cluster.fill()
        clients.wait_for("the end of broker 2", lambda: not cluster.led())
        shutil.copytree(tmp_path / "second/data/lost-1", tmp_path / "first/data/lost-1")
        with raw.connect(End("cluster", cluster.first.plaintext), "test") as client:
            addresses = describe_by_controller(client).addresses
        assert [addresses[node].rpartition(":")[0] for node in (1, 2)] == ["127.0.0.1"] * 2
        looks: list[str] = []
        for name, why in (
            ("first", "both brokers have replicas of kept-0, kept-1"),
            ("second", "second has the data folders of broker 2"),
        ):
            assert cli.main(["repair", "inspect", "--data-folder", str(tmp_path / name / "data")]) == 0
            seen = tmp_path / f"{name}.json"
            seen.write_text(capsys.readouterr().out)
            looks += ["--inspection", str(seen)]
            asked = ("--bootstrap-server", cluster.first.plaintext, *looks)
            assert cli.main(["repair", "plan", *asked]) == 3
            said = capsys.readouterr().out
            assert "first is broker 1, and has logs of 1 partition of broker 2." in said
            assert f"They are left unchanged: {why}" in said
            assert "was broker 2" not in said
            assert cli.main(["repair", "assign", *asked]) == 3
            assert capsys.readouterr().out.startswith("0 partitions assigned")
        shutil.rmtree(tmp_path / "first/data/lost-1")
        with cluster.with_id(2):
            clients.wait_for("leaders", cluster.led)
            assert cluster.seen() == cluster.before


@contextmanager
def changed_byte(file: Path) -> Iterator[None]:
    """Have another last byte in a file meanwhile."""
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    yield
    file.write_bytes(whole)


def test_no_leader_is_elected_from_incomplete_inspections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker was down, and comes back alone: the other one has acknowledged more, and isn't there."""
    cluster = quorum.formatted(tmp_path)
    asked, (first, second) = cast(Broker, cluster), cluster.brokers

    def look(*nodes: quorum.Node) -> list[str]:
        options = []
        for node in nodes:
            assert cli.main(["repair", "inspect", "--data-folder", str(node.data)]) == 0
            seen = tmp_path / f"{node.node_id}.json"
            seen.write_text(capsys.readouterr().out)
            options += ["--inspection", str(seen)]
        return options

    def repair(command: str, looks: list[str], code: int = 3) -> str:
        assert cli.main(["repair", command, "--bootstrap-server", second.address, *looks]) == code
        return "".join(capsys.readouterr())

    def kept() -> PartitionMetadata | None:
        return clients.partition_of(asked, "kept")

    def in_sync() -> set[int]:
        return {*found.isrs} if (found := kept()) else set()

    def records() -> list[bytes]:
        return [value for _, value, *_ in clients.records(asked, "kept", 0)]

    with cluster.running(*cluster.controllers), second.process.running():
        with first.process.running():
            admin = clients.admin(asked)
            clients.wait_for("both brokers", lambda: len(clients.metadata(admin).brokers) == 2)
            made = NewTopic("kept", 1, replica_assignment=[[1, 2]])
            admin.create_topics([made])["kept"].result()
            clients.wait_for("both in sync", lambda: in_sync() == {1, 2})
            clients.produce(asked, "kept", (f"both-{n}" for n in range(50)), 0)
            of_before = [str(shutil.copy(path, f"{path}.before")) for path in look(first, second)[1::2]]
            second.process.stop()
            clients.wait_for("one in sync", lambda: in_sync() == {1})
            clients.produce(asked, "kept", (f"one-{n}" for n in range(50)), 0)
        second.process.start()
        clients.wait_for("nobody to lead", lambda: (found := kept()) and found.leader == -1)
        refusal = repair("elect", look(first, second))
        assert "kept-0 has no leader: broker 2 would become leader, but another broker" in refusal

        uninspected = "broker 1 was not inspected; inspect it, too, or pass --lost 1 if its disks are"
        assert (
            f"1 partition without a leader may have a longer log on another broker, kept-0: {uninspected}"
            in repair("plan", look(second))
        )
        assert repair("elect", look(second)).startswith(
            f"0 partitions got leaders.\nkept-0 has no leader: {uninspected}"
        )
        assert (
            repair("assign", look(second)).splitlines()[1].startswith(f"kept-0 has no leader: {uninspected}")
        )
        before = ["--inspection", of_before[0], "--inspection", of_before[1]]
        for command in ("plan", "assign", "elect"):
            assert "broker 1 ran when it was inspected, but is not registered" in repair(command, before)
            assert "--lost 99: no partition has a replica there." in repair(
                command, [*before, *("--lost", "99")]
            )
        of_a_former_version = [{"path": "/data", "cluster_id": cluster.cluster_id, "node_id": 1, "logs": []}]
        former = tmp_path / "1.json"
        former.write_text(json.dumps(of_a_former_version))
        for command in ("plan", "assign", "elect"):
            assert "[inspection-outdated] The inspection of 1 has no time" in repair(
                command, ["--inspection", str(former), *look(second)], 2
            )

        with changed_byte(max((first.data / "kept-0").glob("*.log"))):
            damaged = "because the log of broker 1 is damaged (00000000000000000000.log: The batch at offset "
            looks = look(first, second)
            assert f"No leader can be elected for kept-0, {damaged}" in repair("plan", looks)
            assert f"kept-0 has no leader: {damaged.removeprefix('because ')}" in repair("elect", looks)
            assert "its CRC does not match its content.)" in repair("assign", looks, 2)
        with first.process.running():
            clients.wait_for("both in sync", lambda: in_sync() == {1, 2})
            assert records() == [f"{who}-{n}".encode() for who in ("both", "one") for n in range(50)]
