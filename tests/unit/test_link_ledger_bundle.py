from uuid import UUID

import pytest

from aqueduct.errors import Refused
from aqueduct.link.ledger.bundle import Bundle, MissingOffsets, bundle, dumps, loads
from aqueduct.link.ledger.entry import LedgerPartition
from aqueduct.link.ledger.lineage import Lineage

A, B = (str(UUID(int=number)) for number in (10, 11))
LEDGER = [
    LedgerPartition("b", 0, Lineage(B, 0, 99, gaps=[(7, 8), (20, 29)])),
    LedgerPartition("a", 1, Lineage(A, 0, 99), retired={"old": Lineage("old", 0, 9, gaps=[(1, 1)])}),
    LedgerPartition("a", 0, Lineage(A, 0, 99, gaps=[(5, 5)], lost=[(1, 2)])),
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
        MissingOffsets("a", 0, [(5, 5)], A),
        MissingOffsets("b", 0, [(7, 8)], B),
    ]


def test_a_bundle_without_topic_ids_is_one() -> None:
    text = '{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [[5, 5]]}]}'
    assert loads(text, "here") == Bundle("all", [MissingOffsets("a", 0, [(5, 5)])])
    assert dumps(loads(text, "here")) == text


def test_nothing_missing_is_an_empty_list() -> None:
    assert dumps(Bundle("all", [])) == '{"type": "all", "results": []}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", '"type" must be'),
        ('{"type": "some", "results": []}', '"type" must be'),
        ('{"type": "all"}', '"results" must be a list'),
        ('{"type": "all", "results": [1]}', "result 1 must be an object"),
        ('{"type": "all", "results": [{"partition": 0, "gaps": []}]}', 'result 1 has no "topic"'),
        ('{"type": "all", "results": [{"topic": "a", "partition": "0", "gaps": []}]}', "not '0'"),
        ('{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [[2, 1]]}]}', "from <= to"),
        ('{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [[true, 1]]}]}', "from <= to"),
        (
            '{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": [], "topic_id": 7}]}',
            'a UUID as "topic_id"',
        ),
        (
            '{"type": "all", "results": [{"topic": "a", "partition": 0, "gaps": []},'
            ' {"topic": "a", "partition": 0, "gaps": []}]}',
            "a partition twice",
        ),
    ],
)
def test_what_is_no_bundle(text: str, sentence: str) -> None:
    with pytest.raises(Refused, match="here.*" + sentence.replace("(", r"\(")):
        loads(text, "here")
