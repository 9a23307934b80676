"""After each fault, the ledger lists the missing records. After a resend, each record exists once."""

from dataclasses import replace
from pathlib import Path

import pytest
from crossing import Crossing
from faults import ALL, FAULTS
from table import Outcome, Row, inflict_all, total

# One seed of each class of fault in CI; `script/scenario cross --all` runs them all.
SEEDS = range(1, 6) if ALL else range(1, 2)
ROWS = [(fault, seed) for fault in FAULTS for seed in (SEEDS if fault.seeded else SEEDS[:1])]


@pytest.fixture(scope="module")
def outcome(crossing: Crossing) -> Outcome:
    outcome = inflict_all(crossing, SEEDS)
    print(f"\n{outcome}")
    file: Path = crossing.lab.inventory / "reports/faults.md"
    file.write_text(str(outcome))
    return outcome


@pytest.fixture(params=range(len(ROWS)), ids=[f"{fault.name}, seed {seed}" for fault, seed in ROWS])
def row(outcome: Outcome, request: pytest.FixtureRequest) -> Row:
    return outcome.rows[request.param]


def test_the_ledger_tells_the_truth(row: Row) -> None:
    assert total(row.sent) > 0
    assert row.listed_records == row.missing
    assert row.false_gaps == {}
    assert row.lost == 0


def test_what_was_sent_again_completes_it(row: Row) -> None:
    assert not any(row.gaps_afterwards.values())
    assert row.differences() == []


@pytest.mark.parametrize("name", ["transactions", "compacted", "filter"])
def test_comparison_detects_gap_where_no_record_is_missing(outcome: Outcome, name: str) -> None:
    """Of offsets that are aborted, compacted or withheld, which no reader of records sees."""
    [row] = [row for row in outcome.rows if (row.fault.name, row.seed) == (name, SEEDS[0])]
    number, sent = next((number, sent) for number, sent in row.sent.items() if sent)
    held = {offset for offset, _ in sent}
    nothing = next(offset for offset in range(sent[-1][0]) if offset not in held)
    false = replace(row, gaps={**row.gaps, number: [*row.gaps[number], (nothing, nothing)]})
    assert false.listed_records == row.listed_records
    assert false.false_gaps == {number: [(nothing, nothing)]}


def test_order_is_kept_within_what_arrived(outcome: Outcome, row: Row) -> None:
    if not row.fault.several_ways:
        came = outcome.came[row.fault.second].get(row.topic, {})
        assert row.steps_back(came) == []


def test_faults_that_should_lose_something_did(outcome: Outcome) -> None:
    """Else the table would prove nothing."""
    lossy = {"loss 20 %", "bursts of up to 300", "lost tail", "receiver is away", "foreign keys", "filter"}
    lost = {row.fault.name for row in outcome.rows if total(row.missing)}
    assert lossy - lost == set()
    assert sum(row.repaired for row in outcome.rows) > 0
    assert outcome.bundled >= sum(total(row.missing) for row in outcome.rows)


def test_a_restart_of_the_receiving_end_loses_nothing(outcome: Outcome) -> None:
    rows = [row for row in outcome.rows if row.fault.name == "receiver restarts"]
    assert [total(row.missing) for row in rows] == [0] * len(SEEDS)


def test_nothing_flowed_back_meanwhile(outcome: Outcome) -> None:
    before, after = outcome.packets_out
    assert after == before
