"""Text as values of other types: whole columns at once, and strict."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.kafka.batches.varints import Mask

EMPTY_IS_NULL = b"empty is null"  # in a field's metadata
WHOLE = r"^-?[0-9]{1,19}$"
NUMBER = r"^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
BOM, NUL = STRIPPED = ("bom", "nul")
WORDS = ("true", "false")


def are_text(values: pa.BinaryArray) -> Mask:
    """Return which values are UTF-8; null is."""
    try:
        values.cast(pa.string())
        return np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        return np.array([_is_text(raw) for raw in values.to_pylist()], np.bool_)


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def stripped(values: pa.BinaryArray, strips: Collection[str]) -> pa.BinaryArray:
    """Return values without what writers put around them: a byte order mark, and bytes of zero behind."""
    if BOM in strips and (begins := pc.fill_null(pc.starts_with(values, "\ufeff"), False)).true_count:
        values = pc.if_else(begins, pc.binary_slice(values, 3), values)
    if NUL in strips and pc.fill_null(pc.ends_with(values, "\0"), False).true_count:
        values = pa.array([raw and raw.rstrip(b"\0") for raw in values.to_pylist()], values.type)
    return values


def typed(text: pa.StringArray, field: pa.Field) -> tuple[pa.Array, Mask]:
    """Return text as a field's type, and which of it is right; what is not is null."""
    if field.metadata and EMPTY_IS_NULL in field.metadata:
        text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    if field.type == pa.string():
        return text, np.ones(len(text), np.bool_)
    if pa.types.is_boolean(field.type):
        right = pc.is_in(text, pa.array([*WORDS, None]))
        return pc.equal(_where(text, right), "true"), mask(right)
    if pa.types.is_integer(field.type):
        wide, right = _decimals(text, WHOLE, pa.decimal128(38, 0))
        low, high = (pa.scalar(bound, pa.decimal128(38, 0)) for bound in (-(2**63), 2**63 - 1))
        inside = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
        right &= mask(pc.fill_null(inside, True))
        return _where(wide, pa.array(right)).cast(pa.int64()), right
    if pa.types.is_decimal(field.type):
        digits = f"^-?[0-9]{{1,38}}(\\.[0-9]{{0,{field.type.scale}}})?$"
        return _decimals(text, digits, field.type)
    matches = pc.fill_null(pc.match_substring_regex(text, NUMBER), True)
    return _where(text, matches).cast(pa.float64()), mask(matches)


def _decimals(text: pa.StringArray, pattern: str, type_: pa.DataType) -> tuple[pa.Array, Mask]:
    matches = pc.fill_null(pc.match_substring_regex(text, pattern), True)
    return _where(text, matches).cast(type_), mask(matches)


def _where(values: pa.Array, right: pa.Array) -> pa.Array:
    return pc.if_else(right, values, pa.scalar(None, values.type))


def mask(values: pa.Array) -> Mask:
    """Return truth values without a null among them."""
    truths: Mask = values.to_numpy(zero_copy_only=False)
    return truths
