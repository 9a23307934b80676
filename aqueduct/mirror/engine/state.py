"""The state that a flow keeps at its target: positions, and checkpoints for the translation of offsets."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from aqueduct.common import timestamps
from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client import Client
from aqueduct.kafka.compacted_topics import keys_and_values
from aqueduct.kafka.produce import Retry
from aqueduct.kafka.requests import in_lists
from aqueduct.mirror.engine.names import positions_topic, state_topics
from aqueduct.mirror.engine.position import (
    Checkpoint,
    Holder,
    Position,
    TaskStatus,
    UnreadablePosition,
    is_engine_key,
    parse_checkpoint,
    parse_checkpoint_key,
    parse_holder,
    parse_position,
    parse_status,
)

BATCH_BYTES = 500_000


class FlowState:
    """The committed positions and checkpoints of some tasks. `refresh` reads on from where it was.

    `unreadable`, if given, gets the tasks with records that cannot be read, each with the last error.
    """

    def __init__(
        self,
        client: Client,
        flow: str,
        tasks: Iterable[int],
        unreadable: dict[int, UnreadablePosition] | None = None,
    ) -> None:
        self.positions: dict[TopicPartition, Position] = {}
        # Of each source partition, in the order of generations and offsets.
        self.checkpoints: dict[TopicPartition, deque[Checkpoint]] = {}
        self.tasks: dict[TopicPartition, int] = {}  # in whose partition a position is
        self.statuses: dict[int, TaskStatus] = {}  # the last of each task
        self.holder: Holder | None = None  # None: the flow's engine was never changed
        self._unreadable = unreadable
        self._client = client
        self._positions_topic = positions_topic(flow)
        self._partitions = [TopicPartition(topic, task) for task in tasks for topic in state_topics(flow)]
        self._next: dict[TopicPartition, int] = {}

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Return the offset up to which each partition was read."""
        return self._next

    def forget(self) -> None:
        """Forget what was read: a partition lost its end. `refresh` then reads all of it again."""
        for read in (self.positions, self.checkpoints, self.tasks, self.statuses, self._next):
            read.clear()
        self.holder = None

    def settle(self) -> None:
        """Wait until no transaction is open. Call it when no other process can begin one."""
        _, open_ = offsets.settled(self._client, self._partitions)
        if open_:
            raise Retry(f"{min(open_)} has an open transaction")

    def refresh(self) -> None:
        """Read what was committed since the last time."""
        starts = offsets.log_starts(self._client, self._partitions)
        ends = offsets.ends(self._client, self._partitions)
        if any(end < self._next.get(partition, 0) for partition, end in ends.items()):
            self.forget()
        ranges = [
            Range(*partition, max(starts[partition], self._next.get(partition, 0)), ends[partition])
            for partition in self._partitions
        ]
        for range_, records in keys_and_values(self._client, ranges):
            for key, value in records:
                try:
                    self._read(range_, key or b"", value)
                except UnreadablePosition as error:
                    if self._unreadable is None:
                        raise
                    self._unreadable[range_.partition] = error
        self._next |= ends

    def _read(self, range_: Range, key: bytes, value: bytes | None) -> None:
        if not is_engine_key(key):
            return
        if range_.topic == self._positions_topic:
            self._position(range_.partition, key, value)
        else:
            self._checkpoint(key, value)

    def _position(self, task: int, key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        if holder := parse_holder(key, value):
            self.holder = holder
            return
        if parsed := parse_status(key, value):
            self.statuses[parsed[0]] = parsed[1]
            return
        partition, position = parse_position(key, value)
        self.positions[partition] = position
        self.tasks[partition] = task

    def _checkpoint(self, key: bytes, value: bytes | None) -> None:
        if value is not None:
            partition, checkpoint = parse_checkpoint(key, value)
            self.checkpoints.setdefault(partition, deque()).append(checkpoint)
            return
        partition, generation, source = parse_checkpoint_key(key)
        checkpoints = self.checkpoints.get(partition, deque())
        while checkpoints and checkpoints[0][:2] <= (generation, source):  # they are deleted in their order
            checkpoints.popleft()


def state_batches(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[Ready]:
    """Yield records of the flow's own topics as batches to produce."""
    now = timestamps.now()
    bodies = (body(key, value) for key, value in records)
    for some in in_lists(bodies, BATCH_BYTES, len):
        rows = [Record(now, number, encoded) for number, encoded in enumerate(some)]
        yield Ready(build(Records.listed(rows), codec="zstd"), len(rows), 0)
