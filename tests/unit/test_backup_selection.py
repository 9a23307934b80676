import pytest
from kit.identifiers import raises

from aqueduct.errors import NoMatch, Refused
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.selection import GroupSelection, TopicSelection, compiled
from aqueduct.snapshots.backup.survey import gone

THERE = ["audit-events", "audit.events", "flights", "__consumer_offsets", "__other"]


def pattern(text: str) -> TopicSelection:
    return TopicSelection(pattern=compiled(text, "--topics-pattern"))


def test_name_is_literal_and_pattern_matches_whole_names() -> None:
    assert TopicSelection(("audit.events",)).choose(THERE) == ["audit.events"]
    assert pattern("audit.events").choose(THERE) == ["audit-events", "audit.events"]
    assert pattern("fl").choose([*THERE, "fl"]) == ["fl"]


def test_internal_topics_are_chosen_explicitly_offsets_topic_never() -> None:
    """By name, `__consumer_offsets` means the consumer groups, which always exist."""
    assert pattern(".*").choose(THERE) == ["audit-events", "audit.events", "flights"]
    assert TopicSelection(("__other", "__consumer_offsets")).choose(THERE) == ["__other"]
    assert pattern("__.*").choose(THERE) == ["__other"]
    assert "__other" not in pattern(".*").choose(THERE)
    assert TopicSelection(("__consumer_offsets",)).choose([]) == []


def test_excluded_ones_are_left() -> None:
    chosen = TopicSelection(pattern=compiled(".*", ""), exclude=compiled("audit.*", "")).choose(THERE)
    assert chosen == ["flights"]


@pytest.mark.parametrize("name", ["__transaction_state", "__share_group_state"])
def test_reserved_topics_are_refused_and_never_match_patterns(name: str) -> None:
    with raises(Refused, "topic-reserved", "--topics", name):
        TopicSelection((name, "flights")).choose([*THERE, name])
    assert name not in pattern(".*").choose([*THERE, name])


@pytest.mark.parametrize(
    ("topics", "id_", "facts"),
    [
        (TopicSelection(("nope", "flights")), "topic-unknown", ("nope", "--topics")),
        (pattern("nope"), "pattern-matches-nothing", ("topic", "nope")),
        (
            TopicSelection(("flights",), exclude=compiled("f.*", "")),
            "pattern-matches-nothing",
            ("--exclude-topics-pattern f.*",),
        ),
    ],
)
def test_nothing_to_back_up_is_refused(topics: TopicSelection, id_: str, facts: tuple[str, ...]) -> None:
    with raises(Refused, id_, *facts):
        topics.choose(THERE)


def test_later_round_skips_only_missing_topics_and_groups() -> None:
    named = TopicSelection(("gone", "flights"))
    with raises(NoMatch, "topic-unknown", "gone"):
        named.choose(THERE)
    assert named.choose(THERE, again=True) == ["flights"]
    groups = GroupSelection(compiled("z", "--groups-pattern"))
    assert groups.choose(["a"], again=True) == []
    order = BackupOrder(
        end=End("cluster", "b:9092"), store="file:///s", topics=named, groups=groups, again=True
    )
    assert [each.id for each in gone(order, THERE, [])] == ["topic-unknown", "pattern-matches-nothing"]
    assert gone(order, [*THERE, "gone"], ["z"]) == ()


def test_each_unmatched_alternative_of_pattern_is_skipped() -> None:
    groups = GroupSelection(compiled("bill.*|a", "--groups-pattern"))
    order = BackupOrder(
        end=End("cluster", "b:9092"), store="file:///s", topics=pattern("flights|fligths"), groups=groups
    )
    skipped = gone(order, THERE, groups.choose(["a"]))
    assert [(of.id, of.what) for of in skipped] == [
        ("pattern-matches-nothing", "topics fligths"),
        ("pattern-matches-nothing", "groups bill.*"),
    ]


@pytest.mark.parametrize(
    "topics",
    [TopicSelection(("gone",)), pattern("gone.*"), TopicSelection(("flights",), exclude=compiled("f.*", ""))],
)
def test_later_round_without_topics_makes_no_snapshot(topics: TopicSelection) -> None:
    with pytest.raises(NoMatch):
        topics.choose(THERE, again=True)


def test_groups_are_all_but_ours_and_the_excluded() -> None:
    there = ["b", "a", "aqueduct-backup-1", "aqueduct-restore-2", "ab"]
    assert GroupSelection().choose(there) == ["a", "ab", "b"]
    assert GroupSelection(compiled("a.*", ""), ("ab",)).choose(there) == ["a"]
    assert GroupSelection().choose([]) == []
    assert GroupSelection(exclude=("b", "nope")).absent(there) == ["nope"]
    with raises(Refused, "pattern-matches-nothing", "group", "z"):
        GroupSelection(compiled("z", "")).choose(there)


def test_a_pattern_that_does_not_compile_is_refused() -> None:
    with raises(Refused, "pattern-invalid", "--topics-pattern (", "position 0"):
        compiled("(", "--topics-pattern")


@pytest.mark.parametrize(("exclude", "is_idle"), [("audit.*", False), ("audit", True), (None, False)])
def test_an_exclusion_that_matches_no_topic_is_reported(exclude: str | None, is_idle: bool) -> None:
    selection = TopicSelection(pattern=compiled(".*", ""), exclude=compiled(exclude, ""))
    said = selection.idle_exclusion(THERE)
    assert said.startswith("[pattern-matches-nothing] ") == is_idle
    assert bool(said) == is_idle
