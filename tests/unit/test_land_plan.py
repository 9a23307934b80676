"""What a round reads, and what of it counts when something broke off."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from kit.identifiers import raises

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Refused
from aqueduct.land import declaration, log
from aqueduct.land.log import State
from aqueduct.land.plan import (
    NO_LEADER,
    LandPlan,
    ReadRange,
    SourceTopic,
    absent,
    epochs_to_ask,
    lag,
    next_schema,
    plan,
    settle,
    shares,
)

COLUMN = {"name": "n", "type": "bigint"}
A = SourceTopic(name="a", id="id-of-a", starts=(5, 0), ends=(10, 100))


def planned(state: State, *topics: SourceTopic, at_most: int = 1_000, **stops: int) -> LandPlan:
    places = {TopicPartition(name[:-1], int(name[-1])): stop for name, stop in stops.items()}
    every = {topic.name for topic in topics} | {"undeclared"}
    return plan(state, topics, every, stops=places, at_most=at_most)


def landed(positions: dict[str, dict[str, int]]) -> State:
    return State(number=1, positions=positions, topic_ids={name: f"id-of-{name}" for name in positions})


def test_a_pattern_without_a_topic_is_left_out() -> None:
    [table] = declaration.parse(
        [{"table": "a.b", "topics": ["flights", "eu.+", "a|b"], "columns": [COLUMN]}], ""
    )
    every = {"a", "us"}
    assert table.unmatched(every) == ("eu.+",)
    assert table.unmatched({"eu1", "b"}) == ()
    found = plan(State(), [A], every, stops={}, unmatched=table.unmatched(every))
    assert [(each.id, each.what) for each in found.left_out] == [("pattern-matches-nothing", "topics eu.+")]
    assert found.ranges == (Range("a", 0, 5, 10), Range("a", 1, 0, 100))


def test_declared_topics_that_the_cluster_lacks_are_listed() -> None:
    topics = ["flights", "gone", "eu.+"]
    [table] = declaration.parse([{"table": "a.b", "topics": topics, "columns": [COLUMN]}], "")
    found = absent(table, landed({"gone": {"0": 3}}), {"flight", "us"})
    assert [(each.id, each.what) for each in found] == [
        ("pattern-matches-nothing", "topics eu.+"),
        ("topic-unknown", "topic flights"),
    ]
    assert absent(table, State(), {"flights", "gone", "eu1"}) == ()


def test_a_new_topic_lands_from_its_start_on() -> None:
    found = planned(State(), A)
    assert found.ranges == (Range("a", 0, 5, 10), Range("a", 1, 0, 100))
    assert found.next == {"a": {"0": 10, "1": 100}}
    assert (found.gaps, found.left_out, found.whole) == ((), (), True)
    assert found.topic_ids == {"a": "id-of-a"}


def test_offsets_that_are_gone_are_a_gap() -> None:
    found = planned(landed({"a": {"0": 3, "1": 100}}), A)
    assert found.ranges == (Range("a", 0, 5, 10),)
    assert found.gaps == (Range("a", 0, 3, 5),)
    assert found.topic_ids == {}


def test_log_truncated_then_grown_is_skipped() -> None:
    state = replace(landed({"a": {"0": 7, "1": 100}}), epochs={"a": {"0": 3, "1": 3}})
    partition = TopicPartition("a", 0)
    assert epochs_to_ask(state, [A]) == {partition: 3, TopicPartition("a", 1): 3}
    assert epochs_to_ask(state, [replace(A, id="another")]) == {}
    found = plan(state, [A], {"a"}, stops={}, epoch_ends={partition: 6, TopicPartition("a", 1): 100})
    assert [(skipped.id, skipped.what) for skipped in found.left_out] == [("landed-topic-truncated", "a-0")]
    assert {"6", "7"} <= {*re.findall(r"\d+", found.left_out[0].why)}
    assert found.ranges == ()
    whole = plan(state, [A], {"a"}, stops={}, epoch_ends={partition: 7})
    assert (whole.left_out, whole.ranges) == ((), (Range("a", 0, 7, 10),))


def test_added_partition_has_gap_before_its_start() -> None:
    found = planned(landed({"a": {"1": 100}}), A)
    assert found.gaps == (Range("a", 0, 0, 5),)


def test_topic_no_longer_declared_keeps_its_position() -> None:
    found = planned(landed({"a": {"0": 10, "1": 100}, "undeclared": {"0": 7}}), A)
    assert found.left_out == ()
    assert found.next["undeclared"] == {"0": 7}


def test_a_partition_without_a_leader_is_left_out() -> None:
    found = planned(State(), SourceTopic(name="a", id="id-of-a", starts=(0, 0), ends=(NO_LEADER, 9)))
    assert found.ranges == (Range("a", 1, 0, 9),)
    assert [(skipped.id, skipped.what) for skipped in found.left_out] == [
        ("landed-partition-leaderless", "a-0")
    ]
    assert found.next == {"a": {"1": 9}}


def test_what_can_t_be_landed_is_left_out() -> None:
    state = landed({"a": {"0": 11, "1": 100}, "gone": {"0": 1}})
    found = planned(state, A)
    assert [(skipped.id, skipped.what) for skipped in found.left_out] == [
        ("landed-topic-missing", "topic gone"),
        ("landed-topic-truncated", "a-0"),
    ]
    assert found.next == state.positions
    assert found.ranges == ()
    again = planned(
        landed({"a": {"0": 7, "1": 100}}), SourceTopic(name="a", id="another", starts=(0, 0), ends=(9, 9))
    )
    assert [(skipped.id, skipped.what) for skipped in again.left_out] == [
        ("landed-topic-recreated", "topic a")
    ]
    assert again.ranges == ()


def test_lag_counts_only_available_records_not_landed() -> None:
    assert lag(State(), [A]) == 5 + 100
    assert lag(landed({"a": {"0": 7, "1": 100}}), [A]) == 3
    assert lag(landed({"a": {"0": 3, "1": 100}}), [A]) == 5


@pytest.mark.parametrize(
    ("positions", "topic", "epoch_end"),
    [
        ({"0": 10, "1": 0}, replace(A, ends=(10, NO_LEADER)), 10),
        ({"0": 11, "1": 100}, A, 11),
        ({"0": 10, "1": 100}, A, 6),
        ({"0": 10, "1": 100}, replace(A, id="another"), 10),
        ({"0": 10, "1": 100, "2": 5}, A, 10),
    ],
)
def test_lag_is_unknown_where_landing_stands_still(
    positions: dict[str, int], topic: SourceTopic, epoch_end: int
) -> None:
    state = landed({"a": positions})
    assert lag(state, [topic], {TopicPartition("a", 0): epoch_end}) is None


def test_lag_without_any_partition_is_unknown() -> None:
    assert lag(State(), []) is None
    assert lag(landed({"a": {"0": 5}}), []) is None


def test_missing_topics_count_while_declared() -> None:
    state = landed({"a": {"0": 10, "1": 100}, "gone": {"0": 1}})
    for takes, ids in ((lambda _: True, ["landed-topic-missing"]), (lambda name: name == "a", [])):
        found = plan(state, [A], {"a"}, stops={}, takes=takes)
        assert [skipped.id for skipped in found.left_out] == ids
        assert found.next == state.positions


def test_a_round_ends_where_it_is_told() -> None:
    found = planned(State(), A, a1=40)
    assert found.next == {"a": {"0": 10, "1": 40}}
    assert found.whole


def test_round_limits_long_partitions_and_completes_short_ones() -> None:
    found = planned(State(), A, at_most=50)
    assert found.ranges == (Range("a", 0, 5, 10), Range("a", 1, 0, 45))
    assert not found.whole
    assert found.next == {"a": {"0": 10, "1": 45}}


@pytest.mark.parametrize("seed", range(50))
def test_rounds_read_everything_once(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    topics = [
        SourceTopic(
            name=name,
            id=f"id-of-{name}",
            starts=starts,
            ends=tuple(at + chance.choice([0, 1, 9, 200]) for at in starts),
        )
        for name in "ab"
        for starts in [tuple(chance.randrange(50) for _ in range(3))]
    ]
    state, seen = State(), []
    for _ in range(1_000):
        todo = planned(state, *topics, at_most=chance.choice([1, 7, 100]))
        seen += [
            (each.topic, each.partition, at) for each in todo.ranges for at in range(each.start, each.stop)
        ]
        state = State(number=1, positions=todo.next, topic_ids={**state.topic_ids, **todo.topic_ids})
        if todo.whole:
            break
    wanted = [
        (topic.name, number, at)
        for topic in topics
        for number, (start, end) in enumerate(zip(topic.starts, topic.ends, strict=True))
        for at in range(start, end)
    ]
    assert sorted(seen) == wanted


def results(todo: LandPlan, at_most: int, broken: dict[int, int]) -> list[list[ReadRange]]:
    """Read in tasks; partition 0 breaks off at these offsets."""
    found: list[list[ReadRange]] = []
    for share in shares(todo.ranges, at_most):
        read = []
        for each in share:
            breaks = [at for at in broken if each.start <= at < each.stop and each.partition == 0]
            read.append(
                ReadRange(range=each, reached=min(breaks, default=each.stop), why="broken" if breaks else "")
            )
        found.append(read)
    return found


@pytest.mark.parametrize("seed", range(100))
def test_settled_ranges_cover_exactly_offsets_before_positions(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    topic = SourceTopic(
        name="a", id="id-of-a", starts=(0, 0, 0), ends=tuple(chance.randrange(1, 60) for _ in range(3))
    )
    todo = planned(State(), topic)
    read = results(
        todo, chance.choice([5, 20, 100]), {chance.randrange(60): 1 for _ in range(chance.randrange(3))}
    )
    positions, counts = settle(todo, read)
    rows: Sequence[tuple[int, int]] = [
        (each.range.partition, at)
        for n in counts
        for each in read[n]
        for at in range(each.range.start, each.reached)
    ]
    assert sorted(rows) == [(number, at) for number in range(3) for at in range(positions["a"][str(number)])]
    broken = {each.range.partition for share in read for each in share if each.why}
    assert all(
        positions["a"][str(each)] == todo.next["a"][str(each)] for each in range(3) if each not in broken
    )
    assert all(positions["a"][str(each)] in range(60) for each in broken)


def test_failed_partition_does_not_affect_other_partitions() -> None:
    todo = planned(State(), SourceTopic(name="a", id="id-of-a", starts=(0, 0), ends=(10, 2)))
    positions, counts = settle(todo, results(todo, 7, {0: 0}))
    assert positions == {"a": {"0": 0, "1": 2}}
    assert counts == {0}


def test_columns_can_only_be_added() -> None:
    def table(columns: list[dict[str, str]], **more: object) -> declaration.LandTable:
        [found] = declaration.parse([{"table": "a.b", "topics": ["t"], "columns": columns, **more}], "file")
        return found

    x, y = {"name": "x", "type": "int"}, {"name": "y", "type": "string"}
    time = {"name": "t", "type": "timestamp"}
    old = table([x])
    state = State(number=1, schema=1, definition=log.definition(old))
    assert next_schema(State(), log.definition(old), old) == 1
    assert next_schema(state, log.definition(old), old) == 1
    timed = table([time])
    known = State(number=1, schema=1, definition=log.definition(timed))
    for changed in ({**time, "zone": "Europe/Paris"}, {**time, "unit": "s"}):
        other = table([changed])
        with raises(Refused, "table-change-unsupported") as refused:
            next_schema(known, log.definition(other), other)
        assert " t is read as " in str(refused.value)
    more = table([x, y])
    assert next_schema(state, log.definition(more), more) == 2
    by_day = {"partition_by": [{"name": "day", "of": "t", "every": "day"}]}
    late = table([time], **by_day, late={"table": "a.late", "after": "1d"})
    without = table([time], **by_day)
    plain = State(number=1, schema=1, definition=log.definition(without))
    gained = log.definition(late, plain.definition)
    assert (gained.late, next_schema(plain, gained, late)) == ("a.late", 2)
    grown = State(number=2, schema=2, definition=gained)
    assert next_schema(grown, log.definition(without, gained), without) == 2
    other = table([time], **by_day, late={"table": "a.other", "after": "1d"})
    with raises(Refused, "table-change-unsupported") as refused:
        next_schema(grown, log.definition(other, gained), other)
    assert {"a.other", "a.late"} <= {*re.findall(r"[a-z]+\.[a-z]+", str(refused.value))}
    for wrong in (
        table([y]),
        table([{"name": "x", "type": "bigint"}]),
        table([x], poison="a.elsewhere"),
        table(
            [x, {"name": "t", "type": "timestamp"}], partition_by=[{"name": "day", "of": "t", "every": "day"}]
        ),
    ):
        with raises(Refused, "table-change-unsupported"):
            next_schema(state, log.definition(wrong), wrong)
