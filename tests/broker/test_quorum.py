"""All controllers lose their disks: a new quorum is formed from a backup, or from a broker's copy."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import TopicPartition as Place
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import ElectionType
from kit import clients
from kit.identifiers import assert_printed, printed

from aqueduct import cli
from aqueduct.kafka.batches.batch import walk
from aqueduct.recovery.quorum import metadata, snapshots
from aqueduct.recovery.quorum.records import producer_ids_record
from aqueduct.recovery.quorum.snapshots import QuorumSnapshots
from aqueduct.store.backends import open_editable
from aqueduct.store.numbered_snapshots import keep_snapshot
from servers import broker, quorum
from servers.broker import Broker
from servers.quorum import Node, Quorum

OFFSETS, METADATA = "__consumer_offsets", "__cluster_metadata-0"
TOPICS = {"kept": [[1, 2], [2, 1]], "single": [[1], [2]], OFFSETS: [[1, 2], [2, 1]]}
GROUPS = [f"readers-{number}" for number in range(6)]
READ = [("kept", 0), ("kept", 1), ("single", 0), ("single", 1)]
RIGHT = AclBinding(
    *(ResourceType.TOPIC, "kept", ResourcePatternType.LITERAL, "User:CN=anna", "*"),
    *(AclOperation.READ, AclPermissionType.ALLOW),
)
PRODUCERS = 20  # each of which gets an id
CHECKPOINTS = {"replica.high.watermark.checkpoint.interval.ms": "500"}  # a test waits for one


@dataclass
class Lost:
    """What is left of a cluster when its controllers' disks are gone, and what its clients saw before."""

    quorum: Quorum
    directory: Path
    ids: Mapping[str, str]
    records: object
    positions: object

    @property
    def broker(self) -> Broker:
        return cast(Broker, self.quorum)  # clients take its address alone

    @property
    def store(self) -> str:
        return f"file://{self.directory}/store"

    def lose(self) -> None:
        """Bring brokers' disks into the state that they had, and controllers' into that of new ones."""
        for node in (*self.quorum.brokers, *self.quorum.controllers):
            shutil.rmtree(node.data)
        for node in self.quorum.brokers:
            shutil.copytree(self.saved(node), node.data)
        for node in self.quorum.controllers:
            node.data.mkdir()

    def saved(self, node: Node) -> Path:
        return self.directory / f"saved-{node.node_id}"


def read(broker: Broker) -> object:
    return [clients.records(broker, *each) for each in READ]


def positions(broker: Broker) -> list[int | None]:
    return clients.all_coordinated(broker, GROUPS, "kept", clients.SECONDS)


def commit(broker: Broker, begin: int) -> None:
    for number, group in enumerate(GROUPS):
        clients.set_position(broker, group, "kept", begin + number)


def topic_ids(broker: Broker, *known: str) -> dict[str, str]:
    """Return the ids of all topics when these are known: of two brokers, one may hear of a topic later."""
    asked = clients.admin(broker)

    def ids() -> dict[str, str]:
        with suppress(KafkaException):
            names = TopicCollection([*clients.metadata(asked).topics])
            described = asked.describe_topics(names)
            found = {name: str(topic.result().topic_id) for name, topic in described.items()}
            return found if {*known} <= found.keys() else {}
        return {}

    found: dict[str, str] = clients.wait_for("ids of topics", ids)
    return found


def in_sync(broker: Broker, nodes: set[int], *topics: str) -> bool:
    found = clients.metadata(clients.admin(broker)).topics
    return {*topics} <= found.keys() and all(
        {*part.isrs} == nodes & {*part.replicas} and part.leader >= 0
        for topic in topics
        for part in found[topic].partitions.values()
    )


def write_each(broker: Broker, begin: str) -> None:
    """Write a record by each of many producers, which are idempotent: all are the first of their ids."""
    for number in range(PRODUCERS):
        producer = clients.idempotent(broker)
        producer.produce("kept", f"{begin}-{number}", partition=0)
        assert producer.flush(clients.SECONDS) == 0


