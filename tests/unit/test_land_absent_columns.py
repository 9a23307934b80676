"""Columns that no record has are told once, with counts."""

from aqueduct.land import declaration
from aqueduct.land.absent_columns import Unseen, UnseenColumn

[TABLE, OTHER] = declaration.parse(
    [
        {
            "table": name,
            "topics": ["t"],
            "columns": [
                {"name": "a", "type": "int"},
                {"name": "b", "type": "int", "from": "x.b"},
                {"name": "c", "type": "string", "from": "$key"},
            ],
        }
        for name in ("lake.one", "lake.other")
    ],
    "lake.yml",
)


def test_what_no_record_has_is_told_once() -> None:
    unseen = Unseen()
    unseen.add(TABLE, 0, [])
    assert not list(unseen.tell(TABLE))
    assert not list(unseen.tell(OTHER))
    unseen.add(TABLE, 7, ["a"])
    unseen.add(TABLE, 5, ["c"])
    assert list(unseen.tell(TABLE)) == [UnseenColumn("b", "x.b", 12)]
    unseen.add(TABLE, 5, [])
    assert not list(unseen.tell(TABLE))
    unseen.add(OTHER, 1, ["b"])
    assert [each.column for each in unseen.tell(OTHER)] == ["a", "c"]


def test_nothing_is_told_where_all_is_there() -> None:
    unseen = Unseen()
    unseen.add(TABLE, 3, ["c", "b", "a"])
    assert not list(unseen.tell(TABLE))
