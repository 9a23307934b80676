import os
from dataclasses import replace
from pathlib import Path

import pytest
from identifiers import raises

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
def test_an_id_that_was_changed_is_told_from_a_broker_that_is_down(fenced: set[int], state: str) -> None:
    """In ZooKeeper's time the old id is gone; with KRaft it stays registered."""
    lost = Partition(topic="t", number=0, leader=None, replicas=(3,), in_sync=())
    kept = Partition(topic="t", number=1, leader=1, replicas=(1,), in_sync=(1,))
    found = diagnosis.findings(with_partitions(lost, kept, brokers={1}, fenced=fenced))
    assert found[0] == (
        "[partitions-without-replicas] 1 partition can't be read or written (t-0), for all replicas are on "
        "broker 3, which does not "
        f"{state}. Start a host with the id and the data folders that it had, and all is there again."
    )
    found = diagnosis.findings(with_partitions(lost, kept, brokers={1, 13}, fenced=fenced))
    assert found[0].endswith(
        " There is no replica on broker 13: if that is the same host, its id was changed."
    )


def test_partitions_are_told_by_the_brokers_that_they_wait_for() -> None:
    two, one = (
        Partition(topic="t", number=0, leader=None, replicas=(4, 3), in_sync=()),
        Partition(topic="t", number=1, leader=None, replicas=(3,), in_sync=()),
    )
    found = diagnosis.findings(with_partitions(two, one, brokers={1}))
    assert "(t-0), for all replicas are on brokers 3, 4, which do not exist" in found[0]
    assert "(t-1), for all replicas are on broker 3, which does not exist" in found[1]


def test_a_replica_that_was_not_in_sync_can_t_lead() -> None:
    behind = Partition(topic="t", number=0, leader=None, replicas=(1, 2), in_sync=(2,))
    found = diagnosis.findings(with_partitions(behind, brokers={1}, fenced={2}))
    assert "(t-0), for the replicas that are there were not in sync. Start broker 2: " in found[0]


@pytest.mark.parametrize(
    ("replicas", "in_sync", "said"),
    [
        ((1,), (1,), "(t-0), although broker 1 runs, for the cluster takes none of their replicas for one"),
        ((1,), (), "although broker 1 runs, "),
        ((1, 2), (), "although broker 1 runs, "),
        ((1, 3), (3,), "although brokers 1, 3 run, "),
    ],
)
def test_where_nobody_in_sync_is_awaited_the_disks_decide(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], said: str
) -> None:
    behind = Partition(topic="t", number=0, leader=None, replicas=replicas, in_sync=in_sync)
    found = diagnosis.findings(with_partitions(behind, brokers={1, 3}, fenced={2}))
    assert said in found[0]
    assert ("Start broker 2 first, " in found[0]) == (2 in replicas)
    assert (
        " `aqueduct repair inspect` on each broker's host, and `aqueduct repair elect` with all" in found[0]
    )
    assert "the others" not in found[0]


def test_partitions_that_wait_for_different_things_are_told_apart() -> None:
    behind, unknown = (
        Partition(topic="t", number=0, leader=None, replicas=(1, 2), in_sync=(2,)),
        Partition(topic="t", number=1, leader=None, replicas=(1,), in_sync=(1,)),
    )
    found = diagnosis.findings(with_partitions(behind, unknown, brokers={1}, fenced={2}))
    assert "(t-0), for the replicas that are there were not in sync. Start broker 2: " in found[0]
    assert "(t-1), although broker 1 runs, " in found[1]


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
    assert "__consumer_offsets has no leader for 1 of 4 partitions" in sentence
    since = " Their brokers' --data-folder tells since when."
    assert sentence.endswith(f"Of the groups that were named: {', '.join(waiting)}.{since}")
    [_, sentence] = diagnosis.findings(state, groups=[each for each in names if each not in waiting])
    assert sentence.endswith(f"Of the groups that were named: none.{since}")
    [_, sentence] = diagnosis.findings(state)
    assert sentence.endswith(f"for 1 of 4 partitions.{since}")


