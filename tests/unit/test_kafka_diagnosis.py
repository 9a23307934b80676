import os
from dataclasses import replace
from pathlib import Path

import pytest
from kit.identifiers import assert_printed, has_fact, raises

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.kafka import data_folder, diagnosis
from aqueduct.kafka.batches.batch import HEADER
from aqueduct.kafka.cluster import Cluster, Partition, Quorum
from aqueduct.kafka.data_folder import DataFolder

QUORUM = Quorum(leader=1, voters={1: 0}, observers={})
SOUND = Cluster(
    cluster_id="this",
    brokers=frozenset({1, 2}),
    fenced=frozenset(),
    partitions=(
        Partition(topic="t", number=0, leader=1, replicas=(1, 2), in_sync=(1, 2)),
        Partition(topic="t", number=1, leader=2, replicas=(2,), in_sync=(2,)),
    ),
    quorum=QUORUM,
)


def with_partitions(*partitions: Partition, brokers: set[int], fenced: set[int] | None = None) -> Cluster:
    return Cluster(
        cluster_id="this",
        brokers=frozenset(brokers),
        fenced=frozenset(fenced or ()),
        partitions=partitions,
        quorum=QUORUM,
    )


def test_nothing_is_wrong_with_a_sound_cluster() -> None:
    assert diagnosis.findings(SOUND, groups=["g"]) == []


@pytest.mark.parametrize(("fenced", "state"), [(set(), "exist"), ({3}, "run")])
def test_changed_id_is_distinguished_from_stopped_broker(fenced: set[int], state: str) -> None:
    """In ZooKeeper's time the old id is gone; with KRaft it stays registered."""
    lost = Partition(topic="t", number=0, leader=None, replicas=(3,), in_sync=())
    kept = Partition(topic="t", number=1, leader=1, replicas=(1,), in_sync=(1,))
    found = diagnosis.findings(with_partitions(lost, kept, brokers={1}, fenced=fenced))
    assert_printed(found[0], "partitions-without-replicas", 1, "t-0", "broker 3", f"does not {state}")
    assert not has_fact(found[0], "broker 13")
    found = diagnosis.findings(with_partitions(lost, kept, brokers={1, 13}, fenced=fenced))
    assert_printed(found[0], "partitions-without-replicas", "broker 3", "broker 13")


def test_partitions_are_grouped_by_awaited_brokers() -> None:
    two, one = (
        Partition(topic="t", number=0, leader=None, replicas=(4, 3), in_sync=()),
        Partition(topic="t", number=1, leader=None, replicas=(3,), in_sync=()),
    )
    found = diagnosis.findings(with_partitions(two, one, brokers={1}))
    assert_printed(found[0], "partitions-without-replicas", "t-0", "brokers 3, 4", "exist")
    assert_printed(found[1], "partitions-without-replicas", "t-1", "broker 3", "exist")


def test_replica_not_in_sync_cannot_lead() -> None:
    behind = Partition(topic="t", number=0, leader=None, replicas=(1, 2), in_sync=(2,))
    found = diagnosis.findings(with_partitions(behind, brokers={1}, fenced={2}))
    assert_printed(found[0], "partitions-awaiting-replicas", "t-0", "broker 2")


@pytest.mark.parametrize(
    ("replicas", "in_sync", "running"),
    [
        ((1,), (1,), "broker 1"),
        ((1,), (), "broker 1"),
        ((1, 2), (), "broker 1"),
        ((1, 3), (3,), "brokers 1, 3"),
    ],
)
def test_inspection_is_advised_without_awaited_in_sync_replica(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], running: str
) -> None:
    behind = Partition(topic="t", number=0, leader=None, replicas=replicas, in_sync=in_sync)
    found = diagnosis.findings(with_partitions(behind, brokers={1, 3}, fenced={2}))
    assert_printed(
        found[0],
        "partitions-without-leader",
        "t-0",
        running,
        "aqueduct repair inspect",
        "aqueduct repair elect",
    )
    assert has_fact(found[0], "broker 2") == (2 in replicas)


def test_partitions_with_different_causes_are_reported_separately() -> None:
    behind, unknown = (
        Partition(topic="t", number=0, leader=None, replicas=(1, 2), in_sync=(2,)),
        Partition(topic="t", number=1, leader=None, replicas=(1,), in_sync=(1,)),
    )
    found = diagnosis.findings(with_partitions(behind, unknown, brokers={1}, fenced={2}))
    assert_printed(found[0], "partitions-awaiting-replicas", "t-0", "broker 2")
    assert_printed(found[1], "partitions-without-leader", "t-1", "broker 1")


