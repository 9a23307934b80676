from uuid import UUID

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.link.ledger.bundle import Bundle, MissingOffsets, bundle, dumps, loads
from aqueduct.link.ledger.entry import LedgerPartition
from aqueduct.link.ledger.lineage import Lineage

A, B = (str(UUID(int=number)) for number in (10, 11))
LEDGER = [
    LedgerPartition(
        topic="b", partition=0, current=Lineage(topic_id=B, first=0, next=99, gaps=[(7, 8), (20, 29)])
    ),
    LedgerPartition(
        topic="a",
        partition=1,
        current=Lineage(topic_id=A, first=0, next=99),
        retired={"old": Lineage(topic_id="old", first=0, next=9, gaps=[(1, 1)])},
    ),
    LedgerPartition(
        topic="a", partition=0, current=Lineage(topic_id=A, first=0, next=99, gaps=[(5, 5)], lost=[(1, 2)])
    ),
]


def test_all_lists_every_gap_that_can_be_sent() -> None:
    text = dumps(bundle(LEDGER, "all"))
    assert text == (
        '{"type": "all", "results": '
        f'[{{"topic": "a", "partition": 0, "gaps": [[5, 5]], "topic_id": "{A}"}}, '
        f'{{"topic": "b", "partition": 0, "gaps": [[7, 8], [20, 29]], "topic_id": "{B}"}}]}}'
    )
    assert loads(text, "here") == bundle(LEDGER, "all")


def test_first_lists_the_first_of_each_partition() -> None:
    assert bundle(LEDGER, "first").results == [
        MissingOffsets(topic="a", partition=0, gaps=[(5, 5)], topic_id=A),
        MissingOffsets(topic="b", partition=0, gaps=[(7, 8)], topic_id=B),
    ]


def test_a_bundle_without_topic_ids_is_one() -> None:
    text = '{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [[5, 5]]}]}'
    assert loads(text, "here") == Bundle("all", [MissingOffsets(topic="a", partition=0, gaps=[(5, 5)])])
    assert dumps(loads(text, "here")) == text


def test_nothing_missing_is_an_empty_list() -> None:
    assert dumps(Bundle("all", [])) == '{"type": "all", "results": []}'


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", '"type"'),
        ('{"type": "some", "results": []}', '"type"'),
        ('{"type": "all"}', '"results"'),
        ('{"type": "all", "results": [1]}', "result 1"),
        ('{"type": "all", "results": [{"partition": 0, "gaps": []}]}', 'result 1 "topic"'),
        ('{"type": "all", "results": [{"topic": "a", "partition": "0", "gaps": []}]}', "(a) '0'"),
        ('{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [[2, 1]]}]}', "a-0"),
        ('{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [[true, 1]]}]}', "a-0"),
        (
            '{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [], "topic_id": 7}]}',
            'a-0 "topic_id"',
        ),
        (
            '{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": []},'
            ' {"topic": "a", "partition": 0, "gaps": []}]}',
            "",
        ),
    ],
)
def test_what_is_no_bundle(text: str, facts: str) -> None:
    with raises(Refused, "bundle-invalid") as refused:
        loads(text, "here")
    assert str(refused.value).startswith("here")
    assert [fact for fact in facts.split() if fact not in str(refused.value)] == []
