"""Columns of a table out of fields that were read: strict, and each record that does not fit is named."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.kafka.batches.varints import Mask
from aqueduct.land import times, types
from aqueduct.land.declaration import Column
from aqueduct.land.text_conversion import EMPTY_IS_NULL, are_text

NANOSECONDS = (
    "has nanoseconds, but a column has only microseconds; to cut the nanoseconds, declare nanoseconds: cut"
)
KAFKA_UNIT = "ms"  # of its own timestamps
_EXACT = Context(prec=types.DIGITS)


def json_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the fields of JSON that the columns need, with the types that JSON has for them."""
    root = _Node()
    for column in columns:
        if column.of_value:
            root.add(column.path, types.of_json(column.type, column.unit))
    return pa.schema(root.fields())


def text_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the fields of text that the columns need, with the types that they are read as first."""
    fields = {}
    for column in columns:
        if column.of_value:
            plain = column.type in (pa.string(), pa.binary())
            kept = None if plain else {EMPTY_IS_NULL: b""}
            name = column.path[0]
            fields[name] = pa.field(name, types.of_json(column.type, column.unit), metadata=kept)
    return pa.schema(list(fields.values()))


def fitted(
    fields: Mapping[str, pa.Array], columns: Sequence[Column], rows: int
) -> tuple[list[pa.Array], Mask, dict[int, str]]:
    """Return the columns' values of so many rows, which rows fit all of them, and why the others don't."""
    right = np.ones(rows, np.bool_)
    reason_by_row: dict[int, str] = {}
    values = []
    for column in columns:
        value, fits, reasons = fit(_at(fields, column.path), column)
        reason_by_row = reasons | reason_by_row
        right &= fits
        values.append(value)
    return values, right, reason_by_row


def fit(value: pa.Array, column: Column) -> tuple[pa.Array, Mask, dict[int, str]]:
    """Return a column's values, which of them fit, and why the others don't."""
    values, right = _fit(value, column)
    if right.all():
        return values, right, {}
    wrong = np.flatnonzero(~right)
    reason_by_row = dict.fromkeys(
        wrong.tolist(), f"{column.origin} is not a value of type {types.hive(column.type)}"
    )
    if types.scalar_of(column.type) == types.TIMESTAMP and not column.cuts_nanoseconds:
        _, cut = _fit(value, replace(column, cuts_nanoseconds=True))
        reason_by_row |= dict.fromkeys(wrong[cut[wrong]].tolist(), f"{column.origin} {NANOSECONDS}")
    return values, right, reason_by_row


@dataclass
class _Node:
    """A step of paths: a value, or an object with what is below."""

    type: pa.DataType | None = None
    below: dict[str, "_Node"] = field(default_factory=dict)

    def add(self, path: Sequence[str], type_: pa.DataType) -> None:
        node = self
        for step in path:
            node = node.below.setdefault(step, _Node())
        node.type = type_

    def fields(self) -> Iterator[pa.Field]:
        for name, node in self.below.items():
            yield pa.field(name, node.type or pa.struct(list(node.fields())))


def _at(fields: Mapping[str, pa.Array], path: Sequence[str]) -> pa.Array:
    """Return a path's values; null below what is null."""
    value = fields[path[0]]
    for step in path[1:]:
        value = pc.struct_field(value, value.type.get_field_index(step))
    return value


def _fit(value: pa.Array, column: Column) -> tuple[pa.Array, Mask]:
    if not pa.types.is_list(column.type):
        return _fit_scalar(value, column.type, column)
    items, fits = _fit_scalar(value.flatten(), column.type.value_type, column)
    result = pa.ListArray.from_arrays(_compact_offsets(value), items, mask=pc.is_null(value))
    right = np.ones(len(value), np.bool_)
    if not fits.all():
        parents = pc.list_parent_indices(value).to_numpy()
        right[parents[~fits]] = False
    return result, right


def _compact_offsets(value: pa.ListArray) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(value), 0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _fit_scalar(value: pa.Array, type_: pa.DataType, column: Column) -> tuple[pa.Array, Mask]:
    """Return values of the type, and which were right: one that does not fit is null."""
    if pa.types.is_decimal(type_):
        most = pa.scalar(Decimal(10**type_.precision - 1).scaleb(-type_.scale, _EXACT), value.type)
        right = pc.fill_null(pc.less_equal(pc.abs(value), most), True).to_numpy(zero_copy_only=False)
        return _null_where(value, ~right).cast(type_), right
    if value.type == type_ and not pa.types.is_floating(type_):
        return value, np.ones(len(value), np.bool_)
    valid = pc.is_valid(value).to_numpy(zero_copy_only=False)
    if pa.types.is_binary(value.type):
        right = are_text(value)
        return _null_where(value, ~right).cast(type_), right
    if type_ == types.TIMESTAMP:
        if pa.types.is_integer(value.type):
            numbers = _numbers(value)
            converted, right = times.epochs(numbers, column.unit or KAFKA_UNIT)
            if column.unit == "ns" and not column.cuts_nanoseconds:
                right &= ~times.has_nanoseconds(numbers)
        else:
            converted, right = times.instants(value, column.zone, cut=column.cuts_nanoseconds)
        return _timed(converted, right & valid, type_), right | ~valid
    if pa.types.is_date(type_):
        days, right = times.dates(value)
        return _timed(days.astype(np.int32), right & valid, type_), right | ~valid
    if pa.types.is_integer(type_):
        low, high = _range(type_)
        numbers = _numbers(value)
        right = (numbers >= low) & (numbers <= high)
        return _null_where(value, valid & ~right).cast(type_), right | ~valid
    if pa.types.is_floating(type_):
        converted = value.cast(type_)
        right = pc.fill_null(pc.is_finite(converted), True).to_numpy(zero_copy_only=False)
        return _null_where(converted, valid & ~right), right
    return value.cast(type_), np.ones(len(value), np.bool_)


def _numbers(value: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(value, 0).to_numpy(zero_copy_only=False), np.int64)


def _range(type_: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(type_.to_pandas_dtype())
    return int(info.min), int(info.max)


def _null_where(value: pa.Array, mask: Mask) -> pa.Array:
    return pc.if_else(pa.array(mask), pa.scalar(None, value.type), value) if mask.any() else value


def _timed(numbers: npt.NDArray[Any], right: Mask, type_: pa.DataType) -> pa.Array:
    plain = pa.int32() if pa.types.is_date(type_) else pa.int64()
    return pa.array(numbers, plain, mask=~right).view(type_)
