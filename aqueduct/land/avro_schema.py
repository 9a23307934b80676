"""Schemas of Avro (1.12): what a writer's schema says, and whether its fields fit the columns of a table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from aqueduct.land import types

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# Logical types that change a value's meaning, each with the types that it stands on; others are passed over.
LOGICAL = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
}
UUID_BYTES = 16
DEEP = "it has too many nested levels"
MOST_TEXT = 1 << 20  # characters of a schema, with those that it refers to
LARGEST_FIXED = 2**31 - 1  # bytes, as Java has it
REASON = 300  # characters of a reason: some name what a schema says


class WrongSchema(ValueError):
    """A schema that is none of Avro's, or one whose records can't be read; says why."""

    def __init__(self, reason: str) -> None:
        """Keep what can be written, for the reason names what somebody's schema says."""
        super().__init__(reason.encode("utf-8", "replace").decode()[:REASON])


class Unasked(WrongSchema):
    """A schema that is not asked for, because too many ids before it are unknown, or cost requests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """A type without others below it."""

    kind: str  # of PRIMITIVES, or fixed, or enum
    logical: str = ""  # of LOGICAL
    size: int = 0  # of fixed, in bytes
    scale: int = 0  # of decimal
    symbols: tuple[str, ...] = ()  # of enum

    def __str__(self) -> str:
        return f"{self.kind} ({self.logical})" if self.logical else self.kind


@dataclass(frozen=True, slots=True)
class Items:
    """An array; or a map, whose items are records of key and value."""

    items: "Schema"
    kind: str = "array"

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple["Schema", ...]

    def __str__(self) -> str:
        return f"union of {', '.join(map(str, self.branches))}"


@dataclass(eq=False, slots=True)
class RecordType:
    """Fields in their order, among which the record itself may be."""

    name: str
    fields: list[tuple[str, "Schema"]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"record {self.name}"


Schema = Scalar | Items | Union | RecordType
_PRIMITIVE = {kind: Scalar(kind=kind) for kind in PRIMITIVES}  # one of each, for a schema may have a million
NULL = _PRIMITIVE["null"]


def parse(text: str) -> RecordType:
    """Parse the JSON of a record's schema; WrongSchema if it is none."""
    return parse_with(text, {})


def parse_with(text: str, types_by_name: dict[str, Schema]) -> RecordType:
    """Parse as `parse` a schema that may name types that are known already."""
    schema = add(text, types_by_name)
    if not isinstance(schema, RecordType):
        raise WrongSchema(f"it is the schema of {schema}, not of a record")
    try:
        _check(schema, set(), {})
    except RecursionError:
        raise WrongSchema(DEEP) from None
    return schema


def add(text: str, types_by_name: dict[str, Schema]) -> Schema:
    """Parse any schema, and add the types that it names to those that are known."""
    if len(text) > MOST_TEXT:
        raise WrongSchema(f"it has more than {MOST_TEXT:,} characters")
    try:
        return _parse(json.loads(text), "", types_by_name)
    except RecursionError:
        raise WrongSchema(DEEP) from None
    except WrongSchema:
        raise
    except ValueError as error:  # such as a number of 5,000 digits
        raise WrongSchema(f"it is not JSON: {error}") from None


def _parse(content: Any, space: str, types_by_name: dict[str, Schema]) -> Schema:
    """Parse a part of a schema within a namespace."""
    if isinstance(content, str):
        if content in PRIMITIVES:
            return _PRIMITIVE[content]
        named = types_by_name.get(_full(content, space)) or types_by_name.get(content)
        if named is None:
            raise WrongSchema(f"it refers to the type {content}, which does not exist")
        return named
    if isinstance(content, list):
        if not content or any(isinstance(branch, list) for branch in content):
            raise WrongSchema("a union cannot contain another union")
        branches = tuple(_parse(branch, space, types_by_name) for branch in content)
        if any(isinstance(branch, Union) for branch in branches):
            raise WrongSchema("a union cannot contain another union")
        return Union(branches)
    if not isinstance(content, Mapping):
        raise WrongSchema(f"{json.dumps(content)[:100]} is not a type")
    kind = content.get("type")
    if kind in ("record", "error", "enum", "fixed"):
        return _named(content, kind, space, types_by_name)
    if kind == "array":
        return Items(_parse(content.get("items"), space, types_by_name))
    if kind == "map":
        entry = RecordType(
            "map",
            [("key", Scalar(kind="string")), ("value", _parse(content.get("values"), space, types_by_name))],
        )
        return Items(entry, "map")
    schema = _parse(kind, space, types_by_name)
    return _logical(content, schema) if isinstance(schema, Scalar) else schema


def _named(content: Mapping[str, Any], kind: str, space: str, types_by_name: dict[str, Schema]) -> Schema:
    name, space_ = content.get("name"), content.get("namespace")
    space_ = space if space_ is None else space_  # null is as good as none, as Java's parser has it
    if not isinstance(name, str) or not isinstance(space_, str):
        raise WrongSchema(f"a type of kind {kind} has no name")
    full = _full(name, space_)
    if full in types_by_name:
        raise WrongSchema(f"the type {full} exists twice")
    if kind == "enum":
        symbols = content.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise WrongSchema(f"the enum {full} has no list of symbols")
        types_by_name[full] = Scalar(kind="enum", symbols=tuple(symbols))
        return types_by_name[full]
    if kind == "fixed":
        size = content.get("size")
        if type(size) is not int or not 0 <= size <= LARGEST_FIXED:
            raise WrongSchema(f"the fixed {full} has no size")
        types_by_name[full] = fixed = _logical(content, Scalar(kind="fixed", size=size))
        return fixed
    types_by_name[full] = record = RecordType(full)
    fields = content.get("fields")
    if not isinstance(fields, list):
        raise WrongSchema(f"the record {full} has no list of fields")
    inner = full.rpartition(".")[0]
    field_names: set[str] = set()
    for field_ in fields:
        if not isinstance(field_, Mapping) or not isinstance(field_.get("name"), str):
            raise WrongSchema(f"a field of {full} has no name")
        if field_["name"] in field_names:
            raise WrongSchema(f"the record {full} has the field {field_['name']} twice")
        field_names.add(field_["name"])
        record.fields.append((field_["name"], _parse(field_.get("type"), inner, types_by_name)))
    return record


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name


