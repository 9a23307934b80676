"""Records are read as one by one, whatever stands beside them; a reader of one record by Python judges."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct.land.json_blocks import JsonReader

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.string())),
        ("n", pa.struct([("x", pa.int64())])),
    ]
)
INTEGERS = range(-(2**63), 2**63)


def outcome(values: list[bytes]) -> list[dict[str, Any] | None]:
    """Return what was read of each record; None where it is a fault."""
    found: list[dict[str, Any] | None] = [None] * len(values)
    read = JsonReader(SCHEMA).read(pa.array(values, pa.binary()))
    rows = read.table.take(read.rows).to_pylist()
    assert sorted([*read.records, *(fault.index for fault in read.faults)]) == list(range(len(values)))
    assert all(fault.reason for fault in read.faults)
    for index, row in zip(read.records, rows, strict=True):
        found[index] = row
    return found


class Wrong(Exception):
    pass


def by_python(value: bytes) -> dict[str, Any] | None:
    """Read one record, strictly; None if it is wrong."""

    def pairs(every: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in every if name in KNOWN]
        if len(names) != len(set(names)):
            raise Wrong
        return dict(every)

    try:
        parsed = json.loads(value.decode(), object_pairs_hook=pairs, parse_constant=_wrong)
        if not isinstance(parsed, dict):
            raise Wrong
        return {field.name: _value(parsed.get(field.name), field.type) for field in SCHEMA}
    except (ValueError, Wrong, RecursionError):
        return None


KNOWN = {*SCHEMA.names, "x"}


def _wrong(_: str) -> None:
    raise Wrong


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return _be(isinstance(value, dict)) and {
            each.name: _value(value.get(each.name), each.type) for each in kind
        }
    if pa.types.is_list(kind):
        return _be(isinstance(value, list)) and [_value(each, kind.value_type) for each in value]
    if pa.types.is_boolean(kind):
        return value if _be(isinstance(value, bool)) else None
    if pa.types.is_string(kind):
        _be(isinstance(value, str))
        value.encode()  # a surrogate by itself is no text
        return value
    _be(isinstance(value, int | float) and not isinstance(value, bool))
    if pa.types.is_floating(kind):
        _be(math.isfinite(value))
        return float(value)
    return value if _be(isinstance(value, int) and value in INTEGERS) else None


def _be(right: bool) -> bool:
    if not right:
        raise Wrong
    return True


GOOD = b'{"a": 1, "s": "x", "n": {"x": 2, "y": [1]}, "other": {"a": 1}}'
HOSTILE = [
    *(b"", b" ", b"null", b"5", b"[1]", b'"text"', b"{", b"}", b"nothing", b"\xef\xbb\xbf{}", b"{}\xff"),
    *(
        b'{"a":"12"}',
        b'{"a":1.5}',
        b'{"a":1e3}',
        b'{"a":9223372036854775808}',
        b'{"a":1,"a":2}',
        b'{"d":1e999}',
    ),
    *(b'{"n":{"x":1,"x":2}}', b'{"n":5}', b'{"l":[1]}', b'{"l":"x"}', b'{"s":5}', b'{"b":0}', b'{"a":1,}'),
    *(
        b'{"a":1}{"a":2}',
        b'{"a":1} {"a":2}',
        b'{"a":1}\n{"a":2}',
        b'{"a":1},"q":{"z":2}',
        b'{"a":1}/*',
        b"{*/",
    ),
    *(b'{"a":1,"x":', b'{"a":1,"x":[', b"{]}", b'{"x":[{"a":1}', b'{"s":"', b'{"a":1}}', b'{"a":1}}}'),
    *(
        b'{"s":"a\nb"}',
        b'{"s":"a\tb"}',
        b'{"s":"\xff"}',
        b'{"s":"\\ud800"}',
        b'{\n "a":\n1\n}\n',
        b'\r\n {"a":1}',
    ),
]


def test_each_record_is_judged_by_itself() -> None:
    every = [each for hostile in HOSTILE for each in (hostile, GOOD)]
    assert outcome(every) == [by_python(each) for each in every]
    assert outcome(HOSTILE) == [by_python(each) for each in HOSTILE]


def test_nothing_but_faults_and_nothing_at_all() -> None:
    assert outcome([b"x"] * 2500) == [None] * 2500
    assert outcome([]) == []


def test_blocks_are_in_order() -> None:
    every = [b'{"a": %d}' % number if number % 997 else b"broken" for number in range(5000)]
    read = outcome(every)
    assert [row and row["a"] for row in read] == [number if number % 997 else None for number in range(5000)]


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*HOSTILE, GOOD, b"{}"]), max_size=12))
def test_no_record_reaches_into_another(values: list[bytes]) -> None:
    assert outcome(values) == [by_python(each) for each in values]


@settings(max_examples=300)
@given(st.lists(st.one_of(st.just(GOOD), st.binary(max_size=12).map(lambda some: b"{" + some)), max_size=8))
def test_bytes_of_any_kind(values: list[bytes]) -> None:
    assert outcome(values) == [by_python(each) for each in values]


DECIMAL = pa.decimal256(76, 2)
REASONS: dict[str, tuple[bytes, pa.DataType, str]] = {
    "another type": (b'{"a":"no"}', pa.int64(), "a is of type string, not number"),
    "another type in arrays": (
        b'{"a":[["x"]]}',
        pa.list_(pa.list_(pa.int64())),
        "a[][] is of type string, not number",
    ),
    "another type below": (
        b'{"a":{"b":"x"}}',
        pa.struct([("b", pa.int64())]),
        "a.b is of type string, not number",
    ),
    "twice": (b'{"a":1,"a":2}', pa.int64(), "a exists twice"),
    "a large number": (
        b'{"a":%s}' % (b"1" * 5000),
        pa.int64(),
        f"{'1' * 100} is not a value of type int64",
    ),
    "too many digits": (
        b'{"a":%s}' % (b"1" * 5000),
        DECIMAL,
        (f"{'1' * 100} has too many digits for the decimal column"),
    ),
    "too many places": (b'{"a":1.234}', DECIMAL, "1.234 has too many digits for the decimal column"),
    "no decimal": (b'{"a":"x\\ny"}', DECIMAL, "x\ny is not a value of type decimal"),
    "no text": (b'{"a":""}', DECIMAL, "empty text is not a value of type decimal"),
    "a long text": (
        b'{"a":"%s"}' % (b"xy" * 5000),
        DECIMAL,
        f"{'xy' * 50} is not a value of type decimal",
    ),
    "text as Arrow's": (
        b'{"a":"Column(/b) changed from number to string in row 8"}',
        DECIMAL,
        "Column(/b) changed from number to string in row 8 is not a value of type decimal",
    ),
    "no JSON": (
        b'{"a" 1}',
        pa.int64(),
        "it is not JSON: Missing a colon after a name of object member",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_reason_for_a_record(case: str) -> None:
    value, type_, reason = REASONS[case]
    good = b"{}"
    read = JsonReader(pa.schema([("a", type_)])).read(pa.array([good, value, good, value], pa.binary()))
    assert [(fault.index, fault.reason) for fault in read.faults] == [(1, reason), (3, reason)]
    assert read.records.tolist() == [0, 2]


HOSTILE_TEXTS = {
    "columns": "Column(",
    "changed": "Column() changed from a",
    "strings": "The string '",
    "ends of strings": "' ",
    "failed": "Failed to convert JSON to decimal256(76, 2): ",
    "requires": ") requires ",
    "rows": " in row 1",
}


@pytest.mark.parametrize("case", HOSTILE_TEXTS)
def test_cost_of_a_reason_is_linear(case: str) -> None:
    """With 1 MiB of "Column(", it took 34 minutes."""
    text = HOSTILE_TEXTS[case] * (2**20 // len(HOSTILE_TEXTS[case]))
    values = [b"{}", b'{"a":"%s"}' % text.encode(), b'{"a":"1"}']
    read = JsonReader(pa.schema([("a", DECIMAL)])).read(pa.array(values, pa.binary()))
    reason = f"{text[:100]} is not a value of type decimal"
    assert [(fault.index, fault.reason) for fault in read.faults] == [(1, reason)]
