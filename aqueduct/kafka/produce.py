"""Writes batches inside transactions (KIP-98), and a group's offsets with them.

The protocol is that of transactions before KIP-890's second part, which brokers of every version take.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from kafka.errors import (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    NodeNotReadyError,
    OperationNotAttemptedError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    UnknownProducerIdError,
    for_code,
)
from kafka.future import Future
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.batches.produce import Ready, stamp
from aqueduct.kafka.client import Client, Patience, passing
from aqueduct.kafka.fan_out import check_mentioned
from aqueduct.kafka.groups import CommittedOffsets, offset_topics

IN_FLIGHT = 5  # requests of one partition: the broker remembers so many of a producer's sequence numbers
IN_FLIGHT_BYTES = 16 << 20  # of all partitions
REQUEST_BYTES = 4 << 20  # after which a request gets no more batches
ACKNOWLEDGE_MILLISECONDS = 20_000  # by all replicas in sync
RETRY_SECONDS = 120  # without progress

_SEQUENCES = 1 << 31  # after which a producer's sequence starts again at 0

# The last versions before KIP-890's second part, where servers add partitions and change epochs.
_PRODUCE_UNTIL = 11
_ADD_PARTITIONS_UNTIL = 3
_ADD_OFFSETS_UNTIL = 3
_OFFSET_COMMIT_UNTIL = 4
_END_UNTIL = 4
_INIT = {
    "min_version": 3,
    "max_version": 4,
}  # since 3 an older epoch is refused, not given a new one (KIP-360)

_FENCED = InvalidProducerEpochError, ProducerFencedError, InvalidProducerIdMappingError
# What is sure only after the transaction was aborted and the producer has a new epoch.
_UNCERTAIN = (
    OutOfOrderSequenceNumberError,
    UnknownProducerIdError,
    InvalidTxnStateError,
    TransactionAbortableError,
)


class Fenced(Failed):
    """The end of a producer whose transactional id another one has now."""

    id = "producer-fenced"


class Retry(Exception):
    """The transaction was given up for a trouble that may pass: begin again, from committed progress."""


class TimesReplaced(Retry):
    """The broker gave records its own times: the topic has message.timestamp.type=LogAppendTime."""


T = TypeVar("T")


def until_committed(client: Client, attempt: Callable[[Callable[[], None]], T], way_on: str = "") -> T:
    """Return what an attempt returns, made again after each Retry.

    An attempt begins from what is committed, and calls its argument when it has made progress. Failed after
    RETRY_SECONDS without any; `way_on` ends that sentence.
    """
    last, cause = time.monotonic(), ""

    def progress() -> None:
        nonlocal last, cause
        last, cause = time.monotonic(), ""

    while True:
        try:
            return attempt(progress)
        except Retry as error:
            if not (cause and isinstance(error.__cause__, NodeNotReadyError)):  # only says: it fails again
                cause = str(error).rstrip(".")
            if time.monotonic() > last + RETRY_SECONDS:
                reason = f"The {client.end} completed no transaction for {RETRY_SECONDS} s: {cause}"
                raise Failed("transaction-failed", f"{reason}{way_on}.") from error
            client.sleep(1)


@dataclass(frozen=True)
class _Sent:
    batches: Mapping[TopicPartition, Ready]
    response: Future


class TransactionalProducer:
    """The producer of one transactional id: a new one fences those before it.

    `begin`, then any number of `send` and `commit_offsets`, then `commit` or `abort`; again and again. Any of
    them may raise Retry: nothing since `begin` counts then; continue with `begin`, and from what
    `groups.progress` says was committed. Fenced and Failed are final.

    Where many partitions are written to, `queue` and `pump` take the place of `send`: neither waits, and a
    request has a batch of each partition that has one.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        timeout_seconds: float = 60,
        *,
        keep_times: bool = False,
    ) -> None:
        """The coordinator aborts a transaction that is open for longer than `timeout_seconds`.

        `keep_times`: Retry where a broker gave records its own time (message.timestamp.type=LogAppendTime).
        """
        self._client = client
        self._id = transactional_id
        self._timeout_seconds = timeout_seconds
        self._keep_times = keep_times
        self._producer_id = self._epoch = -1
        self._valid = False  # the epoch, and with it the sequences
        self._sequences: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self._partitions: set[TopicPartition] = set()  # the coordinator knows of
        self._groups: set[str] = set()
        self._waiting: dict[TopicPartition, deque[Ready]] = {}
        self._in_flight: list[_Sent] = []
        self._unanswered: Counter[TopicPartition] = Counter()  # batches in flight
        self._in_flight_bytes = self._waiting_bytes = 0
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._rejected: TopicPartition | None = None
        self._rejected_batch: Ready | None = None

    @property
    def producer_id(self) -> int:
        """Return the producer id in its batches' headers; -1 before `begin`."""
        return self._producer_id

    @property
    def enlisted(self) -> frozenset[TopicPartition]:
        """Return the partitions of the transaction: each gets a marker at its end, written to or not."""
        return frozenset(self._partitions)

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        """Return the offset of the first batch that was acknowledged in the transaction, by partition."""
        return self._starts

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Return the offset after the last batch that was acknowledged in the transaction, by partition."""
        return self._ends

    @property
    def rejected(self) -> TopicPartition | None:
        """Return the partition that the cluster refused, which ended the transaction; None: none."""
        return self._rejected

    @property
    def rejected_batch(self) -> Ready | None:
        """Return the batch of `rejected`, as it was sent."""
        return self._rejected_batch

    @property
    def unacknowledged_bytes(self) -> int:
        """Return the bytes of batches that are queued or in flight."""
        return self._in_flight_bytes + self._waiting_bytes

    def begin(self) -> None:
        """Make sure that what was begun before is over, and that nobody else has the transactional id."""
        if self._partitions or self._groups:
            self._valid = False  # it was left open, and is aborted by the coordinator
        self._forget_transaction()
        if not self._valid:
            patience = Patience(self._client, f"began no transaction of {self._id}")
            if self._epoch >= 0:
                patience.until_done(self._abort_open)
            self._producer_id, self._epoch = patience.until_done(self._init)
            self._sequences.clear()
            self._valid = True

    def enlist(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell at once what the transaction will write to; `send` does it for one partition at a time."""
        if new := [partition for partition in partitions if partition not in self._partitions]:
            self._ask(lambda: self._add_partitions(new))
            self._partitions.update(new)

    def send(self, topic: str, partition: int, ready: Ready) -> None:
        """Write a batch, after those of the partition that were sent before; `ready` is used up.

        Its acknowledgement is waited for when too many are missing, and by `commit`.
        """
        topic_partition = TopicPartition(topic, partition)
        self.enlist([topic_partition])
        self._await_room(topic_partition, len(ready.data))
        self.queue(topic_partition, ready)
        self._submit()

    def queue(self, partition: TopicPartition, ready: Ready) -> None:
        """Queue a batch for an enlisted partition; `ready` is used up. `pump` sends it."""
        sequence = self._sequences.get(partition, 0)
        stamp(
            ready.data,
            producer_id=self._producer_id,
            epoch=self._epoch,
            sequence=sequence,
            transactional=True,
        )
        self._sequences[partition] = (sequence + ready.count) % _SEQUENCES
        self._waiting.setdefault(partition, deque()).append(ready)
        self._waiting_bytes += len(ready.data)

    def pump(self) -> None:
        """Take the acknowledgements that came, and send what may be sent now."""
        for sent in [sent for sent in self._in_flight if sent.response.is_done]:
            self._acknowledge(sent)
        self._submit()

    def wait(self, seconds: float) -> None:
        """Wait until an acknowledgement comes, or the time is over; then as `pump`."""
        self._client.wait_any([sent.response for sent in self._in_flight], seconds)
        self.pump()

    def drain(self) -> None:
        """Send all that is queued, and wait for every acknowledgement."""
        self.pump()
        while self._in_flight:
            self._acknowledge(self._in_flight[0])
            self.pump()

    def commit_offsets(self, group: str, offsets: CommittedOffsets) -> None:
        """Commit offsets of a group without members when, and only when, the transaction is."""
        if group not in self._groups:
            self._ask(lambda: self._add_group(group))
            self._groups.add(group)
        self._ask(lambda: self._commit_offsets(group, offsets))

    def commit(self) -> None:
        """Make all of it visible. Readers may see it a moment later."""
        self.drain()
        self._end(committed=True)

    def abort(self) -> None:
        """Make none of it visible, ever."""
        self.drain()
        self._end(committed=False)

    # Requests and acknowledgements of batches

    def _submit(self) -> None:
        """Send queued batches. A broker accepts one batch of each partition in a request."""
        while self._waiting:
            requests: dict[int, dict[TopicPartition, Ready]] = {}
            sizes = Counter[int]()
            for partition, waiting in self._waiting.items():
                if self._unanswered[partition] >= IN_FLIGHT:
                    continue
                try:
                    leader = self._client.leader(*partition)
                except KafkaError as error:
                    self._give_up(error)
                if sizes[leader] < REQUEST_BYTES:
                    requests.setdefault(leader, {})[partition] = waiting[0]
                    sizes[leader] += len(waiting[0].data)
            if not requests:
                return
            for leader, batches in requests.items():
                for partition in batches:
                    self._waiting[partition].popleft()
                    if not self._waiting[partition]:
                        del self._waiting[partition]
                    self._unanswered[partition] += 1
                self._waiting_bytes -= sizes[leader]
                self._in_flight_bytes += sizes[leader]
                response = self._client.submit(self._produce_request(batches), leader)
                self._in_flight.append(_Sent(batches, response))

    def _produce_request(self, batches: Mapping[TopicPartition, Ready]) -> ProduceRequest:
        kind = ProduceRequest.TopicProduceData
        topics: dict[str, list[Any]] = {}
        for (topic, number), ready in batches.items():
            entry = kind.PartitionProduceData(index=number, records=ready.data)
            topics.setdefault(topic, []).append(entry)
        return ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=ACKNOWLEDGE_MILLISECONDS,
            topic_data=[kind(name=topic, partition_data=entries) for topic, entries in topics.items()],
            min_version=3,
            max_version=_PRODUCE_UNTIL,
        )

    def _await_room(self, partition: TopicPartition, size: int) -> None:
        while self._in_flight and (
            self._unanswered[partition] >= IN_FLIGHT or self._in_flight_bytes + size > IN_FLIGHT_BYTES
        ):
            self._acknowledge(self._in_flight[0])

    def _acknowledge(self, sent: _Sent) -> None:
        """Wait for the answer to a request in flight."""
        self._in_flight.remove(sent)
        try:
            response = self._client.wait(sent.response)
        except KafkaError as error:
            for topic in {partition.topic for partition in sent.batches}:
                self._client.forget(topic)
            self._give_up(error)
        answers = {
            TopicPartition(topic.name, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        for partition, answer in answers.items():
            self._acknowledged(partition, answer, sent.batches)
        try:
            check_mentioned(sent.batches, answers)
        except KafkaError as error:
            self._give_up(error)

    def _acknowledged(
        self, partition: TopicPartition, answer: Any, batches: Mapping[TopicPartition, Ready]
    ) -> None:
        if answer.error_code:
            self._client.forget(partition.topic)
            self._rejected, self._rejected_batch = partition, batches[partition]
            self._give_up(for_code(answer.error_code)(f"{partition}, {answer.error_message}"))
        if self._keep_times and answer.log_append_time_ms >= 0:
            self._valid = False
            self._rejected, self._rejected_batch = partition, batches[partition]
            raise TimesReplaced(
                f"{partition} replaces the timestamps of records (message.timestamp.type=LogAppendTime)"
            )
        if answer.base_offset < self._ends.get(partition, 0):
            self._valid = False
            raise Retry(
                f"{partition} lost records of the transaction: the broker assigned offset "
                f"{answer.base_offset} again, although it had acknowledged all offsets before "
                f"{self._ends[partition]}"
            )
        ready = batches[partition]
        self._unanswered[partition] -= 1
        self._in_flight_bytes -= len(ready.data)
        self._starts.setdefault(partition, answer.base_offset)
        self._ends[partition] = answer.base_offset + ready.count

    # Troubles

    def _ask(self, attempt: Callable[[], None]) -> None:
        """Repeat an attempt that may be made twice until it succeeds."""
        patience = Patience(self._client, f"did not answer requests of the transaction of {self._id}")

        def attempted() -> None:
            try:
                attempt()
            except KafkaError:
                self._coordinators.clear()  # another broker may be it now
                raise

        try:
            patience.until_done(attempted)
        except KafkaError as error:
            self._give_up(error)

    def _give_up(self, error: KafkaError) -> NoReturn:
        """Raise Retry if that can help, else the error."""
        self._valid = False
        if isinstance(error, _FENCED):
            self.begin()  # the coordinator knows whether it is so: it may have aborted what took too long
        elif not (passing(error) or isinstance(error, _UNCERTAIN)):
            with suppress(KafkaError, Failed):
                self._abort_open()  # so that nobody waits for this transaction to time out
            raise error
        raise Retry(str(error)) from error

    # Requests. Each checks the response; the error says whether it is worth to ask again.

    def _abort_open(self) -> None:
        """Abort what the coordinator may have open, before it is asked for a new epoch (KIP-360).

        Asked during an open transaction, a coordinator with a transaction.version below 2 aborts it under the
        next epoch, and then refuses the one that asked as fenced.
        """
        self._coordinators.clear()
        # Nothing is open, or another one has the transactional id: the request for a new epoch tells.
        with suppress(InvalidTxnStateError, *_FENCED):
            self._send_end(committed=False)

    def _init(self) -> tuple[int, int]:
        self._coordinators.clear()
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=int(self._timeout_seconds * 1000),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            **_INIT,
        )
        try:
            response = self._client.send(request, self._coordinator())
            self._check(response.error_code)
        except _FENCED as error:
            raise Fenced(
                f"The transactional id {self._id} of the {self._client.end} is used by another process "
                f"that was started later, or a transaction took longer than {self._timeout_seconds:g} s."
            ) from error
        return response.producer_id, response.producer_epoch

    def _add_partitions(self, topic_partitions: Sequence[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in topic_partitions:
            topics.setdefault(topic, []).append(partition)
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                kind(name=topic, partitions=partitions) for topic, partitions in topics.items()
            ],
            max_version=_ADD_PARTITIONS_UNTIL,
        )
        response = self._client.send(request, self._coordinator())
        codes = {
            TopicPartition(topic.name, result.partition_index): result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        check_mentioned(topic_partitions, codes)
        # If one partition is refused, the coordinator attempts none.
        refusals = {partition: code for partition, code in codes.items() if code}
        causes = {p: code for p, code in refusals.items() if for_code(code) is not OperationNotAttemptedError}
        for refused, code in (causes or refusals).items():
            if for_code(code) is TopicAuthorizationFailedError:
                self._rejected = refused
            self._check(code, str(refused))

    def _add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=group,
            max_version=_ADD_OFFSETS_UNTIL,
        )
        self._check(self._client.send(request, self._coordinator()).error_code, f"group {group}")

    def _commit_offsets(self, group: str, offsets: CommittedOffsets) -> None:
        kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=offset_topics(kind, kind.TxnOffsetCommitRequestPartition, offsets),
            max_version=_OFFSET_COMMIT_UNTIL,
        )
        mentioned: set[TopicPartition] = set()
        for topic in self._client.send(request, self._coordinator(group)).topics:
            for partition in topic.partitions:
                mentioned.add(TopicPartition(topic.name, partition.partition_index))
                self._check(partition.error_code, f"group {group}, {topic.name}-{partition.partition_index}")
        check_mentioned(offsets, mentioned)

    def _end(self, *, committed: bool) -> None:
        if self._partitions or self._groups:
            self._ask(lambda: self._send_end(committed=committed))
        self._forget_transaction()

    def _send_end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
            max_version=_END_UNTIL,
        )
        self._check(self._client.send(request, self._coordinator()).error_code)

    def _check(self, code: int, subject: str = "") -> None:
        if code:
            raise for_code(code)(", ".join(filter(None, (f"transaction of {self._id}", subject))))

    def _coordinator(self, group: str | None = None) -> int:
        """Return the broker of the transaction or of a group, asked for once, and again after any trouble."""
        kind = CoordinatorType.GROUP if group else CoordinatorType.TRANSACTION
        asked = kind, group or self._id
        if asked not in self._coordinators:
            self._coordinators[asked] = self._client.coordinator(*asked)
        return self._coordinators[asked]
