"""Changes the engine of a flow: moves its positions, in one transaction at the target, while no worker runs.

Only with what every host has: kafka-python's own producer writes.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer

from aqueduct.common import timestamps
from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import addresses, offsets
from aqueduct.kafka.admin.topics import apply_accepted
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.plain_records import bodies
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.client_errors import RECONNECT, answering
from aqueduct.kafka.compacted_topics import MOST_STATE_BYTES, Table
from aqueduct.kafka.fetch import read
from aqueduct.kafka.topics import DeclaredTopic, TopicChanges
from aqueduct.mirror.binding import Binding
from aqueduct.mirror.engine.names import (
    CLIENT,
    checkpoints_topic,
    positions_topic,
    state_topics,
    task_id,
)
from aqueduct.mirror.engine.position import (
    BATCHES,
    MM2,
    Checkpoint,
    Holder,
    Position,
    TargetLog,
    TaskStatus,
    check_holder,
    checkpoint_record,
    holder_record,
    is_engine_key,
    parse_checkpoint,
    parse_holder,
    parse_position,
    parse_status,
    position_record,
    task_of,
)
from aqueduct.mirror.engine.reading import BatchesReader
from aqueduct.mirror.engine.switch_plan import (
    Ends,
    PositionOfBatches,
    PositionOfMirrorMaker,
    StoredState,
    SwitchPlan,
    holder_of,
    plan,
)
from aqueduct.mirror.engine.topics import MirroredTopics
from aqueduct.mirror.positions import FlowPositions, PositionRecord, source_logs
from aqueduct.mirror.reading import MirrorReader
from aqueduct.mirror.status import SOURCE_CONNECTOR

TRANSACTION_SECONDS = 60
SEND_SECONDS = 30
LEAVING_SECONDS = 30  # for a worker that was killed, until its session ends
TOPICS_SECONDS = 60  # until a topic that was created has leaders
POLL_SECONDS = 1
VISIBLE_SECONDS, VISIBLE_POLL_SECONDS = 3, 0.05  # for the markers of a transaction
# Positions are read again at each start: small segments are compacted soon.
STATE_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "message.timestamp.type": "CreateTime",
}
OFFSETS_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
OFFSETS_PARTITIONS = 25  # of Connect's topic of offsets (offset.storage.partitions)


@dataclass(frozen=True, kw_only=True)
class SwitchOrder:
    """The request to change the engine of a flow."""

    flow: str
    to: str
    topics: MirroredTopics
    tasks: int = 2  # of a flow that `batches` has never had
    replication_factor: int | None = None  # of topics that are created; None: the target's default


class EngineState:
    """What both engines have stored of a flow at its target. `refresh` reads on from where it was."""

    def __init__(self, flow: str, target: Client) -> None:
        self.flow = flow
        self.mirror_maker = FlowPositions(flow, target)
        self.holder: Holder | None = None
        self.positions: dict[TopicPartition, Position] = {}
        self.statuses: dict[int, TaskStatus] = {}
        self.checkpoints: dict[TopicPartition, Checkpoint] = {}  # the newest ones
        self._target = target
        self._positions_table = Table(target, most_bytes=MOST_STATE_BYTES)
        self._checkpoints_table = Table(target)
        self._transactional: dict[bytes, bool] = {}  # by key of a record of MirrorMaker's topic of positions
        self._read_to: dict[TopicPartition, int] = {}

    @property
    def engine(self) -> str | None:
        """The engine that has the flow; None: neither has ever run it."""
        return holder_of(self.holder, self.positions, self.mirror_maker.stored)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the topics that both engines store positions in, as far as they exist."""
        names = [*state_topics(self.flow), self.mirror_maker.topic]
        return [p for topic in self._target.topics(names).values() for p in topic.topic_partitions]

    def refresh(self) -> None:
        """Read what was committed since the last time. Failed if a position cannot be read.

        A running flow commits a position and its checkpoint in one transaction, whose markers come one after
        the other: positions are read again for a moment while a checkpoint is newer.
        """
        deadline = time.monotonic() + VISIBLE_SECONDS
        with answering(self._target.end.bootstrap_servers):
            self.mirror_maker.refresh()
            self._read_attributes()
            self._refresh(checkpoints_topic(self.flow), self._checkpoints_table)
            while True:
                self._refresh(positions_topic(self.flow), self._positions_table)
                self._parse()
                is_behind = any(
                    checkpoint[:2] > self.positions[partition].checkpoint[:2]
                    for partition, checkpoint in self.checkpoints.items()
                    if partition in self.positions
                )
                if not is_behind or time.monotonic() > deadline:
                    return
                self._target.sleep(VISIBLE_POLL_SECONDS)

    def _refresh(self, name: str, table: Table) -> None:
        if topic := self._target.topics([name]).get(name):
            table.refresh(topic.topic_partitions)

    def _parse(self) -> None:
        for key, row in self._positions_table.rows.items():
            if not is_engine_key(key):
                continue
            if holder := parse_holder(key, row.value):
                self.holder = holder
            elif status := parse_status(key, row.value):
                self.statuses[status[0]] = status[1]
            else:
                partition, position = parse_position(key, row.value)
                self.positions[partition] = position
        for key, row in self._checkpoints_table.rows.items():
            if not is_engine_key(key):
                continue
            partition, checkpoint = parse_checkpoint(key, row.value)
            newest = self.checkpoints.get(partition)
            if newest is None or newest[:2] < checkpoint[:2]:
                self.checkpoints[partition] = checkpoint

    def _read_attributes(self) -> None:
        """Note which records of MirrorMaker's topic of positions were written in transactions."""
        topic = self._target.topics([self.mirror_maker.topic]).get(self.mirror_maker.topic)
        if topic is None:
            return
        partitions = topic.topic_partitions
        starts, ends = offsets.log_starts(self._target, partitions), offsets.ends(self._target, partitions)
        for partition in partitions:
            start = max(starts[partition], self._read_to.get(partition, 0))
            for piece in read(self._target, Range(*partition, start, ends[partition]), whole_batches=True):
                for batch in piece.batches:
                    for offset, body in bodies(batch):
                        if start <= offset < ends[partition]:
                            self._transactional[key_and_value(body)[0] or b""] = batch.transactional
        self._read_to |= ends

    def stored(self, mirrored: Iterable[TopicPartition]) -> dict[TopicPartition, StoredState]:
        """Return what is stored of each partition that has a position, and of these."""
        positions, bindings = self.mirror_maker.stored, self.mirror_maker.bindings
        return {
            partition: StoredState(
                next=positions[partition].next if partition in positions else None,
                is_transactional=partition in positions
                and self._transactional.get(positions[partition].key, False),
                bound=bindings.get(partition),
                position=self.positions.get(partition),
                checkpoint=self.checkpoints.get(partition),
            )
            for partition in {*positions, *self.positions, *mirrored}
        }


