"""Hanging transactions of a cluster: find them, and end them with a marker (KIP-664)."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from struct import error as LayoutError
from typing import Any, NamedTuple
from uuid import uuid4

from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    for_code,
)
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, IsolationLevel
from kafka.protocol.producer import WriteTxnMarkersRequest

from aqueduct.errors import Failed
from aqueduct.kafka import groups, offsets, transactions
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS, answer
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.cluster import Partition
from aqueduct.kafka.diagnosis import group_partition
from aqueduct.kafka.fetch import TOPIC_IDS_SINCE, WAIT_MILLISECONDS
from aqueduct.kafka.table import keys_and_values
from aqueduct.kafka.transactions import (
    STATE_TOPIC,
    Decision,
    HangingTransaction,
    Outcome,
    PartitionTransaction,
    Search,
    TransactionalId,
)
from aqueduct.names import TopicPartition
from aqueduct.ranges import Range
from aqueduct.wording import count, some

BEFORE_OFFSETS = 1_000  # of a transaction, in which the producer's last marker is looked for
READ_BYTES = 1 << 20

_FORBIDDEN = TopicAuthorizationFailedError, ClusterAuthorizationFailedError


class _States(NamedTuple):
    """What the coordinators know of some producers."""

    known: tuple[TransactionalId, ...]
    blind: str | None  # why a producer that is not among them may have a coordinator all the same


def find(
    client: Client, partitions: Iterable[Partition], *, silent: Collection[int] = (), id_prefix: str = ""
) -> Search:
    """Find the hanging transactions of these partitions.

    `silent` are brokers that do not answer. `id_prefix`: transactional ids of other names are of no interest,
    so the client need not have the right to see them.
    """
    every = {each.topic_partition: each.leader for each in partitions}
    served = [each for each, leader in every.items() if leader is not None and leader not in silent]
    unled = transactions.unread(every.keys() - set(served), "their leaders do not answer")
    found = _find(client, sorted(served), silent, id_prefix)
    return replace(found, unknown=unled + found.unknown)


def _find(client: Client, wanted: list[TopicPartition], silent: Collection[int], id_prefix: str) -> Search:
    stable = offsets.ends(client, wanted)
    ends = offsets.ends(client, wanted, "read_uncommitted")
    open_, forbidden = _open_transactions(client, [each for each in wanted if stable[each] < ends[each]])
    unknown = transactions.unread(forbidden, "the client may not read the topics (ACL Read)")
    if not open_:
        return Search((), (), unknown)
    states = _states(client, {each.producer_id for each in open_}, silent, id_prefix)
    # A transaction that ended meanwhile was not known to its coordinator any more, for this good reason.
    still, _ = _open_transactions(client, {each.partition for each in open_})
    kept = {each.key for each in still}
    found = {
        each: known
        for each, known in transactions.tracked_by(open_, states.known).items()
        if each.key in kept
    }
    tracked = tuple((each, known) for each, known in found.items() if known and known.covers(each))
    lost = [each for each, known in found.items() if not (known and known.covers(each))]
    if states.blind:
        unseen = {each.partition for each in lost if found[each] is None}
        unknown += transactions.unread(unseen, states.blind)
        lost = [each for each in lost if found[each]]
    hanging = _described(client, {each: found[each] for each in lost}, ends)
    return Search(hanging, tracked, unknown)


def _open_transactions(
    client: Client, partitions: Iterable[TopicPartition]
) -> tuple[list[PartitionTransaction], list[TopicPartition]]:
    """Return the partitions' open transactions, oldest first, and the partitions that may not be read."""
    kind = DescribeProducersRequest.TopicRequest

    def request(asked: list[TopicPartition]) -> DescribeProducersRequest:
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for topic, number in asked:
            topics[topic].append(number)
        return DescribeProducersRequest(
            topics=[kind(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        )

    def answers(
        response: Any,
    ) -> Iterator[tuple[TopicPartition, list[PartitionTransaction] | KafkaError | None]]:
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                error = for_code(each.error_code)
                if error in _FORBIDDEN:
                    yield partition, None
                elif each.error_code:
                    yield partition, error(f"{partition}: {each.error_message}")
                else:
                    yield partition, [*_open_of(partition, each.active_producers)]

    found = offsets.of_leaders(client, partitions, request, answers)
    open_ = [each for producers in found.values() for each in producers or ()]
    forbidden = [each for each, producers in found.items() if producers is None]
    return sorted(open_, key=lambda each: (each.partition, each.start_offset)), forbidden


def _open_of(partition: TopicPartition, producers: Iterable[Any]) -> Iterator[PartitionTransaction]:
    for each in producers:
        if each.current_txn_start_offset >= 0:
            yield PartitionTransaction(
                partition=partition,
                start_offset=each.current_txn_start_offset,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                coordinator_epoch=each.coordinator_epoch,
                last_time=each.last_timestamp,
            )


def _states(client: Client, producers: Collection[int], silent: Collection[int], id_prefix: str) -> _States:
    """Ask all coordinators for the transactional ids of these producers."""
    brokers = Patience(client, "does not list its brokers").until_done(client.brokers)
    known = [
        state
        for broker in sorted(set(brokers).difference(silent))
        for state in _described_ids(client, broker, _listed(client, broker, producers))
    ]
    return _States(tuple(known), _blindness(client, silent, id_prefix))


def _blindness(client: Client, silent: Collection[int], id_prefix: str) -> str | None:
    """Return why a producer's transactional id may have been left out of what the coordinators listed."""
    try:
        topic = client.topics([STATE_TOPIC]).get(STATE_TOPIC)
    except TopicAuthorizationFailedError:
        return f"the client may not see which brokers coordinate transactions (ACL Describe on {STATE_TOPIC})"
    if topic is None:  # so there is no coordinator, and none will end anything
        return None
    if missing := [each for each in topic.partitions if each.leader is None or each.leader in silent]:
        return f"the coordinators of {some(missing)} do not answer"
    # A list of transactional ids leaves those out that the client may not describe.
    [asked] = answer(client, _describe_ids([f"{id_prefix}{uuid4().hex}"])).transaction_states
    if for_code(asked.error_code) is TransactionalIdAuthorizationFailedError:
        return "the client may not see all transactional ids (ACL Describe on TransactionalId)"
    return None


def _listed(client: Client, broker: int, producers: Collection[int]) -> list[str]:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producers))
    return [each.transactional_id for each in answer(client, request, broker).transaction_states]


