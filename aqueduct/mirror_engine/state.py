"""The state that a flow keeps at its target: positions, and checkpoints for the translation of offsets."""

import time
from collections.abc import Iterable, Iterator, Mapping

from aqueduct.kafka import offsets
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.produce import Ready
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.kafka.client import Client
from aqueduct.kafka.produce import Retry
from aqueduct.kafka.requests import in_lists
from aqueduct.kafka.table import Table, keys_and_values
from aqueduct.mirror_engine.position import (
    Checkpoint,
    Position,
    checkpoints_topic,
    parse_checkpoint,
    parse_position,
    positions_topic,
)
from aqueduct.names import TopicPartition
from aqueduct.ranges import Range

BATCH_BYTES = 500_000


class TaskState:
    """The committed positions and checkpoints of one task. `refresh` reads on from where it was."""

    def __init__(self, client: Client, flow: str, task: int) -> None:
        self.positions_partition = TopicPartition(positions_topic(flow), task)
        self.checkpoints_partition = TopicPartition(checkpoints_topic(flow), task)
        self._client = client
        self._table = Table(client)
        self._read_to = 0  # of the checkpoints
        self._newest: dict[TopicPartition, Checkpoint] = {}

    def refresh(self) -> None:
        """Read what was committed. Call it when no other process can write any more."""
        partitions = [self.positions_partition, self.checkpoints_partition]
        ends, open_ = offsets.settled(self._client, partitions)
        if open_:
            raise Retry(f"{min(open_)} has an open transaction")
        self._table.refresh([self.positions_partition])
        start = offsets.log_starts(self._client, partitions)[self.checkpoints_partition]
        stop = ends[self.checkpoints_partition]
        range_ = Range(*self.checkpoints_partition, min(stop, max(start, self._read_to)), stop)
        for _, records in keys_and_values(self._client, [range_]):
            for key, value in records:
                if key is not None and value is not None:
                    partition, _, checkpoint = parse_checkpoint(key, value)
                    self._newest[partition] = max(self._newest.get(partition, checkpoint), checkpoint)
        self._read_to = stop

    @property
    def positions(self) -> dict[TopicPartition, Position]:
        return dict(parse_position(key, row.value) for key, row in self._table.rows.items())

    @property
    def newest_checkpoints(self) -> Mapping[TopicPartition, Checkpoint]:
        """The newest checkpoint of each source partition."""
        return self._newest


def state_batches(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[Ready]:
    """Yield records of the flow's own topics as batches to produce."""
    now = int(time.time() * 1000)
    bodies = (body(key, value) for key, value in records)
    for some in in_lists(bodies, BATCH_BYTES, len):
        rows = [Record(now, number, encoded) for number, encoded in enumerate(some)]
        yield Ready(build(Records.listed(rows), codec="zstd"), len(rows), 0)
