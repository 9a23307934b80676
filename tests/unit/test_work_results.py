"""Results of tasks as JSON: each type comes back as it was, and nothing else is taken for one."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.strict_json import Unreadable
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.land.compact import join
from aqueduct.land.replay import try_again
from aqueduct.land.reset import cut_files
from aqueduct.land.task import land_share
from aqueduct.land.verify import read_files, read_topic
from aqueduct.link.dedup.task import dedup
from aqueduct.mirror.reconcile.run import look_closer, read_share
from aqueduct.snapshots.backup.reading import write_share
from aqueduct.snapshots.backup.verify import check
from aqueduct.snapshots.export.task import export_share
from aqueduct.snapshots.importer.run import import_share
from aqueduct.snapshots.restore.positions import answer
from aqueduct.snapshots.restore.records import restore
from aqueduct.snapshots.restore.recount import recount
from aqueduct.work import results

TASKS = (
    *(write_share, check, restore, recount, answer, export_share, import_share),
    *(land_share, join, try_again, cut_files, read_files, read_topic, dedup, read_share, look_closer),
)


class Kind(StrEnum):
    GOOD = "good"


class Row(NamedTuple):
    topic: str
    offset: int | None = None


@dataclass(frozen=True)
class Whole:
    kind: Kind
    rows: tuple[Row, ...]
    by_row: Mapping[Row, int]
    counts: Counter[tuple[str, bool]]
    names: set[str]
    id: UUID
    key: bytes
    seconds: float
    either: Row | str | None


WHOLE = Whole(
    Kind.GOOD,
    (Row("t", 1), Row("t")),
    {Row("t", 1): 2},
    Counter({("t", True): 3}),
    {"a"},
    UUID(int=1),
    b"\xff",
    1.5,
    Row("u"),
)


def loaded(hint: Any, written: bytes) -> Any:
    return results.loads(hint, written)[1]


def example(hint: Any, number: int) -> Any:
    """Return a value of a type; of a union, the type by that number."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return example(arguments[number % len(arguments)], number)
    if origin is tuple and ... not in arguments:
        return tuple(example(each, number) for each in arguments)
    if origin in (list, tuple, set):
        return origin([example(arguments[0], number)])
    if origin is not None:  # a mapping; Counter has no type of numbers
        value = arguments[1] if len(arguments) > 1 else int
        kind = Counter if origin is Counter else dict
        return kind({example(arguments[0], number): example(value, number)})
    if hasattr(hint, "_fields") or is_dataclass(hint):
        return hint(**{name: example(each, number) for name, each in get_type_hints(hint).items()})
    if hint is NoneType:
        return None
    return next(iter(hint)) if issubclass(hint, Enum) else hint(number)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.__module__}.{task.__name__}")
def test_results_of_each_task_survive_round_trip(task: Callable[..., Any], number: int) -> None:
    hint = results.result_type(task)
    result = example(hint, number)
    assert loaded(hint, results.dumps(hint, result)) == result


def test_all_types_come_back_as_they_were() -> None:
    assert loaded(Whole, results.dumps(Whole, WHOLE)) == WHOLE
    for either in ("text", None):
        assert loaded(Row | str | None, results.dumps(Row | str | None, either)) == either


def test_numbers_of_numpy_are_numbers() -> None:
    assert loaded(list[int], results.dumps(list[int], [np.int64(7)])) == [7]
    assert loaded(bool, results.dumps(bool, np.bool_(True))) is True


@pytest.mark.parametrize("error", [Failed("store-damaged", "It is."), Refused("It can't be."), Failed("")])
def test_errors_come_back_with_identifier_and_code(error: AqueductError) -> None:
    found = loaded(int, results.dumps(int, error))
    assert (type(found), found.id, found.sentence) == (type(error), error.id, error.sentence)


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    told = json.loads(results.dumps(Whole, WHOLE))
    change(told["result"])
    return json.dumps(told).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.pop("id"),
        lambda value: value.update(more=1),
        lambda value: value.update(kind="bad"),
        lambda value: value.update(rows=[["t"]]),
        lambda value: value.update(rows=[["t", [0, True]]]),
        lambda value: value.update(rows=[["t", [2, 1]]]),
        lambda value: value.update(rows=[["t", [0.0, 1]]]),
        lambda value: value.update(rows={"t": 1}),
        lambda value: value.update(rows=[["t", [0, 2**127]]]),
        lambda value: value.update(by_row=[[["t", None], 1]] * 2),
        lambda value: value.update(names=[["a"]]),
        lambda value: value.update(id="1"),
        lambda value: value.update(key="%"),
        lambda value: value.update(seconds="1.5"),
        lambda value: value.update(either=[0]),
    ],
)
def test_another_value_is_none(change: Callable[[dict[str, Any]], object]) -> None:
    assert loaded(Whole, changed(lambda _: None)) == WHOLE
    with pytest.raises(Unreadable):
        results.loads(Whole, changed(change))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x05]\x94.",
        b"[]",
        b"null",
        b'{"host":"h"}',
        b'{"host":"h","result":1,"error":[1,"",""]}',
        b'{"host":"h","result":true}',
        b'{"host":"h","result":1,"result":1}',
        b'{"host":"h","result":1' + b"0" * 5_000 + b"}",
        b'{"host":"h","result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"host":"","result":1}',
        b'{"host":"h\\n","result":1}',
        b'{"host":["h"],"result":1}',
        b'{"host":"h","error":[0,"",""]}',
        b'{"host":"h","error":[1,"X ",""]}',
        b'{"host":"h","error":[1,""]}',
    ],
)
def test_other_bytes_are_no_result(data: bytes) -> None:
    with pytest.raises(Unreadable):
        results.loads(int, data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_result_or_a_sentence(data: bytes) -> None:
    with pytest.raises(Unreadable):
        results.loads(Whole, data)


@pytest.mark.parametrize("hint", [object, Any, complex, list[object]])
def test_unsupported_result_type_raises_type_error(hint: Any) -> None:
    with pytest.raises(TypeError):
        results.codec(hint)
