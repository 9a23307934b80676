"""Lands tables in whose rows Spark's SQL has a part.

A share is one task of Spark, as it is without SQL: Python reads its records as rows, SQL computes columns and
the condition beside them, and Python stages what they come to. What else the reader has to tell goes along
with the rows.
"""

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD
from pyspark.errors import AnalysisException, ParseException
from pyspark.serializers import UTF8Deserializer
from pyspark.sql import Column as SqlColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, struct
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from aqueduct.common import strict_json
from aqueduct.common.job_files import JobFiles
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.kafka.batches.varints import Mask
from aqueduct.land import orc_times, rows, times, types
from aqueduct.land.declaration import Column, LandTable
from aqueduct.land.registry import RegistryAway
from aqueduct.land.rows import TableRows
from aqueduct.land.task import LandedShare, LandShare, ShareWriter, read_share
from aqueduct.land.text_conversion import mask
from aqueduct.work import environment, results, spark_errors
from aqueduct.work.progress import Size
from aqueduct.work.spark import Application, Tick

# No column has such a name.
KEY, VALUE, NOTE, WHERE, COMPUTED = "$key", "$value", "$note", "$where", "$computed."
RESULT = "result"  # the column of what a share came to
ZONE = "UTC"  # of times in expressions
# Of the session of these queries alone. ANSI: what can't be computed is an error, and no NULL. A value that
# two expressions share would be computed outside of what catches its errors.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": ZONE,
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),  # to Python at once
}
# Of a plan that looks at several rows at once, or makes several of one.
STEP = re.compile(r"^\W*(?:\(\d+\) )?(\w+)", re.MULTILINE)
MANY_ROWS = ("Exchange", "Window", "Generate", "Subquery", "Aggregate")


@dataclass(frozen=True)
class _ResultRow:
    """The row of a share's result."""

    result: str


@dataclass(frozen=True)
class BadRecords:
    """The records that the reader could make no rows of."""

    table: pa.Table


def check(application: Application, table: LandTable) -> None:
    """Refused if expressions of a table can't be computed for every row by itself."""

    def analysed(session: SparkSession, _: JobFiles, __: Tick) -> None:
        nothing = (f"cast(null as {type_}) as `{name}`" for name, type_ in _input(table).items())
        _computed(session.range(1).selectExpr(*nothing), table)

    application.query(analysed, SETTINGS)


def land(application: Application, shares: Sequence[LandShare], size: Size[LandShare]) -> list[LandedShare]:
    """Land shares of one table, each in a task of its own."""
    table = shares[0].table

    def landed(session: SparkSession, files: JobFiles, tick: Tick) -> list[bytes]:
        numbers = session.range(0, len(shares), 1, len(shares))
        read = partial(_read, shares, environment.OWN_CODE, files)
        computed = _computed(_mapped(numbers, read, _input(table)), table)
        write = partial(_write, shares, files, tick)
        written = _mapped(computed, write, {RESULT: "string"})
        # As JSON, because `DataFrame.collect` unpickles rows.
        as_they_are = UTF8Deserializer(use_unicode=False)  # type: ignore[no-untyped-call]
        return RDD(written._jdf.toJSON().toJavaRDD(), session.sparkContext, as_they_are).collect()

    result_rows = application.query(landed, SETTINGS, shares, size)
    return application.read(LandedShare, [_unwrapped(row) for row in result_rows], len(shares))


def _unwrapped(row: bytes) -> bytes:
    """Return the result in a row; nothing, which is none, if it has no other form."""
    try:
        return strict_json.loads(_ResultRow, row).result.encode()
    except strict_json.Unreadable:
        return b""


def _mapped(frame: DataFrame, function: Callable[..., Any], schema: Mapping[str, str]) -> DataFrame:
    """`DataFrame.mapInArrow`, which asks for pandas and makes no use of it."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    ddl = ", ".join(f"`{name}` {type_}" for name, type_ in schema.items())
    of = UserDefinedFunction(function, returnType=StructType.fromDDL(ddl), evalType=kind)
    columns = [col(f"`{name}`") for name in frame.columns]
    mapped = frame._jdf.mapInArrow(of(*columns)._jc, False, None)
    return type(frame)(mapped, frame.sparkSession)


def _plain(table: LandTable) -> LandTable:
    """Return the table without what SQL makes of it, which is what expressions are over."""
    columns = tuple(column for column in table.columns if not column.expression)
    return replace(table, columns=columns, partitioned_by=None, late=None, filtered=None)


def _input(table: LandTable) -> dict[str, str]:
    """Return the columns that SQL is given, and their types."""
    own = {field.name: types.hive(field.type) for field in rows.schema(_plain(table))}
    return {**own, KEY: "binary", VALUE: "binary", NOTE: "binary"}


def _computed(frame: DataFrame, table: LandTable) -> DataFrame:
    """Add what SQL computes, each value in a struct, which is NULL where it can't be computed."""
    where = f"{table.full_name}.sql"
    added = {
        f"{COMPUTED}{column.name}": _tried(
            frame, str(column.expression), types.hive(column.type), f"{where}.columns: {column.name}"
        )
        for column in _derived(table)
    }
    if table.filtered:
        added[WHERE] = _tried(frame, table.filtered.where, "boolean", f"{where}.where")
    try:
        computed = frame.withColumns(added)
        plan = computed._jdf.queryExecution().executedPlan().toString()
    except AnalysisException as error:
        raise Refused("landing-sql-invalid", f"{where}: {_said(error)}") from None
    if several := [step for step in STEP.findall(plan) if step.startswith(MANY_ROWS)]:
        raise Refused(
            "landing-sql-invalid",
            f"{where}: an expression needs more than one row ({several[0]}); write an expression that uses "
            "only the columns of one row.",
        )
    return computed


