"""Which id a host had, and what brings its partitions back."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kit.identifiers import has_fact, raises

from aqueduct.cli import main
from aqueduct.cli import repair as command
from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka.cluster import Cluster, Partition, Quorum
from aqueduct.recovery.broker_ids.disk_logs import DiskLog, Folder, inspect_folder
from aqueduct.recovery.broker_ids.log_comparison import (
    KnownPartition,
    KnownTopic,
    compare_logs,
    lost_without_replicas,
)
from aqueduct.recovery.broker_ids.log_comparison import sentences as sentences_of
from aqueduct.recovery.broker_ids.plan import ReplacedIds, electable, emptied, plan, refuse_old, sentences


def cluster(*partitions: Partition, brokers: set[int], fenced: set[int] = frozenset()) -> Cluster:  # type: ignore[assignment]
    return Cluster(
        cluster_id="C",
        brokers=frozenset(brokers),
        fenced=frozenset(fenced),
        partitions=partitions,
        quorum=Quorum(1, {1: 0}, {}),
    )


def part(name: str, leader: int | None, *replicas: int) -> Partition:
    topic, _, number = name.rpartition("-")
    return Partition(
        topic=topic, number=int(number), leader=leader, replicas=replicas, in_sync=(leader,) if leader else ()
    )


def log(name: str, end: int, epoch: int = 0, *, stray: bool = False, damage: str = "") -> DiskLog:
    topic, _, number = name.rpartition("-")
    folder = f"{name}.{'0' * 32}-stray" if stray else name
    return DiskLog(
        partition=TopicPartition(topic, int(number)),
        folder=folder,
        stray=stray,
        topic_id="",
        end=end,
        epoch=epoch,
        bytes=end * 10,
        damage=damage,
    )


def folder(node_id: int, *logs: DiskLog, cluster_id: str = "C") -> list[Folder]:
    return [Folder(path="/data", cluster_id=cluster_id, node_id=node_id, logs=logs)]


def test_the_log_that_goes_furthest_is_to_lead() -> None:
    """Both hosts of a partition have other ids; a later epoch counts more than a later offset (KIP-101)."""
    state = cluster(part("a-0", None, 1, 2), part("a-1", None, 2, 1), brokers={11, 12})
    repair = plan(
        state,
        {
            "x": folder(11, log("a-0", 90, epoch=1), log("a-1", 5)),
            "y": folder(12, log("a-0", 80, epoch=2), log("a-1", 7)),
        },
    )
    assert {each.host: each.before for each in repair.changed} == {"x": 1, "y": 2}
    assert repair.move == {TopicPartition("a", 0): (12, 11), TopicPartition("a", 1): (12, 11)}
    assert repair.lead == (TopicPartition("a", 0), TopicPartition("a", 1))
    assert not repair.empty


def test_host_that_kept_its_id_is_unchanged() -> None:
    state = cluster(part("a-0", 1, 1, 2), part("b-0", None, 2), brokers={1, 12})
    hosts = {"x": folder(1, log("a-0", 9)), "y": folder(12, log("a-0", 9), log("b-0", 4))}
    repair = plan(state, hosts)
    assert [(each.host, each.before) for each in repair.changed] == [("y", 2)]
    assert repair.move == {TopicPartition("a", 0): (1, 12), TopicPartition("b", 0): (12,)}
    said = sentences(state, repair)
    assert all(has_fact(said[0], fact) for fact in ("y", "broker 2", 12, "2 partitions"))
    assert has_fact(said[1], "give y the id 2")


def test_an_id_that_has_got_partitions_since_stays() -> None:
    state = cluster(part("a-0", None, 2), part("new-0", 12, 12), brokers={1, 12})
    said = sentences(state, plan(state, {"y": folder(12, log("a-0", 9, stray=True), log("new-0", 1))}))
    assert has_fact(said[0], "1 log")
    assert all(has_fact(said[1], fact) for fact in ("y", "id 2", "1 partition", "new id 12"))
    assert not has_fact(said[1], "Recommended")


def test_what_has_no_log_anywhere_is_named() -> None:
    state = cluster(
        part("a-0", None, 2), part("a-1", None, 2), part("b-0", None, 3), brokers={12}, fenced={3}
    )
    repair = plan(state, {"y": folder(12, log("a-0", 9))}, lost=[3])
    assert repair.empty == (TopicPartition("a", 1), TopicPartition("b", 0))
    assert any(has_fact(each, "a-1") and has_fact(each, "groups") for each in sentences(state, repair))


def test_log_on_broker_with_kept_id_may_lead() -> None:
    """Its partition isn't empty: it waits for a leader, as when KRaft's got its old id back, or a broker."""
    state = cluster(part("a-0", None, 2), part("a-1", None, 2), part("b-0", None, 3), brokers={2})
    hosts = {"x": folder(2, log("a-0", 9), log("a-1", 4, stray=True)), "y": folder(3, log("b-0", 5))}
    repair = plan(state, hosts)
    assert (repair.changed, repair.move, repair.empty) == ((), {}, ())
    assert repair.lead == (TopicPartition("a", 0), TopicPartition("a", 1))
    assert repair.stopped == (TopicPartition("b", 0),)
    said = sentences(state, repair)
    assert all(has_fact(said[0], fact) for fact in ("2 partitions", "a-0, a-1"))
    [stopped] = said[1:]
    assert all(has_fact(stopped, fact) for fact in ("1 partition", "b-0", "Start"))
    with raises(Refused, "partition-may-have-logs") as refused:
        emptied(state, repair, [TopicPartition("a", 0), TopicPartition("b", 0)])
    assert "a-0, b-0" in str(refused.value)


def test_partition_waits_for_stopped_broker_with_longer_log() -> None:
    state = cluster(part("a-0", None, 2, 3), brokers={2})
    hosts = {"x": folder(2, log("a-0", 9)), "y": folder(3, log("a-0", 10))}
    assert plan(state, hosts).stopped == (TopicPartition("a", 0),)
    assert plan(state, hosts | {"y": folder(3, log("a-0", 9))}).lead == (TopicPartition("a", 0),)


def test_nothing_is_assigned_to_stopped_broker() -> None:
    """A controller may refuse it: its folder's directory.id is another broker's."""
    state = cluster(part("a-0", None, 2), brokers={1})
    found = plan(state, {"y": folder(12, log("a-0", 9))})
    said = " ".join(sentences(state, found))
    assert "Broker 12 does not run on y" in said
    assert "1 partition to the current ids" not in said


def test_nobody_leads_where_a_log_is_damaged() -> None:
    """Whoever led, what the others can't follow would be cut off; and what only the damaged one has."""
    state = cluster(part("a-0", None, 2), part("a-1", None, 2, 1), brokers={2})
    broken = log("a-1", 9, damage="0.log: no CRC.")
    for first, second in (
        ((log("a-1", 5),), (broken, log("a-0", 9, damage="0.log: no CRC."))),
        ((broken,), (log("a-1", 5), log("a-0", 9))),
    ):
        hosts = {"x": folder(1, *first), "y": folder(2, *second)}
        repair, (found, left) = plan(state, hosts), electable(state, hosts, [TopicPartition("a", 1)])
        node = 1 if broken in first else 2
        why = f"the log of broker {node} is damaged (0.log: no CRC)"
        whole = [TopicPartition("a", 0)] * (node == 1)
        assert (repair.lead, found) == (tuple(whole), whole)
        assert {why for _, why in left} == {why}
        names = "a-1" if node == 1 else "a-0, a-1"
        assert any(
            each.startswith(f"No leader can be elected for {names}, because {why}.")
            for each in sentences(state, repair)
        )


