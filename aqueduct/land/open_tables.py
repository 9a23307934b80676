"""Opens tables for runs that land nothing new, beside a lander: compaction and replay."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from aqueduct.errors import Failed
from aqueduct.land import iceberg_table, log
from aqueduct.land.catalogue import Catalogue
from aqueduct.land.declaration import LandTable
from aqueduct.land.order import LandOrder
from aqueduct.land.plan import next_schema
from aqueduct.land.table_log import TableLog
from aqueduct.store.objects import EditableObjects


class Done(Protocol):
    """What was done of a table."""

    landed: bool
    failed: Failed | None


Mine = TypeVar("Mine", bound=Done)


def opened(
    order: LandOrder, objects: EditableObjects, catalogue: Catalogue | None, outcomes: Sequence[Mine]
) -> list[tuple[LandTable, TableLog, Mine]]:
    """Follow the tables' logs; return those that may be changed, each with its log and what is done of it.

    Of the others that says why not: a log is damaged, or behind its Iceberg table. Refused if a table can't
    become what is declared.
    """
    logs = [TableLog(objects, table.full_name) for table in order.tables]
    states = [of_table.state for of_table in logs]
    # Before the logs are read, which have these commits, then.
    newest = catalogue.newest(zip(order.tables, states, strict=True)) if catalogue else {}
    for table, of_table, mine in zip(order.tables, logs, outcomes, strict=True):
        try:
            state = of_table.follow()
        except Failed as error:
            mine.failed = error
            continue
        mine.landed = bool(state.number)
        next_schema(state, log.definition(table, state.definition), table)
        if reason := iceberg_table.ahead(table, newest.get(table.full_name, 0), state):
            mine.failed = Failed("iceberg-table-ahead", f"{reason}.")
    return [followed for followed in zip(order.tables, logs, outcomes, strict=True) if not followed[2].failed]