def fill(broker: Broker) -> None:
    asked = clients.admin(broker)
    clients.wait_for("both brokers", lambda: len(clients.metadata(asked).brokers) == 2)
    for topic, replicas in TOPICS.items():
        config = {"cleanup.policy": "compact"} if topic == OFFSETS else {}
        made = NewTopic(topic, 2, replica_assignment=replicas, config=config)
        asked.create_topics([made])[topic].result()
    clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, *TOPICS))
    asked.create_acls([RIGHT])[RIGHT].result()
    for topic, partition in READ:
        clients.produce(broker, topic, (f"{partition}-{n}" + "x" * 500 for n in range(300)), partition)
    commit(broker, 0)


def move_leaders(broker: Broker) -> None:
    """Let the leaders of a topic change eight times, and be who they were."""
    asked = KafkaAdminClient(bootstrap_servers=broker.plaintext.split(","))
    for first, second in ((2, 1), (1, 2)) * 4:
        leaders = {0: first, 1: second}
        replicas = {Place("kept", 0): [first, second], Place("kept", 1): [second, first]}
        asked.alter_partition_reassignments(replicas)
        asked.elect_leaders(ElectionType.PREFERRED, {"kept": [0, 1]})

        def lead(leaders: Mapping[int, int] = leaders) -> bool:
            found = clients.metadata(clients.admin(broker)).topics["kept"].partitions
            return {number: part.leader for number, part in found.items()} == leaders

        clients.wait_for("other leaders", lead)
    asked.close()


