"""How tables look as Iceberg's, what they lack of their logs, and which snapshots may go."""

import math
import random
import re
from datetime import date

import pytest

from aqueduct.land import declaration, iceberg_table, log
from aqueduct.land.declaration import LandTable
from aqueduct.land.hive_table import HiveColumn
from aqueduct.land.log import AddedFile, State


def table() -> LandTable:
    columns = [
        {"name": "small", "type": "smallint"},
        {"name": "list", "type": "array<tinyint>"},
        {"name": "at", "type": "timestamp"},
    ]
    declared = {
        "table": "lake.flights",
        "topics": ["flights"],
        "columns": columns,
        "partition_by": [{"name": "day", "of": "at", "every": "day"}],
        "late": {"table": "lake.late", "after": "1d"},
        "kind": "iceberg",
    }
    [found] = declaration.parse([declared], "lake.yml")
    return found


def file(path: str) -> AddedFile:
    return AddedFile(path=path, rows=1, bytes=1, sha256="")


def state(number: int = 1, live: tuple[str, ...] = ()) -> State:
    return State(
        number=number,
        positions={"t": {"0": 7}},
        live={path: file(path) for path in live},
        definition=log.definition(table()),
    )


def test_table_has_day_column_and_iceberg_types() -> None:
    mine, bad, late = iceberg_table.tables("hdfs://names:8020/lake", table(), state(live=("a", "b")))
    types = {each.name: each.type for each in mine.hive.columns}
    assert (types["small"], types["list"], types["day"]) == ("int", "array<int>", "date")
    assert mine.hive.columns[-1] == HiveColumn("day", "date", "day of at")
    assert mine.hive.partition is None
    assert (mine.day, bad.day, late.day) == ("day", None, "day")
    assert mine.properties["table_type"] == "ICEBERG"
    assert mine.properties["write.metadata.path"] == "hdfs://names:8020/lake/lake/flights/_iceberg/metadata"
    assert mine.place("a") == "hdfs://names:8020/lake/lake/flights/a"
    assert mine.path(mine.place("a")) == "a"
    assert (set(mine.files), set(bad.files), set(late.files)) == ({"a", "b"}, set(), set())


def test_a_file_s_day_is_in_its_path() -> None:
    assert iceberg_table.day("_iceberg/data/day=1970-01-02/1.orc") == 1
    assert iceberg_table.day("_iceberg/data/day=1969-12-31/1.orc") == -1
    assert iceberg_table.day("_iceberg/data/day=9999-12-31/1.orc") == (date.max - date(1970, 1, 1)).days
    assert iceberg_table.day("_iceberg/data/day=__HIVE_DEFAULT_PARTITION__/1.orc") is None


def test_what_a_table_lacks_and_has_too_much() -> None:
    mine = iceberg_table.tables("file:///lake", table(), state(live=("a", "b")))[0]
    change = iceberg_table.change(mine, ["b", "c"])
    assert (change.added, change.removed) == ((file("a"),), {"c"})
    assert not iceberg_table.change(mine, ["a", "b"])
    columns = list(mine.hive.columns)
    assert iceberg_table.lacking(mine.hive, columns[1:]) == (columns[0],)
    day = [("day", "identity")]
    assert iceberg_table.unfit(mine, columns[1:], day) is None
    assert iceberg_table.unfit(mine, [HiveColumn("small", "string", "")], day) == (
        "its column small is of type string, not int"
    )


def test_table_with_other_partitioning_is_unfit() -> None:
    mine, bad, _ = iceberg_table.tables("file:///lake", table(), state())
    assert iceberg_table.unfit(bad, bad.hive.columns, []) is None
    assert iceberg_table.unfit(bad, bad.hive.columns, [("k_topic", "identity")]) == (
        "it is partitioned by k_topic, not by nothing"
    )
    assert iceberg_table.unfit(mine, mine.hive.columns, [("at", "day"), ("small", "bucket[4]")]) == (
        "it is partitioned by day of at, bucket[4] of small, not by day"
    )
    assert iceberg_table.unfit(mine, mine.hive.columns, []) == "it is partitioned by nothing, not by day"


def test_snapshot_properties_have_commit_and_positions() -> None:
    """Positions that are too long for a property are omitted."""
    assert iceberg_table.snapshot_properties(state(3)) == {
        "aqueduct.commit": "3",
        "aqueduct.positions": '{"t":{"0":7}}',
    }
    many = State(number=4, positions={"t": {str(number): 1 << 40 for number in range(1000)}})
    assert iceberg_table.snapshot_properties(many) == {"aqueduct.commit": "4"}