def _logical(content: Mapping[str, Any], of: Scalar) -> Scalar:
    """Return a type with its logical type; without, if that is unknown or can't be right, as Avro has it."""
    name = content.get("logicalType")
    if not isinstance(name, str) or of.kind not in LOGICAL.get(name, ()):
        return of
    if name == "uuid" and of.kind == "fixed" and of.size != UUID_BYTES:
        return of
    scale, precision = content.get("scale", 0), content.get("precision")
    if name == "decimal" and not (type(scale) is type(precision) is int and 0 <= scale <= precision > 0):
        return of
    return Scalar(
        kind=of.kind, logical=name, size=of.size, scale=scale if name == "decimal" else 0, symbols=of.symbols
    )


def _check(schema: Schema, checked: set[RecordType], least: dict[RecordType, int]) -> None:
    """Refuse what bytes without end could be read for: items that take none, and a record in itself."""
    if isinstance(schema, RecordType):
        if schema not in checked:
            checked.add(schema)
            _least(schema, (), least)
            for _, inner_schema in schema.fields:
                _check(inner_schema, checked, least)
    elif isinstance(schema, Items):
        if not _least(schema.items, (), least):
            raise WrongSchema(
                f"items of {schema} have a size of 0 bytes, so the number of items has no limit"
            )
        _check(schema.items, checked, least)
    elif isinstance(schema, Union):
        for inner_schema in schema.branches:
            _check(inner_schema, checked, least)


def _least(schema: Schema, within: tuple[RecordType, ...], least_bytes: dict[RecordType, int]) -> int:
    """Return how many bytes a value takes at least, roughly."""
    if isinstance(schema, RecordType):
        if schema in within:
            raise WrongSchema(f"the {schema} contains itself without an end")
        if schema not in least_bytes:
            least_bytes[schema] = sum(
                _least(inner_schema, (*within, schema), least_bytes) for _, inner_schema in schema.fields
            )
        return least_bytes[schema]
    if isinstance(schema, Scalar):
        return {"null": 0, "fixed": schema.size}.get(schema.kind, 1)
    return 1


def optional(schema: Schema) -> Schema | None:
    """Return the type that a nullable one has beside null; null is its own; None: there are several."""
    if not isinstance(schema, Union):
        return schema
    others = [branch for branch in schema.branches if branch != NULL]
    return others[0] if len(others) == 1 else None if others else NULL


def at(schema: RecordType, path: Sequence[str]) -> Schema | None:
    """Return the type of a path, or None; WrongSchema if it goes through what isn't a record."""
    reached: Schema = schema
    for number, step in enumerate(path):
        inner = optional(reached)
        if not isinstance(inner, RecordType):
            raise WrongSchema(f"{'.'.join(path[:number])} is of type {reached}, which has no fields")
        below = dict(inner.fields).get(step)
        if below is None:
            return None
        reached = below
    return reached


def names(schema: RecordType, path: Sequence[str]) -> Iterator[str]:
    """Yield the names that are there at the last step of a path whose other steps are there."""
    record = at(schema, path[:-1])
    inner = record and optional(record)
    if isinstance(inner, RecordType):
        yield from (name for name, _ in inner.fields)


def unfit(schema: Schema, type_: pa.DataType, unit: str | None) -> str:
    """Return why values of a type of Avro can't be a column's; empty: they can, or are judged one by one."""
    inner = optional(schema)
    if inner == NULL:
        return ""
    if isinstance(inner, Items) and inner.kind == "array" and pa.types.is_list(type_):
        return unfit(inner.items, type_.value_type, unit)
    if isinstance(inner, Scalar) and _fits(inner, type_, unit):
        return ""
    more = "; declare its unit" if _is_epoch(inner) and type_ == types.TIMESTAMP and not unit else ""
    return f"{schema} does not fit the column type {types.hive(type_)}{more}"


def _is_epoch(schema: Schema | None) -> bool:
    return isinstance(schema, Scalar) and schema.kind in ("int", "long") and not schema.logical


def _fits(schema: Scalar, type_: pa.DataType, unit: str | None) -> bool:
    kind, logical = schema.kind, schema.logical
    if type_ == types.TIMESTAMP:
        return "timestamp" in logical or (kind == "string" and not unit) or (_is_epoch(schema) and bool(unit))
    if pa.types.is_date(type_):
        return logical == "date" or kind == "string"
    if pa.types.is_decimal(type_):
        return logical == "decimal" and schema.scale <= type_.scale
    if pa.types.is_string(type_):
        return kind in ("string", "enum") or logical == "uuid"
    if pa.types.is_binary(type_):
        return kind == "string" or (kind in ("bytes", "fixed") and not logical)
    if pa.types.is_boolean(type_):
        return kind == "boolean"
    if logical:
        return False
    if pa.types.is_integer(type_):
        return kind in ("int", "long")
    # A long isn't a double: above 2^53 it would be another number.
    return kind in (("float", "double", "int") if type_ == pa.float64() else ("float",))
