"""Hanging transactions of a cluster: find them, and end them with a marker (KIP-664)."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from struct import error as LayoutError
from typing import Any, NamedTuple

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

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import Failed
from aqueduct.kafka import groups, offsets, transactions
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS, answer
from aqueduct.kafka.batches.batch import Batch, walk
from aqueduct.kafka.client import Client, Patience
from aqueduct.kafka.cluster import Partition
from aqueduct.kafka.compacted_topics import keys_and_values
from aqueduct.kafka.diagnosis import group_partition, name_of_each_partition
from aqueduct.kafka.fetch import TOPIC_IDS_SINCE, WAIT_MILLISECONDS
from aqueduct.kafka.transactions import (
    STATE_TOPIC,
    Decision,
    HangingTransaction,
    Outcome,
    PartitionTransaction,
    Search,
    TransactionalId,
)

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
    every = {partition.topic_partition: partition.leader for partition in partitions}
    served = [partition for partition, leader in every.items() if leader is not None and leader not in silent]
    unled = transactions.unread(every.keys() - set(served), "their leaders do not answer")
    search = _find(client, sorted(served), silent, id_prefix)
    return replace(search, unknown=unled + search.unknown)


def _find(
    client: Client, partitions: list[TopicPartition], silent: Collection[int], id_prefix: str
) -> Search:
    stable = offsets.ends(client, partitions)
    ends = offsets.ends(client, partitions, "read_uncommitted")
    open_, forbidden = _open_transactions(
        client, [partition for partition in partitions if stable[partition] < ends[partition]]
    )
    unknown = transactions.unread(forbidden, "the client may not read the topics (it needs the ACL Read)")
    if not open_:
        return Search((), (), unknown)
    states = _states(client, {transaction.producer_id for transaction in open_}, silent, id_prefix)
    # A transaction that ended meanwhile was not known to its coordinator any more, for this good reason.
    still, _ = _open_transactions(client, {transaction.partition for transaction in open_})
    kept = {transaction.key for transaction in still}
    id_by_transaction = {
        transaction: transactional_id
        for transaction, transactional_id in transactions.tracked_by(open_, states.known).items()
        if transaction.key in kept
    }
    tracked = tuple(
        (transaction, transactional_id)
        for transaction, transactional_id in id_by_transaction.items()
        if transactional_id and transactional_id.covers(transaction)
    )
    lost = [
        transaction
        for transaction, transactional_id in id_by_transaction.items()
        if not (transactional_id and transactional_id.covers(transaction))
    ]
    if states.blind:
        unseen = {transaction.partition for transaction in lost if id_by_transaction[transaction] is None}
        unknown += transactions.unread(unseen, states.blind)
        lost = [transaction for transaction in lost if id_by_transaction[transaction]]
    hanging = _described(
        client, {transaction: id_by_transaction[transaction] for transaction in lost}, ends, silent
    )
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
            for described in topic.partitions:
                partition = TopicPartition(topic.name, described.partition_index)
                error = for_code(described.error_code)
                if error in _FORBIDDEN:
                    yield partition, None
                elif described.error_code:
                    yield partition, error(f"{partition}: {described.error_message}")
                else:
                    yield partition, [*_open_of(partition, described.active_producers)]

    producers_by_partition = offsets.of_leaders(client, partitions, request, answers)
    open_ = [transaction for producers in producers_by_partition.values() for transaction in producers or ()]
    forbidden = [partition for partition, producers in producers_by_partition.items() if producers is None]
    return sorted(open_, key=lambda transaction: (transaction.partition, transaction.start_offset)), forbidden


def _open_of(partition: TopicPartition, producers: Iterable[Any]) -> Iterator[PartitionTransaction]:
    for producer in producers:
        if producer.current_txn_start_offset >= 0:
            yield PartitionTransaction(
                partition=partition,
                start_offset=producer.current_txn_start_offset,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=producer.coordinator_epoch,
                last_time=producer.last_timestamp,
            )


def _states(client: Client, producers: Collection[int], silent: Collection[int], id_prefix: str) -> _States:
    """Ask all coordinators for the transactional ids of these producers.

    A broker leaves out the ids of a partition without an error until it begins to load them. So each leader
    must answer for its partitions before, and lead them after.
    """
    brokers = Patience(client, "did not list its brokers").until_done(client.brokers)
    coordinators = _coordinators(client)
    blind = _blindness(client, coordinators, silent, id_prefix)
    states = [
        state
        for broker in sorted(set(brokers).difference(silent))
        for state in _described_ids(client, broker, _listed(client, broker, producers))
    ]
    if not blind and _coordinators(client) != coordinators:
        blind = "the coordinators changed while they were asked"
    return _States(tuple(states), blind)


def _coordinators(client: Client) -> dict[int, int | None] | None:
    """Return the leader of each partition of `__transaction_state`; None if the client may not see it."""
    try:
        topic = client.topics([STATE_TOPIC]).get(STATE_TOPIC)
    except TopicAuthorizationFailedError:
        return None
    return {partition.number: partition.leader for partition in topic.partitions} if topic else {}


def _blindness(
    client: Client, coordinators: Mapping[int, int | None] | None, silent: Collection[int], id_prefix: str
) -> str | None:
    """Return why a producer's transactional id may be left out of what the coordinators list."""
    if coordinators is None:
        return (
            "the client may not see which brokers coordinate transactions (it needs the ACL Describe on "
            f"{STATE_TOPIC})"
        )
    asked: defaultdict[int, list[str]] = defaultdict(list)
    missing = []
    names = name_of_each_partition(f"{id_prefix}aqueduct-none-", len(coordinators))
    for (number, leader), name in zip(coordinators.items(), names, strict=True):
        if leader is None or leader in silent:
            missing.append(TopicPartition(STATE_TOPIC, number))
        else:
            asked[leader].append(name)
    if missing:
        return f"the coordinators of {some(missing)} do not answer"
    try:
        for broker, of_broker in asked.items():
            _check_loaded(client, broker, of_broker)
    except TransactionalIdAuthorizationFailedError:  # a list leaves out the ids that it may not describe
        return "the client may not see all transactional ids (it needs the ACL Describe on TransactionalId)"
    except Failed as error:
        return f"a coordinator has not loaded its transactions ({str(error).rstrip('.')})"
    return None


