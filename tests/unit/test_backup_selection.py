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


def test_a_name_is_no_pattern_and_a_pattern_matches_whole_names() -> None:
    assert TopicSelection(("audit.events",)).choose(THERE) == ["audit.events"]
    assert pattern("audit.events").choose(THERE) == ["audit-events", "audit.events"]
    assert pattern("fl").choose([*THERE, "fl"]) == ["fl"]


def test_internal_topics_come_by_name_only_and_the_groups_topic_means_the_groups() -> None:
    assert pattern(".*").choose(THERE) == ["audit-events", "audit.events", "flights"]
    assert TopicSelection(("__other", "__consumer_offsets")).choose(THERE) == ["__other"]
    assert pattern("__.*").choose(THERE) == ["__other"]
    assert "__other" not in pattern(".*").choose(THERE)
    assert TopicSelection(("__consumer_offsets",)).choose([]) == []


def test_excluded_ones_are_left() -> None:
    chosen = TopicSelection(pattern=compiled(".*", ""), exclude=compiled("audit.*", "")).choose(THERE)
    assert chosen == ["flights"]


@pytest.mark.parametrize("name", ["__transaction_state", "__share_group_state"])
def test_kafka_s_own_topics_are_refused_by_name_and_no_pattern_has_them(name: str) -> None:
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


def test_a_later_round_skips_what_is_gone_and_backs_up_the_others() -> None:
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


def test_each_part_of_a_pattern_without_a_match_is_skipped() -> None:
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
def test_a_later_round_without_any_topic_is_no_snapshot(topics: TopicSelection) -> None:
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
