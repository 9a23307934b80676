"""The promise of script/demo, from a machine without its lab: every flow has every record at both ends, and
SQL over the table that the flights land in answers what they are.
"""

import json
import re
import shlex
import subprocess
import time
from collections import defaultdict

import pytest

from demo import canaries
from demo.__main__ import LAB
from demo.flights import flights

# All flights of 2013 from Newark and from JFK.
EWR, JFK = 120_835, 111_279
RECORDS = {
    "pro1 -> dwdev1 mirror": EWR,
    "pro2 -> dwdev1 mirror": JFK,
    "pro1 -> dwpro1 mirror": EWR,
    "pro2 -> dwpro1 mirror": JFK,
    "pro1 -> enclave link": EWR,
    "dwdev1 -> file connector": EWR + JFK,
}
ROW = re.compile(r"^(\w+ -> \w+ (?:mirror|link|connector)) +(\d.*)$", re.MULTILINE)
SUMMARY = re.compile(r"([\d,]+) (?:records|lost datagrams) were (sent|repaired|missing|resent)")
WORKERS = ("dwpro1-spark-2", "dwpro1-spark-3")
DELAYS = re.compile(r"^(\w\w) +([\d,]+) +(-?[\d.]+) min$", re.MULTILINE)
RECAP = re.compile(r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE)
PAGE = re.compile(r"^ +(curl .*)$", re.MULTILINE)
Rows = dict[str, list[str]]


@pytest.fixture(scope="module")
def rows(said: str) -> Rows:
    """Return the table, by flow."""
    return {flow: cells.split() for flow, cells in ROW.findall(said)}


def test_every_flow_has_a_row(rows: Rows) -> None:
    assert rows.keys() == RECORDS.keys()


@pytest.mark.parametrize("flow", RECORDS)
def test_every_record_is_at_both_ends(rows: Rows, flow: str) -> None:
    records_in, records_out, equal, per_second, lag, *_ = rows[flow]
    assert (records_in, records_out) == (f"{RECORDS[flow]:,}",) * 2
    assert (equal, lag) == ("yes", "0")
    assert number(per_second) > 0


def test_link_losses_are_repaired_or_resent(said: str, rows: Rows) -> None:
    repaired, resent = map(number, rows["pro1 -> enclave link"][5:])
    assert repaired > 0
    assert 0 < resent < EWR
    summary = {what: number(figure) for figure, what in SUMMARY.findall(said)}
    assert summary == {"sent": EWR, "repaired": repaired, "missing": resent, "resent": resent}


def test_both_lake_workers_run_reconcile_tasks(said: str) -> None:
    told = re.search(
        r"^  Spark .* ran (\d+) tasks? on (\S+) and (\d+) tasks? on (\S+)\. ", said, re.MULTILINE
    )
    assert told is not None
    assert (told[2], told[4]) == WORKERS
    # Each of two flows has two ends, which are read by a task each.
    assert int(told[1]) + int(told[3]) >= 4


def test_the_page_that_is_named_shows_the_reconciles(said: str) -> None:
    command = PAGE.search(said)
    assert command is not None

    def shown() -> list[str]:
        asked = subprocess.run([*shlex.split(command[1]), "--silent"], check=True, capture_output=True)
        return [each["name"] for each in json.loads(asked.stdout)]

    deadline = time.monotonic() + 600  # it looks for new logs every 10 s
    while shown().count("aqueduct reconcile") < 2:
        assert time.monotonic() < deadline, shown()
        time.sleep(1)


def test_sql_over_the_table_answers_what_was_written(said: str) -> None:
    assert (
        f"flights.departures: every landed offset exists there exactly once; compared {EWR + JFK:,} rows in "
    ) in said
    delays = defaultdict(list)
    for origin in ("EWR", "JFK"):
        for flight in flights(origin):
            row = json.loads(flight.value)
            delays[row["carrier"]].append(row["dep_delay"])
    answer = {carrier: (number(count), float(average)) for carrier, count, average in DELAYS.findall(said)}
    assert {carrier: count for carrier, (count, _) in answer.items()} == {
        carrier: len(each) for carrier, each in delays.items()
    }
    for carrier, each in delays.items():
        known = [delay for delay in each if delay is not None]
        assert answer[carrier][1] == pytest.approx(sum(known) / len(known), abs=0.006)


@pytest.fixture(scope="module")
def known(said: str) -> dict[str, str]:
    """Return the secrets of the demo's estate."""
    assert said
    return canaries.secrets(LAB.pki)


def test_no_secret_is_told_on_a_host(known: dict[str, str]) -> None:
    kept, told = canaries.search(LAB, known)
    assert kept  # a search that finds nothing proves nothing
    assert told == []


def test_second_run_changes_nothing_and_prints_no_secret(known: dict[str, str]) -> None:
    command = ["ansible-playbook", "-vvv", "--diff", "playbooks/site.yml"]
    again = subprocess.run(command, capture_output=True, text=True)
    assert canaries.in_text(known, again.stdout + again.stderr) == []
    assert again.returncode == 0, again.stdout[-3000:]
    hosts = RECAP.findall(again.stdout)
    assert len(hosts) == 10
    assert [each for each in hosts if each[1:] != ("0", "0", "0")] == []


def number(cell: str) -> int:
    return int(cell.replace(",", ""))