def _tried(frame: DataFrame, expression: str, type_: str, where: str) -> SqlColumn:
    """Return a column of an expression of that type; Refused if it has another one, or is none."""
    try:
        analysed: Any = frame.select(struct(expr(expression).alias("v"))).schema[0].dataType
    except (AnalysisException, ParseException) as error:
        raise Refused("landing-sql-invalid", f"{where}: {_said(error)}") from None
    own_type = analysed.fields[0].dataType
    declared_type = frame.selectExpr(f"cast(null as {type_}) as v").schema[0].dataType
    jvm: Any = frame.sparkSession._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    if not catalyst.Cast.canUpCast(parse(own_type.json()), parse(declared_type.json())):
        has = own_type.simpleString()
        raise Refused(
            "landing-sql-invalid",
            f"{where}: the expression has the type {has}, not {type_}; write cast({expression} as {type_}).",
        )
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    value = utils.expression(struct(expr(expression).cast(type_).alias("v"))._jc)
    return SqlColumn(utils.column(catalyst.TryEval(value)))


def _said(error: AnalysisException | ParseException) -> str:
    """Return Spark's sentence without its plan."""
    first = next(filter(None, str(error).splitlines()), "Spark cannot parse the expression")
    return first.partition(" SQLSTATE")[0].rstrip(" .;") + "."


def _derived(table: LandTable) -> tuple[Column, ...]:
    return tuple(column for column in table.columns if column.expression)


# In a task


def _read(
    shares: Sequence[LandShare], code: str, files: JobFiles, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield a share's rows as SQL is given them; its number comes before them, and what it did after them."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            share = shares[number]
            base = _plain(share.table)
            schema = rows.schema(base)
            yield from _noted(schema, number)
            try:
                if code != environment.OWN_CODE:
                    raise Failed("spark-environment-mismatch", spark_errors.OTHER_VERSION)
                files.unpack()
                yield from _rows_of(replace(share, table=base))
            except AqueductError as error:
                yield from _noted(schema, error)


def _rows_of(share: LandShare) -> Iterator[pa.RecordBatch]:
    landed = LandedShare(table=share.table.full_name, files=[], read=[])
    schema = rows.schema(share.table)
    try:
        for records, table_rows in read_share(share, landed):
            landed.tombstones += table_rows.tombstones
            if table_rows.bad.num_rows:
                yield from _noted(schema, BadRecords(table_rows.bad))
            indices = pa.array(
                np.searchsorted(records.offsets, table_rows.table.column("k_offset").to_numpy())
            )
            others = [
                records.keys.take(indices),
                records.values.take(indices),
                pa.nulls(len(indices), pa.binary()),
            ]
            yield from _batches(table_rows.table, schema, others)
    except RegistryAway as error:
        landed.failed = str(error)
    yield from _noted(schema, landed)


def _noted(schema: pa.Schema, note: object) -> Iterator[pa.RecordBatch]:
    """Yield a row with a note and nothing else."""
    empty = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    nothing = pa.nulls(1, pa.binary())
    yield from _batches(empty, schema, [nothing, nothing, pa.array([pickle.dumps(note)], pa.binary())])


def _batches(table: pa.Table, schema: pa.Schema, others: list[pa.Array]) -> Iterator[pa.RecordBatch]:
    whole = pa.table(
        [*(_zoned(column, ZONE) for column in table.columns), *others],
        names=[*schema.names, KEY, VALUE, NOTE],
    )
    yield from whole.combine_chunks().to_batches()


def _zoned(values: pa.ChunkedArray | pa.Array, zone: str | None) -> pa.ChunkedArray | pa.Array:
    """Return times with the zone that Spark's have, or without one, as ours; others as they are."""
    if pa.types.is_timestamp(types.scalar_of(values.type)):
        timed = pa.timestamp("us", zone)
        return values.cast(pa.list_(timed) if pa.types.is_list(values.type) else timed)
    return values


def _write(
    shares: Sequence[LandShare], files: JobFiles, tick: Tick, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage the rows of shares, one after another; yield what was done.

    The process is another one than that of `_read`.
    """
    writer: ShareWriter | None = None
    try:
        files.unpack()
        for batch in batches:
            notes = batch.column(batch.schema.get_field_index(NOTE))
            for begin, stop, note in _parts(notes):
                if writer is not None and begin < stop:
                    writer.add(_landed(writer.share.table, batch.slice(begin, stop - begin)))
                if note is None:
                    continue
                message = pickle.loads(note)  # noqa: S301  of `_read`, in the same task
                if isinstance(message, int):
                    writer = ShareWriter(shares[message])
                elif isinstance(message, AqueductError):
                    yield _result(message)
                elif writer is not None and isinstance(message, BadRecords):
                    writer.add(_only_bad(writer.share.table, message.table))
                elif writer is not None:
                    yield _result(writer.end(message))
                    tick(len(writer.share))
    except AqueductError as error:
        yield _result(error)


def _parts(notes: pa.Array) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield where rows are between notes, and the note after them."""
    begin = 0
    for index in np.flatnonzero(notes.is_valid().to_numpy(zero_copy_only=False)).tolist():
        yield begin, index, notes[index].as_py()
        begin = index + 1
    yield begin, len(notes), None


def _result(outcome: LandedShare | AqueductError) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([results.dumps(LandedShare, outcome).decode()])], [RESULT])


