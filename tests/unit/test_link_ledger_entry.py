import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.common.offset_sets import spans_of
from aqueduct.errors import Failed
from aqueduct.link.ledger import entry
from aqueduct.link.ledger.entry import LedgerPartition, partitions, records
from aqueduct.link.ledger.lineage import Lineage

spans = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 3)).map(lambda each: (each[0], sum(each)))).map(
    spans_of
)


def lineages(topic_id: st.SearchStrategy[str]) -> st.SearchStrategy[Lineage]:
    return st.builds(
        Lineage, topic_id=topic_id, first=st.integers(0), next=st.integers(0), gaps=spans, lost=spans
    )


@given(
    st.builds(
        LedgerPartition,
        topic=st.sampled_from(["flights", "a.b_c-d"]),
        partition=st.integers(0, 9),
        current=lineages(st.just("current")),
        retired=st.lists(lineages(st.sampled_from(["one", "two"]))).map(
            lambda every: {each.topic_id: each for each in every}
        ),
    )
)
def test_written_and_read_again(partition: LedgerPartition) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "PER_RECORD", 3)
        written = records(partition, updated=1)
        assert all(
            value and len(json.loads(value)["gaps"] + json.loads(value)["lost"]) <= 3
            for value in written.values()
        )
        read = partitions({key: value for key, value in written.items() if value})
    assert read == {(partition.topic, partition.partition): partition}


def test_parts_without_use_become_tombstones() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "PER_RECORD", 1)
        many = LedgerPartition(
            topic="t",
            partition=0,
            current=Lineage(topic_id="id", first=0, next=9, gaps=[(1, 1), (3, 3), (5, 5)]),
        )
        before = records(many, updated=1)
        assert list(before) == ["t/0", "t/0/1", "t/0/2"]
        few = LedgerPartition(
            topic="t", partition=0, current=Lineage(topic_id="id", first=0, next=9, gaps=[(5, 5)])
        )
        after = records(few, updated=2, before=before)
    assert [key for key, value in after.items() if value is None] == ["t/0/1", "t/0/2"]


def test_recreated_topic_keeps_open_gaps_of_former_instance() -> None:
    partition = LedgerPartition(
        topic="t", partition=0, current=Lineage(topic_id="old", first=0, next=9, gaps=[(5, 5)])
    )
    new = partition.lineage("new", first=0)
    assert partition.current is new
    assert partition.lineage("old", first=0).gaps == [(5, 5)]
    assert partition.lineage("new", first=7) is new


@pytest.mark.parametrize(
    "found",
    [
        {"t/0": "x"},
        {"t/0": "{}"},
        {
            "t/0": records(
                LedgerPartition(topic="t", partition=0, current=Lineage(topic_id="i", first=0, next=1)), 1
            )["t/0"].replace(  # type: ignore[union-attr]
                '"parts": 0', '"parts": 1'
            )
        },
    ],
)
def test_what_is_no_ledger(found: dict[str, str]) -> None:
    with raises(Failed, "ledger-entry-invalid") as damaged:
        partitions(found)
    assert "'t/0'" in str(damaged.value)
