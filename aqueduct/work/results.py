"""Results of tasks as JSON, checked against the return type of the task's function.

The driver does not trust executors, so it unpickles nothing that they return. Each value is parsed from JSON
and compared with the declared type. A dataclass is an object, a named tuple is an array of its fields, and a
mapping is an array of pairs.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from aqueduct.common import strict_json
from aqueduct.common.strict_json import Unreadable
from aqueduct.errors import AqueductError, ExitCode, Failed, Refused

BITS = 127  # limit of a number; offsets, counts and digests have fewer
HOST = re.compile(r"[A-Za-z0-9._-]{1,255}")
ID = re.compile(r"[a-z0-9-]{0,80}")
ERRORS: Mapping[int, type[AqueductError]] = {ExitCode.FAILED: Failed, ExitCode.REFUSED: Refused}


@dataclass(frozen=True, kw_only=True)
class Codec:
    """The conversion of the values of a type to and from JSON."""

    kind: type  # of the values in Python
    write: Callable[[Any], Any]  # returns a value that json can write
    read: Callable[[Any], Any]  # converts a parsed value; Unreadable if it does not match the type


def result_type(function: Callable[..., Any]) -> Any:
    """Return the declared return type of a function."""
    return get_type_hints(function)["return"]


def dumps(hint: Any, result: Any) -> bytes:
    """Return the JSON of a result of a declared type, or of an error, with the name of this host."""
    message: dict[str, Any] = {"host": os.uname().nodename}
    if isinstance(result, AqueductError):
        message["error"] = [int(result.exit_code), result.id, result.sentence]
    else:
        message["result"] = codec(hint).write(result)
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def loads(hint: Any, payload: bytes) -> tuple[str, Any]:
    """Return the host, and its result or error, from JSON; Unreadable if the JSON does not match the type."""
    message = strict_json.parse(payload)
    if not isinstance(message, dict) or message.keys() not in ({"host", "result"}, {"host", "error"}):
        raise Unreadable("the JSON is neither a result nor an error")
    host = codec(str).read(message["host"])
    if not HOST.fullmatch(host):
        raise Unreadable("the name of its host is not valid")
    if "result" in message:
        return host, codec(hint).read(message["result"])
    code, id_, sentence = codec(tuple[int, str, str]).read(message["error"])
    if code not in ERRORS or not ID.fullmatch(id_):
        raise Unreadable("its error is not an error of Aqueduct")
    return host, ERRORS[code](id_, sentence)


@cache
def codec(hint: Any) -> Codec:
    """Return the codec of a type; TypeError for a type without one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (UnionType, Union):
        return _one_of([codec(argument) for argument in arguments])
    if origin is tuple and arguments[1:] != (...,):
        return _fixed(tuple, [codec(argument) for argument in arguments], lambda values: tuple(values))
    if origin in (list, tuple, set, frozenset):
        return _sequence(origin, codec(arguments[0]))
    if origin is Counter:
        return _mapping(Counter, codec(arguments[0]), codec(int))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(dict, *map(codec, arguments))
    if not isinstance(hint, type):
        raise TypeError(f"{hint} has no form in JSON")
    if is_dataclass(hint):
        return _object(hint)
    if hasattr(hint, "_fields"):
        hints = get_type_hints(hint)
        return _fixed(hint, [codec(hints[name]) for name in hint._fields], lambda values: hint(*values))
    if issubclass(hint, Enum):
        return _text(hint, lambda value: str(value.value), hint)
    if hint is UUID:
        return _text(UUID, str, UUID)
    if hint is bytes:
        return _text(
            bytes, lambda value: b64encode(value).decode(), lambda text: b64decode(text, validate=True)
        )
    return _scalar(hint)


def _scalar(hint: type) -> Codec:
    allowed = strict_json.SCALARS.get(hint)
    if allowed is None:
        raise TypeError(f"{hint} has no form in JSON")

    def write(value: Any) -> Any:
        value = value.item() if hasattr(value, "item") else value  # of numpy
        if type(value) not in allowed and not (hint is str and isinstance(value, str)):
            raise TypeError(f"{value!r} is not of type {hint.__name__}")
        return value

    def read(value: Any) -> Any:
        if type(value) not in allowed:
            raise Unreadable(f"it has a value that is not of type {hint.__name__}")
        if isinstance(value, int) and value.bit_length() > BITS:
            raise Unreadable(f"it has a number with more than {BITS} bits")
        return value

    return Codec(kind=hint, write=write, read=read)


def _text(kind: type, write: Callable[[Any], str], built: Callable[[str], Any]) -> Codec:
    text = codec(str)

    def read(value: Any) -> Any:
        try:
            return built(text.read(value))
        except ValueError:
            raise Unreadable(f"it has a value that is not of type {kind.__name__}") from None

    return Codec(kind=kind, write=write, read=read)


def _as_it_is(value: Any) -> Any:
    return value


def _array(value: Any) -> list[Any]:
    if type(value) is not list:
        raise Unreadable("it has another value where an array is required")
    return value


def _sequence(kind: type, item_codec: Codec) -> Codec:
    return Codec(
        kind=kind,
        write=lambda values: [*map(item_codec.write, values)],
        read=lambda value: kind(map(item_codec.read, _array(value))),
    )


def _fixed(kind: type, items: list[Codec], built: Callable[[list[Any]], Any]) -> Codec:
    def write(value: Any) -> list[Any]:
        return [item_codec.write(member) for item_codec, member in zip(items, value, strict=True)]

    def read(value: Any) -> Any:
        if len(_array(value)) != len(items):
            raise Unreadable(f"it has an array without exactly {len(items)} values")
        return built([item_codec.read(member) for item_codec, member in zip(items, value, strict=True)])

    return Codec(kind=kind, write=write, read=read)


def _mapping(kind: type, key: Codec, item_codec: Codec) -> Codec:
    pairs = _sequence(list, _fixed(tuple, [key, item_codec], tuple))

    def read(value: Any) -> Any:
        mapping = dict(pairs.read(value))
        if len(mapping) < len(value):
            raise Unreadable("it has a key twice")
        return kind(mapping)

    return Codec(kind=Mapping, write=lambda value: pairs.write(value.items()), read=read)


def _object(kind: type) -> Codec:
    hints = get_type_hints(kind)
    items = {field.name: codec(hints[field.name]) for field in fields(kind)}

    def write(value: Any) -> dict[str, Any]:
        return {name: field_codec.write(getattr(value, name)) for name, field_codec in items.items()}

    def read(value: Any) -> Any:
        if type(value) is not dict or value.keys() != items.keys():
            raise Unreadable(f"it has an object that is not of type {kind.__name__}")
        return kind(**{name: field_codec.read(value[name]) for name, field_codec in items.items()})

    return Codec(kind=kind, write=write, read=read)


def _one_of(items: list[Codec]) -> Codec:
    """Return the codec of a union: an array of the index of the type and the value; None is null."""

    pair = _fixed(tuple, [codec(int), Codec(kind=object, write=_as_it_is, read=_as_it_is)], tuple)

    def write(value: Any) -> Any:
        if value is None:
            return None
        number, branch = next(
            (index, branch) for index, branch in enumerate(items) if isinstance(value, branch.kind)
        )
        return [number, branch.write(value)]

    def read(value: Any) -> Any:
        if value is None and any(branch.kind is NoneType for branch in items):
            return None
        number, one = pair.read(value)
        if number not in range(len(items)):
            raise Unreadable("it has a value of an unknown type")
        return items[number].read(one)

    return Codec(kind=object, write=write, read=read)