def _landed(table: LandTable, batch: pa.RecordBatch) -> TableRows:
    """Return the rows that land, those that are left out, and those for which SQL failed."""
    column_by_name = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    reason_by_row: dict[int, str] = {}
    out = np.zeros(batch.num_rows, np.bool_)
    if table.filtered:
        where = column_by_name[WHERE]
        _fault(
            reason_by_row, mask(where.is_null()), f"the condition cannot be evaluated: {table.filtered.where}"
        )
        out = mask(where.is_valid()) & ~mask(pc.struct_field(where, "v").fill_null(False))
    schema = rows.schema(table)
    values = {name: _zoned(column_by_name[name], None) for name in schema.names if name in column_by_name}
    for column in _derived(table):
        value = column_by_name[f"{COMPUTED}{column.name}"]
        computed = _zoned(pc.struct_field(value, "v"), None)
        beyond = times.beyond_years(computed)
        _fault(
            reason_by_row,
            mask(value.is_null()) & ~out,
            f"{column.name} cannot be computed: {column.expression}",
        )
        _fault(reason_by_row, beyond & ~out, f"{column.name} is outside of the years 1 to 9999")
        for reason, unwritable in orc_times.unwritable_rows(computed, iceberg=False).items():
            _fault(reason_by_row, unwritable & ~out, f"{column.name} {reason}")
            beyond |= unwritable
        if beyond.any():
            computed = pc.if_else(pa.array(beyond), pa.scalar(None, computed.type), computed)
        values[column.name] = computed
    whole = pa.table([values[field.name].cast(field.type) for field in schema], schema=schema)
    fits = ~out
    fits[list(reason_by_row)] = False
    days = rows.days_of(table, whole, fits, reason_by_row)
    kept = pa.array(fits)
    landed, days = whole.filter(kept), None if days is None else days.filter(kept)
    return TableRows(
        table=landed,
        days=days,
        bad=_bad(whole, column_by_name, reason_by_row),
        tombstones=0,
        late=rows.late_of(table, landed, days),
        filtered=whole.select([field.name for field in rows.OWN]).filter(pa.array(out)),
    )


def _bad(
    whole: pa.Table, column_by_name: Mapping[str, pa.Array], reason_by_row: Mapping[int, str]
) -> pa.Table:
    chosen = pa.array(sorted(reason_by_row), pa.int64())
    own = whole.select([field.name for field in rows.OWN]).take(chosen)
    errors = pa.array([reason_by_row[row] for row in sorted(reason_by_row)], pa.string())
    return pa.table(
        [*own.columns, errors, *(column_by_name[name].take(chosen) for name in (VALUE, KEY))], rows.BAD
    )


def _fault(reason_by_row: dict[int, str], wrong: Mask, reason: str) -> None:
    """Note why rows are bad, where nothing is noted yet."""
    for row in np.flatnonzero(wrong).tolist():
        reason_by_row.setdefault(row, reason)


def _only_bad(table: LandTable, bad: pa.Table) -> TableRows:
    none = rows.schema(table).empty_table()
    days = rows.days_of(table, none, np.zeros(0, np.bool_), {})
    return TableRows(table=none, days=days, bad=bad, tombstones=0, late=rows.late_of(table, none, days))
