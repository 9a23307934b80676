"""Open transactions, and which of them hang: their coordinator will never end them (KIP-664).

A coordinator ends a transaction by a marker on each of its partitions. If a partition does not get its
marker, the transaction stays open there, and read-committed consumers stop before it: no timeout applies.
Kafka 4.3.1 skips the markers of partitions that have no leader at that moment, so a committed transaction
may hang, too. Kafka 3.9.2 keeps such markers until the partition has a leader: its metadata cache tells a
partition without a leader from one that does not exist. Pure: the caller asks the cluster.
"""

import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import LeftOut, Skipped, labelled

STATE_TOPIC, GROUPS_TOPIC = "__transaction_state", "__consumer_offsets"
HIGHEST_EPOCH = (1 << 15) - 1
EPOCHS_CHANGE_SINCE = 2  # level of transaction.version (KIP-890, part 2)
CLOCK_MILLISECONDS = 1_000  # by which the clocks of two brokers may differ
OVERDUE_MILLISECONDS = 60_000  # after its timeout, a coordinator has ended a transaction

_FIXED = struct.Struct(">qhib")  # producer id, its epoch, timeout, status
_TIMES = struct.Struct(">qq")  # of the last change, and of the start
_PREPARED_COMMIT, _PREPARED_ABORT = 2, 3  # TransactionState.id
_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
_TABLE_OF_CONNECT = re.compile(r"mm2-(?:offsets|configs|status)\.(?P<flow>.+)\.internal")


class Outcome(Enum):
    """How a transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"

    @property
    def done(self) -> str:
        return "committed" if self is Outcome.COMMIT else "aborted"


@dataclass(frozen=True, kw_only=True)
class PartitionTransaction:
    """A transaction that has no marker on a partition, as the partition's leader has it."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int  # of the producer's last marker there; -1: it has none
    last_time: int  # of its last record there, in milliseconds

    @property
    def key(self) -> tuple[TopicPartition, int, int]:
        return self.partition, self.producer_id, self.start_offset


@dataclass(frozen=True, kw_only=True)
class TransactionalId:
    """What the coordinator of a transactional id knows of its newest transaction."""

    name: str
    coordinator: int  # the broker
    state: str  # Ongoing, PrepareCommit, CompleteAbort, ...
    producer_id: int
    producer_epoch: int
    start_time: int  # in milliseconds; -1: none
    timeout: int  # in milliseconds
    partitions: frozenset[TopicPartition]  # that have no marker yet

    @property
    def end_time(self) -> int:
        """Return when the coordinator aborts the transaction at the latest."""
        return self.start_time + self.timeout

    def covers(self, transaction: PartitionTransaction) -> bool:
        """Tell whether the coordinator will end this transaction."""
        return self.state not in _ENDED and transaction.partition in self.partitions


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A coordinator's decision to end a transaction, from the log of its states."""

    outcome: Outcome
    time: int  # in milliseconds
    producer_ids: frozenset[int]
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, kw_only=True)
class HangingTransaction:
    """An open transaction that its coordinator will not end."""

    found: PartitionTransaction
    transactional_id: TransactionalId | None  # None: no coordinator knows the producer
    start_time: int  # of its first record, in milliseconds
    end: int  # offset after the partition's last record
    decision: Decision | None  # None: no record of one was found
    decisions_read: bool  # False: the client may not read them
    readers: tuple[str, ...]

    def marker_epochs(self, level: int) -> tuple[int, int]:
        """Return the producer epoch and the transaction version of its marker.

        `level` is that of the feature transaction.version. From level 2 on a marker with the next epoch also
        stops late records of this transaction from opening it again. A producer that still has the epoch
        (one with an older client) would be fenced by that, so its marker keeps the epoch, as that of Kafka's
        own tool.
        """
        epoch = self.found.producer_epoch
        if level >= EPOCHS_CHANGE_SINCE and self._is_past and epoch < HIGHEST_EPOCH:
            return epoch + 1, level
        return epoch, 0

    @property
    def _is_past(self) -> bool:
        """Tell whether no producer has its epoch any more, so no later transaction can be taken for it."""
        transactional_id = self.transactional_id
        return transactional_id is None or transactional_id.producer_epoch > self.found.producer_epoch

    @property
    def can_be_finished(self) -> bool:
        """Tell whether its marker may be written without asking anyone: it is decided, and past."""
        return self.decision is not None and self._is_past

    @property
    def outcome(self) -> Outcome:
        """Return how it is to be ended: as its coordinator decided, and aborted if that is not known."""
        return self.decision.outcome if self.decision else Outcome.ABORT

    @property
    def command(self) -> str:
        topic, number = self.found.partition
        return (
            f"aqueduct transactions {self.outcome.value} --topic {topic} --partition {number} "
            f"--start-offset {self.found.start_offset}"
        )


