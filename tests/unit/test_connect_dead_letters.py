import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.connect import replay_ledger
from aqueduct.connect.dead_letters import Choice, Origin, origin, sent_back
from aqueduct.connect.replay_ledger import BLOCK, ReplayLedger
from aqueduct.errors import Failed
from aqueduct.kafka.batches.bodies import Header, body, headers, key_and_value

CONTEXT: list[Header] = [
    (b"__connect.errors.topic", b"flights"),
    (b"__connect.errors.partition", b"3"),
    (b"__connect.errors.offset", b"42"),
    (b"__connect.errors.connector.name", b"sink"),
    (b"__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    (b"__connect.errors.exception.stacktrace", None),
]
ORIGIN = Origin("flights", 3, 42, "sink", "org.apache.kafka.connect.errors.DataException")
OWN: list[Header] = [(b"h", b"1"), (b"h", None), (b"", b"")]

contents = st.none() | st.binary(max_size=20)
own_headers = st.lists(st.tuples(st.binary(max_size=5), contents), max_size=5)


def test_names_that_no_letter_has_are_found() -> None:
    choice = Choice(error_classes=("DataException", "Misspelt"), connector="sink")
    assert choice.names == {"DataException", "Misspelt", "sink"}
    assert choice.names - choice.named_by(ORIGIN) == {"Misspelt"}
    assert choice.named_by(ORIGIN._replace(connector="other")) == {"DataException"}
    assert Choice(error_classes=(), connector=None).names == frozenset()


@given(contents, contents, own_headers)
def test_a_body_is_what_it_was_made_of(
    key: bytes | None, value: bytes | None, own: list[tuple[bytes, bytes | None]]
) -> None:
    whole = body(key, value, own)
    assert (*key_and_value(whole), headers(whole)) == (key, value, own)


@given(st.binary(max_size=30))
def test_headers_of_what_is_no_body(data: bytes) -> None:
    whole = body(b"key", b"value", [(b"name", data)])
    for end in range(len(whole)):
        with pytest.raises((IndexError, ValueError)):
            headers(whole[:end])


def test_connects_headers_tell_where_a_letter_came_from() -> None:
    assert origin([*OWN, *CONTEXT]) == ORIGIN
    assert origin(OWN) is None
    assert origin(CONTEXT[3:]) is None
    assert origin([*CONTEXT[1:], (b"__connect.errors.topic", b"\xff")]) is None
    assert origin([*CONTEXT[:1], *CONTEXT[2:], (b"__connect.errors.partition", b"none")]) is None


def test_replayed_letter_keeps_original_headers_and_counts_replays() -> None:
    once = sent_back([*OWN, *CONTEXT])
    assert once == [*OWN, (b"aqueduct.replay", b"1")]
    assert sent_back([*once, *CONTEXT]) == [*OWN, (b"aqueduct.replay", b"2")]
    assert sent_back([*OWN, (b"aqueduct.replay", b"x"), *CONTEXT]) == [*OWN, (b"aqueduct.replay", b"1")]


def test_replay_of_nested_dead_letter_restores_inner_one() -> None:
    """The sink itself reads a dead-letter topic."""
    second: list[Header] = [
        (b"__connect.errors.topic", b"dead"),
        (b"__connect.errors.partition", b"0"),
        (b"__connect.errors.offset", b"7"),
        *CONTEXT[3:],
    ]
    letter = [*OWN, *CONTEXT, *second]
    found = origin(letter)
    assert found is not None
    assert found[:3] == ("dead", 0, 7)
    assert sent_back(letter) == [*OWN, *CONTEXT, (b"aqueduct.replay", b"1")]


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        (Choice(), True),
        (Choice(error_classes=("DataException",)), True),
        (Choice(error_classes=("X", "org.apache.kafka.connect.errors.DataException")), True),
        (Choice(error_classes=("Data",)), False),
        (Choice(connector="sink"), True),
        (Choice(connector="other"), False),
        (Choice(first_time=1000), True),
        (Choice(first_time=1001), False),
        (Choice(last_time=1000), True),
        (Choice(last_time=999), False),
        (Choice(error_classes=("DataException",), connector="sink", first_time=1000, last_time=1000), True),
    ],
)
def test_letters_are_chosen(choice: Choice, taken: bool) -> None:
    assert choice.takes(ORIGIN, 1000) is taken