def go_on(cluster: Quorum) -> None:
    """Do what a backup before it can't know, but for a broker that falls behind."""
    broker, first = cast(Broker, cluster), cluster.brokers[0]
    move_leaders(broker)
    first.process.kill()  # when it is back, it is given other ids for producers
    clients.wait_for("the end of broker 1", lambda: in_sync(broker, {2}, "kept", OFFSETS))
    first.process.start()
    clients.wait_for("both in sync", lambda: in_sync(broker, {1, 2}, "kept", OFFSETS))
    asked = clients.admin(broker)
    asked.create_topics([NewTopic("later", 1, replica_assignment=[[1, 2]])])["later"].result()
    clients.wait_for("its leader", lambda: in_sync(broker, {1, 2}, "later"))
    clients.produce(broker, "later", (f"later-{n}" for n in range(50)))


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    directory = tmp_path_factory.mktemp("quorum")
    cluster = quorum.formatted(directory, settings=CHECKPOINTS)
    broker, (first, second) = cast(Broker, cluster), cluster.brokers
    [controller] = cluster.controllers
    with cluster.running():
        fill(broker)
        found = Lost(cluster, directory, topic_ids(broker, *TOPICS), None, None)
        backup = ("quorum", "backup", "--data-folder", str(controller.data), "--store", found.store)
        assert cli.main(backup) == 0
        go_on(cluster)
        singles = clients.records(broker, "single", 1)
        second.process.kill()
        clients.wait_for("broker 1 alone", lambda: in_sync(broker, {1}, "kept", OFFSETS))
        clients.produce(broker, "kept", (f"alone-{n}" for n in range(100)), 1)
        write_each(broker, "before")
        commit(broker, 40)
        found.records = [*(clients.records(broker, *each) for each in READ[:3]), singles]
        found.positions = positions(broker)
        checkpoint = first.data / "replication-offset-checkpoint"
        clients.wait_for("what is committed on the disk", lambda: "kept 1 400" in checkpoint.read_text())
    for node in cluster.brokers:
        shutil.copytree(node.data, found.saved(node))
    return found


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def aqueduct(lost: Lost, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a command of `aqueduct quorum`, and takes its output."""
    lost.lose()
    capsys.readouterr()

    def run(*arguments: str, verb: str = "quorum") -> tuple[int, str]:
        code = cli.main([verb, *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def looks(lost: Lost, aqueduct: Run) -> list[str]:
    options = []
    for node in lost.quorum.brokers:
        _, said = aqueduct("inspect", "--data-folder", str(node.data), verb="repair")
        file = lost.directory / f"broker-{node.node_id}.json"
        file.write_text(said)
        options += ["--inspection", str(file)]
    return options


def restore(lost: Lost, aqueduct: Run, node: Node, *more: str, node_id: int = 0) -> tuple[int, str]:
    return aqueduct(
        *("restore", "--data-folder", str(node.data), "--node-id", str(node_id or node.node_id)),
        *("--seed", str(lost.directory / "seed"), *more),
    )


@contextmanager
def formed(lost: Lost, aqueduct: Run, *sources: str) -> Iterator[tuple[int, str]]:
    """Form a new quorum, and yield what the plan said, with all nodes running."""
    looked, seed = looks(lost, aqueduct), str(lost.directory / "seed")
    planned = aqueduct("plan", *sources, *looked, "--seed", seed)
    for node in lost.quorum.controllers:
        assert restore(lost, aqueduct, node, "--dry-run") == (0, f"{node.data} can take them.\n")
        code, said = restore(lost, aqueduct, node)
        assert (code, "begins with the metadata of cluster" in said) == (0, True)
        code, said = restore(lost, aqueduct, node)
        assert (code, "had already" in said) == (0, True)
    for node in lost.quorum.brokers:
        assert aqueduct("set-aside", "--data-folder", str(node.data))[0] == 0
    with lost.quorum.running():
        whole = partial(in_sync, lost.broker, {1, 2}, *TOPICS)
        clients.wait_for("all replicas in sync", whole)
        code, said = aqueduct("check", "--bootstrap-server", lost.quorum.plaintext, "--seed", seed, *looked)
        assert (code, "with all that was committed" in said) == (0, True), said
        yield planned


def check_clients(lost: Lost) -> None:
    """Compare with what clients saw before, and write more."""
    broker = lost.broker
    assert read(broker) == lost.records
    assert positions(broker) == lost.positions
    asked = clients.admin(broker)
    assert [*asked.describe_acls(AclBindingFilter(*ANY)).result()] == [RIGHT]
    write_each(broker, "after")
    values = [value for _, value, *_ in clients.records(broker, "kept", 0)]
    assert values[-PRODUCERS:] == [f"after-{number}".encode() for number in range(PRODUCERS)]


ANY: tuple[Any, ...] = (
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)


@pytest.mark.long
def test_quorum_backup_restores_all_but_later_topics(lost: Lost, aqueduct: Run) -> None:
    logs = [(node.data / "later-0" / f"{0:020}.log").read_bytes() for node in lost.quorum.brokers]
    with formed(lost, aqueduct, "--store", lost.store) as (code, said):
        assert code == 3
        assert re.search(r"NOT known: later-0 \(topic id \S+\), ", said), said
        assert re.search(r"Broker 1 has the longest logs and becomes leader of: .*kept-1.*differ: 2", said), (
            said
        )
        assert topic_ids(lost.broker, *lost.ids) == lost.ids
        check_clients(lost)
    for node, log in zip(lost.quorum.brokers, logs, strict=True):
        [stray] = node.data.glob("later-0.*-stray")
        assert (stray / f"{0:020}.log").read_bytes() == log


def copied(lost: Lost, aqueduct: Run) -> list[str]:
    options = []
    for node in lost.quorum.brokers:
        file = lost.directory / f"broker-{node.node_id}.copy"
        file.write_text(aqueduct("copy", "--data-folder", str(node.data))[1])
        options += ["--copy", str(file)]
    return options


def test_from_brokers_copies_all_comes_back(lost: Lost, aqueduct: Run) -> None:
    with formed(lost, aqueduct, *copied(lost, aqueduct), "--store", lost.store) as (code, said):
        assert code == 0, said
        assert said.startswith("Used: the copy of node 1 ")
        check_clients(lost)
        later = [value for _, value, *_ in clients.records(lost.broker, "later", 0)]
        assert later == [f"later-{n}".encode() for n in range(50)]
        assert topic_ids(lost.broker, *lost.ids, "later").items() > lost.ids.items()


def test_broker_lost_one_of_two_log_dirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its other one counts: only partitions without another replica are lost with the disk."""
    cluster = quorum.formatted(tmp_path, folders=("data", "more"))
    broker, copy, seed = cast(Broker, cluster), tmp_path / "copy", tmp_path / "seed"
    [controller], (first, second) = cluster.controllers, cluster.brokers
    with cluster.running():
        asked = clients.admin(broker)
        clients.wait_for("both brokers", lambda: len(clients.metadata(asked).brokers) == 2)
        for topic, replicas in {"kept": [[1, 2], [2, 1]], "single": [[1], [1]]}.items():
            asked.create_topics([NewTopic(topic, 2, replica_assignment=replicas)])[topic].result()
        clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, "kept", "single"))
        for topic in ("kept", "single"):
            for partition in (0, 1):
                clients.produce(broker, topic, (f"{topic}-{n}" for n in range(100)), partition)
        before = {place: clients.records(broker, *place) for place in PLACES}
    gone = first.directory / "more"
    [lost] = gone.glob("single-?")
    assert [*gone.glob("kept-?")]
    for folder in (controller.data, gone):
        shutil.rmtree(folder)
        folder.mkdir()
    with pytest.raises(RuntimeError, match=r"meta\.properties"):  # so somebody has to format it
        first.process.start()
    looked = []
    for node, option in ((first, "--lost-folder"), (second, "--data-folder")):
        folders = ("--data-folder", str(node.data), option, str(node.directory / "more"))
        assert cli.main(["repair", "inspect", *folders]) == 0
        (tmp_path / f"{node.node_id}.json").write_text(capsys.readouterr().out)
        looked += ["--inspection", str(tmp_path / f"{node.node_id}.json")]
    assert cli.main(["quorum", "copy", "--data-folder", str(second.data)]) == 0
    copy.write_text(capsys.readouterr().out)
    assert cli.main(["quorum", "plan", "--copy", str(copy), *looked, "--seed", str(seed)]) == 3
    said = capsys.readouterr().out
    assert f"{gone} of 1" in said
    [empty] = (line for line in said.splitlines() if line.startswith("EMPTY"))
    assert re.findall(r"(?:kept|single)-\d", empty) == [lost.name]
    begin = ("--data-folder", str(controller.data), "--node-id", str(controller.node_id), "--seed", str(seed))
    assert cli.main(["quorum", "restore", *begin]) == 0
    for node in cluster.brokers:
        assert cli.main(["quorum", "set-aside", "--data-folder", str(node.data)]) == 0
    quorum.format_again(cluster, first)
    with cluster.running():
        clients.wait_for("all replicas in sync", lambda: in_sync(broker, {1, 2}, "kept", "single"))
        at = ["--bootstrap-server", cluster.plaintext, "--seed", str(seed)]
        assert cli.main(["quorum", "check", *at, *looked]) == 0, capsys.readouterr()
        before["single", int(lost.name[-1])] = []
        assert {place: clients.records(broker, *place) for place in PLACES} == before


