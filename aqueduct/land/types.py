"""Types of columns: Hive's names, and the types of Arrow that hold their values."""

import re

import pyarrow as pa

from aqueduct.errors import Refused

# Without a zone, because readers of ORC disagree on files whose timestamps have one: the instant in UTC.
TIMESTAMP = pa.timestamp("us")
SCALARS = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_ARRAY = re.compile(r"array<(.+)>")
DIGITS = 38  # the most that a decimal has, in Hive and in Arrow


def parse(name: str, where: str) -> pa.DataType:
    """Return the type by Hive's name; Refused, with `where` it stands, if there is none."""
    text = name.strip().lower()
    if match := _ARRAY.fullmatch(text):
        item_type = parse(match[1], where)
        if pa.types.is_list(item_type):
            raise Refused(
                "landing-declaration-invalid",
                f"{where}: {name} is not a column type; the items of an array must have a scalar type.",
            )
        return pa.list_(item_type)
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= DIGITS or scale > precision:
            raise Refused(
                "landing-declaration-invalid",
                f"{where}: {name} is not a valid type; a decimal has 1 to {DIGITS} digits, and not more "
                "digits after the decimal point than in total.",
            )
        return pa.decimal128(precision, scale)
    if text in SCALARS:
        return SCALARS[text]
    names = ", ".join([*SCALARS, "decimal(P,S)", "array<...>"])
    raise Refused("landing-declaration-invalid", f"{where}: {name} is not a column type; use one of {names}.")


def hive(type_: pa.DataType) -> str:
    """Return Hive's name of a type."""
    if pa.types.is_list(type_):
        return f"array<{hive(type_.value_type)}>"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return next(name for name, scalar in SCALARS.items() if scalar == type_)


def of_json(type_: pa.DataType, unit: str | None) -> pa.DataType:
    """Return how JSON is read for a type: whole numbers in their widest, times as they are written."""
    scalar = scalar_of(type_)
    if pa.types.is_integer(scalar) or (scalar == TIMESTAMP and unit):
        json_type = pa.int64()
    elif pa.types.is_floating(scalar):
        json_type = pa.float64()
    elif pa.types.is_boolean(scalar):
        json_type = scalar
    elif pa.types.is_decimal(scalar):
        # Arrow doesn't check the digits of a whole number once it is scaled: here it has room.
        json_type = pa.decimal256(76, scalar.scale)
    else:
        json_type = pa.string()
    return pa.list_(json_type) if pa.types.is_list(type_) else json_type


def scalar_of(type_: pa.DataType) -> pa.DataType:
    """Return the type of an array's items, of others the type itself."""
    return type_.value_type if pa.types.is_list(type_) else type_