places = st.tuples(st.integers(0, 2), st.integers(0, 3 * BLOCK) | st.integers(BLOCK - 3, BLOCK + 3))


@given(st.lists(st.lists(places, max_size=10), max_size=5))
def test_replay_ledger_has_exactly_noted_letters(runs: Sequence[Sequence[tuple[int, int]]]) -> None:
    topic: dict[str, str] = {}
    for letters in runs:  # each begins with what the topic says
        ledger = ReplayLedger.parse("a/b", "id", topic)
        topic |= ledger.entries(letters)
    every = {letter for letters in runs for letter in letters}
    ledger = ReplayLedger.parse("a/b", "id", topic)
    around = {(partition, offset + by) for partition, offset in every for by in (-1, 0, 1)}
    assert {letter for letter in around if ledger.has(*letter)} == every
    assert len(topic) == len({(partition, offset // BLOCK) for partition, offset in every})


def test_replay_ledger_belongs_to_topic_and_topic_id() -> None:
    entries = ReplayLedger("dead", "id", {}).entries([(0, 5), (0, 6), (1, BLOCK)])
    assert entries == {
        "dead/0/0": '{"topic_id": "id", "replayed": [[5, 6]], "epoch": -1}',
        "dead/1/1": f'{{"topic_id": "id", "replayed": [[{BLOCK}, {BLOCK}]], "epoch": -1}}',
    }
    assert ReplayLedger.parse("dead", "id", entries).has(0, 5)
    assert not ReplayLedger.parse("dead", "of the topic made anew", entries).has(0, 5)
    assert not ReplayLedger.parse("dead/0", "id", entries).has(0, 5)


def test_letters_that_a_log_lost_are_forgotten() -> None:
    letters = [*((0, offset) for offset in range(10)), (1, 3), (2, BLOCK + 1)]
    written = ReplayLedger("dead", "id").entries(letters, {0: 4, 1: 4})
    assert json.loads(written["dead/0/0"])["epoch"] == 4
    ledger = ReplayLedger.parse("dead", "id", written)
    assert ledger.epochs == {4: {0, 1}}
    # Partition 0 has grown past its letters again; 2 has no epoch, and ends before its letter.
    ledger.forget_cut({0: 50, 1: 4, 2: BLOCK}, {(0, 4): 6, (1, 4): 4})
    assert [ledger.spans(partition) for partition in (0, 1, 2)] == [[(0, 5)], [(3, 3)], []]
    ledger = ReplayLedger.parse("dead", "id", written)
    ledger.forget_cut({0: 50, 1: 4}, {(0, 4): -1, (1, 4): -1})  # an epoch that the leader does not know
    assert ledger.spans(0) == [(0, 9)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dead", "{}"),
        ("dead/0/0", "[]"),
        ("dead/0/0", "{"),
        ("dead/0/0", '{"topic_id": "id"}'),
        ("dead/x/0", '{"topic_id": "id", "replayed": []}'),
        ("dead/0/0", '{"topic_id": "id", "replayed": [1]}'),
    ],
)
def test_what_is_no_ledger_is_named(key: str, value: str) -> None:
    with raises(Failed, "dead-letter-ledger-invalid") as caught:
        ReplayLedger.parse("dead", "id", {key: value})
    assert repr(key) in str(caught.value)


def test_an_entry_stays_small() -> None:
    """Every second letter of a block is the worst."""
    [entry] = (
        ReplayLedger("dead", "id").entries((0, 10**12 + offset) for offset in range(0, BLOCK, 2)).values()
    )
    assert len(entry) < 250_000
    assert replay_ledger.TOPIC == "aqueduct.dlq.replayed"
