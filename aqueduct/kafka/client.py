"""A cluster's brokers, its topics and who leads what; requests to them, one by one or several under way."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar
from uuid import UUID

from kafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NoError,
    RetriableError,
    UnknownBrokerIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.client_config import End
from aqueduct.kafka.client_errors import RECONNECT, answering, reaching
from aqueduct.kafka.cluster import Partition
from aqueduct.kafka.requests import in_lists
from aqueduct.kafka.transport import Manager

CONNECT_SECONDS = 30
REQUEST_SECONDS = 30
POLL_SECONDS = 0.2  # between looks whether it was told to stop
STOP_SECONDS = 2  # of waiting in all, from then on
STALL_SECONDS = 60  # without progress: a broker may be restarted, or a leader elected meanwhile
BACKOFF_SECONDS = 0.02, 1.0  # the first and the longest pause before a request is sent again
NAMES_PER_REQUEST = 1_000
RESPONSE_BYTES = 1 << 30  # no response of Kafka's is larger

T = TypeVar("T")


@dataclass(frozen=True)
class Topic:
    """A topic as the brokers' metadata has it."""

    id: UUID | None  # None: from a broker older than 2.8
    name: str
    partitions: tuple[Partition, ...]  # in their order

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition.number) for partition in self.partitions]

    @property
    def led_partitions(self) -> list[TopicPartition]:
        """Partitions with a leader, which alone can be asked for their offsets."""
        return [
            TopicPartition(self.name, partition.number)
            for partition in self.partitions
            if partition.leader is not None
        ]


class Stopped(Failed):
    """The end of a client that was told to stop before the cluster answered."""

    id = "cluster-not-responding"


@contextmanager
def connect(
    end: End,
    client_id: str,
    stopping: Event | None = None,
    *,
    timeout_seconds: float | None = None,
    patience_seconds: float | None = None,
) -> "Iterator[Client]":
    """Yield a Client of the cluster; Failed if no broker answers in `timeout_seconds` (CONNECT_SECONDS).

    `patience_seconds`: how long Patience lasts with this client; default: STALL_SECONDS.

    An error that the cluster answers ends the block as Failed, too. Once `stopping` is set the client waits
    for STOP_SECONDS in all; what takes longer is Stopped.
    """
    seconds = CONNECT_SECONDS if timeout_seconds is None else timeout_seconds
    request_ms = end.client_config.request_timeout_ms or int(min(seconds, REQUEST_SECONDS) * 1000)
    settings = {
        "bootstrap_servers": end.bootstrap_servers.split(","),
        "client_id": client_id,
        "request_timeout_ms": request_ms,
        "receive_message_max_bytes": RESPONSE_BYTES,
        "max_in_flight_requests_per_connection": 1000,  # who sends many counts them
        "slow_task_threshold_secs": 0,  # a large response is read in one go
        **RECONNECT,
        **end.client_config.kafka_python(),
    }
    with reaching(end.bootstrap_servers, seconds):
        net = NetworkSelector(**settings)
        client = KafkaNetClient(net, Manager(net, **settings))
    try:
        ours = Client(client, end, stopping, patience_seconds)
        with reaching(end.bootstrap_servers, seconds):
            ours.wait(client._manager.bootstrap_async(seconds * 1000))
        with answering(end.bootstrap_servers):
            yield ours
    finally:
        client.close()


