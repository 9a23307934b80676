from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.strict_json import ADDED, Unreadable, dumps, loads


class Colour(StrEnum):
    RED = "red"


class Row(NamedTuple):
    name: str
    number: int
    maybe: int | None
    flag: bool
    colour: Colour


@dataclass(frozen=True)
class Inner:
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Outer:
    rows: tuple[Row, ...]
    inner: tuple[Inner, ...]
    numbers: tuple[int, ...]
    rate: float
    anything: Mapping[str, Any]


rows = st.builds(Row, st.text(), st.integers(), st.none() | st.integers(), st.booleans(), st.just(Colour.RED))
outers = st.builds(
    Outer,
    st.lists(rows).map(tuple),
    st.lists(st.builds(Inner, st.dictionaries(st.text(), st.text()))).map(tuple),
    st.lists(st.integers()).map(tuple),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
)


@given(outers)
def test_comes_back(value: Outer) -> None:
    found = loads(Outer, dumps(value))
    assert found == value
    assert all(type(row) is Row and type(row.colour) is Colour for row in found.rows)


GOOD = (
    '{"rows":[["a",1,null,true,"red"]],"inner":[{"settings":{"a":"b"}}],"numbers":[1],"rate":1,"anything":{}}'
)


def test_good() -> None:
    assert loads(Outer, GOOD.encode()).rows == (Row("a", 1, None, True, Colour.RED),)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ('["a",1,null,true,"red"]', '["a",1,null,true]'),
        ('["a",1,null,true,"red"]', '["a",1,null,true,"red",0]'),
        ('["a",1,null,true,"red"]', '"abcde"'),
        ('"a",1,', '"a",true,'),
        ('"a",1,', '"a",1.0,'),
        ('"a",1,', "2,1,"),
        ("null,true", '"x",true'),
        ("null,true", "null,1"),
        ('"red"', '"blue"'),
        ('[["a",1,null,true,"red"]]', "{}"),
        ('[{"settings"', '[7,{"settings"'),
        ('{"a":"b"}', '{"a":7}'),
        ('{"a":"b"}', '{"a":"b","a":"c"}'),
        ('"numbers":[1]', '"numbers":[1,"2"]'),
        ('"rate":1', '"rate":NaN'),
        ('"rate":1', '"rate":"1"'),
        ('"rate":1', '"rate":1,"more":2'),
        ('"rate":1,', ""),
        ('"anything":{}', '"anything":[]'),
        (GOOD, "[]"),
        (GOOD, GOOD[:-1]),
        (GOOD, "[" * 100_000),
    ],
)
def test_anything_else_is_unreadable(part: str, instead: str) -> None:
    assert part in GOOD
    with pytest.raises(Unreadable):
        loads(Outer, GOOD.replace(part, instead).encode())


def test_not_text_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        loads(Outer, b"\xff")


@dataclass(frozen=True)
class Grown:
    a: int
    b: int = field(default=7, metadata=ADDED)


def test_fields_that_came_later_may_be_missing() -> None:
    assert loads(Grown, b'{"a":1}') == Grown(1)
    assert loads(Grown, b'{"a":1,"b":2}') == Grown(1, 2)
    for wrong in (b'{"b":2}', b'{"a":1,"b":null}', b'{"a":1,"c":2}'):
        with pytest.raises(Unreadable):
            loads(Grown, wrong)