def test_longer_of_two_logs_on_broker_counts() -> None:
    state = cluster(part("a-0", None, 2, 1), brokers={2})
    [short], [long] = folder(1, log("a-0", 5)), folder(1, log("a-0", 9))
    for folders in ([short, long], [long, short]):
        assert electable(state, {"x": folders, "y": folder(2, log("a-0", 5))})[0] == []


@pytest.mark.parametrize(
    ("hosts", "id_", "fact"),
    [
        ({"y": folder(12, log("a-0", 9), cluster_id="D")}, "cluster-mismatch", "/data of y"),
        ({"y": folder(12) + folder(13, log("a-0", 9))}, "data-folders-mixed", "12, 13"),
        ({"x": folder(11, log("a-0", 9)), "y": folder(12, log("a-0", 9))}, "data-folders-mixed", " y "),
    ],
)
def test_what_can_t_be_planned_is_refused(hosts: dict[str, list[Folder]], id_: str, fact: str) -> None:
    with raises(Refused, id_) as refused:
        plan(cluster(part("a-0", None, 2), brokers={11, 12}), hosts)
    assert fact in str(refused.value)


def test_no_leader_is_chosen_while_log_is_uninspected() -> None:
    """It may be the one that goes furthest; made empty, it would be cut to nothing."""
    state = cluster(part("a-0", None, 1, 2), part("b-0", None, 1), part("c-0", None, 2), brokers={2})
    hosts = {"y": folder(2, log("a-0", 9), log("c-0", 9))}
    a, b, c = (TopicPartition(topic, 0) for topic in "abc")
    repair, (found, left) = plan(state, hosts), electable(state, hosts, [b])
    assert (repair.lead, repair.empty, [*repair.unseen]) == ((c,), (), [a, b])
    [why] = {*repair.unseen.values()}
    assert all(has_fact(why, fact) for fact in ("broker 1", "--lost 1"))
    assert any(
        all(has_fact(line, fact) for fact in ("2 partitions", "a-0, b-0", "--lost 1"))
        for line in sentences(state, repair)
    )
    reasons = dict(left)
    assert (found, [*reasons], reasons["a-0"]) == ([c], ["a-0", "b-0"], why)
    assert reasons["b-0"] != why
    with raises(Refused, "partition-may-have-logs") as unseen:
        emptied(state, repair, [b])
    assert has_fact(str(unseen.value), "broker 1")
    repair, (found, _) = plan(state, hosts, lost=[1]), electable(state, hosts, lost=[1])
    assert (repair.lead, repair.empty, found) == ((a, c), (b,), [a, c])
    for refusing in (plan, electable):
        with raises(Refused, "lost-broker-has-logs"):
            refusing(state, hosts, lost=[2])