class Client:
    """The Kafka client of one thread. `connect` turns a KafkaError into a sentence."""

    def __init__(
        self,
        client: KafkaNetClient,
        end: End,
        stopping: Event | None = None,
        patience_seconds: float | None = None,
    ) -> None:
        self.end = end
        self._patience_seconds = patience_seconds
        self._client = client
        self._stopping = stopping or Event()
        self._patience_left = float(STOP_SECONDS)
        self._topics: dict[str, Topic] = {}

    @property
    def patience_seconds(self) -> float:
        """Return how long passing troubles are borne without progress."""
        return STALL_SECONDS if self._patience_seconds is None else self._patience_seconds

    # Requests

    def send(self, request: Any, node_id: int | None = None) -> Any:
        """Return the response to a request of kafka-python's protocol layer, from any broker or `node_id`."""
        return self.wait(self.submit(request, node_id))

    def submit(self, request: Any, node_id: int | None = None) -> Future:
        """Send a request, and `wait` for its response later. Requests to one broker are served in order.

        A broker that has a quota for this client makes it pause here.
        """
        try:
            node = self._client.least_loaded_node() if node_id is None else node_id
            while milliseconds := self._client.throttle_delay(node):
                self.sleep(milliseconds / 1000)
            response = self._client.send(node, request)
        except KafkaError as error:
            return Future().failure(error)
        for _ in range(2):  # to learn that the socket takes it, and to write
            self._client.poll(timeout_ms=0)
        return response

    def wait(self, response: Future) -> Any:
        """Wait for the answer to what `submit` sent, and return it."""
        while not response.is_done:
            self._poll(POLL_SECONDS, response)
        if response.exception:
            raise response.exception
        return response.value

    def wait_any(self, responses: Iterable[Future], seconds: float) -> None:
        """Wait until one of the responses is there, or the time is over."""
        first = Future()
        for response in responses:
            response.add_both(lambda _: first.is_done or first.success(None))
        if not first.is_done:
            self._wait(seconds, first)

    def sleep(self, seconds: float) -> None:
        """Wait, and read responses meanwhile."""
        self._wait(seconds, Future())

    def _wait(self, seconds: float, response: Future) -> None:
        until, left = time.monotonic() + seconds, seconds
        while not response.is_done and left >= 0:
            self._poll(min(left, POLL_SECONDS), response)
            left = until - time.monotonic()

    def _poll(self, seconds: float, response: Future) -> None:
        began = time.monotonic()
        self._client.poll(timeout_ms=seconds * 1000, future=response)
        if self._stopping.is_set() and not response.is_done:
            self._patience_left -= time.monotonic() - began
            if self._patience_left < 0:
                raise Stopped(f"The {self.end} stopped answering before this command was ended.")

    # Topics

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return the named topics that exist, asked for now; None: all that the client may describe."""
        patience = Patience(self, "did not describe its topics")
        lists = [None] if names is None else in_lists(names, NAMES_PER_REQUEST)
        topic_by_name: dict[str, Topic] = {}
        for some in lists:
            topic_by_name |= patience.until_done(lambda some=some: self.ask_topics(some))  # type: ignore[misc]
        return topic_by_name

    # What follows asks once: a KafkaError of it is for the caller's own Patience.

    def brokers(self) -> list[int]:
        """Return the ids of those that serve clients now."""
        self.ask_topics([])
        return sorted(broker.node_id for broker in self._client.cluster.brokers())

    def address(self, node_id: int) -> str:
        """Return where a broker says that it is, as it was known last."""
        broker = self._client.cluster.broker_metadata(node_id)
        return f"{broker.host}:{broker.port}" if broker else "an address"

    def learn(self, names: Iterable[str]) -> None:
        """Ask for topics together that `topic` and `leader` would ask for one by one."""
        for some in in_lists(sorted(set(names) - self._topics.keys()), NAMES_PER_REQUEST):
            self.ask_topics(some)

    def topic(self, name: str) -> Topic:
        """Return a topic as it was known last, or as it is now; UnknownTopicOrPartitionError without one."""
        self.learn([name])
        if name not in self._topics:
            raise UnknownTopicOrPartitionError(f"topic {name}")
        return self._topics[name]

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of the broker to ask for a partition; see `forget`."""
        partitions = self.topic(topic).partitions
        if partition >= len(partitions):
            self.forget(topic)
            raise UnknownTopicOrPartitionError(f"{topic}-{partition}")
        leader = partitions[partition].leader
        if leader is None:
            self.forget(topic)
            raise LeaderNotAvailableError(f"{topic}-{partition}")
        return leader

    def forget(self, topic: str) -> None:
        """Drop what is known of a topic, which was wrong: it is asked for again when needed."""
        self._topics.pop(topic, None)

    def controller(self) -> int:
        """Return the id of the broker to ask for changes: in KRaft any one, which forwards them (KIP-590)."""
        controller_id: int = self.send(MetadataRequest(topics=[], min_version=4)).controller_id
        if controller_id < 0:
            raise NodeNotReadyError("the cluster has no controller")
        return controller_id

    def ask_topics(self, names: list[str] | None, node_id: int | None = None) -> dict[str, Topic]:
        """Ask for the named topics, and return those that exist; None: all that the client may describe.

        Any broker is asked, or `node_id`.
        """
        asked = None
        if names is not None:
            asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False, min_version=4)
        metadata = self.send(request, node_id)
        self._client.cluster.update_metadata(metadata)
        topic_by_name = {}
        for topic in metadata.topics:
            error = for_code(topic.error_code)
            if error is NoError:
                topic_by_name[topic.name] = Topic(topic.topic_id, topic.name, tuple(_partitions(topic)))
            elif error not in (UnknownTopicOrPartitionError, LeaderNotAvailableError):
                raise error(f"topic {topic.name}")
        for name in list(self._topics) if names is None else names:
            self.forget(name)
        self._topics |= topic_by_name
        return topic_by_name

    def coordinators(self, kind: CoordinatorType, keys: Iterable[str]) -> dict[str, int | KafkaError]:
        """Return the id of the broker to ask for each group or transactional id, or why there is none."""
        coordinator_by_key: dict[str, int | KafkaError] = {}
        for some in in_lists(keys, NAMES_PER_REQUEST):
            request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=some, min_version=4)
            for coordinator in self.send(request).coordinators:
                error = for_code(coordinator.error_code)(f"{kind.name.lower()} {coordinator.key}")
                coordinator_by_key[coordinator.key] = error if coordinator.error_code else coordinator.node_id
        return coordinator_by_key

    def coordinator(self, kind: CoordinatorType, key: str) -> int:
        """Return the id of the broker to ask for a group or a transactional id."""
        coordinator = self.coordinators(kind, [key])[key]
        if isinstance(coordinator, KafkaError):
            raise coordinator
        return coordinator


