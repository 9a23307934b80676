"""The offsets at which logs start and end, and their newest times, of many partitions at once."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

from kafka.errors import IncompatibleBrokerVersion, KafkaError, for_code
from kafka.protocol.consumer import (
    IsolationLevel,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    OffsetSpec,
)

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.client import STALL_SECONDS, Client
from aqueduct.kafka.fan_out import ask_all

Isolation = Literal["read_committed", "read_uncommitted"]
T = TypeVar("T")

PARTITIONS_PER_REQUEST = 10_000
SETTLE_SECONDS = 0.05  # between two questions

_ISOLATED_SINCE = 2  # version of ListOffsets
_EPOCHS_SINCE = 4
_NEWEST_SINCE = 7
_LOCAL_SINCE = 8
_CONSUMER = -1  # the replica that a consumer says it is


class StableEnd(NamedTuple):
    """The last stable offset of a partition, and the epoch of the leader that told it; -1: it has none."""

    offset: int
    epoch: int


def log_starts(
    client: Client,
    partitions: Iterable[TopicPartition],
    unanswered: dict[TopicPartition, KafkaError] | None = None,
) -> dict[TopicPartition, int]:
    """Return the first offset that each partition still has; `unanswered` as in `ask_all`."""
    return _offsets(client, partitions, OffsetSpec.EARLIEST, unanswered=unanswered)


def ends(
    client: Client,
    partitions: Iterable[TopicPartition],
    isolation: Isolation = "read_committed",
    unanswered: dict[TopicPartition, KafkaError] | None = None,
) -> dict[TopicPartition, int]:
    """Return the offset after each partition's last; `unanswered` as in `ask_all`.

    Read-committed, that is the last stable offset (KIP-98).
    """
    return _offsets(client, partitions, OffsetSpec.LATEST, isolation=isolation, unanswered=unanswered)


def settled(
    client: Client, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Return the logs' ends, once the markers of all transactions are written; and where one is open.

    A commit is answered before its markers are written (KIP-98), and who reads committed records sees nothing
    of it until then.
    """
    deadline = time.monotonic() + STALL_SECONDS
    while True:
        stable = ends(client, partitions)
        written = ends(client, partitions, "read_uncommitted")
        open_ = {partition for partition in partitions if stable[partition] < written[partition]}
        if not open_ or time.monotonic() > deadline:
            return written, open_
        client.sleep(SETTLE_SECONDS)


def stable_ends(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, StableEnd]:
    """Return each partition's last stable offset and its leader's epoch: its records have none later."""

    def told(partition: Any) -> StableEnd:
        return StableEnd(partition.offset, partition.leader_epoch)

    return _asked(
        client, partitions, OffsetSpec.LATEST, told, isolation="read_committed", min_version=_EPOCHS_SINCE
    )


def ends_of_epochs(client: Client, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return where each partition's log leaves that leader epoch: what is before it is of no later one.

    A log that was longer under that epoch has been cut there, and what follows is another history (KIP-320).
    It is -1 where the log never came to that epoch.
    """
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic

    def request(asked: list[TopicPartition]) -> OffsetForLeaderEpochRequest:
        topics: dict[str, list[Any]] = {}
        for partition in asked:
            entry = kind.OffsetForLeaderPartition(
                partition=partition.partition, leader_epoch=epochs[partition]
            )
            topics.setdefault(partition.topic, []).append(entry)
        return OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=[kind(topic=name, partitions=entries) for name, entries in topics.items()],
        )

    def answers(response: Any) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.topic, answer.partition)
                error = for_code(answer.error_code)(str(partition))
                yield partition, error if answer.error_code else answer.end_offset

    return of_leaders(client, epochs, request, answers)


def since(client: Client, partitions: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """Return the first offset whose record has this time, in milliseconds, or a later one; -1 if none has."""
    return _offsets(client, partitions, time)


def newest(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the largest time of each partition's records, in milliseconds since 1970.

    It is -1 without a record, and while the record of that time is not replicated yet or its transaction is
    open: one in twenty asks, where a topic is written to without a pause. A transaction's marker counts as a
    record, with the time of its commit or abort (KIP-734).
    """
    spec = OffsetSpec.MAX_TIMESTAMP
    return _offsets(client, partitions, spec, min_version=_NEWEST_SINCE, told="timestamp")


def local_starts(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the first offset that each partition's leader has on its disks.

    Earlier ones are tiered (KIP-405).
    """
    try:
        return _offsets(client, partitions, OffsetSpec.EARLIEST_LOCAL, min_version=_LOCAL_SINCE)
    except IncompatibleBrokerVersion:  # a broker without tiers
        return log_starts(client, partitions)


def _offsets(
    client: Client,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec | int,
    *,
    isolation: Isolation = "read_committed",
    min_version: int = _ISOLATED_SINCE,
    told: Literal["offset", "timestamp"] = "offset",
    unanswered: dict[TopicPartition, KafkaError] | None = None,
) -> dict[TopicPartition, int]:
    return _asked(
        client,
        partitions,
        spec,
        attrgetter(told),
        isolation=isolation,
        min_version=min_version,
        unanswered=unanswered,
    )


def _asked(
    client: Client,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec | int,
    read_answer: Callable[[Any], T],
    *,
    isolation: Isolation,
    min_version: int,
    unanswered: dict[TopicPartition, KafkaError] | None = None,
) -> dict[TopicPartition, T]:
    kind = ListOffsetsRequest.ListOffsetsTopic
    timestamp = spec.value if isinstance(spec, OffsetSpec) else spec

    def request(asked: list[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, list[Any]] = {}
        for topic, partition in asked:
            entry = kind.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            topics.setdefault(topic, []).append(entry)
        return ListOffsetsRequest(
            isolation_level=IsolationLevel[isolation.upper()].value,
            topics=[kind(name=topic, partitions=entries) for topic, entries in topics.items()],
            min_version=min_version,
        )

    return of_leaders(client, partitions, request, partial(_answers, told=read_answer), unanswered)


def of_leaders(
    client: Client,
    partitions: Iterable[TopicPartition],
    request: Callable[[list[TopicPartition]], Any],
    answers: Callable[[Any], Iterable[tuple[TopicPartition, T | KafkaError]]],
    unanswered: dict[TopicPartition, KafkaError] | None = None,
    *,
    limit: int = PARTITIONS_PER_REQUEST,
) -> dict[TopicPartition, T]:
    """Ask the partitions' leaders, each about all of its own, in requests of `limit` partitions."""

    def leaders(asked: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        client.learn(topic for topic, _ in asked)
        return {partition: _leader(client, partition) for partition in asked}

    return ask_all(
        client,
        partitions,
        responsible=leaders,
        request=request,
        answers=answers,
        forget=lambda partition: client.forget(partition.topic),
        limit=limit,
        fault="did not return the offsets of all partitions",
        unanswered=unanswered,
    )


def _leader(client: Client, partition: TopicPartition) -> int | KafkaError:
    try:
        return client.leader(*partition)
    except KafkaError as error:
        return error


def _answers(response: Any, told: Callable[[Any], T]) -> Iterator[tuple[TopicPartition, T | KafkaError]]:
    for topic in response.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            error = for_code(answer.error_code)(str(partition))
            yield partition, error if answer.error_code else told(answer)
