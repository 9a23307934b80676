"""One task of a flow: it copies the batches of some source partitions, transaction by transaction."""

import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from threading import Event, Thread

from kafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)

from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import AqueductError, Failed, LeftOut, Skipped
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.batch import Damaged, Unopened
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.follow import News, ReadDenied
from aqueduct.kafka.line import DEFAULTS, FetchSettings
from aqueduct.kafka.produce import Fenced, Retry, TimesReplaced, TransactionalProducer, until_committed
from aqueduct.mirror.binding import NO_EPOCH, Binding
from aqueduct.mirror.engine.names import checkpoints_topic, positions_topic, task_id
from aqueduct.mirror.engine.outgoing_batches import outgoing
from aqueduct.mirror.engine.position import (
    BATCHES,
    REFUSED,
    SILENT_SECONDS,
    PartitionRefused,
    Piece,
    Position,
    PositionOvertaken,
    PositionRange,
    RefusedItem,
    StateCut,
    TargetCut,
    TargetLog,
    TaskStatus,
    advanced,
    after_cut,
    check_holder,
    check_written,
    checkpoint_key,
    checkpoint_record,
    newest,
    position_record,
    resume,
    status_record,
)
from aqueduct.mirror.engine.reader import LogCut, SourceReader, UnreadablePartition
from aqueduct.mirror.engine.state import FlowState, state_batches
from aqueduct.mirror.engine.translation import obsolete
from aqueduct.mirror.positions import source_logs

TIMEOUT_SECONDS = 60  # after which the coordinator aborts the transaction of a task that is gone
TRANSACTION_BYTES = 64 << 20
UNACKNOWLEDGED_BYTES = 16 << 20  # from which on no more is sent
# While more comes, a transaction is filled for twice as long as the last commit took, within these bounds.
FILL_SECONDS = 0.02, 10.0
CHECKPOINT_BYTES = 16 << 20  # of a partition's batches between two checkpoints
POLL_SECONDS = 0.5  # between two looks whether the task is to stop
ACKNOWLEDGED_SECONDS = 0.005  # between two looks at what was read, while acknowledgements are missing
STATUS_SECONDS = 10.0  # between two statuses of a task that nothing happens to
MARKER_SECONDS = 1.0  # until a position is committed for nothing but transaction markers

_TOO_LARGE = MessageSizeTooLargeError, RecordListTooLargeError