def test_missing_id_must_be_declared_lost() -> None:
    """A copy that a reassignment has begun looks as one that has the logs of the id that is gone."""
    state = cluster(part("a-0", None, 12, 2), brokers={12})
    hosts = {"y": folder(12, log("a-0", 9))}
    found, [(_, why)] = electable(state, hosts)
    assert found == []
    assert has_fact(why, "broker 2")
    assert electable(state, hosts, lost=[2]) == ([TopicPartition("a", 0)], [])


def test_id_replaced_by_former_run_needs_no_declaration() -> None:
    """Unless its broker runs again, or the partition was never assigned from the one to the other."""
    a, b = (TopicPartition(topic, 0) for topic in "ab")
    state = cluster(part("a-0", None, 2, 12), part("b-0", None, 2), brokers={12})
    hosts = {"y": folder(12, log("a-0", 9))}
    replaced = ReplacedIds("C", {"2": 12})
    repair = plan(state, hosts, replaced=replaced)
    assert (repair.move, repair.lead, [*repair.unseen]) == ({a: (12,)}, (a,), [b])
    assert electable(state, hosts, replaced=replaced)[0] == [a]
    other = ReplacedIds("C", {"2": 13})
    assert [*plan(state, hosts, replaced=other).unseen] == [a, b]
    both = replace(state, brokers=frozenset({2, 12}))
    assert electable(both, hosts, replaced=replaced)[0] == []


