"""When a range that did not arrive was noticed first."""

import pytest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.link.ledger import entry
from aqueduct.link.ledger.entry import LedgerPartition, partitions, records
from aqueduct.link.ledger.lineage import Lineage
from aqueduct.link.ledger.losses import LOST, MISSING, LossHistory


def history(*states: LedgerPartition) -> tuple[LossHistory, dict[TopicPartition, LedgerPartition]]:
    """Return the history of a partition that was written in these states, each a second later."""
    found = LossHistory()
    table: dict[str, str] = {}
    for number, state in enumerate(states, start=1):
        for key, value in records(state, updated=number * 1000, before=[*table]).items():
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
                found.add(key, value)
    return found, partitions(table)


def state(gaps: list[tuple[int, int]], lost: list[tuple[int, int]] | None = None) -> LedgerPartition:
    return LedgerPartition(
        topic="t", partition=0, current=Lineage(topic_id="id", first=0, next=100, gaps=gaps, lost=lost or [])
    )


def listed(*states: LedgerPartition, most: int = 9) -> list[tuple[str, int, int, int, bool]]:
    found, ledger = history(*states)
    return [
        (each.kind, each.first, each.last, each.noticed // 1000, each.is_latest)
        for each in found.newest(ledger, most)
    ]


def test_missing_range_has_time_of_first_ledger_entry() -> None:
    states = [state([(1, 5)]), state([(1, 5), (10, 12)]), state([(1, 5), (10, 20)])]
    assert listed(*states) == [
        (MISSING, 13, 20, 3, False),
        (MISSING, 10, 12, 2, False),
        (MISSING, 1, 5, 1, True),
    ]
    assert listed(*states, most=1) == [(MISSING, 13, 20, 3, False)]


def test_what_has_arrived_since_is_not_listed() -> None:
    assert listed(state([]), state([(1, 9)]), state([(1, 3), (8, 9)])) == [
        (MISSING, 1, 3, 2, False),
        (MISSING, 8, 9, 2, False),
    ]
    assert listed(state([(1, 9)]), state([])) == []


def test_lost_range_has_time_of_loss() -> None:
    assert listed(state([(1, 9)]), state([(6, 9)], [(1, 5)])) == [
        (LOST, 1, 5, 2, False),
        (MISSING, 6, 9, 1, True),
    ]


def test_gaps_of_recreated_topic_are_lost() -> None:
    recreated = LedgerPartition(
        topic="t",
        partition=0,
        current=Lineage(topic_id="new", first=0, next=3),
        retired={"id": Lineage(topic_id="id", first=0, next=100, gaps=[(1, 9)], lost=[])},
    )
    assert listed(state([]), state([(1, 9)]), recreated) == [(LOST, 1, 9, 2, False)]


def test_an_entry_of_several_records_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "PER_RECORD", 2)
    gaps = [(number * 10, number * 10 + 1) for number in range(5)]
    assert listed(state([(0, 1)]), state(gaps), state([*gaps, (90, 91)]))[:2] == [
        (MISSING, 90, 91, 3, False),
        (MISSING, 10, 11, 2, False),
    ]