@dataclass(frozen=True, kw_only=True)
class MirrorShare:
    """The part of a flow that one task mirrors."""

    flow: str
    number: int
    source: End
    target: End
    fetches: FetchSettings = DEFAULTS  # from the source
    again: frozenset[str] = frozenset()  # topics to mirror from their beginning
    accept_ranges: bool = False  # forget the ranges that the stored positions list
    first_start: bool = False  # what has no position was never mirrored
    shared: bool = False  # another process may have the task, and this one stands back then

    @property
    def name(self) -> str:
        """The task's transactional ids begin so, and its clients are called so."""
        return task_id(self.flow, self.number)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Source partitions to mirror, each with its partition at the target."""

    targets: Mapping[TopicPartition, TopicPartition] = field(default_factory=dict)
    max_bytes: Mapping[str, int] = field(default_factory=dict)  # max.message.bytes, by target topic
    skipped: LeftOut = ()  # topics of the flow, which the task reports


@dataclass(kw_only=True)
class TaskFigures:
    """The counts of a task, and what it knows of its partitions. Only the task changes them.

    The process that runs the task sets `stalled`.
    """

    records: int = 0
    bytes: int = 0
    transactions: int = 0
    committed_time: float = 0.0  # seconds since 1970
    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    committed: dict[TopicPartition, Position] = field(default_factory=dict)  # by this process
    behind: dict[TopicPartition, int] = field(default_factory=dict)  # offsets, when it was last read
    refused: dict[TopicPartition, Skipped] = field(default_factory=dict)
    stalled: dict[TopicPartition, Skipped] = field(default_factory=dict)

    def add(self, reached: Mapping[TopicPartition, Position], filling: "_Filling") -> None:
        """Count a transaction that was committed."""
        self.records += filling.records
        self.bytes += filling.bytes
        self.transactions += 1
        self.committed_time = time.time()
        self.positions |= reached
        self.committed |= reached
        self.behind |= filling.behind


class TaskReporter:
    """The status of a task, which is stored whenever it changes, and from time to time: the task is alive."""

    def __init__(self, share: MirrorShare, figures: TaskFigures) -> None:
        self._number = share.number
        self.alone = not share.shared
        self._figures = figures
        self._host = socket.gethostname()
        self._stored: LeftOut | None = None
        self._stored_time = 0.0
        self.skipped: LeftOut = ()

    @property
    def _refused(self) -> LeftOut:
        partitions = self._figures.stalled | self._figures.refused
        return (*self.skipped, *(item for _, item in sorted(partitions.items())))

    def is_due(self) -> bool:
        return self._refused != self._stored or time.monotonic() > self._stored_time + STATUS_SECONDS

    def record(self) -> tuple[bytes, bytes]:
        """Return key and value of the record of the status as it is now."""
        refused = self._refused
        status = TaskStatus(
            time=timestamps.now(),
            host=self._host,
            refused=tuple(RefusedItem(item.what, item.why, item.id) for item in refused[:REFUSED]),
            refused_count=len(refused),
            alone=self.alone,
        )
        return status_record(self._number, status)

    def note_stored(self) -> None:
        self._stored, self._stored_time = self._refused, time.monotonic()


class MirrorTask(Thread):
    """A task in a thread of its own, until `stopping` is set or it fails: see `error`."""

    def __init__(
        self, share: MirrorShare, stopping: Event, committed: dict[TopicPartition, Position] | None = None
    ) -> None:
        """`committed`: by earlier threads of the task in this process; the task adds to it."""
        super().__init__(name=share.name, daemon=True)
        self.figures = TaskFigures(committed={} if committed is None else committed)
        self.error: Exception | None = None
        self._share = share
        self._stopping = stopping
        self._assignment = Assignment()
        self._reassigned = Event()
        self._again = share.again
        self._accept_ranges = share.accept_ranges
        self._accepted: dict[TopicPartition, frozenset[PositionRange]] = {}  # as they were at the start
        self._rejected: dict[TopicPartition, Skipped] = {}  # until the next assignment
        self._cuts: dict[TopicPartition, int] = {}  # offsets at which the target lost records, until stored
        self._reporter = TaskReporter(share, self.figures)

    def assign(self, assignment: Assignment) -> None:
        """Mirror these partitions from now on. Partitions that were refused are tried again."""
        former, self._assignment = self._assignment, assignment
        self._reporter.skipped = assignment.skipped
        if self.figures.refused or replace(former, skipped=assignment.skipped) != assignment:
            self._reassigned.set()

    def run(self) -> None:
        try:
            with connect(self._share.target, self._share.name, self._stopping) as client:
                producers = [
                    TransactionalProducer(
                        client, f"{self._share.name}-{letter}", TIMEOUT_SECONDS, keep_times=True
                    )
                    for letter in "ab"  # when one's transaction has ended, its markers are not written yet
                ]
                state = FlowState(client, self._share.flow, [self._share.number])

                def attempt(progress: Callable[[], None]) -> None:
                    while not self._stopping.is_set():
                        self._mirror(client, producers, state, progress)

                try:
                    self._stand_back(state)
                    until_committed(client, attempt)
                    self._report_end(producers[0])
                except Fenced:
                    raise
                except Exception as error:
                    self._report_failure(producers[0], error)
                    raise
        except Exception as error:
            if not self._stopping.is_set():
                self.error = error

    def _stand_back(self, state: FlowState) -> None:
        """Leave the task to a process that runs without sharing the flow: TaskTaken while it reports."""
        if self._share.shared:
            state.refresh()
            status = state.statuses.get(self._share.number)
            if status and status.is_taken(time.time()):
                raise TaskTaken(
                    f"A process on {status.host} runs this task without --shared, for example a manual run. "
                    "This process runs the task again when the other process has ended, or has written no "
                    f"status for {SILENT_SECONDS} s."
                )

    def _report_failure(self, producer: TransactionalProducer, error: Exception) -> None:
        if not self._stopping.is_set():
            self._reporter.skipped = (task_failure(self._share.number, error), *self._assignment.skipped)
            self._store_status(producer)

    def _report_end(self, producer: TransactionalProducer) -> None:
        """Let the processes that share the flow take the task back at once."""
        if self._reporter.alone:
            self._reporter.alone = False
            self._store_status(producer)

    def _store_status(self, producer: TransactionalProducer) -> None:
        """Store the status if the target accepts it; Fenced. Without it, the task is reported as silent."""
        partition = TopicPartition(positions_topic(self._share.flow), self._share.number)
        try:
            producer.begin()
            producer.enlist([partition])
            for batch in state_batches([self._reporter.record()]):
                producer.queue(partition, batch)
            producer.commit()
        except Fenced:
            raise
        except (KafkaError, Retry, Failed):
            return

    def _mirror(
        self,
        client: Client,
        producers: Sequence[TransactionalProducer],
        state: FlowState,
        progress: Callable[[], None],
    ) -> None:
        """Mirror until the assignment changes, or until a partition must be judged again or is rejected."""
        if self._reassigned.is_set():
            self._reassigned.clear()
            self._rejected.clear()
        assignment = self._assignment
        for producer in producers:
            producer.begin()  # what a predecessor left open is aborted, and it is fenced
        state.settle()
        state.refresh()
        check_holder(self._share.flow, state.holder.engine if state.holder else None, BATCHES)
        current = newest(state.positions, self.figures.committed)
        lost = {partition: of for partition, of in current.items() if of != state.positions.get(partition)}
        positions, cut = self._resumed(client, state, current, assignment)
        refused = lost | cut | self._given_up(state, assignment)
        ids = tuple(producer.producer_id for producer in producers)
        copy = _Copy(
            self._share,
            state=state,
            assignment=assignment,
            figures=self.figures,
            positions=positions,
            producers=ids,
            reporter=self._reporter,
            rejected=self._rejected,
        )
        turns = cycle(producers)
        stored = dict(state.positions)
        try:
            news = {p: new for p, new in positions.items() if new != stored.get(p)}
            copy.begin(next(turns), news, refused)
            self._again = frozenset()
            self._accept_ranges = False
            for partition in cut:
                self._cuts.pop(partition, None)
            if not positions:
                progress()
                self._reassigned.wait(POLL_SECONDS)
                return
            share = self._share
            with SourceReader(share.source, share.name, positions, share.fetches) as reader:
                while not self._is_over():
                    if copy.transaction(next(turns), reader, self._is_over):
                        progress()
        except (LogCut, PositionOvertaken):
            return
        except StateCut:
            state.forget()
        except TargetCut as target:
            self._cuts[target.partition] = target.offset
        except Rejected as rejected:
            self._rejected[rejected.partition] = rejected.skipped

    def _is_over(self) -> bool:
        return self._stopping.is_set() or self._reassigned.is_set()

    def _given_up(self, state: FlowState, assignment: Assignment) -> dict[TopicPartition, Position]:
        """Return the positions of topics that the flow has no longer, as they are when that is accepted."""
        if not self._accept_ranges:
            return {}
        others = state.positions.keys() - assignment.targets.keys()
        with connect(self._share.source, self._share.name, self._stopping) as source:
            existing = source.topics({partition.topic for partition in others})
        return {
            partition: replace(state.positions[partition], ranges=(), is_given_up=True)
            for partition in others
            if partition.topic not in existing  # others are refused, and may be mirrored again
        }

    def _resumed(
        self,
        client: Client,
        state: FlowState,
        current: Mapping[TopicPartition, Position],
        assignment: Assignment,
    ) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, Position]]:
        """Return where each partition continues, and the positions whose targets have lost records since.

        The figures list the partitions that do not continue.
        """
        stored = current
        if self._accept_ranges:  # not those that are found now: no report has listed them
            self._accepted = self._accepted or {p: frozenset(of.ranges) for p, of in stored.items()}
            stored = {p: _without(of, self._accepted.get(p, frozenset())) for p, of in stored.items()}
        checkpoints = {partition: of[-1] for partition, of in state.checkpoints.items() if of}
        topics = client.topics({target.topic for target in assignment.targets.values()})
        led = {partition for topic in topics.values() for partition in topic.led_partitions}
        targets = {source: target for source, target in assignment.targets.items() if target in led}
        ends = offsets.ends(client, targets.values(), "read_uncommitted")
        with connect(self._share.source, self._share.name, self._stopping) as source:
            logs = source_logs(source, {partition: _binding(stored.get(partition)) for partition in targets})
        refused = {
            partition: _without_leader(partition) for partition in assignment.targets.keys() - logs.keys()
        }
        refused |= self._rejected
        positions: dict[TopicPartition, Position] = {}
        cut: dict[TopicPartition, Position] = {}
        for partition in logs.keys() - refused.keys():
            log, target = logs[partition], targets[partition]
            target_log = TargetLog(str(topics[target.topic].id), ends[target])
            if position := stored.get(partition):
                judged = after_cut(position, target_log, self._cuts.get(partition))
                if judged != position:
                    cut[partition] = replace(current[partition], target_cut=judged.target_cut)
                position = judged
            try:
                positions[partition] = resume(
                    partition,
                    position,
                    log,
                    target_log,
                    checkpoint=checkpoints.get(partition),
                    again=partition.topic in self._again,
                    first_start=self._share.first_start,
                )
            except PartitionRefused as error:
                reason = error.sentence.removeprefix(f"{partition}: ")
                refused[partition] = Skipped(str(partition), reason.rstrip("."), error.id)
        self.figures.refused, self.figures.positions = refused, dict(positions)
        self.figures.behind = {
            partition: max(0, logs[partition].stable_end - position.next)
            for partition, position in positions.items()
        }
        return positions, cut


class TaskTaken(Fenced):
    """The end of a task that a process runs which does not share the flow."""

    id = "mirror-task-taken"


def task_failure(number: int, error: Exception) -> Skipped:
    """Return what a flow reports of a task that has ended with an error and is tried again."""
    if isinstance(error, AqueductError | KafkaError):
        return Skipped.because_of(f"task {number}", error)
    return Skipped(f"task {number}", f"{type(error).__name__}: {error}", "mirror-task-failed")


def _binding(position: Position | None) -> Binding | None:
    if position is None:
        return None
    return Binding(topic_id=position.topic_id, next=position.next, epoch=position.epoch)


def _without(position: Position, accepted: frozenset[PositionRange]) -> Position:
    return replace(position, ranges=tuple(of for of in position.ranges if of not in accepted))


def _without_leader(partition: TopicPartition) -> Skipped:
    return Skipped(
        str(partition),
        "the partition has no leader at the source or at the target; start the brokers of the partition",
        "mirror-partition-offline",
    )


def _unreadable(partition: TopicPartition, error: Exception) -> Skipped:
    """Return what a task reports of a partition that it cannot read or write from an offset on."""
    if isinstance(error, ReadDenied):
        reason = "the flow may not read the topic at the source; grant Read to the principal of the flow"
        return Skipped(str(partition), reason, "cluster-request-failed")
    if isinstance(error, Unopened):
        reason = (
            f"{str(error).rstrip('.')}. The engine must decompress this batch, so no record after it is "
            "mirrored"
        )
        return Skipped(str(partition), reason, "mirror-batch-unopened")
    if isinstance(error, Damaged):
        reason = f"{str(error).rstrip('.')}. No record from this batch on is mirrored"
        return Skipped(str(partition), reason, "mirror-batch-unreadable")
    return Skipped.because_of(str(partition), error)


def up_to(news: News, pieces: Sequence[Ready]) -> News:
    """Return the news as far as they are in these pieces, which are whole batches of them."""
    stop = pieces[-1].next_offset if pieces else news.start
    batches = tuple(batch for batch in news.batches if batch.last_offset < stop)
    epoch = batches[-1].leader_epoch if batches else NO_EPOCH
    return replace(news, batches=batches, next_offset=stop, epoch=epoch)


class Rejected(Exception):
    """A partition whose records the target does not accept."""

    def __init__(self, partition: TopicPartition, skipped: Skipped) -> None:
        super().__init__(str(skipped))
        self.partition = partition
        self.skipped = skipped


class _Copy:
    """The copy of a task's partitions from their positions on."""

    def __init__(
        self,
        share: MirrorShare,
        *,
        state: FlowState,
        assignment: Assignment,
        figures: TaskFigures,
        positions: Mapping[TopicPartition, Position],
        producers: tuple[int, ...],
        reporter: TaskReporter,
        rejected: dict[TopicPartition, Skipped],
    ) -> None:
        """`rejected` gets the partitions of which no more is mirrored."""
        self._positions_partition = TopicPartition(positions_topic(share.flow), share.number)
        self._checkpoints_partition = TopicPartition(checkpoints_topic(share.flow), share.number)
        self._producers = producers
        self._reporter = reporter
        self._checkpoints = {
            partition: deque(state.checkpoints.get(partition, ())) for partition in positions
        }
        self._targets = assignment.targets
        self._sources = {target: source for source, target in assignment.targets.items()}
        self._max_bytes = assignment.max_bytes
        self._figures = figures
        self._positions = dict(positions)
        self._state_ends = dict(state.ends)
        self._pending: deque[News] = deque()  # read, and not in a transaction yet
        self._rejected = rejected
        self._fill_seconds = FILL_SECONDS[0]
        # Bytes since a partition's last checkpoint. The first transaction with it contains one.
        self._since_checkpoint: dict[TopicPartition, int] = {}

    def transaction(
        self, producer: TransactionalProducer, reader: SourceReader, is_over: Callable[[], bool]
    ) -> bool:
        """Copy what comes in one transaction, and report; return False if nothing was committed."""
        filling = _Filling(positions=dict(self._positions))
        producer.begin()
        try:
            self._fill(producer, reader, is_over, filling)
            if is_news := bool(filling.reached) or self._reporter.is_due():
                self._commit(producer, filling)
        except KafkaError as error:
            raise self._rejection(producer, error) from error
        except TimesReplaced as error:
            if producer.rejected is None:
                raise
            source = self._sources[producer.rejected]
            reason = f"{error}. Set message.timestamp.type=CreateTime for the target topic"
            raise Rejected(source, Skipped(str(source), reason, "mirror-times-replaced")) from error
        if filling.end:
            raise filling.end
        return is_news

    def begin(
        self,
        producer: TransactionalProducer,
        positions: Mapping[TopicPartition, Position],
        refused: Mapping[TopicPartition, Position],
    ) -> None:
        """Commit new positions before any of their records, each with a checkpoint.

        `refused`: positions of partitions that are not mirrored any more, to store without one.
        """
        if positions or refused or self._reporter.is_due():
            producer.begin()
            filling = _Filling(positions=dict(positions), reached=set(positions))
            self._commit(producer, filling, [position_record(*item) for item in refused.items()])

    def _fill(
        self,
        producer: TransactionalProducer,
        reader: SourceReader,
        is_over: Callable[[], bool],
        filling: "_Filling",
    ) -> None:
        begun: float | None = None
        while filling.bytes < TRANSACTION_BYTES:
            if producer.unacknowledged_bytes:
                producer.wait(ACKNOWLEDGED_SECONDS)
            now = time.monotonic()
            if begun is None and self._reporter.is_due():
                return
            if is_over() or (begun is not None and filling.bytes and now > begun + self._fill_seconds):
                return
            if producer.unacknowledged_bytes >= UNACKNOWLEDGED_BYTES:
                continue
            try:
                if not self._pending:
                    answer = reader.take(0 if filling.bytes else POLL_SECONDS)
                    self._pending.extend(of for of in answer if of.topic_partition not in self._rejected)
                if self._pending:
                    begun = begun or now
                    self._add(producer, reader, filling)
                    producer.pump()
                elif filling.bytes or (begun is not None and now > begun + MARKER_SECONDS):
                    return
            except UnreadablePartition as unreadable:
                self._set_aside(unreadable.partition, _unreadable(unreadable.partition, unreadable.error))
            except (LogCut, PositionOvertaken) as end:  # after what is read: it may be gone at the source
                filling.end = end
                return

    def _add(self, producer: TransactionalProducer, reader: SourceReader, filling: "_Filling") -> None:
        """Add the next of what was read, and tell the coordinator of all that waits, in one request."""
        targets = [self._targets[news.topic_partition] for news in self._pending if news.batches]
        if targets:
            producer.enlist([*targets, self._positions_partition])
        news = self._pending.popleft()
        source = news.topic_partition
        target = self._targets[source]
        made = outgoing(news.batches, self._max_bytes[target.topic])
        if made.error:  # what is before it is mirrored
            self._set_aside(source, _unreadable(source, made.error))
            reader.leave(source)
            news = up_to(news, made.pieces)
        if news.next_offset > news.start:
            filling.read(news)
        for piece in made.pieces:
            filling.bytes += len(piece.data)
            filling.partition_bytes[source] += len(piece.data)
            producer.queue(target, piece)

    def _set_aside(self, source: TopicPartition, skipped: Skipped) -> None:
        """Mirror no more of a partition until the next assignment, and report it. The others continue."""
        self._rejected[source] = skipped
        self._pending = deque(news for news in self._pending if news.topic_partition != source)
        self._figures.refused = {**self._figures.refused, source: skipped}

    def _commit(
        self, producer: TransactionalProducer, filling: "_Filling", more: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Commit what was filled, with its positions and checkpoints, and `more` records of positions."""
        began = time.monotonic()
        producer.drain()
        for source in filling.reached:
            if (first := producer.starts.get(self._targets[source])) is not None:
                check_written(source, self._positions[source], first)
        reached = {}
        checkpoints: list[tuple[bytes, bytes | None]] = []
        for source in filling.reached:
            position = filling.positions[source]
            position = replace(
                position,
                target_end=producer.ends.get(self._targets[source], position.target_end),
                producers=self._producers,
            )
            since = self._since_checkpoint.get(source, CHECKPOINT_BYTES) + filling.partition_bytes[source]
            if since >= CHECKPOINT_BYTES:
                checkpoints += self._checkpoint(source, position, filling.log_starts.get(source, 0))
                since = 0
            self._since_checkpoint[source] = since
            reached[source] = position
        stored = [*more, *(position_record(*item) for item in reached.items())]
        reports = self._reporter.is_due()
        if reports:
            stored.append(self._reporter.record())
        self._write(producer, self._positions_partition, stored)
        self._write(producer, self._checkpoints_partition, checkpoints)
        producer.drain()
        self._check_state(producer)
        producer.commit()
        if reports:
            self._reporter.note_stored()
        took = time.monotonic() - began
        self._fill_seconds = min(max(FILL_SECONDS[0], 2 * took), FILL_SECONDS[1])
        self._positions |= reached
        self._figures.add(reached, filling)

    def _check_state(self, producer: TransactionalProducer) -> None:
        """Check that the flow's own topics have what was written to them; else StateCut."""
        for partition in (self._positions_partition, self._checkpoints_partition):
            first = producer.starts.get(partition)
            if first is not None and first < self._state_ends.get(partition, 0):
                raise StateCut(f"{partition} lost records from offset {first} on")
            self._state_ends[partition] = producer.ends.get(partition, self._state_ends.get(partition, 0))

    def _checkpoint(
        self, source: TopicPartition, position: Position, log_start: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield a checkpoint as a record, then a tombstone for each checkpoint that is no longer needed."""
        checkpoints = self._checkpoints[source]
        checkpoints.append(position.checkpoint)
        yield checkpoint_record(source, position.checkpoint)
        for _ in range(obsolete(checkpoints, position.topic_id, log_start)):
            yield checkpoint_key(source, checkpoints.popleft()), None

    def _write(
        self,
        producer: TransactionalProducer,
        partition: TopicPartition,
        records: Sequence[tuple[bytes, bytes | None]],
    ) -> None:
        if records:
            producer.enlist([partition])
            for batch in state_batches(records):
                producer.queue(partition, batch)
            producer.pump()

    def _rejection(self, producer: TransactionalProducer, error: KafkaError) -> "KafkaError | Rejected":
        """Return the reason why a partition is set aside; the error itself if it concerns all of them."""
        source = self._sources.get(producer.rejected) if producer.rejected else None
        if source is None:
            return error
        if isinstance(error, _TOO_LARGE):
            reason = f"{error}. Increase max.message.bytes of the target topic"
            skipped = Skipped(str(source), reason, "record-too-large")
        elif isinstance(error, InvalidTimestampError):
            reason = (
                f"{error}. Increase message.timestamp.before.max.ms and message.timestamp.after.max.ms of "
                "the target topic"
            )
            skipped = Skipped(str(source), reason, "mirror-time-rejected")
        else:
            skipped = Skipped(str(source), str(error), "mirror-partition-rejected")
        return Rejected(source, skipped)


@dataclass(kw_only=True)
class _Filling:
    """What one transaction contains so far."""

    positions: dict[TopicPartition, Position]
    reached: set[TopicPartition] = field(default_factory=set)
    partition_bytes: Counter[TopicPartition] = field(default_factory=Counter)
    bytes: int = 0
    records: int = 0
    behind: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    end: LogCut | PositionOvertaken | None = None  # why nothing can follow in this run

    def read(self, news: News) -> None:
        source = news.topic_partition
        piece = Piece(
            topic_id=str(news.topic_id),
            start=news.start,
            first=news.first,
            next=news.next_offset,
            log_start=news.log_start,
            epoch=news.epoch,
            records=sum(batch.count for batch in news.batches),
            source_end=news.stable,
        )
        self.positions[source] = advanced(self.positions[source], piece)
        self.reached.add(source)
        self.records += piece.records
        self.behind[source] = max(0, news.stable - news.next_offset)
        self.log_starts[source] = news.log_start
