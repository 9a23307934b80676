"""Frozen dataclasses and named tuples as JSON, parsed strictly: all fields, no unknown ones, correct types.

A dataclass is an object. A named tuple is an array, a row of a table, and its fields must be scalars. Tables
are checked and built column by column, which is faster than row by row.
"""

import dataclasses
import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from itertools import chain, islice
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")

# Types of parsed scalars, by their declared type. A bool is not an int here.
SCALARS = {
    int: frozenset({int}),
    float: frozenset({float, int}),
    str: frozenset({str}),
    bool: frozenset({bool}),
    NoneType: frozenset({NoneType}),
}

ADDED = {"added": True}  # metadata of a field with a default that a document may omit


class Unreadable(ValueError):
    """The error of invalid JSON; the text says where it is and what is wrong."""


def dumps(value: Any) -> bytes:
    """Return compact JSON of a dataclass."""
    return json.dumps(value, default=_plain, separators=(",", ":"), ensure_ascii=False).encode()


def loads(kind: type[Value], document: bytes | memoryview) -> Value:
    """Parse JSON as a dataclass of this kind; Unreadable if the JSON does not match it."""
    return build(kind, parse(document))


def parse(document: bytes | memoryview) -> Any:
    """Parse JSON; Unreadable if it is not valid, or if an object has a key twice."""
    try:
        with uncollected():
            return json.loads(str(document, "utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from None


def build(kind: type[Value], value: Any, made: Mapping[str, Any] | None = None) -> Value:
    """Build a dataclass from a parsed value. `made`: values of fields that the parsed value must not have."""
    read: FieldReader = _object(kind, made) if made else _reader(kind)  # type: ignore[arg-type]
    with uncollected():
        result: Value = read([value], "it")[0]
    return result


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector while many objects without cycles are built.

    With it, parsing a large manifest takes twice as long.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _plain(value: Any) -> Any:
    """Convert the top level of a value for json, which itself writes named tuples as arrays."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value)} has no form in JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


# (parsed values, their location for errors) -> values. All values of one location are read at once, like a
# column: a manifest can have hundreds of thousands, and one call for each would take most of the time.
FieldReader = Callable[[list[Any], str], list[Any]]


@cache
def _reader(hint: Any) -> FieldReader:
    if hint is Any:
        return lambda values, where: values
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and hasattr(arguments[0], "_fields"):
        return _list(_table(arguments[0]))
    if origin is tuple:
        return _list(_reader(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_reader(arguments[1]))
    if dataclasses.is_dataclass(hint):
        return _object(hint)
    if isinstance(hint, UnionType) and dataclasses.is_dataclass(arguments[0]):
        return _object_or_null(*arguments)
    return _scalar(hint)


def _scalar(hint: Any) -> FieldReader:
    allowed = _types(hint)

    def read(values: list[Any], where: str) -> list[Any]:
        if not set(map(type, values)) <= allowed:
            raise Unreadable(f"{where} has the wrong type")
        return values

    return read


def _list(items: FieldReader) -> FieldReader:
    def read(values: list[Any], where: str) -> list[Any]:
        _require_all(list, values, where)
        if len(values) == 1:
            return [tuple(items(values[0], where))]
        flat_items = iter(items([*chain.from_iterable(values)], where))
        return [tuple(islice(flat_items, length)) for length in map(len, values)]

    return read


def _mapping(items: FieldReader) -> FieldReader:
    def read(values: list[Any], where: str) -> list[Any]:
        _require_all(dict, values, where)
        flat_items = iter(items([member for value in values for member in value.values()], where))
        return [dict(zip(value, islice(flat_items, len(value)), strict=True)) for value in values]

    return read


def _object(kind: Any, made: Mapping[str, Any] = MappingProxyType({})) -> FieldReader:
    hints = get_type_hints(kind)
    readers = {name: _reader(hint) for name, hint in hints.items() if name not in made}
    added = {
        field.name: field for field in dataclasses.fields(kind) if ADDED.items() <= field.metadata.items()
    }

    def read(values: list[Any], where: str) -> list[Any]:
        _require_all(dict, values, where)
        for value in values:
            if odd := (value.keys() ^ readers.keys()) - (added.keys() - value.keys()):
                raise Unreadable(f"{where} has missing or unknown fields: {', '.join(sorted(odd))}")
        columns = []
        for name in hints:
            if name in made:
                columns.append([made[name]] * len(values))
                continue
            column = readers[name]([value[name] for value in values if name in value], f"{where}.{name}")
            if len(column) < len(values):
                present = iter(column)
                column = [next(present) if name in value else default(added[name]) for value in values]
            columns.append(column)
        if issubclass(kind, tuple):  # kinds with millions of values
            return [*map(kind, *columns)]
        return [kind(**dict(zip(hints, row, strict=True))) for row in zip(*columns, strict=True)]

    return read


def default(of: "dataclasses.Field[Any]") -> Any:
    """Return the default value of a field of a dataclass."""
    return of.default if of.default_factory is dataclasses.MISSING else of.default_factory()


def _object_or_null(kind: Any, null: Any) -> FieldReader:
    if null is not NoneType:
        raise TypeError(f"{kind} can only be itself or null")
    items = _object(kind)

    def read(values: list[Any], where: str) -> list[Any]:
        objects = iter(items([value for value in values if value is not None], where))
        return [None if value is None else next(objects) for value in values]

    return read


def _table(row: Any) -> FieldReader:
    hints = get_type_hints(row)
    columns = [(name, _types(hint)) for name, hint in hints.items()]
    texts = [index for index, hint in enumerate(hints.values()) if hint is str]
    words = {
        index: {str(word): word for word in hint}
        for index, hint in enumerate(hints.values())
        if _is_enum(hint)
    }

    def read(values: list[Any], where: str) -> list[Any]:
        if not values:
            return []
        if set(map(type, values)) != {list} or set(map(len, values)) != {len(columns)}:
            raise Unreadable(f"{where} has a row without exactly {len(columns)} columns")
        cells = list(zip(*values, strict=True))
        for (name, allowed), column in zip(columns, cells, strict=True):
            if not set(map(type, column)) <= allowed:
                raise Unreadable(f"{where} has a row whose column {name} has the wrong type")
        for index in texts:
            if 2 * len(same := dict(zip(cells[index], cells[index], strict=True))) <= len(values):
                cells[index] = tuple(map(same.__getitem__, cells[index]))  # one object for equal texts
        for index, word_by_text in words.items():
            if strange := set(cells[index]) - word_by_text.keys():
                raise Unreadable(f"{where}: {min(strange)!r} is not a valid {columns[index][0]}")
            cells[index] = tuple(map(word_by_text.__getitem__, cells[index]))
        return [*map(row._make, zip(*cells, strict=True))]

    return read


def _require_all(kind: type, values: list[Any], where: str) -> None:
    if set(map(type, values)) - {kind}:
        raise Unreadable(f"{where} is not an {'object' if kind is dict else 'array'}")


def _types(hint: Any) -> frozenset[type]:
    if isinstance(hint, UnionType):
        return frozenset[type]().union(*map(_types, get_args(hint)))
    if _is_enum(hint):
        return frozenset({str})
    return SCALARS[hint]


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, StrEnum)