@dataclass(frozen=True)
class Search:
    """The result of a search for hanging transactions in some partitions."""

    hanging: tuple[HangingTransaction, ...]
    tracked: tuple[tuple[PartitionTransaction, TransactionalId], ...]  # their coordinators will end them
    unknown: LeftOut  # partitions about which nothing could be decided


def tracked_by(
    transactions: Iterable[PartitionTransaction], transactional_ids: Iterable[TransactionalId]
) -> dict[PartitionTransaction, TransactionalId | None]:
    """Return each open transaction with the transactional id of its producer."""
    by_producer = {transactional_id.producer_id: transactional_id for transactional_id in transactional_ids}
    return {transaction: by_producer.get(transaction.producer_id) for transaction in transactions}


def parse_decision(value: bytes) -> Decision | None:
    """Parse a record's value in the log of a coordinator; None if it is not a decision.

    IndexError, ValueError or struct.error if it cannot be parsed. Layout: TransactionLogValue.json of Kafka.
    """
    version = int.from_bytes(value[:2])
    if version not in (0, 1):
        raise ValueError(f"version {version} of a transaction's state")
    read = _StateReader(value[2:], compact=version == 1)
    producer, epoch, _, status = read.fields(_FIXED)
    if status not in (_PREPARED_COMMIT, _PREPARED_ABORT):
        return None
    partitions = set()
    for _ in range(read.length()):
        topic = read.text()
        partitions |= {TopicPartition(topic, read.int32()) for _ in range(read.length())}
        read.tags()
    time, _ = read.fields(_TIMES)
    tags = read.tags()
    previous = (int.from_bytes(tags[number], signed=True) for number in (0,) if number in tags)
    return Decision(
        outcome=Outcome.COMMIT if status == _PREPARED_COMMIT else Outcome.ABORT,
        time=time,
        producer_ids=frozenset({producer, *previous}),
        producer_epoch=epoch,
        partitions=frozenset(partitions),
    )