def test_since_when_groups_wait_is_told_by_the_logs_of_their_partitions() -> None:
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
        assert found[1].endswith("partitions.") or "Of the groups that were named" in found[1]
        return found[2]

    of_two = (
        "[group-positions-dated] /data has records in 2 of these partitions of __consumer_offsets, and no "
        "position was written there "
    )
    assert since([], times) == of_two + "after 2025-11-26T16:01:00.005Z."
    assert since([other, one], times) == of_two + (
        f"after 2025-11-26T16:00:00.000Z ({one}), 2025-11-26T16:01:00.005Z ({other})."
        if one < other
        else f"after 2025-11-26T16:01:00.005Z ({other}), 2025-11-26T16:00:00.000Z ({one})."
    )
    assert since([one], {there: times[there]}).endswith("after 2025-11-26T16:01:00.005Z.")
    assert "no position" not in since([one], {})


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


def test_replicas_on_a_broker_that_does_not_exist_are_told() -> None:
    short = Partition(topic="t", number=0, leader=1, replicas=(1, 3), in_sync=(1,))
    [sentence] = diagnosis.findings(with_partitions(short, brokers={1}))
    assert sentence.startswith(
        "[partitions-short-of-replicas] 1 partition will stay with too few replicas, for others are on "
        "broker 3, which does not exist: t-0."
    )
    [sentence] = diagnosis.findings(with_partitions(short, brokers={1}, fenced={3}))
    assert sentence.startswith("[cluster-node-unhealthy] Broker 3 is registered but fenced")


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


def test_a_folder_that_has_what_is_lost_is_named() -> None:
    lost = with_partitions(
        Partition(topic="t", number=0, leader=None, replicas=(3,), in_sync=()), brokers={1}, fenced={3}
    )
    found = diagnosis.findings(lost, folders=[folder(3, ("t", 0))])
    assert found[-1] == (
        "[data-folder-broker-stopped] /data has logs of 1 partition of broker 3, which does not run: start "
        "it with this id and this "
        "folder."
    )


def test_folders_are_compared_with_what_is_assigned() -> None:
    [sentence] = diagnosis.findings(SOUND, folders=[folder(1, ("t", 0), ("old", 7))])
    assert sentence.startswith(
        "[data-folder-logs-unassigned] /data has logs of 1 partition that the cluster does not assign to "
        "broker 1: old-7. A broker puts"
    )
    assert diagnosis.findings(SOUND, folders=[folder(2, ("t", 0)), folder(2, ("t", 1))]) == []
    [sentence] = diagnosis.findings(SOUND, folders=[folder(2, ("t", 0))])
    assert sentence == (
        "[data-folder-logs-missing] No folder that was named has logs of 1 partition that the cluster "
        "assigns to broker 2: t-1."
    )
    [sentence] = diagnosis.findings(SOUND, folders=[folder(1, ("t", 0), strays=("t-9.ab-stray",))])
    assert sentence.startswith(
        "[data-folder-logs-quarantined] /data has 1 log that a broker set aside: t-9.ab-stray."
    )
    [sentence] = diagnosis.findings(SOUND, folders=[folder(1, ("t", 0), cluster="other")])
    assert sentence == "[data-folder-cluster-differs] /data is of the cluster other, and this one is this."


def test_what_becomes_of_others_logs_depends_on_where_metadata_are() -> None:
    logs = [folder(1, ("t", 0), ("old", 7))]
    for quorum, fate in (
        (Quorum(1, {}, {}), "old-7. With ZooKeeper brokers leave them there, and serve nothing of them."),
        (Quorum(None, {}, {}), "old-7."),
    ):
        found = diagnosis.findings(replace(SOUND, quorum=quorum), folders=logs)
        assert any(each.endswith(f"broker 1: {fate}") for each in found)


def test_a_folder_of_a_broker_that_is_not_registered_is_named() -> None:
    found = diagnosis.findings(SOUND, folders=[folder(3, ("t", 0))])
    assert found[0].startswith(
        "[data-folder-broker-unregistered] /data is of broker 3, which is not registered: it does not run, "
        "or is refused"
    )
    [sentence] = diagnosis.findings(SOUND, folders=[folder(3)])
    assert "`aqueduct repair plan` says which id its logs are of." in sentence
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


def test_a_log_was_written_to_when_its_newest_batch_was(tmp_path: Path) -> None:
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