@pytest.mark.parametrize(
    ("begins", "gone"),
    [
        ([], []),
        ([(1, 0.0)], []),  # it is the table still
        ([(1, 0.0), (2, 50.0)], [1]),
        ([(1, 0.0), (2, 95.0)], []),  # somebody who began a while ago may read it
        ([(1, 0.0), (2, 10.0), (3, 80.0), (4, 95.0)], [1, 2]),
    ],
)
def test_snapshots_go_that_ended_long_ago(begins: list[tuple[int, float]], gone: list[int]) -> None:
    assert iceberg_table.expirable(begins, now=100.0, keep=15.0) == gone


@pytest.mark.parametrize(
    ("parents", "gone", "held", "beside"),
    [
        ({1: None, 2: 1, 3: 2, 4: 3}, {1, 2}, {4}, {3, 4}),  # as they follow each other: the first that stays
        ({1: None, 2: 1, 3: 2, 4: 3}, {2}, {1, 4}, {1, 3, 4}),  # a tag keeps the first
        ({1: None, 2: 1, 3: 2, 4: 2, 5: 4}, {1, 2}, {5}, {3, 4, 5}),  # rolled back to 2, and went on
        ({1: None, 2: 1, 3: 2, 4: 2, 5: 4}, {3}, {5}, {1, 2, 5}),
        ({3: 2, 4: 2, 5: 4}, {3}, {5}, {4, 5}),  # 2 went before
        ({3: None, 4: None, 5: 4}, {3}, {5}, {4, 5}),  # PyIceberg forgets it then
        ({1: None, 2: 1, 4: None, 5: 4}, {4}, {1, 2, 5}, {1, 2, 5}),  # two tags, and 3 went before
        ({1: None, 2: 1, 4: None}, {4}, {2}, {1, 2}),  # rolled back to 2, and 3 went before
    ],
)
def test_few_snapshots_tell_which_manifests_stay(
    parents: dict[int, int | None], gone: set[int], held: set[int], beside: set[int]
) -> None:
    assert iceberg_table.beside(parents, gone, held) == beside


@pytest.mark.parametrize("seed", range(200))
def test_manifests_of_kept_snapshots_are_never_removed(seed: int) -> None:
    """Snapshots of a chain add a manifest each, and drop some; some are tagged, others expire by turns."""
    chance = random.Random(seed)  # noqa: S311
    has: dict[int, set[int]] = {1: {1}}
    for number in range(2, 12):
        has[number] = {each for each in has[number - 1] if chance.random() < 0.7} | {number}
    parents: dict[int, int | None] = {number: number - 1 if number > 1 else None for number in has}
    held = {number for number in has if chance.random() < 0.4} | {11}
    while expired := sorted(parents.keys() - held):
        gone = set(expired[: chance.randrange(1, 4)])
        keeping = iceberg_table.beside(parents, gone, held)
        removed = set().union(*(has[each] for each in gone)) - set().union(*(has[each] for each in keeping))
        stay = parents.keys() - gone
        assert not removed & set().union(*(has[each] for each in stay))
        parents = {number: None if parents[number] in gone else parents[number] for number in stay}


@pytest.mark.parametrize(
    ("told", "began"),
    [
        ([(10, 10), (20, 20)], [10, 20]),
        ([(10, math.inf), (20, math.inf)], [10, 20]),  # no clock was behind
        ([(10, 10), (500, math.inf), (500, 30), (500, 40)], [10, 30, 30, 40]),  # it was ahead, and came back
        ([(500, math.inf)], [100]),
        ([(50, math.inf), (50, 20), (60, 60)], [50, 50, 60]),  # it was set back: nothing goes too early
    ],
)
def test_a_clock_that_was_ahead_tells_no_beginning(
    told: list[tuple[float, float]], began: list[float]
) -> None:
    assert iceberg_table.began(told, now=100.0) == began


def test_a_log_that_lost_commits_is_told() -> None:
    assert iceberg_table.ahead(table(), 3, state(3)) == ""
    sentence = iceberg_table.ahead(table(), 4, state(3))
    assert re.search(r"\blake\.flights\b.*\bcommit 4\b.*\b3\b.*_land/commits", sentence)
    assert not re.search(r"\b(drop|delete|remove)", sentence)