def _describe_ids(names: Sequence[str]) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=list(names))


def _described_ids(client: Client, broker: int, names: Sequence[str]) -> list[TransactionalId]:
    def attempt() -> list[TransactionalId]:
        found = []
        for each in client.send(_describe_ids(names), broker).transaction_states:
            error = for_code(each.error_code)
            if error is TransactionalIdNotFoundError:  # it has expired meanwhile
                continue
            if each.error_code:
                raise error(f"transactional id {each.transactional_id}")
            found.append(_transactional_id(each, broker))
        return found

    if not names:
        return []
    return Patience(client, "does not describe its transactions").until_done(attempt)


def _transactional_id(said: Any, broker: int) -> TransactionalId:
    return TransactionalId(
        name=said.transactional_id,
        coordinator=broker,
        state=said.transaction_state,
        producer_id=said.producer_id,
        producer_epoch=said.producer_epoch,
        start_time=said.transaction_start_time_ms,
        timeout=said.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, number) for topic in said.topics for number in topic.partitions
        ),
    )


def _described(
    client: Client,
    lost: Mapping[PartitionTransaction, TransactionalId | None],
    ends: Mapping[TopicPartition, int],
) -> tuple[HangingTransaction, ...]:
    """Return what is known of open transactions that hang."""
    if not lost:
        return ()
    stable = offsets.ends(client, {each.partition for each in lost})
    committed = _committed(client)
    decisions: Mapping[str, Sequence[Decision]] | None
    try:
        decisions = _decisions(client, {known.name for known in lost.values() if known})
    except TopicAuthorizationFailedError:
        decisions = None
    found = []
    for each, known in lost.items():
        first = next(_batches(client, each.partition, each.start_offset), None)
        decision = None
        if known and decisions and decisions[known.name]:
            marker = _last_marker(client, each)
            decision = transactions.decision_about(each, decisions[known.name], marker)
        found.append(
            HangingTransaction(
                found=each,
                transactional_id=known,
                start_time=first.max_time if first else each.last_time,
                end=ends[each.partition],
                decision=decision,
                decisions_read=decisions is not None,
                readers=transactions.readers(each.partition, stable[each.partition], committed),
            )
        )
    return tuple(found)


