"""Builder of export files from rows. A complete, compressed file is in memory before it is written."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyarrow import parquet

from aqueduct.snapshots.export import avro
from aqueduct.snapshots.export.order import FileFormat

FILE_BYTES = 64 << 20  # minimum size of a file, except for the last one of a partition
GROUP_BYTES = 32 << 20  # of rows in memory before they become a row group


@dataclass(frozen=True, kw_only=True)
class MadeFile:
    """A file that is complete in memory, and not yet written."""

    first: int  # offsets of its rows
    last: int
    records: int
    data: memoryview


class FileMaker:
    """The builder of files with the same columns. Call `add` for each table in order, then `end`."""

    def __init__(self, format_: FileFormat, schema: pa.Schema, offset: str, name: bytes) -> None:
        """Store the settings. `offset` is the column with offsets; `name` makes the Avro markers unique."""
        self._format = format_
        self._schema = schema
        self._offset = offset
        self._name = name[: avro.SYNC_BYTES]
        self._file: _File | None = None

    def add(self, table: pa.Table) -> Iterator[MadeFile]:
        """Add rows; yield the file if it is now full."""
        if not table.num_rows:
            return
        offsets = table.column(self._offset)
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        if self._file is None:
            self._file = _KINDS[self._format](self._schema, self._name)
            self._first, self._records = first, 0
        self._file.add(table)
        self._records += table.num_rows
        self._last = last
        if self._file.size >= FILE_BYTES:
            yield from self.end()

    def end(self) -> Iterator[MadeFile]:
        """Yield the last file, if it has rows."""
        if self._file is not None:
            content = self._file.end()
            self._file = None
            yield MadeFile(first=self._first, last=self._last, records=self._records, data=content)


def empty(format_: FileFormat, schema: pa.Schema, name: bytes) -> memoryview:
    """Return a file that has columns, but no rows."""
    return _KINDS[format_](schema, name[: avro.SYNC_BYTES]).end()


class _File(Protocol):
    @property
    def size(self) -> int:
        """Bytes that were written so far."""

    def add(self, table: pa.Table) -> None: ...

    def end(self) -> memoryview: ...


class _Parquet:
    def __init__(self, schema: pa.Schema, _: bytes) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = parquet.ParquetWriter(self._sink, schema, compression="zstd")
        self._rows: list[pa.Table] = []
        self._bytes = 0

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def add(self, table: pa.Table) -> None:
        self._rows.append(table)
        self._bytes += table.nbytes
        if self._bytes >= GROUP_BYTES:
            self._group()

    def end(self) -> memoryview:
        self._group()
        self._writer.close()
        return memoryview(self._sink.getvalue()).cast("B")

    def _group(self) -> None:
        if self._rows:
            whole = pa.concat_tables(self._rows)
            self._writer.write_table(whole, row_group_size=whole.num_rows)
            self._rows, self._bytes = [], 0


class _Avro:
    def __init__(self, schema: pa.Schema, name: bytes) -> None:
        self._sync = name
        self._sink = pa.BufferOutputStream()
        self._sink.write(avro.header(schema, name))

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def add(self, table: pa.Table) -> None:
        for block in avro.blocks(table, self._sync):
            self._sink.write(block)

    def end(self) -> memoryview:
        return memoryview(self._sink.getvalue()).cast("B")


_KINDS: Mapping[FileFormat, Callable[[pa.Schema, bytes], _File]] = {
    FileFormat.PARQUET: _Parquet,
    FileFormat.AVRO: _Avro,
}