def test_ids_of_another_cluster_are_refused(tmp_path: Path) -> None:
    file, state = tmp_path / "ids.json", cluster(brokers={12})
    assert command._replaced(file, state).ids == {}
    command._keep(file, ReplacedIds("C", {"2": 12}))
    assert command._replaced(file, state).ids == {"2": 12}
    for content in ('{"cluster": "D", "ids": {}}', "{", '{"cluster": "C", "ids": {"2": "12"}}'):
        file.write_text(content)
        with raises(Refused, "replaced-ids-unreadable", file):
            command._replaced(file, state)


@pytest.mark.parametrize(
    ("ran", "running", "sentence"),
    [
        (True, {1, 2}, ""),
        (False, {2}, ""),
        (True, {2}, "broker 1 ran when it was inspected, but is not registered"),
        (False, {1, 2}, "broker 1 did not run when it was inspected, but runs now"),
    ],
)
def test_inspection_is_outdated_after_broker_starts_or_stops(
    ran: bool, running: set[int], sentence: str
) -> None:
    state = cluster(part("a-0", None, 2, 1), brokers=running)
    [first], hosts = folder(1, log("a-0", 5)), {"y": folder(2, log("a-0", 5))}
    # Of its two disks only one is locked where the other one has failed.
    hosts["x"] = [replace(first, running=ran), replace(first, path="/other", logs=(), running=False)]
    repair, (found, left) = plan(state, hosts), electable(state, hosts)
    assert [*repair.unseen] == [TopicPartition("a", 0)] * bool(sentence)
    assert found == [TopicPartition("a", 0)] * (not sentence)
    assert all(why.startswith(sentence) for _, why in left)


def test_old_looks_are_refused() -> None:
    now = timestamps.parse("2026-01-31T18:00:00Z")
    [found] = folder(1)
    for time in ("2026-01-31T17:00:00Z", "2026-01-31T19:00:00.000Z"):
        refuse_old({"x": [replace(found, time=time)]}, now)
    for time in ("2026-01-31T16:59:59Z", "2026-01-31T19:00:01Z"):
        with raises(Refused, "inspection-outdated") as refused:
            refuse_old({"x": [replace(found, time=time)]}, now)
        assert time in str(refused.value)
    for time in ("", "yesterday"):
        with raises(Refused, "inspection-outdated", "x"):
            refuse_old({"x": [replace(found, time=time)]}, now)


def test_nobody_leads_who_lacks_what_another_one_has() -> None:
    names = ("short-0", "aside-0", "whole-0", "nowhere-0", "gone-0")
    parts = [part(name, None, *([2] if name == "gone-0" else [12, 13])) for name in names]
    state = cluster(*parts, brokers={12, 13})
    hosts = {
        "x": folder(
            12, log("short-0", 5), log("aside-0", 0), log("aside-0", 5, stray=True), log("whole-0", 5)
        ),
        "y": folder(13, log("short-0", 6), log("whole-0", 5)),
    }
    found, left = electable(state, hosts)
    assert found == [TopicPartition("whole", 0)]
    reasons = dict(left)
    facts = {
        "short-0": ("broker 12", "longer log"),
        "aside-0": ("set aside", "restore"),
        "nowhere-0": ("broker 12", "no inspected folder"),
        "gone-0": ("none of its replicas is running",),
    }
    assert reasons.keys() == facts.keys()
    assert all(fact in reasons[name] for name, of_name in facts.items() for fact in of_name)


def taken(state: Cluster, hosts: dict[str, list[Folder]], *lost: int) -> list[tuple[str, int]]:
    """Return which host is taken for which broker, and expect a sentence about every other one."""
    repair = plan(state, hosts, lost)
    said = sentences(state, repair)
    for each in repair.leftovers:
        assert any(f"{each.host} is broker {each.now}, and has logs of" in line for line in said)
        assert all(at not in repair.move for at in hosts_of(state, each.owner))
    return [(each.host, each.before) for each in repair.changed]


def hosts_of(state: Cluster, node: int) -> list[TopicPartition]:
    return [each.topic_partition for each in state.partitions if node in each.replicas]


