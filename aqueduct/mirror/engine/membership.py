"""Membership in the group of a flow at its target, whose coordinator assigns the flow's tasks to processes.

Each partition of the topic of positions is a task, so that Kafka's own assignor distributes tasks. The
consumer reads and commits nothing. librdkafka sends heartbeats in a thread that does not wait for Python.
"""

import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event, Thread
from typing import Any, Self

import confluent_kafka
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException

from aqueduct.errors import Failed
from aqueduct.kafka import addresses
from aqueduct.kafka.client_config import End
from aqueduct.mirror.engine.leases import SESSION_SECONDS, Lease
from aqueduct.mirror.engine.names import group_of, member_id, positions_topic

HEARTBEAT_SECONDS = 3
# In which all members must accept a new assignment. A process that does not poll for as long is no member.
REBALANCE_SECONDS = 60
RELEASE_SECONDS = 20  # for a task to commit what it has, before another process may have it
METADATA_SECONDS = 10  # until the topic of positions is seen that was created or re-created
POLL_SECONDS = 0.2

# What no time heals. Other errors, such as brokers that do not answer, librdkafka retries.
_FINAL = {
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_SESSION_TIMEOUT,
}

log = logging.getLogger(__name__)


class Membership:
    """A member of the flow's group, in a thread of its own. Use it as a context manager: its end leaves.

    `is_running` says whether a task still works. A task that is assigned to another member is waited for.
    """

    def __init__(self, end: End, flow: str, is_running: Callable[[int], bool]) -> None:
        self._end = end
        self._group = group_of(flow)
        self._topic = positions_topic(flow)
        self._is_running = is_running
        self._leases: dict[int, Lease] = {}
        self._leaving = Event()
        self._error: Exception | None = None
        self._consumer = _consumer(end, flow)
        self._thread = Thread(target=self._run, name=self._group, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join()

    @property
    def leases(self) -> Mapping[int, Lease]:
        """Return what is assigned to this process, by task; the error of the membership if it has ended."""
        if self._error:
            raise self._error
        return dict(self._leases)

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            while not self._leaving.is_set():
                message = self._consumer.poll(POLL_SECONDS)
                if message is not None and (error := message.error()):
                    self._judge(error)
        except Exception as error:  # `leases` raises it
            self._error = error
        finally:
            self._end_leases(list(self._leases))
            self._consumer.close()  # leaves the group, so that others need not wait for the session's end

    def _judge(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _FINAL:
            raise Failed(
                "mirror-membership-failed",
                f"This process cannot join the consumer group {self._group} of the {self._end}: "
                f"{error.str()}. Grant the principal of this process Read on the group and on the topic "
                f"{self._topic}.",
            )
        log.debug("%s: %s", self._group, error)

    def _assigned(self, consumer: Consumer, partitions: Iterable[confluent_kafka.TopicPartition]) -> None:
        assigned = [confluent_kafka.TopicPartition(p.topic, p.partition, OFFSET_END) for p in partitions]
        consumer.incremental_assign(assigned)
        if assigned:
            consumer.pause(assigned)
        self._leases |= {p.partition: Lease(p.partition) for p in assigned}

    def _revoked(self, consumer: Consumer, partitions: Iterable[confluent_kafka.TopicPartition]) -> None:
        """End leases, and wait until their tasks have committed: their successors start after that."""
        tasks = self._end_leases([p.partition for p in partitions])
        deadline = time.monotonic() + RELEASE_SECONDS
        while any(map(self._is_running, tasks)) and time.monotonic() < deadline:
            time.sleep(0.05)
        consumer.incremental_unassign(list(partitions))

    def _lost(self, consumer: Consumer, partitions: Iterable[confluent_kafka.TopicPartition]) -> None:
        """End leases that others may have already: nothing is waited for."""
        self._end_leases([p.partition for p in partitions])
        consumer.incremental_unassign(list(partitions))

    def _end_leases(self, tasks: list[int]) -> list[int]:
        leases = dict(self._leases)
        ended = [leases.pop(task) for task in tasks if task in leases]
        self._leases = leases
        for lease in ended:
            lease.ended.set()
        return [lease.task for lease in ended]


def _consumer(end: End, flow: str) -> Consumer:
    try:
        return Consumer(consumer_settings(end, flow))
    except KafkaException as error:
        raise Failed(
            "client-config-invalid",
            f"The client settings of the {end} cannot be used: {error.args[0].str()}. Check the PEM files "
            "in these settings.",
        ) from None


def consumer_settings(end: End, flow: str) -> dict[str, Any]:
    """Return the settings of a member's librdkafka consumer."""
    return {
        "client.id": member_id(flow, socket.gethostname()),
        **end.client_config.librdkafka(),
        "bootstrap.servers": end.bootstrap_servers,
        "group.id": group_of(flow),
        # Members keep their tasks while others come and go (KIP-429).
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": SESSION_SECONDS * 1000,
        "heartbeat.interval.ms": HEARTBEAT_SECONDS * 1000,
        "max.poll.interval.ms": REBALANCE_SECONDS * 1000,
        "topic.metadata.refresh.interval.ms": METADATA_SECONDS * 1000,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "latest",
        **addresses.librdkafka_errors(),
    }
