"""How tables that landed look as Iceberg tables, and what such a table lacks of its log."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date

from aqueduct.common.wording import some
from aqueduct.land import hive_table, log
from aqueduct.land.declaration import LandTable
from aqueduct.land.files import NO_DAY
from aqueduct.land.hive_table import HiveColumn, HiveTable, Reading
from aqueduct.land.log import AddedFile, State

# As Iceberg's own writers say it: Hive reads such a table by a storage handler, or not at all.
READING = Reading(
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    "org.apache.hadoop.mapred.FileInputFormat",
    "org.apache.hadoop.mapred.FileOutputFormat",
)
IDENTITY = "identity"  # Iceberg's name of a partition by a column's values
DAY = "date"  # the type of a partition's column, which is NULL for a row without a day
HIVE_TYPES = {"tinyint": "int", "smallint": "int"}  # which Iceberg has not
COMMIT, POSITIONS = "aqueduct.commit", "aqueduct.positions"  # properties of a snapshot
# Of one that was made while the clock was behind the table's last time, which it repeats: milliseconds by it.
CLOCK = "aqueduct.clock"
POSITIONS_LENGTH = 4000  # letters at most: the table's metadata repeats those of each snapshot
EXPIRE_LATER = 1.1  # times the age from which on a round expires snapshots: some at once
EPOCH = date(1970, 1, 1)
OWN_PROPERTIES = {
    # What readers of the folder pass over.
    "write.format.default": "orc",
    # The log says which files go, and when: no other one removes some.
    "gc.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest-merge.enabled": "true",
}


@dataclass(frozen=True)
class IcebergTable:
    """A table of a log, as it is to be."""

    hive: HiveTable  # whose last column is the day, if it has one
    day: str | None  # the name of the column of folders
    files: Mapping[str, AddedFile]  # live ones, by their path

    @property
    def full_name(self) -> str:
        return self.hive.full_name

    @property
    def properties(self) -> dict[str, str]:
        """Those of the Iceberg table itself."""
        metadata = f"{self.hive.location}/{log.METADATA}"
        return {**self.hive.properties, **OWN_PROPERTIES, "write.metadata.path": metadata}

    def place(self, path: str) -> str:
        """Return where a file is."""
        return f"{self.hive.location}/{path}"

    def path(self, location: str) -> str:
        """Return a file's path, by where it is."""
        return location.removeprefix(f"{self.hive.location}/")


@dataclass(frozen=True)
class Change:
    """What a table lacks of its log."""

    added: tuple[AddedFile, ...]
    removed: frozenset[str]  # paths

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def joined(self, rows: int) -> tuple[AddedFile, ...]:
        """Return the added files that are the removed ones, joined, where no commit took rows since.

        Nothing if they have rows of others, too, which the table has not yet. `rows`: of the removed ones.
        """
        joined = tuple(file for file in self.added if log.COMPACTED in file.path.rpartition("/")[2])
        return joined if sum(file.rows for file in joined) == rows else ()


def tables(location: str, table: LandTable, state: State) -> tuple[IcebergTable, ...]:
    """Return a table, its bad table, and that of its late rows if it has one, as they were committed.

    `location`: of hive_table.location().
    """
    hive_tables = hive_table.tables(location, table, state)
    return tuple(map(_of, hive_tables, (state.live, state.bad, state.late)))


def _of(hive: HiveTable, files: Mapping[str, AddedFile]) -> IcebergTable:
    columns = [replace(column, type=_type(column.type)) for column in hive.columns]
    if hive.partition:
        columns.append(replace(hive.partition, type=DAY))
    properties = {**hive.properties, hive_table.TABLE_TYPE: hive_table.ICEBERG}
    as_iceberg = replace(hive, columns=tuple(columns), partition=None, properties=properties, reading=READING)
    return IcebergTable(as_iceberg, hive.partition.name if hive.partition else None, files)


def _type(hive: str) -> str:
    if hive.startswith("array<"):
        return f"array<{_type(hive[6:-1])}>"
    return HIVE_TYPES.get(hive, hive)