def test_leftover_logs_do_not_identify_stopped_broker() -> None:
    """Broker 3 has its own partitions, and a log of one that has moved to broker 2, which is down."""
    parts = (part("a-0", None, 2), part("b-0", 3, 3))
    hosts = {"x": folder(3, log("a-0", 4), log("b-0", 9))}
    registered = {2: "host-2:9092", 3: "host-3:9092"}
    state = replace(cluster(*parts, brokers={3}, fenced={2}), addresses=registered)
    assert taken(state, hosts) == []
    assert plan(state, hosts).unseen.keys() == {TopicPartition("a", 0)}
    [said, *_] = sentences(state, plan(state, hosts))
    assert "broker 2 is registered at host-2:9092, and broker 3 at host-3:9092" in said
    assert "pass --lost 2" in said
    assert taken(state, hosts, 2) == [("x", 2)], "broker 2 does not come back"
    same = replace(state, addresses={2: "host-3:9092", 3: "host-3:9092"})
    assert taken(same, hosts) == [("x", 2)]


def test_few_foreign_logs_do_not_identify_stopped_broker() -> None:
    """Where the address of the one that is down is not known, as with ZooKeeper."""
    parts = (*(part(f"a-{number}", None, 2) for number in range(3)), part("b-0", 3, 3))
    hosts = {"x": folder(3, log("a-0", 4), log("b-0", 9))}
    state = cluster(*parts, brokers={3})
    assert taken(state, hosts) == []
    assert taken(state, hosts, 2) == [("x", 2)]
    own = folder(3, *(log(f"a-{number}", 4) for number in range(3)), log("b-0", 9))
    assert taken(state, {"x": own}) == [("x", 2)]


def test_brokers_that_replicated_a_partition_together_are_two() -> None:
    """Even where one is lost for good; a reassignment that has not ended has both ids of one broker."""
    state = cluster(part("a-0", None, 2), part("b-0", 3, 3, 2), brokers={3})
    hosts = {"x": folder(3, log("a-0", 4), log("b-0", 9))}
    assert taken(state, hosts) == taken(state, hosts, 2) == []
    moving = {TopicPartition("b", 0)}
    assert [each.before for each in plan(state, hosts, moving=moving).changed] == [2]


def test_host_is_not_matched_to_broker_found_elsewhere() -> None:
    state = cluster(part("a-0", None, 2), brokers={3})
    hosts = {"x": folder(3, log("a-0", 4)), "y": folder(2, log("a-0", 9))}
    assert taken(state, hosts) == []
    assert plan(state, hosts).stopped == (TopicPartition("a", 0),)


