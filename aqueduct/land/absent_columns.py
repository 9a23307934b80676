"""Columns that no record had so far: a misspelt path is NULL everywhere, and nothing else tells it."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from aqueduct.land.declaration import LandTable


@dataclass(frozen=True)
class UnseenColumn:
    """A column that is NULL in all rows that landed."""

    column: str
    origin: str  # its path in the record
    records: int  # that were looked at, since the process began


class Unseen:
    """The columns that were seen of tables while a process runs; what is missing is told once a table."""

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()
        self._seen: dict[str, set[str]] = {}
        self._told: set[str] = set()

    def add(self, table: LandTable, records: int, seen: Collection[str]) -> None:
        """Count records that landed, in which these columns were not NULL everywhere."""
        self._records[table.full_name] += records
        self._seen.setdefault(table.full_name, set()).update(seen)

    def tell(self, table: LandTable) -> Iterator[UnseenColumn]:
        """Yield the columns that no record had, the first time that there are records."""
        name = table.full_name
        if name in self._told or not self._records[name]:
            return
        self._told.add(name)
        for column in table.columns:
            if column.name not in self._seen[name]:
                yield UnseenColumn(column.name, column.origin, self._records[name])