PLACES = [(topic, partition) for topic in ("kept", "single") for partition in (0, 1)]


@pytest.mark.long
def test_three_controllers_begin_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of them are enough afterwards."""
    cluster = quorum.formatted(tmp_path, controllers=3)
    broker, copy, seed = cast(Broker, cluster), tmp_path / "copy", tmp_path / "seed"
    with cluster.running():
        asked = clients.admin(broker)
        clients.wait_for("both brokers", lambda: len(clients.metadata(asked).brokers) == 2)
        asked.create_topics([NewTopic("kept", 2, replica_assignment=[[1, 2], [2, 1]])])["kept"].result()
        clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, "kept"))
        clients.produce(broker, "kept", (f"kept-{n}" for n in range(100)))
        before, ids = clients.records(broker, "kept"), topic_ids(broker, "kept")
    options = []
    for node in cluster.brokers:
        capsys.readouterr()
        assert cli.main(["repair", "inspect", "--data-folder", str(node.data)]) == 0
        (tmp_path / f"{node.node_id}.json").write_text(capsys.readouterr().out)
        options += ["--inspection", str(tmp_path / f"{node.node_id}.json")]
    assert cli.main(["quorum", "copy", "--data-folder", str(cluster.brokers[0].data)]) == 0
    copy.write_text(capsys.readouterr().out)
    assert cli.main(["quorum", "plan", "--copy", str(copy), *options, "--seed", str(seed)]) == 0
    for node in cluster.controllers:
        shutil.rmtree(node.data)
        node.data.mkdir()
        begin = ["--data-folder", str(node.data), "--node-id", str(node.node_id), "--seed", str(seed)]
        assert cli.main(["quorum", "restore", *begin]) == 0
    for node in cluster.brokers:
        assert cli.main(["quorum", "set-aside", "--data-folder", str(node.data)]) == 0
    with cluster.running():
        clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, "kept"))
        at = ["--bootstrap-server", cluster.plaintext, "--seed", str(seed)]
        assert cli.main(["quorum", "check", *at, *options]) == 0
        assert re.search(
            r"No disk shows for \d+ partitions? what was committed: .*kept-1\.", capsys.readouterr().out
        )
        cluster.controllers[0].process.kill()
        clients.create(broker, "new")
        assert topic_ids(broker, *ids, "new").items() > ids.items()
        assert clients.records(broker, "kept") == before


@pytest.mark.long
def test_an_old_log_that_comes_back_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A controller that was given up has its disk after all, with epochs and offsets above the backup's."""
    cluster = quorum.formatted(tmp_path, controllers=3)
    broker, copy, seed = cast(Broker, cluster), tmp_path / "copy", tmp_path / "seed"
    *lost, third = cluster.controllers
    with cluster.running():
        asked = clients.admin(broker)
        clients.wait_for("both brokers", lambda: len(clients.metadata(asked).brokers) == 2)
        asked.create_topics([NewTopic("kept", 2, replica_assignment=[[1, 2], [2, 1]])])["kept"].result()
        clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, "kept"))
        assert cli.main(["quorum", "copy", "--data-folder", str(cluster.brokers[0].data)]) == 0
        copy.write_text(capsys.readouterr().out)
        for node in cluster.controllers:
            node.process.kill()
            for number in range(8):
                clients.create(broker, f"after-{node.node_id}-{number}")
            node.process.start()
        clients.create(broker, "last")
    options = []
    for node in cluster.brokers:
        assert cli.main(["repair", "inspect", "--data-folder", str(node.data)]) == 0
        (tmp_path / f"{node.node_id}.json").write_text(capsys.readouterr().out)
        options += ["--inspection", str(tmp_path / f"{node.node_id}.json")]
    assert cli.main(["quorum", "plan", "--copy", str(copy), *options, "--seed", str(seed)]) == 3
    for node in lost:
        shutil.rmtree(node.data)
        node.data.mkdir()
        begin = ["--data-folder", str(node.data), "--node-id", str(node.node_id), "--seed", str(seed)]
        assert cli.main(["quorum", "restore", *begin]) == 0
    for node in cluster.brokers:
        assert cli.main(["quorum", "set-aside", "--data-folder", str(node.data)]) == 0
    with cluster.running(*lost, *cluster.brokers):
        clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, "kept"))
        clients.create(broker, "new")
        ids = topic_ids(broker, "new")
        with third.process.running():
            clients.create(broker, "beside")
            lost[0].process.kill()  # the other one needs the third's vote
            clients.create(broker, "with-its-vote")
            now = topic_ids(broker, "beside", "with-its-vote")
            assert now.keys() == ids.keys() | {"beside", "with-its-vote"}
            assert now.items() > ids.items()


