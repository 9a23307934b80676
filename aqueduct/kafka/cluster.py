"""The state of a cluster as it tells it at one moment, and what is wrong with it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some

# A controller is caught up if it had all of the leader's log this recently. It is Kafka's default of
# controller.quorum.fetch.timeout.ms, after which a follower itself gives its leader up.
CAUGHT_UP_MILLISECONDS = 2000


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition as the brokers' metadata has it; nodes by their ids."""

    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class Quorum:
    """The controllers' Raft quorum (KIP-595), whose leader is the active controller.

    Where metadata is in ZooKeeper, a broker is the active controller, and there is nobody else.
    `voters` and `observers` tell how many milliseconds ago each had all of the leader's log; None: not since
    this leader was elected. Observers are brokers, and controllers that aren't voters yet (KIP-853).
    """

    leader: int | None
    voters: Mapping[int, int | None]
    observers: Mapping[int, int | None]

    def caught_up(self) -> set[int]:
        """Return the voters that could lead at once."""
        return {node for node, behind in self.voters.items() if _is_caught_up(behind)}


NO_QUORUM = Quorum(None, {}, {})


@dataclass(frozen=True, kw_only=True)
class Cluster:
    cluster_id: str
    brokers: frozenset[int]  # registered and unfenced: they serve clients
    fenced: frozenset[int]  # registered, but still starting, or the controller hears nothing from them
    partitions: tuple[Partition, ...]
    quorum: Quorum
    addresses: Mapping[int, str] = field(default_factory=dict)  # that registered brokers advertise
    hides_topics: bool = False  # it shows this client no topic, which is not to have none

    def offline(self) -> list[Partition]:
        return [p for p in self.partitions if p.leader is None]

    def under_replicated(self) -> list[Partition]:
        return [p for p in self.partitions if len(p.in_sync) < len(p.replicas)]


def absent_brokers(cluster: Cluster, expected: Collection[int]) -> frozenset[int]:
    """Return the ids that replicas are assigned to, and that neither run nor are expected to.

    No waiting brings their replicas into sync.
    """
    assigned = {node for partition in cluster.partitions for node in partition.replicas}
    return frozenset(assigned - cluster.brokers - set(expected))