def day(path: str) -> int | None:
    """Return a file's day, since 1970; None if its rows have none."""
    value = hive_table.value(path.split("/")[-2])
    return None if value == NO_DAY else (date.fromisoformat(value) - EPOCH).days


def change(target: IcebergTable, has: Collection[str]) -> Change:
    """Return what a table lacks that has these files, by their paths."""
    paths = set(has)
    return Change(
        tuple(file for path, file in target.files.items() if path not in paths),
        frozenset(paths - target.files.keys()),
    )


def lacking(target: HiveTable, has: Iterable[HiveColumn]) -> tuple[HiveColumn, ...]:
    """Return the columns that are new, or have another comment."""
    had = {column.name: column for column in has}
    return tuple(column for column in target.columns if had.get(column.name) != column)


def unfit(
    target: IcebergTable, has: Iterable[HiveColumn], partitions: Sequence[tuple[str, str]]
) -> str | None:
    """Return what about a table's columns can't become what is wanted; None if all can.

    `partitions`: by which columns it is partitioned, each with Iceberg's transform.
    """
    types = {column.name: column.type for column in has}
    for column in target.hive.columns:
        if types.get(column.name, column.type) != column.type:
            return f"its column {column.name} is of type {types[column.name]}, not {column.type}"
    by = [(target.day, IDENTITY)] if target.day else []
    if list(partitions) != by:
        return f"it is partitioned by {_said(partitions)}, not by {_said(by)}"
    return None


def _said(partitions: Iterable[tuple[str, str]]) -> str:
    return some(name if how == IDENTITY else f"{how} of {name}" for name, how in partitions) or "nothing"


def snapshot_properties(state: State) -> dict[str, str]:
    """Return what a snapshot says of the log; positions that are too long are in the commit's file alone."""
    positions = json.dumps(state.positions, separators=(",", ":"), sort_keys=True)
    short_positions = {POSITIONS: positions} if len(positions) <= POSITIONS_LENGTH else {}
    return {COMMIT: str(state.number), **short_positions}


def ahead(table: LandTable, newest: int, state: State) -> str:
    """Say that a table has a commit, its newest one, which its log has not, read after it; else nothing."""
    if newest <= state.number:
        return ""
    return (
        f"The Iceberg table {table.full_name} has commit {newest}, but its log ends at {state.number}. "
        f"Restore the commits after {state.number} in _land/commits from a copy. If no copy exists, rename "
        "the table in the metastore, copy the rows that you need from the renamed table before the next "
        "compaction, and run the command again"
    )


def began(stamps: Sequence[tuple[float, float]], now: float) -> list[float]:
    """Return when snapshots began, in their order, by their times, and what a clock said that was behind.

    A clock that was ahead leaves a time that is yet to come, and all after it repeat it.
    """
    begins: list[float] = []
    next_ = now
    for stamp, clock in reversed(stamps):
        next_ = next((moment for moment in (stamp, clock) if moment <= now), next_)
        begins.append(next_)
    return begins[::-1]


def expirable(begins: Sequence[tuple[int, float]], now: float, keep: float) -> list[int]:
    """Return which snapshots ended so many seconds ago, by their ids and beginnings in their order.

    One ends when the next begins; so what was the table at any time since then stays readable.
    """
    ends = (begin for _, begin in begins[1:])
    return [number for (number, _), end in zip(begins, ends, strict=False) if end < now - keep]


def beside(parents: Mapping[int, int | None], gone: Set[int], held: Set[int]) -> set[int]:
    """Return the snapshots whose manifests say which of those of the gone ones stay; by ids.

    `parents`: of all snapshots; `held`: those that tags and branches name. What two of them share, all
    between them have, through their parents; so one that stays and has it stands beside one that goes, or its
    own parent went earlier, or it is held and those after it went earlier.
    """
    stay = parents.keys() - gone
    first = {number for number in stay if parents[number] is None or parents[number] not in stay}
    return first | {parent for number in gone if (parent := parents[number]) in stay} | (held & stay)