def test_lost_folder_is_listed_and_others_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, gone = tmp_path / "whole", tmp_path / "gone"
    whole.mkdir()
    (whole / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    (whole / "a-0").mkdir()
    look = ["repair", "inspect", "--data-folder", str(whole), "--lost-folder", str(gone)]
    assert main(look) == 0
    missing = capsys.readouterr().out
    (gone / "lost+found").mkdir(parents=True)  # a new file system
    assert main(look) == 0
    seen = tmp_path / "x.json"
    seen.write_text(capsys.readouterr().out)
    assert [each["lost"] for each in json.loads(missing)] == [False, True]
    hosts = command.hosts([seen])
    topics = [
        KnownTopic(
            "a",
            "",
            {
                0: KnownPartition(replicas=(2,), in_sync=(2,), leader=2, leader_epoch=0),
                1: KnownPartition(replicas=(2,), in_sync=(2,), leader=2, leader_epoch=0),
            },
        )
    ]
    found = compare_logs("C", topics, hosts, without_ids=True)
    assert (found.lost_folders, found.differs) == ((f"{gone} of x",), True)
    assert found.empty == (TopicPartition("a", 1),)
    assert any(line.startswith(f"LOST: {gone} of x.") for line in sentences_of(found, ""))
    state = cluster(part("a-0", None, 2), part("a-1", None, 2), brokers={2})
    assert any(line.startswith(f"LOST: {gone} of x.") for line in sentences(state, plan(state, hosts)))
    for name in ("a-1", "meta.properties"):
        (gone / name).mkdir()
        assert main(look) == 2
        assert "[lost-folder-invalid]" in capsys.readouterr().err
        (gone / name).rmdir()


def test_log_end_is_read_from_last_batch(tmp_path: Path) -> None:
    """A batch that is cut off ends it before; one with another CRC is damage, which is named.

    So are zeros, which a host that loses its power may leave. A log whose records have expired has an epoch
    all the same, but none that began with what it has lost.
    """
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10**9)
    for offset, value in enumerate((b"a", b"b")):
        builder.append(offset, 1000, None, value, [])
    built = bytes(builder.build())
    whole = built[:12] + (3).to_bytes(4) + built[16:]  # the leader's epoch is not in the CRC
    for name, content in (
        ("a-0", whole),
        ("a-1", whole + whole[:40]),
        ("a-2", whole[:-1] + bytes([whole[-1] ^ 1])),
        ("a-3", b""),
        ("a-4", whole + bytes(100)),
        ("a-5", b""),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{7 if not content else 0:020}.log").write_bytes(content)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\na 0 2\na 1 3\n")
    (tmp_path / "a-5" / "leader-epoch-checkpoint").write_text("0\n3\n4 0\n5 7\n6 8\n")
    found = {each.folder: each for each in inspect_folder(tmp_path).logs}
    ends = {name: (each.end, each.epoch) for name, each in found.items()}
    assert ends == {
        "a-0": (2, 3),
        "a-1": (2, 3),
        "a-2": (0, -1),
        "a-3": (7, -1),
        "a-4": (2, 3),
        "a-5": (7, 5),
    }
    assert [name for name, each in found.items() if each.damage] == ["a-1", "a-2", "a-4"]
    assert (
        found["a-1"].damage
        == "it ends at offset 2, but its broker recorded that all records before 3 were committed."
    )
    assert "its CRC does not match" in found["a-2"].damage


