from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aqueduct.kafka import cluster, rolling
from aqueduct.kafka.cluster import Cluster, Partition, Quorum

ALL_WELL = Quorum(leader=1, voters={1: 0, 2: 10, 3: 10}, observers={})
NO_TOPICS = Cluster(
    cluster_id="id", brokers=frozenset({1, 2, 3}), fenced=frozenset(), partitions=(), quorum=ALL_WELL
)


def with_partition(in_sync: set[int], replicas: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    leader = min(in_sync, default=None)
    return replace(
        NO_TOPICS,
        partitions=(
            Partition(topic="t", number=0, leader=leader, replicas=replicas, in_sync=tuple(sorted(in_sync))),
        ),
    )


def with_quorum(leader: int | None, voters: dict[int, int | None]) -> Cluster:
    return replace(NO_TOPICS, quorum=Quorum(leader, voters, {}))


@pytest.mark.parametrize(
    ("in_sync", "minimum", "node", "may_stop"),
    [
        ({1, 2, 3}, 2, 1, True),
        ({1, 2}, 2, 1, False),
        ({1, 2}, 2, 3, True),  # it is not in sync: nothing is lost with it
        ({1}, 2, 1, False),
        ({1}, 2, 3, False),  # it may catch up first
        ({1, 2}, 1, 1, True),
        ({1}, 1, 1, False),
        ({1, 2, 3}, 2, 4, True),  # it has no replica
        (set(), 2, 2, False),
    ],
)
def test_no_partition_falls_under_min_insync_replicas(
    in_sync: set[int], minimum: int, node: int, may_stop: bool
) -> None:
    state = with_partition(in_sync)
    obstacles = rolling.obstacles(state, {"t": minimum}, node)
    assert (obstacles == []) == may_stop
    assert all("t-0" in sentence for sentence in obstacles)
    assert rolling.unavailable_by_design(state, {"t": minimum}, node) == []


@pytest.mark.parametrize(("replicas", "minimum"), [((1,), 1), ((1,), 2), ((1, 2), 2), ((1, 2, 3), 3)])
def test_unavailability_by_design_is_named_but_no_obstacle(replicas: tuple[int, ...], minimum: int) -> None:
    state = with_partition(set(replicas), replicas)
    [sentence] = rolling.unavailable_by_design(state, {"t": minimum}, 1)
    assert "1 topic on broker 1" in sentence
    assert ": t." in sentence
    assert rolling.obstacles(state, {"t": minimum}, 1) == []
    elsewhere = 4
    assert rolling.unavailable_by_design(state, {"t": minimum}, elsewhere) == []


@given(
    replicas=st.sets(st.integers(1, 5), min_size=1),
    minimum=st.integers(1, 5),
    node=st.integers(1, 5),
    data=st.data(),
)
def test_allowed_broker_stop_keeps_min_insync_replicas(
    replicas: set[int], minimum: int, node: int, data: st.DataObject
) -> None:
    in_sync = data.draw(st.sets(st.sampled_from(sorted(replicas))))
    state = with_partition(in_sync, tuple(sorted(replicas)))
    assume(not rolling.unavailable_by_design(state, {"t": minimum}, node))
    if node in replicas and not rolling.obstacles(state, {"t": minimum}, node):
        assert len(in_sync - {node}) >= minimum


@pytest.mark.parametrize(
    ("voters", "node", "may_stop"),
    [
        ({1: 0, 2: 10, 3: 10}, 1, True),
        ({1: 0, 2: 10, 3: 10}, 2, True),
        ({1: 0, 2: 10, 3: 5000}, 1, False),
        ({1: 0, 2: 10, 3: 5000}, 2, False),
        ({1: 0, 2: 10, 3: 5000}, 3, True),
        ({1: 0, 2: 10, 3: None}, 1, False),
        ({1: 0, 2: 10, 3: None}, 4, True),  # not a controller
        ({1: 0, 2: 10, 3: 10, 4: 10, 5: None}, 1, True),
        ({1: 0, 2: 10, 3: 10, 4: None, 5: None}, 1, False),
        ({1: 0, 2: 10, 3: 10, 4: None}, 1, False),
    ],
)
def test_most_controllers_stay_and_are_caught_up(
    voters: dict[int, int | None], node: int, may_stop: bool
) -> None:
    state = with_quorum(1, voters)
    assert (rolling.obstacles(state, {}, node) == []) == may_stop
    assert rolling.unavailable_by_design(state, {}, node) == []


@pytest.mark.parametrize("voters", [{1: 0}, {1: 0, 2: 10}])
def test_quorum_of_one_or_two_stops_by_design(voters: dict[int, int | None]) -> None:
    state = with_quorum(1, voters)
    [sentence] = rolling.unavailable_by_design(state, {}, 1)
    assert "no majority without 1" in sentence
    assert rolling.obstacles(state, {}, 1) == []


def test_without_a_leader_no_controller_may_stop() -> None:
    assert rolling.obstacles(with_quorum(None, {1: None, 2: None, 3: None}), {}, 1)


@given(
    brokers=st.frozensets(st.integers(1, 9)),
    fenced=st.frozensets(st.integers(1, 9)),
    voters=st.frozensets(st.integers(1, 9), min_size=1),
    data=st.data(),
)
def test_each_node_restarts_once_and_active_controller_last(
    brokers: frozenset[int], fenced: frozenset[int], voters: frozenset[int], data: st.DataObject
) -> None:
    leader = data.draw(st.sampled_from(sorted(voters)))
    state = Cluster(
        cluster_id="id",
        brokers=brokers,
        fenced=fenced,
        partitions=(),
        quorum=Quorum(leader, dict.fromkeys(voters, 0), {}),
    )
    order = rolling.restart_order(state)
    assert sorted(order) == sorted(brokers | fenced | voters)
    assert order[-1] == leader


def test_a_well_cluster_has_no_problems() -> None:
    state = with_partition({1, 2, 3})
    assert cluster.cluster_problems(state) == []
    assert cluster.registration_problems(state, 1) == []
    assert cluster.controller_problems(state, 2) == []
    assert cluster.replication_problems(state, 1) == []


def test_each_problem_of_a_cluster_has_its_sentence() -> None:
    state = Cluster(
        cluster_id="id",
        brokers=frozenset({1}),
        fenced=frozenset({2}),
        partitions=(
            Partition(topic="a", number=0, leader=None, replicas=(2,), in_sync=(2,)),
            Partition(topic="a", number=1, leader=1, replicas=(1, 2), in_sync=(1,)),
            Partition(topic="b", number=0, leader=1, replicas=(1, 2), in_sync=(1,)),
        ),
        quorum=Quorum(1, {1: 0, 2: None}, {}),
    )
    assert cluster.cluster_problems(state) == [
        "1 partition is without a leader: a-0.",
        "2 partitions are under-replicated: a-1, b-0.",
        "Broker 2 is registered but fenced: the broker is starting, or it cannot reach the controller.",
        "Controller 2 does not follow the metadata log; the active controller is 1.",
    ]
    assert cluster.registration_problems(state, 3) == [
        "Broker 3 is not registered in cluster id, whose brokers are 1."
    ]
    assert cluster.replication_problems(state, 2) == ["2 partitions are not in sync on broker 2: a-1, b-0."]
    assert cluster.replication_problems(state, 1) == []


def test_an_observing_controller_follows() -> None:
    state = replace(NO_TOPICS, quorum=Quorum(1, {1: 0}, {4: 100, 5: 9000}))
    assert cluster.controller_problems(state, 4) == []
    assert cluster.controller_problems(state, 5)
    assert cluster.controller_problems(state, 6)


def test_of_ten_thousand_partitions_five_are_named() -> None:
    partitions = tuple(
        Partition(topic="t", number=number, leader=1, replicas=(1, 2), in_sync=(1,))
        for number in range(10_000)
    )
    [sentence] = cluster.replication_problems(replace(NO_TOPICS, partitions=partitions))
    assert sentence == "10,000 partitions are under-replicated: t-0, t-1, t-2, t-3, t-4 and 9,995 more."