class _StateReader:
    """Fields of a message of Kafka's, in their order."""

    def __init__(self, message: bytes, *, compact: bool) -> None:
        self._data = message
        self._at = 0
        self._compact = compact  # a flexible version (KIP-482)

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        self._at += layout.size
        return layout.unpack_from(self._data, self._at - layout.size)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), signed=True)

    def length(self) -> int:
        """Return the number of an array's items; 0 for no array."""
        return max(0, self._unsigned() - 1 if self._compact else self.int32())

    def text(self) -> str:
        length = self._unsigned() - 1 if self._compact else int.from_bytes(self._take(2), signed=True)
        return self._take(length).decode()

    def tags(self) -> dict[int, bytes]:
        """Return the tagged fields by their number."""
        if not self._compact:
            return {}
        return {self._unsigned(): self._take(self._unsigned()) for _ in range(self._unsigned())}

    def _unsigned(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            [byte] = self._take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a number has more than 32 bits")

    def _take(self, length: int) -> bytes:
        field = self._data[self._at : self._at + length]
        if not 0 <= length == len(field):
            raise ValueError("a transaction's state ends before its fields")
        self._at += length
        return field


def decision_about(
    transaction: PartitionTransaction, decisions: Sequence[Decision], last_marker: int | None
) -> Decision | None:
    """Return the decision that ended this transaction; None if none is known to be about it.

    `decisions` are those of its transactional id, oldest first. `last_marker` is when the producer's marker
    before this transaction was written on the partition, None: there is none. A producer may have kept its
    epoch from one transaction to the next: an earlier transaction's decision has its marker.
    """
    about = [
        decision
        for decision in decisions
        if transaction.producer_id in decision.producer_ids and transaction.partition in decision.partitions
    ]
    if not about:
        return None
    last = about[-1]
    if last.producer_epoch == transaction.producer_epoch + 1:
        return last
    later = last_marker is None or last.time > last_marker + CLOCK_MILLISECONDS
    return last if last.producer_epoch == transaction.producer_epoch and later else None


def readers(
    partition: TopicPartition, stable_end: int, committed: Mapping[str, Mapping[TopicPartition, int]]
) -> tuple[str, ...]:
    """Return who waits at the last stable offset of a partition; `committed` is by group."""
    waiting = [f"group {name}" for name, offsets in committed.items() if offsets.get(partition) == stable_end]
    if table := _TABLE_OF_CONNECT.fullmatch(partition.topic):
        waiting.insert(0, f"MirrorMaker of the flow {table['flow']}, which reads this topic before it starts")
    if partition.topic == GROUPS_TOPIC:
        waiting.insert(0, "consumers whose offsets the transaction commits")
    return tuple(waiting)


def findings(search: Search, now: int) -> list[str]:
    """Return all findings of a search, labelled; `now` in milliseconds."""
    return [
        *(labelled("transaction-hanging", hanging_sentence(hanging)) for hanging in search.hanging),
        *(labelled("transaction-overdue", sentence) for sentence in overdue_sentences(search.tracked, now)),
        *unknown_findings(search.unknown),
    ]


def unknown_findings(unknown: Iterable[Skipped]) -> list[str]:
    return [labelled("transaction-search-incomplete", sentence) for sentence in unknown_sentences(unknown)]


def hanging_sentence(hanging: HangingTransaction) -> str:
    """Return the finding about a hanging transaction, with its remedy."""
    txn, waiting = hanging.found, ""
    if hanging.readers:
        waiting = f" Consumers that wait for this transaction: {some(hanging.readers)}."
    return (
        f"{txn.partition} has a hanging transaction of {_producer(hanging)}. The transaction is open since "
        f"offset {txn.start_offset} (first record {timestamps.text(hanging.start_time)}), and its "
        "coordinator will not end it. Read-committed consumers cannot read "
        f"{count(hanging.end - txn.start_offset, 'offset')} from this offset on.{waiting} "
        f"{_decided(hanging)} Run `{hanging.command}`."
    )


def finished_sentence(hanging: HangingTransaction) -> str:
    """Return what is said of a transaction that is ended as its coordinator had decided."""
    txn = hanging.found
    return (
        f"{txn.partition}: the transaction of {_producer(hanging)} from offset {txn.start_offset} on is "
        f"{hanging.outcome.done}. {_decided(hanging)} Its marker was missing."
    )


def _producer(hanging: HangingTransaction) -> str:
    transactional_id = hanging.transactional_id
    return f"producer {hanging.found.producer_id}" + (
        f" (transactional id {transactional_id.name})" if transactional_id else ""
    )


def _decided(hanging: HangingTransaction) -> str:
    if not hanging.decisions_read:
        return (
            "It is unknown whether the transaction was committed, because the client may not read "
            f"{STATE_TOPIC}."
        )
    if hanging.decision is None:
        return f"{STATE_TOPIC} has no record of a commit of this transaction."
    return (
        f"The coordinator {hanging.outcome.done} the transaction at {timestamps.text(hanging.decision.time)}."
    )


def overdue_sentences(tracked: Iterable[tuple[PartitionTransaction, TransactionalId]], now: int) -> list[str]:
    """Return the findings about transactions that coordinators should have ended before now."""
    by_id: dict[TransactionalId, list[TopicPartition]] = {}
    for txn, owner in tracked:
        if now > owner.end_time + OVERDUE_MILLISECONDS:
            by_id.setdefault(owner, []).append(txn.partition)
    return [
        f"The transaction of {owner.name} on {some(partitions)} is in state {owner.state}, although its "
        f"timeout has passed ({timestamps.text(owner.end_time)}). Its coordinator, broker "
        f"{owner.coordinator}, has not written the transaction markers. Read the journal of broker "
        f"{owner.coordinator} and restart the broker."
        for owner, partitions in by_id.items()
    ]


def unknown_sentences(unknown: Iterable[Skipped]) -> list[str]:
    """Return the findings about what could not be decided."""
    return [
        f"It is unknown whether {skipped.what} has hanging transactions: {skipped.why}."
        for skipped in unknown
    ]


def unread(partitions: Collection[TopicPartition], reason: str) -> LeftOut:
    """Return the entry of partitions about which nothing could be decided."""
    return (Skipped(some(sorted(partitions)), reason, "transaction-search-incomplete"),) if partitions else ()