class EngineSwitch:
    """The change of one flow's engine."""

    def __init__(self, order: SwitchOrder, source: Client, target: Client) -> None:
        self._order = order
        self._source = source
        self._target = target
        self._state = EngineState(order.flow, target)
        self._mirror_maker = MirrorReader(order.flow, source, target)
        self._batches = BatchesReader(order.flow, order.topics.pattern, source, target)

    def plan(self) -> SwitchPlan:
        """Plan the change by what is stored now.

        Refused if no engine has positions of the flow, and the target has records.
        """
        self._state.refresh()
        holder = self._state.engine
        if holder == self._order.to:
            return SwitchPlan(flow=self._order.flow, to=self._order.to, holder=holder)
        with answering(self._source.end.bootstrap_servers):
            topics = self._source.topics()
        mirrored = frozenset(self._order.topics.targets(topics))
        stored = self._state.stored(p for name in mirrored for p in topics[name].topic_partitions)
        ends = self._ends(stored, topics)
        if holder is None:
            self._check_new(ends)
        with answering(self._target.end.bootstrap_servers):
            syncs = self._state.mirror_maker.sync_end()
        return plan(self._order.flow, self._order.to, holder, stored, ends, mirrored=mirrored, syncs=syncs)

    def _check_new(self, ends: Mapping[TopicPartition, Ends]) -> None:
        """Check that a flow that no engine has positions of has mirrored nothing; else Refused."""
        if written := sorted(p for p, of in ends.items() if of.target and of.target.end):
            raise Refused(
                "mirror-state-missing",
                f"The target has no position of the flow {self._order.flow}, but has records of "
                f"{some(written)}. Nothing was moved. If the flow mirrored these records, restore its "
                "positions topic. Otherwise, set the former engine of the flow, and declare a flow with "
                "another name and naming: prefix.",
            )

    def run(self) -> SwitchPlan:
        """Move the positions, all or none; return what was moved. Refused, with nothing moved, or Failed."""
        if (first := self.plan()).is_made:
            return first
        self._await_workers()
        self._create_topics()
        with answering(self._target.end.bootstrap_servers):
            for transactional_id in self._producers(first.holder):
                self._fence(transactional_id)
            _, open_ = offsets.settled(self._target, self._state.partitions)
        if open_:
            raise Failed(
                "mirror-waits-for-transaction",
                f"Transactions are open in {some(sorted(open_))}, so it is unknown which positions are "
                "valid. Nothing was moved. Run aqueduct transactions find-hanging, and run the command "
                "again.",
            )
        last = self.plan()
        if last.is_made:
            return last
        if last.refused:
            raise Refused(
                "mirror-switch-refused",
                f"These positions of the flow {last.flow} cannot be moved from {last.holder} to {last.to}: "
                f"{some([str(of) for of in last.refused])}. Nothing was moved.",
            )
        return last if self._write(last) else self.plan()

    def _ends(
        self, stored: Mapping[TopicPartition, StoredState], topics: Mapping[str, Topic]
    ) -> dict[TopicPartition, Ends]:
        """Read both ends of these partitions."""
        prefix = self._order.topics.prefix
        with answering(self._source.end.bootstrap_servers):
            logs = source_logs(self._source, {p: self._expected(state) for p, state in stored.items()})
        names = {
            partition: TopicPartition(prefix + partition.topic, partition.partition) for partition in stored
        }
        with answering(self._target.end.bootstrap_servers):
            targets = self._target.topics({name.topic for name in names.values()})
            led = {partition for topic in targets.values() for partition in topic.led_partitions}
            asked = led.intersection(names.values())
            ends = offsets.ends(self._target, asked, "read_uncommitted")
            starts = offsets.log_starts(self._target, asked)
        return {
            partition: Ends(
                exists=partition.topic in topics,
                log=logs.get(partition),
                target=TargetLog(str(targets[name.topic].id), ends[name]) if name in asked else None,
                target_start=starts.get(name, 0),
            )
            for partition, name in names.items()
        }

    def _expected(self, state: StoredState) -> Binding | None:
        """Return topic, position and leader epoch that are compared with the source's log."""
        if self._order.to == BATCHES or state.position is None:
            return state.bound
        position = state.position
        return Binding(topic_id=position.topic_id, next=position.next, epoch=position.epoch)

    def _await_workers(self) -> None:
        """Wait until no worker of either engine runs; else Failed."""
        deadline = time.monotonic() + LEAVING_SECONDS
        while running := self._running():
            if time.monotonic() > deadline:
                raise Failed(
                    "mirror-workers-running",
                    f"Workers of the flow {self._order.flow} run: {running}. Nothing was moved. Stop "
                    f"mirror_maker@{self._order.flow} on every host, and run the command again.",
                )
            time.sleep(POLL_SECONDS)

    def _running(self) -> str:
        """Return which workers run, or that it is not known; empty: none does."""
        group = self._mirror_maker.workers()
        if group.state not in ("Empty", "Dead"):
            hosts = f"on {some(sorted(group.workers))}" if group.workers else f"({group.state})"
            return f"MirrorMaker 2 {hosts}"
        workers = self._batches.workers()
        if workers is None:
            return "it is unknown whether members of the group run the flow"
        if workers:
            return f"aqueduct replicate on {some([worker.host for worker in workers])}"
        self._state.refresh()
        now = time.time()
        taken = sorted({of.host for of in self._state.statuses.values() if of.is_taken(now)})
        return f"aqueduct replicate without --shared on {some(taken)}" if taken else ""

    def _create_topics(self) -> None:
        """Create the topics in which the next engine stores its positions, and wait until they exist."""
        if self._order.to == BATCHES:
            declared = [
                self._declared(name, self._order.tasks, STATE_CONFIG)
                for name in state_topics(self._order.flow)
            ]
        else:
            declared = [self._declared(self._state.mirror_maker.topic, OFFSETS_PARTITIONS, OFFSETS_CONFIG)]
        with answering(self._target.end.bootstrap_servers):
            existing = self._target.topics([topic.name for topic in declared])
            missing = tuple(topic for topic in declared if topic.name not in existing)
            if not missing:
                return
            refused = apply_accepted(self._target, TopicChanges(create=missing, grow={}, alter={}, unmet=()))
            deadline = time.monotonic() + TOPICS_SECONDS
            while not self._have_leaders([topic.name for topic in missing]):
                if refused or time.monotonic() > deadline:
                    raise Failed(
                        "topic-not-ready",
                        f"The {self._target.end} has no {some([topic.name for topic in missing])} with "
                        "leaders of all partitions: "
                        f"{'; '.join(refused.values()) or 'check that all brokers run'}. Nothing was moved.",
                    )
                self._target.sleep(POLL_SECONDS)

    def _declared(self, name: str, partitions: int, config: Mapping[str, str]) -> DeclaredTopic:
        return DeclaredTopic(
            name=name,
            partitions=partitions,
            replication_factor=self._order.replication_factor,
            config=dict(config),
        )

    def _have_leaders(self, names: Collection[str]) -> bool:
        topics = self._target.topics(names)
        return len(topics) == len(names) and all(
            len(topic.led_partitions) == len(topic.partitions) for topic in topics.values()
        )

    def _producers(self, engine: str | None) -> Iterator[str]:
        """Yield the transactional ids of the engine that has the flow."""
        if engine == MM2:
            _, _, tasks, _ = self._mirror_maker.state()
            for number in range(max(1, tasks.counts.get(SOURCE_CONNECTOR, 0))):
                # Connect's Worker.taskTransactionalId
                yield f"{self._order.flow}-mm2-{SOURCE_CONNECTOR}-{number}"
            return
        for number in range(self._tasks()):
            yield from (f"{task_id(self._order.flow, number)}-{letter}" for letter in "ab")

    def _tasks(self) -> int:
        name = positions_topic(self._order.flow)
        return len(self._target.topics([name])[name].partitions)

    def _fence(self, transactional_id: str) -> None:
        """Abort what a producer left open. If it still runs, it cannot write any more."""
        with closing(self._producer(transactional_id)) as producer:
            producer.init_transactions()

    def _producer(self, transactional_id: str) -> KafkaProducer:
        end = self._target.end
        settings: dict[str, Any] = {
            "bootstrap_servers": end.bootstrap_servers.split(","),
            "acks": "all",
            "enable_idempotence": True,
            "metrics_enabled": False,
            "kafka_client": addresses.client,
            "max_block_ms": SEND_SECONDS * 1000,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": TRANSACTION_SECONDS * 1000,
            **RECONNECT,
            **end.client_config.kafka_python(),
        }
        return KafkaProducer(**settings)

    def _write(self, last: SwitchPlan) -> bool:
        """Write the plan in one transaction; return False if another engine has the flow meanwhile.

        Two runs at once have the same transactional id: the first one is fenced, and nothing of it counts.
        """
        records = self._records(last)
        with (
            answering(self._target.end.bootstrap_servers),
            closing(self._producer(f"{CLIENT}-{self._order.flow}-switch")) as producer,
        ):
            producer.init_transactions()
            self._state.refresh()
            if self._state.engine != last.holder:
                return False
            if running := self._running():
                raise Failed(
                    "mirror-workers-running",
                    f"Workers of the flow {last.flow} were started during the run: {running}. Nothing was "
                    f"moved. Stop mirror_maker@{last.flow} on every host, and run the command again.",
                )
            producer.begin_transaction()
            sent = [
                producer.send(topic, key=key, value=value, partition=partition)
                for (topic, partition), some_records in records.items()
                for key, value in some_records
            ]
            producer.flush(SEND_SECONDS)
            for future in sent:
                future.get(SEND_SECONDS)
            producer.commit_transaction()
        return True

    def _records(self, last: SwitchPlan) -> dict[TopicPartition, list[PositionRecord]]:
        """Return the records of the transaction by the partition that they are written to."""
        records: dict[TopicPartition, list[PositionRecord]] = {}
        moves: dict[TopicPartition, int] = {}
        bindings: dict[TopicPartition, Binding] = {}
        flow, tasks = self._order.flow, self._tasks()
        for partition, moved in sorted(last.moved.items()):
            bindings[partition] = moved.bound
            task = task_of(partition, tasks)
            if isinstance(moved, PositionOfMirrorMaker):
                moves[partition] = moved.next
            else:
                _append(records, TopicPartition(positions_topic(flow), task), _positions(partition, moved))
                _append(
                    records, TopicPartition(checkpoints_topic(flow), task), _checkpoints(partition, moved)
                )
        for number, some_records in self._state.mirror_maker.records(moves, bindings).items():
            _append(records, TopicPartition(self._state.mirror_maker.topic, number), some_records)
        holder = holder_record(Holder(engine=last.to, time=timestamps.now()))
        for task in range(tasks):
            _append(records, TopicPartition(positions_topic(flow), task), [holder])
        return records


