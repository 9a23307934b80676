"""Brings Hive's catalogue up to what tables' logs say: the logs are the truth, and the catalogue follows."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from aqueduct.common.wording import count
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.requests import in_lists
from aqueduct.land import hive_table
from aqueduct.land.declaration import LandTable, TableKind
from aqueduct.land.hive_table import FoundTable, HiveColumn, HiveTable
from aqueduct.land.log import State
from aqueduct.land.metastore import PARTITIONS, Away, Metastore

if TYPE_CHECKING:
    from aqueduct.land.iceberg import IcebergTables

# Until a metastore is asked again that was away, in times of what it was waited for: tables land meanwhile.
PAUSE = 4
COMPARE_SECONDS = 3600  # after which a table is read as a whole again: somebody may have changed it


@dataclass(frozen=True, kw_only=True)
class KnownTable:
    """A table that the catalogue has as it is wanted."""

    read: float  # when, by the monotonic clock
    wanted: HiveTable
    columns: tuple[HiveColumn, ...]  # more, if somebody added some
    partitions: frozenset[str]


class Catalogue:
    """Hive's catalogue, as far as tables land: read as a whole seldom, and else only changed."""

    def __init__(self, addresses: Sequence[tuple[str, int]], location: str) -> None:
        """Ask nothing yet; Refused if Hadoop has no such location."""
        self._metastore = Metastore(addresses)
        self._location = location
        self._at = hive_table.location(location)
        self._known: dict[str, KnownTable] = {}  # by full name
        self._away: Away | None = None
        self._again = 0.0  # by the monotonic clock: when to ask one again that is away

    def check(self, tables: Iterable[tuple[LandTable, State]]) -> None:
        """Refuse new tables if the catalogue has another one of their names, or of those beside them.

        A table that has landed lands on; of its catalogue, and of what the metastore doesn't tell now,
        follow() tells.
        """
        began = time.monotonic()
        for table, state in tables:
            if state.number:
                continue
            try:
                reason = self._another(table, state)
            except Away as error:
                self._rest(error, began)
                return
            except Failed:
                continue
            if reason:
                raise Refused("catalogue-table-exists", reason)

    def _another(self, table: LandTable, state: State) -> str | None:
        """Return why the catalogue has another table of one of the names; None if it has none."""
        if table.kind is TableKind.ICEBERG:
            return self._iceberg.check(table, state)
        for target in hive_table.tables(self._at, table, state):
            stored = self._find(target)
            if stored and (reason := hive_table.foreign(target, stored)):
                return self._taken(target, reason)
        return None

    def follow(
        self, tables: Iterable[tuple[LandTable, State]], *, drop: Callable[[str], bool] = lambda _: True
    ) -> dict[str, Failed]:
        """Bring the catalogue up to the logs of tables; return of which it stays behind, and why.

        It does what lacks, and may end anywhere: the next one does the rest. `drop`: whether partitions
        of a table go of which its log has no file, by its name; not if it got commits since that was read.
        """
        behind: dict[str, Failed] = {}
        for table, state in tables:
            if not state.number:
                continue
            began = time.monotonic()
            try:
                if table.kind is TableKind.ICEBERG:
                    self._iceberg.follow(table, state)
                    continue
                for target, partitions in self._wanted(table, state):
                    self._bring(target, partitions, partial(drop, table.full_name))
            except Failed as error:
                behind[table.full_name] = error
                if isinstance(error, Away):
                    self._rest(error, began)
        return behind

    def newest(self, tables: Iterable[tuple[LandTable, State]]) -> dict[str, int]:
        """Return which commit of its log is the newest in each Iceberg table of which that is told.

        A log that is read after it has that commit; else it is not the log of that table any more. Why
        nothing is told, follow() and lacks() say.
        """
        newest: dict[str, int] = {}
        for table, state in tables:
            if table.kind is TableKind.ICEBERG:
                began = time.monotonic()
                try:
                    newest[table.full_name] = self._iceberg.newest(table, state)
                except Failed as error:
                    if isinstance(error, Away):
                        self._rest(error, began)
        return newest

    def tidied(self, table: LandTable, state: State) -> Callable[[int, str], bool]:
        """Bring up a table of the kind iceberg, and expire all snapshots that may go; Failed if that fails.

        Return which files snapshots name still, by the number of the commit that removed each, and its path.
        """
        self._iceberg.follow(table, state, tidy=True)
        return self._iceberg.named(table, state)

    def lacks(self, table: LandTable, state: State) -> str:
        """Return what the catalogue lacks of a table, and nothing if it has all; change nothing."""
        began = time.monotonic()
        try:
            if table.kind is TableKind.ICEBERG:
                return self._iceberg.lacks(table, state)
            return self._lacks(table, state)
        except Failed as error:
            if isinstance(error, Away):
                self._rest(error, began)
            return str(error).rstrip(".")

    def _lacks(self, table: LandTable, state: State) -> str:
        for target, partitions in self._wanted(table, state):
            stored = self._find(target)
            if stored is None:
                return f"the table {target.full_name} does not exist" if state.number else ""
            if reason := hive_table.foreign(target, stored):
                return self._taken(target, reason).rstrip(".")
            if columns := hive_table.lacking(target, stored):
                return f"the table {target.full_name} lacks the columns {columns}"
            has = self._partitions(target, stored)
            if lacking := partitions - has:
                return f"the table {target.full_name} lacks {count(len(lacking), 'partition')}"
            if gone := has - partitions:
                return f"the table {target.full_name} has {count(len(gone), 'partition')} more than the log"
        return ""

    def _wanted(self, table: LandTable, state: State) -> Iterable[tuple[HiveTable, frozenset[str]]]:
        return zip(hive_table.tables(self._at, table, state), hive_table.partitions(state), strict=False)

    def _bring(self, target: HiveTable, partitions: frozenset[str], drop: Callable[[], bool]) -> None:
        cached = self._known.pop(target.full_name, None)  # until all is done: after a failure it is read anew
        if not cached or cached.wanted != target or cached.read + COMPARE_SECONDS < time.monotonic():
            cached = self._compare(target)
        elif cached.partitions != partitions:
            self._ours(target)  # which a silent metastore is asked in vain for a shorter time
        for some in in_lists(sorted(partitions - cached.partitions), PARTITIONS):
            self._awake.add(target, some, cached.columns)
        # What a reset took all rows of may have no folder any more, and a reader would fail there.
        gone = cached.partitions - partitions
        gone = gone if gone and drop() else frozenset()
        for some in in_lists(sorted(gone), PARTITIONS):
            self._awake.drop(target, some)
        self._known[target.full_name] = replace(cached, partitions=(cached.partitions | partitions) - gone)

    def _compare(self, target: HiveTable) -> KnownTable:
        """Read a table, and make it as it is wanted, but for its partitions."""
        read = time.monotonic()
        if self._find(target) is None:
            self._awake.create(target)
        stored = self._ours(target)
        columns = hive_table.merged(target, stored)
        if hive_table.differs(target, stored):
            # What a partition's files are read for are its own columns, not the table's.
            self._awake.change(target, columns, cascade=len(columns) > len(stored.columns))
        return KnownTable(
            read=read, wanted=target, columns=columns, partitions=self._partitions(target, stored)
        )

    def _ours(self, target: HiveTable) -> FoundTable:
        """Return the table as it is; Failed if it is gone, or another one."""
        if (stored := self._find(target)) is None:
            raise Failed(
                "catalogue-table-missing", f"{self._metastore} no longer has the table {target.full_name}."
            )
        if reason := hive_table.foreign(target, stored):
            raise Failed("catalogue-table-exists", self._taken(target, reason))
        return stored

    def _find(self, target: HiveTable) -> FoundTable | None:
        return self._awake.table(target.database, target.name)

    def _partitions(self, target: HiveTable, stored: FoundTable) -> frozenset[str]:
        return self._awake.partitions(target) if stored.partitions else frozenset()

    @cached_property
    def _iceberg(self) -> "IcebergTables":
        # Not at the top: it takes a second, which who has no such table need not wait.
        from aqueduct.land.iceberg import IcebergTables

        return IcebergTables(lambda: self._awake, self._location, COMPARE_SECONDS)

    @property
    def _awake(self) -> Metastore:
        """Return the metastore; raise its Away while it is let alone."""
        if self._away and time.monotonic() < self._again:
            raise self._away
        return self._metastore

    def _rest(self, error: Away, began: float) -> None:
        """Let a metastore alone that was asked in vain since then."""
        if error is not self._away:
            ended = time.monotonic()
            self._away, self._again = error, ended + PAUSE * (ended - began)

    def _taken(self, target: HiveTable, reason: str) -> str:
        return hive_table.taken(str(self._metastore), target.full_name, reason)