def _check_loaded(client: Client, broker: int, names: Sequence[str]) -> None:
    """Check that the broker coordinates these transactional ids, which do not exist; else Failed."""

    def attempt() -> None:
        for state in client.send(_describe_ids(names), broker).transaction_states:
            error = for_code(state.error_code)
            if state.error_code and error is not TransactionalIdNotFoundError:
                raise error(f"transactional id {state.transactional_id}")

    Patience(client, "did not load its transactions").until_done(attempt)


def _listed(client: Client, broker: int, producers: Collection[int]) -> list[str]:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producers))
    return [
        transaction.transactional_id for transaction in answer(client, request, broker).transaction_states
    ]


def _describe_ids(names: Sequence[str]) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=list(names))


def _described_ids(client: Client, broker: int, names: Sequence[str]) -> list[TransactionalId]:
    def attempt() -> list[TransactionalId]:
        described = []
        for state in client.send(_describe_ids(names), broker).transaction_states:
            error = for_code(state.error_code)
            if error is TransactionalIdNotFoundError:  # it has expired meanwhile
                continue
            if state.error_code:
                raise error(f"transactional id {state.transactional_id}")
            described.append(_transactional_id(state, broker))
        return described

    if not names:
        return []
    return Patience(client, "did not describe its transactions").until_done(attempt)


def _transactional_id(state: Any, broker: int) -> TransactionalId:
    return TransactionalId(
        name=state.transactional_id,
        coordinator=broker,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        start_time=state.transaction_start_time_ms,
        timeout=state.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
        ),
    )


def _described(
    client: Client,
    lost: Mapping[PartitionTransaction, TransactionalId | None],
    ends: Mapping[TopicPartition, int],
    silent: Collection[int],
) -> tuple[HangingTransaction, ...]:
    """Return what is known of open transactions that hang."""
    if not lost:
        return ()
    stable = offsets.ends(client, {transaction.partition for transaction in lost})
    committed = _committed(client, silent)
    decisions: Mapping[str, Sequence[Decision]] | None
    try:
        decisions = _decisions(
            client, {transactional_id.name for transactional_id in lost.values() if transactional_id}
        )
    except TopicAuthorizationFailedError:
        decisions = None
    hanging = []
    for transaction, transactional_id in lost.items():
        first = next(_batches(client, transaction.partition, transaction.start_offset), None)
        decision = None
        if transactional_id and decisions and decisions[transactional_id.name]:
            marker = _last_marker(client, transaction)
            decision = transactions.decision_about(transaction, decisions[transactional_id.name], marker)
        hanging.append(
            HangingTransaction(
                found=transaction,
                transactional_id=transactional_id,
                start_time=first.max_time if first else transaction.last_time,
                end=ends[transaction.partition],
                decision=decision,
                decisions_read=decisions is not None,
                readers=transactions.readers(transaction.partition, stable[transaction.partition], committed),
            )
        )
    return tuple(hanging)