def _append(
    records: dict[TopicPartition, list[PositionRecord]],
    partition: TopicPartition,
    more: Iterable[PositionRecord],
) -> None:
    records.setdefault(partition, []).extend(more)


def _positions(partition: TopicPartition, moved: PositionOfBatches) -> list[PositionRecord]:
    return [position_record(partition, moved.position)]


def _checkpoints(partition: TopicPartition, moved: PositionOfBatches) -> list[PositionRecord]:
    return [checkpoint_record(partition, checkpoint) for checkpoint in moved.checkpoints]


def check_mirror_maker(flow: str, target: Client) -> None:
    """Check, before MirrorMaker 2 starts, that `batches` does not have the flow; else EngineDiffers."""
    name = positions_topic(flow)
    with answering(target.end.bootstrap_servers):
        topic = target.topics([name]).get(name)
        if topic is None:
            return
        table = Table(target, most_bytes=MOST_STATE_BYTES)
        table.refresh(topic.topic_partitions)
    holder: Holder | None = None
    positions: set[TopicPartition] = set()
    for key, row in table.rows.items():
        if not is_engine_key(key):
            continue
        if found := parse_holder(key, row.value):
            holder = found
        elif parse_status(key, row.value) is None:
            positions.add(parse_position(key, row.value)[0])
    check_holder(flow, holder_of(holder, positions, ()), MM2)
