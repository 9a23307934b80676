"""ORC files out of rows: one for each day among them and its late ones, and one for the bad ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyarrow import orc

from aqueduct.land import log, orc_times
from aqueduct.land.declaration import LandTable, TableKind
from aqueduct.land.rows import TableRows

FILE_BYTES = 64 << 20  # of rows in memory, which become files
STRIPE_BYTES = 64 << 20
# Of values that differ, at most, in a column of strings with a dictionary; by Arrow's default none has one.
DICTIONARY = 0.8
NONE = -(1 << 31) + 1  # of a day: before all that there are
NO_DAY = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True)
class OrcFile:
    """A file that is not written yet."""

    folder: str  # below the table's: day=2024-02-29, or none; of an Iceberg table _iceberg/data/...
    rows: int
    data: memoryview
    table: str | None = None  # None: the table itself; else the one beside it
    ending: str = log.ORC  # of its name


class RowBuffer:
    """Rows in memory, until there are enough for files."""

    def __init__(self, table: LandTable) -> None:
        self._table = table
        self._at = log.data_folder(table)
        self._rows: list[TableRows] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= FILE_BYTES

    def add(self, rows: TableRows) -> None:
        self._rows.append(rows)
        self._bytes += rows.table.nbytes + rows.bad.nbytes

    def files(self) -> Iterator[OrcFile]:
        """Yield the files of all rows, and have none any more."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        whole = pa.concat_tables([table_rows.table for table_rows in rows])
        for folder, part, late in self._folders(whole, rows):
            if part.num_rows:
                path = "/".join(filter(None, (self._at, folder)))
                yield OrcFile(
                    folder=path,
                    rows=part.num_rows,
                    data=orc_of(part, self._table.kind),
                    table=late,
                    ending=log.LATE if late else log.ORC,
                )
        bad = pa.concat_tables([table_rows.bad for table_rows in rows])
        if bad.num_rows:
            yield OrcFile(
                folder=self._at,
                rows=bad.num_rows,
                data=orc_of(bad, self._table.kind),
                table=self._table.bad,
                ending=log.BAD,
            )
        filtered = [table_rows.filtered for table_rows in rows if table_rows.filtered is not None]
        if self._table.filtered and sum(map(len, filtered)):
            left_out = pa.concat_tables(filtered)
            name = self._table.filtered.table
            yield OrcFile(
                folder=self._at,
                rows=left_out.num_rows,
                data=orc_of(left_out, self._table.kind),
                table=name,
                ending=log.FILTERED,
            )

    def _folders(
        self, whole: pa.Table, rows: Sequence[TableRows]
    ) -> Iterator[tuple[str, pa.Table, str | None]]:
        """Yield the rows of each folder, and the table of late ones if they are of that."""
        by, late = self._table.partitioned_by, self._table.late
        if by is None:
            yield "", whole, None
            return
        days = pa.chunked_array([table_rows.days for table_rows in rows], pa.date32()).combine_chunks()
        numbers = days.view(pa.int32()).fill_null(NONE).to_numpy()
        if late:
            are_late = np.concatenate([table_rows.late for table_rows in rows if table_rows.late is not None])
            numbers = 2 * numbers.astype(np.int64) + are_late
        order = np.argsort(numbers, kind="stable")  # in a day, rows stay as they came
        begins = np.flatnonzero(np.diff(numbers[order], prepend=2 * NONE - 1))
        whole = whole.take(pa.array(order)) if len(begins) > 1 else whole
        for begin, end in pairwise([*begins.tolist(), len(order)]):
            first = int(order[begin])
            day = days[first].as_py()
            folder = f"{by.name}={day.isoformat() if day else NO_DAY}"
            yield folder, whole[begin:end], late.table if late and numbers[first] % 2 else None


def orc_of(table: pa.Table, kind: TableKind) -> memoryview:
    """Return the table as a file of ORC; Unwritable if readers would find other times in it."""
    iceberg = kind is TableKind.ICEBERG
    orc_times.check(table, iceberg=iceberg)
    sink = pa.BufferOutputStream()
    with orc_writer(sink) as writer:
        writer.write(table)
    encoded = memoryview(sink.getvalue()).cast("B")
    early = orc_times.has_early_fractions(table)
    return memoryview(b"".join(orc_times.readable(encoded, early_fractions=early, iceberg=iceberg)))


def orc_writer(sink: pa.NativeFile) -> orc.ORCWriter:
    return orc.ORCWriter(
        sink, compression="zstd", stripe_size=STRIPE_BYTES, dictionary_key_size_threshold=DICTIONARY
    )
