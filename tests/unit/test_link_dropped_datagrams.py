"""Logs of dropped datagrams: soon, seldom, and in no words but ours."""

from dataclasses import fields

from aqueduct.link.dropped_datagrams import MEANING, Strangers
from aqueduct.link.log_throttle import MOST, SECONDS, Seldom
from aqueduct.link.wire.counters import Counters


def test_drop_reason_is_logged_immediately_then_every_minute() -> None:
    of = Seldom()
    assert [of.due("a", 1, now) for now in range(60)] == [1, *[0] * 59]
    assert of.due("b", 2, 59) == 2
    assert of.due("a", 0, SECONDS) == 59
    assert of.due("a", 0, 10 * SECONDS) == 0
    assert of.due("a", 1, 10 * SECONDS) == 1


def test_number_of_immediate_drop_reports_is_limited() -> None:
    of = Seldom()
    told = [of.due(number, 1, 0.0) for number in range(10_000)]
    assert sum(map(bool, told)) == MOST + 1
    assert of.due("another", 1, SECONDS) == 10_000 - MOST


def test_each_drop_reason_is_logged_with_explanation() -> None:
    of, counters = Strangers(), Counters(keys_of_strangers=3, shards_again=7, shards=9)
    [sentence] = of.sentences(counters, 0.0)
    assert sentence.startswith("dropped 3 datagrams (keys_of_strangers): ")
    counters.keys_of_strangers += 10_000
    counters.other_link = 1
    [sentence] = of.sentences(counters, 1.0)
    assert "(other_link)" in sentence
    assert list(of.sentences(counters, SECONDS - 1)) == []
    [sentence] = of.sentences(counters, SECONDS)
    assert sentence.startswith("dropped 10000 datagrams (keys_of_strangers)")


def test_every_kind_that_is_told_of_is_counted() -> None:
    assert MEANING.keys() <= {each.name for each in fields(Counters)}