def _committed(client: Client) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of the groups that the client may see."""
    try:
        if transactions.GROUPS_TOPIC not in client.topics([transactions.GROUPS_TOPIC]):
            return {}  # a cluster that never had a group has no coordinator to ask
    except TopicAuthorizationFailedError:  # it tells nothing of its groups then, either
        return {}
    every = groups.committed(client, groups.list_groups(client))
    return {name: {at: offset for at, (offset, _) in each.items()} for name, each in every.items()}


def _decisions(client: Client, names: Collection[str]) -> dict[str, list[Decision]]:
    """Read the decisions about these transactional ids from the log of their coordinators, oldest first."""
    found: dict[str, list[Decision]] = {name: [] for name in names}
    topic = client.topics([STATE_TOPIC]).get(STATE_TOPIC)
    if topic is None or not names:
        return found
    by_key = {_state_key(name): name for name in names}
    numbers = {group_partition(name, len(topic.partitions)) for name in names}
    asked = [TopicPartition(STATE_TOPIC, number) for number in sorted(numbers)]
    starts, ends = offsets.log_starts(client, asked), offsets.ends(client, asked)
    for _, records in keys_and_values(client, [Range(*each, starts[each], ends[each]) for each in asked]):
        for key, value in records:
            name = by_key.get(key or b"")
            if name is not None and value is not None and (made := _decision(name, value)):
                found[name].append(made)
    return found


def _state_key(name: str) -> bytes:
    encoded = name.encode()
    return (0).to_bytes(2) + len(encoded).to_bytes(2) + encoded


def _decision(name: str, value: bytes) -> Decision | None:
    try:
        return transactions.parse_decision(value)
    except (IndexError, ValueError, LayoutError) as error:
        raise Failed(
            "transaction-state-unreadable",
            f"The state of the transactional id {name} in {STATE_TOPIC} cannot be read ({error}). This "
            "version of Kafka may be newer than Aqueduct; use its kafka-transactions.sh.",
        ) from None


def _last_marker(client: Client, found: PartitionTransaction) -> int | None:
    """Return the time of the producer's last marker before a transaction, in milliseconds."""
    [first] = offsets.log_starts(client, [found.partition]).values()
    last = None
    for batch in _batches(client, found.partition, max(first, found.start_offset - BEFORE_OFFSETS)):
        if batch.base_offset >= found.start_offset:
            break
        if batch.control and batch.producer_id == found.producer_id:
            last = batch.max_time
    return last


def _batches(client: Client, partition: TopicPartition, start: int) -> Iterator[Batch]:
    """Yield the batches of a partition from an offset on, also those of open transactions."""
    position = start
    while True:
        data = Patience(client, f"gave nothing of {partition}").until_done(
            lambda: _fetched(client, partition, position)  # noqa: B023
        )
        found = [each for each in walk(data) if each.last_offset >= position]
        if not found:
            return
        yield from found
        position = found[-1].last_offset + 1


def _fetched(client: Client, partition: TopicPartition, position: int) -> bytes:
    topic = FetchRequest.FetchTopic
    asked = topic.FetchPartition(
        partition=partition.partition, fetch_offset=position, partition_max_bytes=READ_BYTES
    )
    request = FetchRequest(
        max_wait_ms=WAIT_MILLISECONDS,
        min_bytes=0,
        max_bytes=READ_BYTES,
        isolation_level=IsolationLevel.READ_UNCOMMITTED.value,
        topics=[topic(topic=partition.topic, partitions=[asked])],
        forgotten_topics_data=[],
        min_version=4,
        max_version=TOPIC_IDS_SINCE - 1,
    )
    [response] = client.send(request, client.leader(*partition)).responses
    [said] = response.partitions
    if said.error_code:
        client.forget(partition.topic)
        raise for_code(said.error_code)(str(partition))
    return said.records or b""


def end(client: Client, each: HangingTransaction, outcome: Outcome, level: int) -> None:
    """Write the marker of a hanging transaction, and return when it is not open any more.

    `level` is that of the feature transaction.version.
    """
    found = each.found
    epoch, version = each.marker_epochs(level)
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    topic = kind.WritableTxnMarkerTopic(
        name=found.partition.topic, partition_indexes=[found.partition.partition]
    )
    marker = kind(
        producer_id=found.producer_id,
        producer_epoch=epoch,
        transaction_result=outcome is Outcome.COMMIT,
        topics=[topic],
        coordinator_epoch=max(0, found.coordinator_epoch),  # 0: no coordinator has an earlier one
        transaction_version=version,
    )

    def attempt() -> None:
        client.forget(found.partition.topic)
        request = WriteTxnMarkersRequest(markers=[marker])
        [said] = client.send(request, client.leader(*found.partition)).markers
        [[partition]] = [topic.partitions for topic in said.topics]
        if partition.error_code:
            raise for_code(partition.error_code)(f"{found.partition}")

    Patience(client, f"takes no marker of {found.partition}").until_done(attempt)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        open_, _ = _open_transactions(client, [found.partition])
        if found.key not in {other.key for other in open_}:
            return
        if time.monotonic() > deadline:
            raise Failed(
                "transaction-still-open",
                f"The transaction on {found.partition} is still open {count(SETTLE_SECONDS, 'second')} after "
                "its marker was written. See the journal of the partition's leader.",
            )
        client.sleep(POLL_SECONDS)