@pytest.mark.long
def test_broker_with_lost_disk_truncates_no_other_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes back empty; where it led, all others would cut off what they have."""
    cluster = quorum.formatted(tmp_path)
    broker, copy, seed = cast(Broker, cluster), tmp_path / "copy", tmp_path / "seed"
    [controller], (gone, left) = cluster.controllers, cluster.brokers
    with cluster.running():
        asked = clients.admin(broker)
        clients.wait_for("both brokers", lambda: len(clients.metadata(asked).brokers) == 2)
        asked.create_topics([NewTopic("kept", 2, replica_assignment=[[1, 2], [2, 1]])])["kept"].result()
        clients.wait_for("leaders", lambda: in_sync(broker, {1, 2}, "kept"))
        for partition in (0, 1):
            clients.produce(broker, "kept", (f"kept-{n}" for n in range(100)), partition)
        before = [clients.records(broker, "kept", partition) for partition in (0, 1)]
        controller.process.kill()
        gone.process.kill()
    assert cli.main(["repair", "inspect", "--data-folder", str(left.data)]) == 0
    (tmp_path / "2.json").write_text(capsys.readouterr().out)
    assert cli.main(["quorum", "copy", "--data-folder", str(left.data)]) == 0
    copy.write_text(capsys.readouterr().out)
    looked = ["--inspection", str(tmp_path / "2.json"), "--lost", "1"]
    assert cli.main(["quorum", "plan", "--copy", str(copy), *looked, "--seed", str(seed)]) == 3
    for node in (controller, gone):
        shutil.rmtree(node.data)
        node.data.mkdir()
    begin = ["--data-folder", str(controller.data), "--node-id", "101", "--seed", str(seed)]
    assert cli.main(["quorum", "restore", *begin]) == 0
    assert cli.main(["quorum", "set-aside", "--data-folder", str(left.data)]) == 0
    (gone.data / "meta.properties").write_text(f"version=1\ncluster.id={cluster.cluster_id}\nnode.id=1\n")
    with cluster.running(controller, left, gone):
        for _ in range(2):  # KIP-966: at its second start it would be made the leader
            clients.wait_for("all replicas in sync", lambda: in_sync(broker, {1, 2}, "kept"))
            assert [clients.records(broker, "kept", partition) for partition in (0, 1)] == before
            gone.process.kill()
            clients.wait_for("its end", lambda: in_sync(broker, {2}, "kept"))
            gone.process.start()


def plan(lost: Lost, aqueduct: Run, *sources: str) -> tuple[int, str]:
    return aqueduct("plan", *sources, *looks(lost, aqueduct), "--seed", str(lost.directory / "seed"))


def test_unusable_inputs_are_refused_without_any_change(lost: Lost, aqueduct: Run, tmp_path: Path) -> None:
    [controller] = lost.quorum.controllers
    store = shutil.copytree(lost.directory / "store", tmp_path / "store")
    assert plan(lost, aqueduct) == (
        2,
        "aqueduct: [option-required] A plan needs metadata: pass --store, --copy, or both.\n",
    )
    code, said = plan(lost, aqueduct, "--store", f"file://{tmp_path}/none")
    assert (code, printed(said)) == (2, ["backup-missing"])
    code, said = aqueduct("set-aside", "--data-folder", str(tmp_path / "none"))
    assert (code, printed(said)) == (2, ["data-folder-missing"])
    [snapshot] = (store / "metadata").iterdir()
    flip(snapshot)
    for command in (("snapshots",), ("plan", *looks(lost, aqueduct))):
        code, said = aqueduct(*command, "--store", f"file://{store}")
        assert (code, f"{snapshot.name} is damaged (" in said) == (1, True), said

    copies = copied(lost, aqueduct)
    code, said = plan(lost, aqueduct, *copies, "--store", f"file://{store}")
    assert (code, said.startswith("No backup is used: ["), "copy of node 1" in said) == (0, True, True)
    assert plan(lost, aqueduct, *copies, "--store", f"file://{store}", "--snapshot", "1")[0] == 1

    seed = lost.directory / "seed"
    shutil.copy(copies[1], seed)
    code, said = restore(lost, aqueduct, controller)
    assert (code, "[file-content-invalid]" in said) == (2, True)
    seed.unlink()
    alone = ("plan", "--store", lost.store, *looks(lost, aqueduct)[:2])
    code, said = aqueduct(*alone, "--seed", str(seed))
    assert (code, "[broker-disks-unseen] The disks of brokers 2 were" in said) == (2, True), said
    assert not seed.exists()
    assert aqueduct(*alone)[0] == 3
    assert plan(lost, aqueduct, "--store", lost.store)[0] == 3
    code, said = restore(lost, aqueduct, controller, node_id=7)
    assert code == 2
    assert_printed(said, "controller-folder-mismatch", "Node 7", "101")
    for meta, facts in (
        (f"cluster.id={'x' * 22}\nnode.id=101\n", (f"cluster {'x' * 22}", lost.quorum.cluster_id)),
        (f"cluster.id={lost.quorum.cluster_id}\nnode.id=102\n", ("node 102", "node 101")),
    ):
        (controller.data / "meta.properties").write_text(meta)
        code, said = restore(lost, aqueduct, controller)
        assert code == 2, said
        assert_printed(said, "controller-folder-mismatch", *facts)
        (controller.data / "meta.properties").unlink()
    text = seed.read_text()
    for other in ("", "x", text[:-9], text[:400] + "AAAA" + text[404:]):
        seed.write_text(other)
        code, said = restore(lost, aqueduct, controller)
        assert (code, f"[file-content-invalid] {seed} is damaged" in said) == (
            2,
            True,
        )
    assert [*controller.data.iterdir()] == []


def test_another_cluster_s_metadata_are_refused(lost: Lost, aqueduct: Run) -> None:
    for node in lost.quorum.brokers:
        meta = node.data / "meta.properties"
        meta.write_text(meta.read_text().replace(lost.quorum.cluster_id, "x" * 22))
    code, said = plan(lost, aqueduct, "--store", lost.store)
    assert code == 2
    assert_printed(said, "cluster-mismatch", "x" * 22, lost.quorum.cluster_id)
    before = sorted((lost.directory / "store").rglob("*"))
    node = lost.quorum.brokers[0]
    code, said = aqueduct("backup", "--data-folder", str(node.data), "--store", lost.store)
    assert code == 2, said
    assert_printed(said, "cluster-mismatch", "x" * 22)
    assert sorted((lost.directory / "store").rglob("*")) == before


def test_backup_ahead_of_all_brokers_requires_explicit_choice(
    lost: Lost, aqueduct: Run, tmp_path: Path
) -> None:
    """Brokers follow within seconds: it may be planted, or of a quorum that was given up."""
    store, copies = f"file://{tmp_path}/store", copied(lost, aqueduct)
    ahead = metadata.read(lost.quorum.brokers[0].data)
    ahead = ahead.with_records([producer_ids_record(1)], ahead.end_epoch + 1)
    keep_snapshot(QuorumSnapshots, open_editable(store, private=True), snapshots.snapshot_of(ahead))
    code, said = plan(lost, aqueduct, *copies, "--store", store)
    assert code == 2
    assert re.search(r"\[quorum-copies-behind\] Snapshot 1 \(offset \d+\) ", said), said
    assert plan(lost, aqueduct, *copies, "--store", store, "--snapshot", "1")[0] == 0
    assert plan(lost, aqueduct, "--store", store)[0] == 0


def test_a_controller_that_has_its_metadata_keeps_them(lost: Lost, aqueduct: Run) -> None:
    [controller] = lost.quorum.controllers
    shutil.copytree(lost.quorum.brokers[0].data / METADATA, controller.data / METADATA)
    before = {path: path.read_bytes() for path in (controller.data / METADATA).iterdir()}
    assert plan(lost, aqueduct, "--store", lost.store)[0] == 3
    code, said = restore(lost, aqueduct, controller)
    assert (code, "[controller-metadata-exists] " in said) == (2, True)
    assert {path: path.read_bytes() for path in (controller.data / METADATA).iterdir()} == before
    assert [path.name for path in controller.data.iterdir()] == [METADATA]


def test_truncated_metadata_older_than_snapshot_are_refused(
    lost: Lost, aqueduct: Run, tmp_path: Path
) -> None:
    store, node = f"file://{tmp_path}/store", lost.quorum.brokers[0].data
    keep = ("backup", "--data-folder", str(node), "--store", store, "--keep", "1", "--within", "0s")
    assert aqueduct(*keep)[0] == 0
    log = node / "__cluster_metadata-0" / f"{0:020}.log"
    with log.open("r+b") as file:
        file.truncate(len(next(walk(log.read_bytes()))))
    code, said = aqueduct(*keep)
    assert (code, "[quorum-metadata-outdated] " in said) == (2, True), said
    assert [each.name for each in (tmp_path / "store/metadata").iterdir()] == [f"{1:020}.zst"]


def test_a_controller_s_metadata_are_not_set_aside(lost: Lost, aqueduct: Run) -> None:
    [controller] = lost.quorum.controllers
    plan(lost, aqueduct, "--store", lost.store)
    assert restore(lost, aqueduct, controller)[0] == 0
    code, said = aqueduct("set-aside", "--data-folder", str(controller.data))
    assert (code, "[controller-metadata-protected] " in said) == (2, True)
    assert (controller.data / METADATA).is_dir()


def test_folder_of_voting_controller_keeps_its_id(
    lost: Lost, aqueduct: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    [controller] = lost.quorum.controllers
    plan(lost, aqueduct, "--store", lost.store)
    assert restore(lost, aqueduct, controller)[0] == 0
    meta = (controller.data / "meta.properties").read_bytes()
    assert b"directory.id" in meta
    modes = {each.stat().st_mode & 0o077 for each in (controller.data / METADATA).rglob("*")}
    assert modes | {(controller.data / METADATA).stat().st_mode & 0o077} == {0}, "they have credentials"
    code = cli.main(["repair", "restore-logs", "--data-folder", str(controller.data), "--node-id", "1"])
    assert code == 2
    error = capsys.readouterr().err
    assert (printed(error), "101 has a vote" in error) == (["controller-has-vote"], True)
    assert (controller.data / "meta.properties").read_bytes() == meta


def test_set_aside_protects_metadata_of_static_voter(tmp_path: Path, aqueduct: Run) -> None:
    """A combined node, whose copy of the metadata is the only one."""
    with broker.running(tmp_path):
        pass
    code, said = aqueduct("set-aside", "--data-folder", str(tmp_path / "data"), "--broker-only")
    assert (code, "[controller-metadata-protected] " in said) == (2, True)
    (tmp_path / "data" / METADATA / "quorum-state").unlink()
    code, said = aqueduct("set-aside", "--data-folder", str(tmp_path / "data"))
    assert (code, "[controller-metadata-protected] " in said) == (2, True)
    assert (tmp_path / "data" / METADATA).is_dir()


def test_damaged_metadata_of_a_node_are_not_kept(lost: Lost, aqueduct: Run, tmp_path: Path) -> None:
    node = lost.quorum.brokers[0]
    flip(next((node.data / METADATA).glob("*.log")))
    code, said = aqueduct("backup", "--data-folder", str(node.data), "--store", f"file://{tmp_path}/store")
    assert (code, "[quorum-metadata-damaged] " in said) == (1, True), said
    assert not (tmp_path / "store").exists()


def flip(file: Path) -> None:
    """Change one byte in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