def test_groups_that_nobody_coordinates_are_named() -> None:
    """Of four partitions, by what Kafka's own coordinator says: see tests/broker."""
    topic = (
        Partition(
            topic=diagnosis.GROUPS, number=number, leader=1 if number else None, replicas=(1,), in_sync=(1,)
        )
        for number in range(4)
    )
    state = with_partitions(*topic, brokers={1})
    names = [f"group-{number}" for number in range(8)]
    waiting = [name for name in names if diagnosis.group_partition(name, 4) == 0]
    assert 0 < len(waiting) < len(names)
    [_, sentence] = diagnosis.findings(state, groups=names)
    waits = ("coordinator-without-leader", "__consumer_offsets", "1 of 4", "--data-folder")
    assert_printed(sentence, *waits, ", ".join(waiting))
    assert not any(has_fact(sentence, name) for name in names if name not in waiting)
    [_, sentence] = diagnosis.findings(state, groups=[each for each in names if each not in waiting])
    assert_printed(sentence, *waits, "none")
    [_, sentence] = diagnosis.findings(state)
    assert_printed(sentence, *waits)
    assert not has_fact(sentence, "none")


def test_group_positions_are_dated_by_partition_logs() -> None:
    topic = (
        Partition(topic=diagnosis.GROUPS, number=number, leader=None, replicas=(3,), in_sync=())
        for number in range(2)
    )
    state = with_partitions(*topic, brokers={1})
    [one, other] = (
        next(f"group-{n}" for n in range(9) if diagnosis.group_partition(f"group-{n}", 2) == number)
        for number in range(2)
    )
    logs = [(diagnosis.GROUPS, number) for number in range(2)]
    here, there = TopicPartition(*logs[0]), TopicPartition(*logs[1])
    times = {here: 1_764_172_800_000, there: 1_764_172_860_005}

    def since(groups: list[str], written: dict[TopicPartition, int]) -> str:
        found = diagnosis.findings(
            state, groups=groups, folders=[folder(3, *logs)], written={Path("/data"): written}
        )
        assert_printed(found[1], "coordinator-without-leader", "2 of 2")
        return found[2]

    dated = ("group-positions-dated", "/data", "__consumer_offsets")
    assert_printed(since([], times), *dated, 2, "2025-11-26T16:01:00.005Z")
    newest = {one: f"2025-11-26T16:00:00.000Z ({one})", other: f"2025-11-26T16:01:00.005Z ({other})"}
    assert f"{newest[min(one, other)]}, {newest[max(one, other)]}" in since([other, one], times)
    assert_printed(since([one], {there: times[there]}), *dated, 1, "2025-11-26T16:01:00.005Z")
    assert "[group-positions-dated]" not in since([one], {})


@pytest.mark.parametrize(
    ("name", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", -(1 << 31)),  # the least, which has no counterpart
        ("aqueduct-land-lake", None),
        ("\U0001f600", 1_772_899),  # two UTF-16 units: 31 * 0xD83D + 0xDE00
    ],
)
def test_a_group_s_partition_is_java_s_hash(name: str, hash_code: int | None) -> None:
    if hash_code is None:
        hash_code = 0
        for each in name:
            hash_code = (hash_code * 31 + ord(each) + (1 << 31)) % (1 << 32) - (1 << 31)
    without_sign = 0 if hash_code == -(1 << 31) else abs(hash_code)
    assert diagnosis.group_partition(name, 50) == without_sign % 50


def test_replicas_on_missing_broker_are_reported() -> None:
    short = Partition(topic="t", number=0, leader=1, replicas=(1, 3), in_sync=(1,))
    [sentence] = diagnosis.findings(with_partitions(short, brokers={1}))
    assert_printed(sentence, "partitions-short-of-replicas", 1, "broker 3", "exist", "t-0")
    [sentence] = diagnosis.findings(with_partitions(short, brokers={1}, fenced={3}))
    assert_printed(sentence, "cluster-node-unhealthy", "Broker 3", "fenced")


def test_silent_brokers_and_the_quorum_are_told() -> None:
    silent = ["Broker 2 does not answer."]
    without = replace(SOUND, quorum=Quorum(None, {}, {}))
    assert [label.split()[0] for label in diagnosis.findings(without, silent=silent)] == [
        "[broker-address-unreachable]",
        "[cluster-node-unhealthy]",
    ]


def folder(
    node: int, *logs: tuple[str, int], cluster: str = "this", strays: tuple[str, ...] = ()
) -> DataFolder:
    found = frozenset(TopicPartition(*each) for each in logs)
    return DataFolder(
        path=Path("/data"), cluster_id=cluster, node_id=node, logs=found, strays=frozenset(strays)
    )


def test_data_folder_with_lost_partition_is_named() -> None:
    lost = with_partitions(
        Partition(topic="t", number=0, leader=None, replicas=(3,), in_sync=()), brokers={1}, fenced={3}
    )
    found = diagnosis.findings(lost, folders=[folder(3, ("t", 0))])
    assert_printed(found[-1], "data-folder-broker-stopped", "/data", 1, "broker 3", "does not run")


