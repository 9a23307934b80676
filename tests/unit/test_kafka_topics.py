import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.kafka import topics
from aqueduct.kafka.topics import ActualTopic, DeclaredTopic, TopicChanges

KEYS = ("retention.ms", "cleanup.policy", "compression.type")
NAMES = ("a", "b", "c", "d")
values = st.sampled_from(["1", "-1", "compact", "delete,compact", "true"])
declared_topics = st.lists(
    st.builds(
        DeclaredTopic,
        name=st.sampled_from(NAMES),
        partitions=st.integers(1, 5),
        replication_factor=st.none() | st.integers(1, 3),
        config=st.dictionaries(st.sampled_from(KEYS), st.none() | values),
    ),
    unique_by=lambda topic: topic.name,
)
actual_topics = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        ActualTopic,
        partitions=st.integers(1, 5),
        replication_factors=st.frozensets(st.integers(1, 3), min_size=1),
        config=st.dictionaries(st.sampled_from(KEYS), values),
    ),
)


def done(plan: TopicChanges, actual: dict[str, ActualTopic]) -> dict[str, ActualTopic]:
    """Return the topics after a controller has done what is planned."""
    after = dict(actual)
    for topic in plan.create:
        own = {key: value for key, value in topic.config.items() if value is not None}
        after[topic.name] = ActualTopic(
            partitions=topic.partitions,
            replication_factors=frozenset({topic.replication_factor or 1}),
            config=own,
        )
    for name in plan.grow.keys() | plan.alter.keys():
        old = after[name]
        config: dict[str, str | None] = {**old.config, **plan.alter.get(name, {})}
        after[name] = ActualTopic(
            partitions=plan.grow.get(name, old.partitions),
            replication_factors=old.replication_factors,
            config={key: value for key, value in config.items() if value is not None},
        )
    return after


@given(declared_topics, actual_topics)
def test_executed_plan_is_complete_and_keeps_undeclared_settings(
    declared: list[DeclaredTopic], actual: dict[str, ActualTopic]
) -> None:
    shrinks = {t.name for t in declared if t.name in actual and actual[t.name].partitions > t.partitions}
    if shrinks:
        with raises(Refused, "topic-partitions-exceed-declaration") as refused:
            topics.plan(declared, actual)
        assert shrinks == set(re.findall(r"(\w) \(\d+, declared", str(refused.value)))
        return
    after = done(topics.plan(declared, actual), actual)
    assert not topics.plan(declared, after).touched()
    for topic in declared:
        has = after[topic.name]
        assert has.partitions == topic.partitions
        assert all(has.config.get(key) == value for key, value in topic.config.items())
    for name, topic_before in actual.items():
        declared_keys = {key for topic in declared if topic.name == name for key in topic.config}
        kept = topic_before.config.keys() - declared_keys
        assert all(after[name].config[key] == topic_before.config[key] for key in kept)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (True, "true"),
        ("True", "true"),
        (-1, "-1"),
        ("604800000", "604800000"),
        (0.5, "0.5"),
        ("0.50", "0.5"),
        ("compact, delete", "compact,delete"),
        (" producer", "producer"),
    ],
)
def test_a_value_equals_kafkas_spelling_of_it(declared: object, found: str) -> None:
    parsed = topics.parse([{"name": "t", "partitions": 1, "config": {"k": declared}}])
    assert not topics.plan(
        parsed, {"t": ActualTopic(partitions=1, replication_factors=frozenset({1}), config={"k": found})}
    ).alter


def test_yamls_values_become_kafkas_text() -> None:
    config = {"a": True, "b": -1, "c": 0.5, "d": "x, y", "e": None}
    [topic] = topics.parse([{"name": "t", "partitions": 1, "config": config}])
    assert topic.config == {"a": "true", "b": "-1", "c": "0.5", "d": "x, y", "e": None}


@pytest.mark.parametrize(
    ("declared", "found"),
    [("1", "2"), ("1", "1,1"), ("delete,compact", "compact,delete"), ("lz4", "LZ4"), ("", "0"), (None, "")],
)
def test_values_that_differ_are_altered(declared: str | None, found: str) -> None:
    plan = topics.plan(
        [DeclaredTopic(name="t", partitions=1, replication_factor=None, config={"k": declared})],
        {"t": ActualTopic(partitions=1, replication_factors=frozenset({1}), config={"k": found})},
    )
    assert plan.alter == {"t": {"k": declared}}


def test_refusal_names_every_shrinking_topic_with_counts() -> None:
    actual = {
        name: ActualTopic(partitions=6, replication_factors=frozenset({1}), config={}) for name in "abc"
    }
    declared = [
        DeclaredTopic(name="a", partitions=3),
        DeclaredTopic(name="b", partitions=6),
        DeclaredTopic(name="c", partitions=1),
    ]
    with raises(Refused, "topic-partitions-exceed-declaration") as refused:
        topics.plan(declared, actual)
    assert "a (6, declared 3), c (6, declared 1)" in str(refused.value)


def test_another_replication_factor_is_reported_and_changes_nothing() -> None:
    actual = {
        "a": ActualTopic(partitions=1, replication_factors=frozenset({1, 3}), config={}),
        "b": ActualTopic(partitions=1, replication_factors=frozenset({2}), config={}),
    }
    plan = topics.plan(
        [
            DeclaredTopic(name="a", partitions=1, replication_factor=3),
            DeclaredTopic(name="b", partitions=1, replication_factor=None),
        ],
        actual,
    )
    assert not plan.touched()
    [sentence] = plan.unmet
    assert sentence.startswith("1 topic with another replication factor than declared: a (1/3, declared 3).")


def test_all_declaration_mistakes_are_named_at_once() -> None:
    entries = [
        {"name": "with space", "partitions": 1},
        {"name": "..", "partitions": 1},
        {"name": "x" * 250, "partitions": 1},
        {"name": "twice", "partitions": 1},
        {"name": "twice", "partitions": 2},
        {"name": "none", "partitions": 0},
        {"name": "factor", "partitions": 1, "replication_factor": 0},
        {"name": "list", "partitions": 1, "config": {"cleanup.policy": ["compact"]}},
    ]
    with raises(Refused, "topic-declaration-invalid") as refused:
        topics.parse(entries)
    said = str(refused.value).split("; ")
    for mistake in (
        "'with space' is not",
        "'..' is not",
        f"'{'x' * 250}' is not",
        "twice is declared twice",
        "none has partitions: 0",
        "factor has replication_factor: 0",
        "list has cleanup.policy: ['compact']",
    ):
        assert any(mistake in sentence for sentence in said)


def test_the_diff_shows_what_changes_and_no_more() -> None:
    actual = {
        "old": ActualTopic(
            partitions=2,
            replication_factors=frozenset({1}),
            config={"retention.ms": "5", "cleanup.policy": "compact"},
        )
    }
    declared = [
        DeclaredTopic(
            name="old",
            partitions=4,
            replication_factor=None,
            config={"retention.ms": "6", "cleanup.policy": "compact"},
        ),
        DeclaredTopic(name="new", partitions=1, replication_factor=3, config={"retention.ms": "7"}),
    ]
    plan = topics.plan(declared, actual)
    assert topics.diff(plan, actual) == {
        "before": {"old": {"partitions": 2, "config": {"retention.ms": "5"}}},
        "after": {
            "new": {"partitions": 1, "replication_factor": 3, "config": {"retention.ms": "7"}},
            "old": {"partitions": 4, "config": {"retention.ms": "6"}},
        },
    }