@pytest.mark.parametrize("torn", [b"", bytes(20), b"0\n2\na 0 2\na 1", b"0\n2\na 0 2\n", b"0\n", b"\xff"])
def test_torn_checkpoint_leaves_committed_offsets_unknown(tmp_path: Path, torn: bytes) -> None:
    """A log that has lost its end would pass for whole; one that was set aside is in no such file."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    aside = f"b-0.{'0' * 32}-stray"
    for name in ("a-0", "a-1", aside):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(b"cut off")
    assert [each.damage for each in inspect_folder(tmp_path).logs] == ["", "", ""]
    checkpoint = tmp_path / "replication-offset-checkpoint"
    checkpoint.write_bytes(torn)
    found = inspect_folder(tmp_path)
    said = "the folder's replication-offset-checkpoint is incomplete"
    assert {each.folder: each.damage.startswith(said) for each in found.logs} == {
        "a-0": True,
        "a-1": True,
        aside: False,
    }
    topic = KnownTopic(
        "a",
        "",
        {
            number: KnownPartition(replicas=(2,), in_sync=(2,), leader=2, leader_epoch=0)
            for number in range(2)
        },
    )
    line, _ = sentences_of(compare_logs("C", [topic], {"x": [found]}, without_ids=True), "")
    assert line.startswith(f"DAMAGED: a-0, a-1 on x: {said}")
    checkpoint.write_text("0\n2\na 0 0\na 1 9\n")
    assert [each.damage[:9] for each in inspect_folder(tmp_path).logs] == ["", "it ends a", ""]


def test_new_folder_may_have_empty_checkpoint(tmp_path: Path) -> None:
    """The broker writes it within five seconds, unless it is killed. What it wrote has a later time."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    (tmp_path / "a-0").mkdir()
    for at, name in enumerate(
        ("replication-offset-checkpoint", "a-0/leader-epoch-checkpoint", "a-0/0.log"), 1
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    checkpoint, log = tmp_path / "replication-offset-checkpoint", tmp_path / "a-0/0.log"
    os.utime(checkpoint, (9, 9))
    assert [each.damage for each in inspect_folder(tmp_path).logs] == [""]
    log.write_bytes(b"the first")
    assert [each.damage[:12] for each in inspect_folder(tmp_path).logs] == ["the folder's"]
    os.utime(checkpoint, (1, 1))
    assert [each.damage for each in inspect_folder(tmp_path).logs] == [""]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "abc.log",
            b"",
            "abc.log is not a valid name of a log segment. A broker does not start with this file.",
        ),
        ("partition.metadata", b"version: 0\ntopic_id: \xff", "partition.metadata has no topic id."),
        ("partition.metadata", bytes(9), "partition.metadata has no topic id."),
        ("partition.metadata", b"version: 0\ntopic_id: abc", ""),
    ],
)
def test_unexpected_files_in_log_folder_are_damage(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / f"{7:020}.log").touch()
    (tmp_path / "a-0" / name).write_bytes(content)
    [found] = inspect_folder(tmp_path).logs
    assert (found.end, found.topic_id, found.damage) == (
        7,
        "" if sentence or name == "abc.log" else "abc",
        sentence,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"end": None},
        {"end": "10"},
        {"end": True},
        {"epoch": 1.5},
        {"stray": 0},
        {"damage": None},
        {"partition": ["a", "0"]},
        {"partition": ["a"]},
        {"partition": None},
        {"more": 1},
        {"logs": None},
        {"logs": [1]},
        {"node_id": "2"},
        {"running": "no"},
        {"time": 1},
        None,
    ],
)
def test_what_look_does_not_write_is_refused(tmp_path: Path, wrong: dict[str, object] | None) -> None:
    [found] = folder(2, log("a-0", 9))
    said = asdict(found)
    path = tmp_path / "x.json"
    path.write_text(json.dumps([said]))
    assert command.hosts([path]) == {"x": [found]}
    for each in wrong or ():
        (said if each in said or each == "more" else said["logs"][0])[each] = wrong[each]  # type: ignore[index]
    path.write_text(json.dumps([said] if wrong else []))
    with raises(Refused, "file-content-invalid") as caught:
        command.hosts([path])
    assert "x.json" in str(caught.value)


def test_a_lost_broker_that_has_nothing_is_named() -> None:
    """Its id may be mistyped."""
    topic = KnownTopic("a", "", {0: KnownPartition(replicas=(2, 3), in_sync=(2,), leader=2, leader_epoch=0)})
    found = compare_logs("C", [topic], {"x": folder(2, log("a-0", 0, -1))}, [3, 99, 98], without_ids=True)
    assert any(line.startswith("--lost 98, 99: ") for line in sentences_of(found, ""))
    assert lost_without_replicas([3], [2, 3]) == ""


def test_epochs_that_are_torn_are_damage(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / f"{7:020}.log").touch()
    (tmp_path / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n4 0\n")
    [found] = inspect_folder(tmp_path).logs
    assert (found.end, found.epoch, found.damage) == (7, -1, "leader-epoch-checkpoint is incomplete.")


def test_inspection_counts_once_per_host_and_broker(tmp_path: Path) -> None:
    """Files are named after hosts, which may be addresses."""
    paths = [tmp_path / name for name in ("10.0.0.11", "10.0.0.12.json", "other/10.0.0.12")]
    (tmp_path / "other").mkdir()
    for node, path in zip((11, 12, 13), paths, strict=True):
        folder = {"path": "/data", "cluster_id": "C", "node_id": node, "logs": []}
        path.write_text(json.dumps([folder]))
    assert [*command.hosts(paths[:2])] == ["10.0.0.11", "10.0.0.12"]
    with raises(Refused, "broker-inspected-twice") as caught:
        command.hosts(paths)
    assert "10.0.0.12" in str(caught.value)
    paths[2].rename(tmp_path / "copy")
    (tmp_path / "copy").write_text(paths[0].read_text())
    with raises(Refused, "broker-inspected-twice") as caught:
        command.hosts([*paths[:2], tmp_path / "copy"])
    assert "broker 11" in str(caught.value)