def without_brokers(cluster: Cluster, nodes: Collection[int]) -> Cluster:
    """Return the cluster as if these brokers had no replicas."""

    def kept(assigned: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(node for node in assigned if node not in nodes)

    partitions = (
        replace(partition, replicas=kept(partition.replicas), in_sync=kept(partition.in_sync))
        for partition in cluster.partitions
    )
    return replace(cluster, partitions=tuple(partitions))


def unexpected_brokers(cluster: Cluster, expected: Collection[int]) -> list[str]:
    """Return the findings about brokers of the cluster that are not expected in it, a sentence each."""
    hosted: dict[int, list[Partition]] = {}
    for partition in cluster.partitions:
        for node in set(partition.replicas) - set(expected):
            hosted.setdefault(node, []).append(partition)
    nodes = sorted(hosted.keys() | (cluster.brokers - set(expected)))
    return [_unexpected(node, hosted.get(node, []), running=node in cluster.brokers) for node in nodes]


def _unexpected(node: int, hosted: Sequence[Partition], *, running: bool) -> str:
    replicas = (
        (f" The broker has replicas of {count(len(hosted), 'partition')}: {some(hosted)}.") if hosted else ""
    )
    state = "runs" if running else "does not run"
    return f"Broker {node} is not in the inventory, and {state}.{replicas} {_removal(running=running)}"


def _removal(*, running: bool) -> str:
    if running:
        return (
            "Reassign its partitions with kafka-reassign-partitions.sh, stop the broker, and unregister it "
            "with kafka-cluster.sh. Or add the host of the broker to the inventory again."
        )
    return (
        "If its disks are permanently lost, reassign its partitions with kafka-reassign-partitions.sh. "
        "Otherwise, start the broker with its id and its data folders."
    )


@dataclass(frozen=True)
class ClusterProblem:
    """A problem of a cluster. `id` is declared in `aqueduct.messages`."""

    id: str
    sentence: str


def hidden_topics(cluster: Cluster) -> list[ClusterProblem]:
    """Return that nothing is known of partitions, if the cluster shows this client no topic."""
    if not cluster.hides_topics:
        return []
    sentence = (
        "The client can see no topic of the cluster, so the state of partitions is unknown. Grant the "
        "principal of the client Describe on all topics, or use another client."
    )
    return [ClusterProblem(id="cluster-topics-hidden", sentence=sentence)]


def registration_problems(cluster: Cluster, node_id: int) -> list[str]:
    """Return why the controller doesn't count on broker `node_id`; empty if it does."""
    if node_id in cluster.brokers:
        return []
    if node_id in cluster.fenced:
        return [
            (
                f"Broker {node_id} is registered but fenced: the broker is starting, or it cannot reach the "
                "controller."
            )
        ]
    return [
        f"Broker {node_id} is not registered in cluster {cluster.cluster_id}, "
        f"whose brokers are {some(sorted(cluster.brokers))}."
    ]


def controller_problems(cluster: Cluster, node_id: int) -> list[str]:
    """Return why controller `node_id` takes no part in the quorum; empty if it leads or follows."""
    quorum = cluster.quorum
    if _is_caught_up(quorum.voters.get(node_id, quorum.observers.get(node_id))):
        return []
    leader = "none" if quorum.leader is None else quorum.leader
    return [f"Controller {node_id} does not follow the metadata log; the active controller is {leader}."]


def replication_problems(cluster: Cluster, node_id: int | None = None) -> list[str]:
    """Return which partitions lack in-sync replicas, in a sentence; with `node_id`, which lack its."""
    if node_id is None:
        return _about(cluster.under_replicated(), "under-replicated")
    lagging = [p for p in cluster.partitions if node_id in p.replicas and node_id not in p.in_sync]
    return _about(lagging, f"not in sync on broker {node_id}")


def identified_problems(cluster: Cluster) -> list[ClusterProblem]:
    """Return the problems of the cluster as a whole."""
    offline = _about(cluster.offline(), "without a leader")
    lagging, nodes = replication_problems(cluster), node_problems(cluster)
    return [
        *(ClusterProblem(id="partitions-offline", sentence=sentence) for sentence in offline),
        *(ClusterProblem(id="partitions-under-replicated", sentence=sentence) for sentence in lagging),
        *(ClusterProblem(id="cluster-node-unhealthy", sentence=sentence) for sentence in nodes),
    ]


def cluster_problems(cluster: Cluster) -> list[str]:
    """Say what is wrong with the cluster as a whole, a sentence each."""
    return [problem.sentence for problem in identified_problems(cluster)]


def node_problems(cluster: Cluster, unused: Collection[int] = ()) -> list[str]:
    """Return sentences about fenced brokers, except `unused`, and controllers that are not in the quorum."""
    registered = sorted(cluster.fenced - set(unused))
    fenced = [problem for node in registered for problem in registration_problems(cluster, node)]
    if cluster.quorum.leader is None:
        return [
            *fenced,
            (
                "The controller quorum has no leader, so nothing in the cluster can be changed. Start the "
                "controllers."
            ),
        ]
    voters = sorted(cluster.quorum.voters)
    return fenced + [problem for node in voters for problem in controller_problems(cluster, node)]


def _about(partitions: Sequence[Partition], state: str) -> list[str]:
    if not partitions:
        return []
    verb = "is" if len(partitions) == 1 else "are"
    return [f"{count(len(partitions), 'partition')} {verb} {state}: {some(partitions)}."]


def _is_caught_up(behind: int | None) -> bool:
    return behind is not None and behind < CAUGHT_UP_MILLISECONDS