def test_folders_are_compared_with_what_is_assigned() -> None:
    [sentence] = diagnosis.findings(SOUND, folders=[folder(1, ("t", 0), ("old", 7))])
    assert_printed(sentence, "data-folder-logs-unassigned", "/data", "1 partition", "broker 1", "old-7")
    assert diagnosis.findings(SOUND, folders=[folder(2, ("t", 0)), folder(2, ("t", 1))]) == []
    [sentence] = diagnosis.findings(SOUND, folders=[folder(2, ("t", 0))])
    assert_printed(sentence, "data-folder-logs-missing", 1, "broker 2", "t-1")
    [sentence] = diagnosis.findings(SOUND, folders=[folder(1, ("t", 0), strays=("t-9.ab-stray",))])
    assert_printed(sentence, "data-folder-logs-quarantined", "/data", 1, "t-9.ab-stray")
    [sentence] = diagnosis.findings(SOUND, folders=[folder(1, ("t", 0), cluster="other")])
    assert_printed(sentence, "data-folder-cluster-differs", "/data", "other", "this")


def test_unassigned_logs_finding_depends_on_metadata_storage() -> None:
    logs = [folder(1, ("t", 0), ("old", 7))]
    for quorum, has_zookeeper in ((Quorum(1, {}, {}), True), (Quorum(None, {}, {}), False)):
        found = "\n".join(diagnosis.findings(replace(SOUND, quorum=quorum), folders=logs))
        assert_printed(found, "data-folder-logs-unassigned", "broker 1", "old-7")
        assert has_fact(found, "ZooKeeper") == has_zookeeper


def test_data_folder_of_unregistered_broker_is_named() -> None:
    found = diagnosis.findings(SOUND, folders=[folder(3, ("t", 0))])
    assert_printed(found[0], "data-folder-broker-unregistered", "/data", "broker 3")
    [sentence] = diagnosis.findings(SOUND, folders=[folder(3)])
    assert_printed(sentence, "data-folder-broker-unregistered", "aqueduct repair plan")
    # A controller is no broker.
    apart = replace(SOUND, quorum=replace(QUORUM, voters={101: 0}))
    assert diagnosis.findings(apart, folders=[folder(101)]) == []


def test_a_data_folder_is_read(tmp_path: Path) -> None:
    for name in (
        "t-0",
        "a-b.c_d-12",
        "__cluster_metadata-0",
        "t-1.f0f0-stray",
        "t-2.f0f0-delete",
        "lost+found",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "t-3").touch()
    (tmp_path / "meta.properties").write_text("#\nversion=1\nnode.id=7\ncluster.id=abc\ndirectory.id=d\n")
    assert data_folder.read(tmp_path) == DataFolder(
        path=tmp_path,
        cluster_id="abc",
        node_id=7,
        logs=frozenset({TopicPartition("t", 0), TopicPartition("a-b.c_d", 12)}),
        strays=frozenset({"t-1.f0f0-stray"}),
    )
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=abc\n")
    assert data_folder.read(tmp_path).node_id == 0


def test_log_is_dated_by_its_newest_batch(tmp_path: Path) -> None:
    """The file is newer, as after a copy; it counts where no batch can be read. A log set aside may go on."""
    group = [TopicPartition(diagnosis.GROUPS, number) for number in range(5)]
    stray = f"{diagnosis.GROUPS}-0.{'ab' * 16}-stray"
    for name, content in (
        (f"{group[0]}", batch(1_000) + batch(2_000)),
        (stray, batch(3_000) + batch(4_000)[:-1]),
        (f"{group[1]}", b""),
        (
            f"{group[2]}",
            b"no batch at all, but long enough for the header of one; so it is taken for damaged",
        ),
        (f"{group[3]}", batch(5_000)),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(content)
        (tmp_path / name / "00000000000000000009.log").touch()
    damaged = tmp_path / str(group[2]) / "00000000000000000000.log"
    os.utime(damaged, (6, 6))
    assert data_folder.written(tmp_path, [*group[:3], group[4]]) == {group[0]: 3_000, group[2]: 6_000}


def batch(time: int) -> bytes:
    return HEADER.pack(0, HEADER.size - 12, 0, 2, 0, 0, 0, time, time, -1, -1, -1, 0)


@pytest.mark.parametrize(
    ("meta", "id_"),
    [
        (None, "data-folder-unreadable"),
        ("cluster.id=abc\n", "data-folder-unidentified"),
        ("node.id=x\ncluster.id=abc\n", "data-folder-unidentified"),
        ("node.id=1\n", "data-folder-unidentified"),
    ],
)
def test_what_is_no_data_folder_is_refused(meta: str | None, id_: str, tmp_path: Path) -> None:
    if meta is not None:
        (tmp_path / "meta.properties").write_text(meta)
    with raises(Refused, id_, tmp_path, "meta.properties"):
        data_folder.read(tmp_path)


def test_a_folder_with_logs_was_formatted(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with raises(Refused, "data-folder-unidentified"):
        data_folder.read(tmp_path)
    (tmp_path / "t-0").mkdir()
    with raises(Refused, "data-folder-unidentified"):
        data_folder.read(tmp_path)
