"""How far tables have landed, against their topics."""

import time
from collections.abc import Mapping

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.client import Topic, connect
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable
from aqueduct.land.log import FILTERED, LATE, AddedFile, State, definition
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import LEADERLESS, LandedPartition, TableStatus, placed
from aqueduct.land.plan import absent
from aqueduct.land.table_log import TableLog
from aqueduct.land.task import CLIENT
from aqueduct.store.backends import open_editable


def status(order: LandOrder) -> list[TableStatus]:
    """Read the tables' logs, the topics' ends and the catalogue, if there is one; change nothing."""
    objects = open_editable(order.location)
    logs = [TableLog(objects, table.full_name) for table in order.tables]
    states = [of_table.read() for of_table in logs]
    catalogue = Catalogue(order.metastores, order.location) if order.metastores else None
    with connect(order.end, CLIENT) as client:
        topics = client.topics()
        reasons = {
            (name, topic_id): "its topic is gone" if name not in topics else "its topic was re-created"
            for state in states
            for name, topic_id in state.topic_ids.items()
            if name not in topics or str(topics[name].id) != topic_id
        }
        asked = {
            partition
            for state in states
            for name, topic_id in state.topic_ids.items()
            if (name, topic_id) not in reasons
            for partition in topics[name].led_partitions
        }
        ends = offsets.ends(client, asked)
    return [
        _status(table, of_table, state, ends=ends, reasons=reasons, topics=topics, catalogue=catalogue)
        for table, of_table, state in zip(order.tables, logs, states, strict=True)
    ]


def _status(
    table: LandTable,
    of_table: TableLog,
    state: State,
    *,
    ends: Mapping[TopicPartition, int],
    reasons: Mapping[tuple[str, str], str],
    topics: Mapping[str, Topic],
    catalogue: Catalogue | None,
) -> TableStatus:
    """Return the status of one table; `reasons`: why a topic of the state has no end, by its name and id."""
    staged, dead = of_table.staged_bytes(time.time())
    return TableStatus(
        table=of_table.table,
        commits=state.number,
        committed=of_table.newest.created if of_table.newest else None,
        files=len(state.live),
        rows=sum(file.rows for file in state.live.values()),
        bytes=sum(file.bytes for file in state.live.values()),
        late=_rows_beside(table, state, LATE, state.late),
        bad=sum(file.rows for file in state.bad.values()),
        compacted=state.compacted,
        partitions={
            (partition := TopicPartition(name, int(number))): LandedPartition(
                landed, ends.get(partition), reasons.get((name, state.topic_ids[name]), LEADERLESS)
            )
            for name, positions in state.positions.items()
            for number, landed in positions.items()
        },
        deleted=placed(state.deleted),
        unopened=placed(state.unopened),
        catalogue=catalogue.lacks(table, state) if catalogue else None,
        staged=staged,
        dead=dead,
        filtered=_rows_beside(table, state, FILTERED, state.filtered),
        left_out=absent(table, state, topics),
    )


def _rows_beside(table: LandTable, state: State, ending: str, files: Mapping[str, AddedFile]) -> int | None:
    """Return how many rows a table beside has; None: there is no such table."""
    if ending not in definition(table, state.definition).beside:
        return None
    return sum(file.rows for file in files.values())