def passing(error: KafkaError) -> bool:
    """Return whether the same request may well succeed later."""
    return isinstance(error, RetriableError | UnknownBrokerIdError)


class Patience:
    """The patience with a cluster's passing troubles: `patience_seconds` of its client without progress."""

    def __init__(self, client: Client, fault: str) -> None:
        """`fault` is what is wrong with the cluster if nothing changes: "gave nothing of orders-3"."""
        self._client = client
        self._fault = fault
        self.progress()

    def progress(self) -> None:
        self._error: KafkaError | None = None
        self._since = time.monotonic()
        self._backoff, self._longest = BACKOFF_SECONDS

    def pause(self, error: KafkaError) -> None:
        """Wait before the next attempt; raise the error if it won't pass, Failed if it took too long to."""
        if not passing(error):
            raise error
        if not (self._error and isinstance(error, NodeNotReadyError)):  # which says only that it fails again
            self._error = error
        if time.monotonic() > self._since + self._client.patience_seconds:
            reason = str(self._error).rstrip(".")
            raise Failed(
                "cluster-not-responding",
                f"The {self._client.end} {self._fault} for {self._client.patience_seconds:g} s: {reason}.",
            ) from error
        self._client.sleep(self._backoff)
        self._backoff = min(self._longest, 2 * self._backoff)

    def until_done(self, attempt: Callable[[], T]) -> T:
        """Repeat the attempt until it succeeds, and return its result."""
        while True:
            try:
                return attempt()
            except KafkaError as error:
                self.pause(error)


def _partitions(topic: Any) -> Iterator[Partition]:
    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
        leader = partition.leader_id if partition.leader_id >= 0 else None
        yield Partition(
            topic=topic.name,
            number=partition.partition_index,
            leader=leader,
            replicas=tuple(partition.replica_nodes),
            in_sync=tuple(partition.isr_nodes),
        )
