import pytest

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Refused
from aqueduct.mirror.reconcile.flow import ComparedLane, ComparedTopics, lanes, topic_partitions

AT_SOURCE = ["__consumer_offsets", "audit-events", "audit.events", "flights", "b"]


def choose(names: str | None = None, pattern: str | None = None, prefix: str = "") -> dict[str, str]:
    return ComparedTopics.parse(names, pattern, prefix).choose([["flights"], AT_SOURCE])


def test_by_name() -> None:
    assert choose("flights,b:c") == {"flights": "flights", "b": "c"}
    assert choose("flights,b:c", prefix="pro1.") == {"flights": "pro1.flights", "b": "c"}
    assert choose("__consumer_offsets") == {"__consumer_offsets": "__consumer_offsets"}


def test_a_name_is_no_pattern() -> None:
    assert choose("audit.events") == {"audit.events": "audit.events"}


def test_by_pattern_of_whole_names() -> None:
    assert choose(pattern="audit.events") == {"audit-events": "audit-events", "audit.events": "audit.events"}
    assert choose(pattern="b|flight") == {"b": "b"}
    assert choose(pattern=".*", prefix="p.").keys() == set(AT_SOURCE) - {"__consumer_offsets"}
    assert choose(pattern="b", prefix="p.") == {"b": "p.b"}


@pytest.mark.parametrize(
    ("names", "pattern", "sentence"),
    [
        ("flights,nosuch", None, "No source has a topic nosuch that its client may describe."),
        (None, "flight", "No source has a topic whose whole name matches flight."),
        (None, "__consumer.*", "No source has a topic whose whole name matches"),
        (
            None,
            "fl(ights",
            ("The topics pattern fl(ights is not a valid regular expression: missing ), unterminated"),
        ),
        ("flights;b", None, "'flights;b' in --topics is not a valid topic name"),
        ("a:", None, "'' in --topics is not a valid topic name"),
        (":b", None, "'' in --topics is not a valid topic name"),
        ("a,", None, "'' in --topics is not a valid topic name"),
        ("a:b:c", None, "'b:c' in --topics is not a valid topic name"),
        ("a,a", None, "--topics lists a twice"),
        ("a:c,b:c", None, "--topics lists b:c twice, or two topics with the same target name"),
        ("", None, "'' in --topics is not a valid topic name"),
    ],
)
def test_refusals(names: str | None, pattern: str | None, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        choose(names, pattern)
    assert sentence in str(refused.value)


def test_lanes_are_all_partitions_of_any_end() -> None:
    names = {"a": "x", "b": "b"}
    partitions = [{"x": 1, "b": 3, "other": 5}, {"a": 2, "b": 1}, {"b": 2}]
    wanted = topic_partitions(names, partitions)
    assert wanted == [
        [("x", 0), ("b", 0), ("b", 1), ("b", 2)],
        [("a", 0), ("a", 1), ("b", 0)],
        [("b", 0), ("b", 1)],
    ]
    found = [{place: Range(*place, number, 10) for place in end} for number, end in enumerate(wanted)]
    assert list(lanes(names, found)) == [
        ComparedLane("x", 0, (Range("x", 0, 0, 10), Range("a", 0, 1, 10), None)),
        ComparedLane("x", 1, (None, Range("a", 1, 1, 10), None)),
        ComparedLane("b", 0, (Range("b", 0, 0, 10), Range("b", 0, 1, 10), Range("b", 0, 2, 10))),
        ComparedLane("b", 1, (Range("b", 1, 0, 10), None, Range("b", 1, 2, 10))),
        ComparedLane("b", 2, (Range("b", 2, 0, 10), None, None)),
    ]


def test_pattern_part_without_topic_is_skipped() -> None:
    topics = ComparedTopics.parse(None, r"(?!(?:b)$)(?:flights|fligths|audit\..*|b)")
    skipped = topics.unmatched(topics.choose([AT_SOURCE]))
    assert [(of.id, of.what) for of in skipped] == [
        ("pattern-matches-nothing", "topics fligths"),
        ("pattern-matches-nothing", "topics b"),
    ]


def test_named_topic_without_compared_partition_is_skipped() -> None:
    """Such as one that is deleted after the topics were chosen: nothing of it was compared."""
    topics = ComparedTopics.parse("flights,b:c", None)
    assert topics.unmatched(["flights", "b"]) == ()
    [skipped] = topics.unmatched(["flights"])
    assert (skipped.id, skipped.what) == ("topic-unknown", "topic b")