def _committed(client: Client, silent: Collection[int]) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of the groups that the client may see, and that no `silent` broker coordinates."""
    try:
        if transactions.GROUPS_TOPIC not in client.topics([transactions.GROUPS_TOPIC]):
            return {}  # a cluster that never had a group has no coordinator to ask
    except TopicAuthorizationFailedError:  # it tells nothing of its groups then, either
        return {}
    every = groups.committed(client, groups.list_groups(client, silent=silent, patient=not silent).by_name)
    return {
        name: {partition: offset for partition, (offset, _) in positions.items()}
        for name, positions in every.items()
    }


def _decisions(client: Client, names: Collection[str]) -> dict[str, list[Decision]]:
    """Read the decisions about these transactional ids from the log of their coordinators, oldest first."""
    decisions: dict[str, list[Decision]] = {name: [] for name in names}
    topic = client.topics([STATE_TOPIC]).get(STATE_TOPIC)
    if topic is None or not names:
        return decisions
    by_key = {_state_key(name): name for name in names}
    numbers = {group_partition(name, len(topic.partitions)) for name in names}
    asked = [TopicPartition(STATE_TOPIC, number) for number in sorted(numbers)]
    starts, ends = offsets.log_starts(client, asked), offsets.ends(client, asked)
    for _, records in keys_and_values(
        client, [Range(*partition, starts[partition], ends[partition]) for partition in asked]
    ):
        for key, value in records:
            name = by_key.get(key or b"")
            if name is not None and value is not None and (made := _decision(name, value)):
                decisions[name].append(made)
    return decisions


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
            "version of Aqueduct may not support this version of Kafka. Use kafka-transactions.sh of the "
            "brokers.",
        ) from None


def _last_marker(client: Client, transaction: PartitionTransaction) -> int | None:
    """Return the time of the producer's last marker before a transaction, in milliseconds."""
    [first] = offsets.log_starts(client, [transaction.partition]).values()
    last = None
    for batch in _batches(
        client, transaction.partition, max(first, transaction.start_offset - BEFORE_OFFSETS)
    ):
        if batch.base_offset >= transaction.start_offset:
            break
        if batch.control and batch.producer_id == transaction.producer_id:
            last = batch.max_time
    return last


def _batches(client: Client, partition: TopicPartition, start: int) -> Iterator[Batch]:
    """Yield the batches of a partition from an offset on, also those of open transactions."""
    position = start
    while True:
        records = Patience(client, f"returned no records of {partition}").until_done(
            lambda: _fetched(client, partition, position)  # noqa: B023
        )
        batches = [batch for batch in walk(records) if batch.last_offset >= position]
        if not batches:
            return
        yield from batches
        position = batches[-1].last_offset + 1


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
    [fetched] = response.partitions
    if fetched.error_code:
        client.forget(partition.topic)
        raise for_code(fetched.error_code)(str(partition))
    return fetched.records or b""


def end(client: Client, hanging: HangingTransaction, outcome: Outcome, level: int) -> None:
    """Write the marker of a hanging transaction, and return when it is not open any more.

    `level` is that of the feature transaction.version.
    """
    txn = hanging.found
    epoch, version = hanging.marker_epochs(level)
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    topic = kind.WritableTxnMarkerTopic(name=txn.partition.topic, partition_indexes=[txn.partition.partition])
    marker = kind(
        producer_id=txn.producer_id,
        producer_epoch=epoch,
        transaction_result=outcome is Outcome.COMMIT,
        topics=[topic],
        coordinator_epoch=max(0, txn.coordinator_epoch),  # 0: no coordinator has an earlier one
        transaction_version=version,
    )

    def attempt() -> None:
        client.forget(txn.partition.topic)
        request = WriteTxnMarkersRequest(markers=[marker])
        [marker_response] = client.send(request, client.leader(*txn.partition)).markers
        [[partition]] = [topic.partitions for topic in marker_response.topics]
        if partition.error_code:
            raise for_code(partition.error_code)(f"{txn.partition}")

    Patience(client, f"accepted no transaction marker for {txn.partition}").until_done(attempt)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        open_, _ = _open_transactions(client, [txn.partition])
        if txn.key not in {other.key for other in open_}:
            return
        if time.monotonic() > deadline:
            raise Failed(
                "transaction-still-open",
                f"The transaction on {txn.partition} is still open {count(SETTLE_SECONDS, 'second')} after "
                "its marker was written. Read the journal of the broker that leads the partition.",
            )
        client.sleep(POLL_SECONDS)
