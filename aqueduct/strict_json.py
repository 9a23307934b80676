"""Frozen dataclasses and named tuples as JSON, read strictly: every field there, none unknown, types right.

A dataclass is an object; a named tuple, whose fields must be scalars, is an array: a row of a table. Tables
are checked and made column by column, without interpreting anything row by row.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")

# The types that a scalar may have after json; `type(True)` is not `int` here.
SCALARS = {
    int: frozenset({int}),
    float: frozenset({float, int}),
    str: frozenset({str}),
    bool: frozenset({bool}),
    NoneType: frozenset({NoneType}),
}

ADDED = {"added": True}  # metadata of a field with a default, which files of former versions have not


class Unreadable(ValueError):
    """The error of JSON that says where, and what was expected."""


def dumps(value: Any) -> bytes:
    """Return compact JSON of a dataclass."""
    return json.dumps(value, default=_plain, separators=(",", ":"), ensure_ascii=False).encode()


def loads(kind: type[Value], data: bytes | memoryview) -> Value:
    """Return the dataclass in the JSON; Unreadable if it is anything else."""
    return build(kind, parse(data))


def parse(data: bytes | memoryview) -> Any:
    """Parse JSON; Unreadable if it isn't JSON, or if an object has a key twice."""
    try:
        return json.loads(str(data, "utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from None


def build(kind: type[Value], value: Any) -> Value:
    """Build the dataclass of a parsed value."""
    read: FieldReader = _reader(kind)  # type: ignore[arg-type]  # a class is hashable
    result: Value = read(value, "it")
    return result


def _plain(value: Any) -> Any:
    """Return what json can write of a value, one level deep: named tuples are written as arrays already."""
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value)} has no form in JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} isn't a number")


FieldReader = Callable[[Any, str], Any]  # (parsed value, where it is) -> value


@cache
def _reader(hint: Any) -> FieldReader:
    if hint is Any:
        return lambda value, where: value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and hasattr(arguments[0], "_fields"):
        return _table(arguments[0])
    if origin is tuple and arguments[0] in SCALARS:
        return _column(arguments[0])
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

    def read(value: Any, where: str) -> Any:
        if type(value) not in allowed:
            raise Unreadable(f"{where} is of the wrong type")
        return value

    return read


def _column(hint: Any) -> FieldReader:
    allowed = _types(hint)

    def read(value: Any, where: str) -> Any:
        if not set(map(type, _of(list, value, where))) <= allowed:
            raise Unreadable(f"{where} has a value of the wrong type")
        return tuple(value)

    return read


def _list(item: FieldReader) -> FieldReader:
    def read(value: Any, where: str) -> Any:
        return tuple(item(each, where) for each in _of(list, value, where))

    return read


def _mapping(item: FieldReader) -> FieldReader:
    def read(value: Any, where: str) -> Any:
        return {key: item(each, f"{where}.{key}") for key, each in _of(dict, value, where).items()}

    return read


def _object(kind: Any) -> FieldReader:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
    added = {each.name for each in dataclasses.fields(kind) if ADDED.items() <= each.metadata.items()}

    def read(value: Any, where: str) -> Any:
        if odd := (_of(dict, value, where).keys() ^ readers.keys()) - (added - value.keys()):
            raise Unreadable(f"{where} lacks or has one too many of: {', '.join(sorted(odd))}")
        return kind(**{name: readers[name](each, f"{where}.{name}") for name, each in value.items()})

    return read


def _object_or_null(kind: Any, null: Any) -> FieldReader:
    if null is not NoneType:
        raise TypeError(f"{kind} can only be itself or null")
    read = _object(kind)
    return lambda value, where: None if value is None else read(value, where)


def _table(row: Any) -> FieldReader:
    hints = get_type_hints(row)
    columns = [(name, _types(hint)) for name, hint in hints.items()]
    words = {at: hint for at, hint in enumerate(hints.values()) if _is_enum(hint)}

    def read(value: Any, where: str) -> Any:
        if not _of(list, value, where):
            return ()
        if set(map(type, value)) != {list} or set(map(len, value)) != {len(columns)}:
            raise Unreadable(f"{where} has a row that is not of {len(columns)} columns")
        cells = list(zip(*value, strict=True))
        for (name, allowed), column in zip(columns, cells, strict=True):
            if not set(map(type, column)) <= allowed:
                raise Unreadable(f"{where} has a {name} of the wrong type")
        for at, word in words.items():
            try:
                cells[at] = tuple(map(word, cells[at]))
            except ValueError as error:
                raise Unreadable(f"{where}: {error}") from None
        return tuple(map(row._make, zip(*cells, strict=True) if words else value))

    return read


def _of(kind: type, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise Unreadable(f"{where} is no {'object' if kind is dict else 'array'}")
    return value


def _types(hint: Any) -> frozenset[type]:
    if isinstance(hint, UnionType):
        return frozenset[type]().union(*map(_types, get_args(hint)))
    if _is_enum(hint):
        return frozenset({str})
    return SCALARS[hint]


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, StrEnum)
