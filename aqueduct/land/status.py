"""How far tables have landed, against their topics."""

import time
from collections.abc import Mapping, Sequence, Set

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import offsets
from aqueduct.kafka.client import connect
from aqueduct.land import survey
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable
from aqueduct.land.log import FILTERED, LATE, AddedFile, State, definition
from aqueduct.land.order import LandOrder
from aqueduct.land.outcome import TableStatus, placed
from aqueduct.land.plan import SourceTopic, absent, epochs_to_ask, plan, progress
from aqueduct.land.table_log import TableLog
from aqueduct.land.task import CLIENT
from aqueduct.store.backends import open_editable


def status(order: LandOrder) -> list[TableStatus]:
    """Read the tables' logs, the topics' ends and the catalogue, if there is one; change nothing."""
    objects = open_editable(order.location)
    logs = [TableLog(objects, table.full_name) for table in order.tables]
    states = [log.read() for log in logs]
    catalogue = Catalogue(order.metastores, order.location) if order.metastores else None
    with connect(order.end, CLIENT) as client:
        topics = client.topics()
        names = [name for name in topics if any(table.takes(name) for table in order.tables)]
        taken = survey.source_topics(client, topics, names)
        mine = [[topic for topic in taken.values() if table.takes(topic.name)] for table in order.tables]
        epoch_ends = [
            offsets.ends_of_epochs(client, epochs_to_ask(state, of_table))
            for state, of_table in zip(states, mine, strict=True)
        ]
    return [
        _status(table, log, state, of_table, ends, every=topics.keys(), catalogue=catalogue)
        for table, log, state, of_table, ends in zip(
            order.tables, logs, states, mine, epoch_ends, strict=True
        )
    ]


def _status(
    table: LandTable,
    of_table: TableLog,
    state: State,
    topics: Sequence[SourceTopic],
    epoch_ends: Mapping[TopicPartition, int],
    *,
    every: Set[str],
    catalogue: Catalogue | None,
) -> TableStatus:
    """Return the status of one table. `topics`: those that it takes; `every`: the names of the cluster's."""
    skipped = plan(state, topics, every, stops={}, takes=table.takes, epoch_ends=epoch_ends).left_out
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
        partitions=progress(state, topics, epoch_ends, takes=table.takes),
        undeclared={
            TopicPartition(name, int(number)): landed
            for name, positions in state.positions.items()
            if not table.takes(name)
            for number, landed in positions.items()
        },
        deleted=placed(state.deleted),
        unopened=placed(state.unopened),
        catalogue=catalogue.lacks(table, state) if catalogue else None,
        staged=staged,
        dead=dead,
        filtered=_rows_beside(table, state, FILTERED, state.filtered),
        left_out=absent(table, state, every) + skipped,
    )


def _rows_beside(table: LandTable, state: State, ending: str, files: Mapping[str, AddedFile]) -> int | None:
    """Return how many rows a table beside has; None: there is no such table."""
    if ending not in definition(table, state.definition).beside:
        return None
    return sum(file.rows for file in files.values())
