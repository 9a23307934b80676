"""The promise of script/demo: from a machine without its lab, every flow has every record at both ends."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

# All flights of 2013 from Newark and from JFK.
EWR, JFK = 120_835, 111_279
RECORDS = {
    "pro1 -> dwdev1": EWR,
    "pro2 -> dwdev1": JFK,
    "pro1 -> dwpro1": EWR,
    "pro2 -> dwpro1": JFK,
    "pro1 => enclave": EWR,
    "dwdev1 +> files": EWR + JFK,
}
ROW = re.compile(r"^(\w+ [-=+]> \w+) +(.*)$", re.MULTILINE)
Rows = dict[str, list[str]]


@pytest.fixture(scope="module")
def rows() -> Iterator[Rows]:
    """Run the demo, and yield its table, by flow.

    What the demo says is shown as it comes (pytest --capture=no).
    """
    subprocess.run(["script/lab-down"], check=True)
    said = ""
    try:
        with subprocess.Popen(
            ["script/demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as demo:
            assert demo.stdout is not None
            for line in demo.stdout:
                sys.stdout.write(line)
                said += line
        assert demo.returncode == 0
        yield {flow: cells.split() for flow, cells in ROW.findall(said)}
    finally:
        subprocess.run(["script/lab-down"], check=True)


def test_every_flow_has_a_row(rows: Rows) -> None:
    assert rows.keys() == RECORDS.keys()


@pytest.mark.parametrize("flow", RECORDS)
def test_every_record_is_at_both_ends(rows: Rows, flow: str) -> None:
    records_in, records_out, equal, per_second, lag, *_ = rows[flow]
    assert (records_in, records_out) == (f"{RECORDS[flow]:,}",) * 2
    assert (equal, lag) == ("yes", "0")
    assert number(per_second) > 0


def test_what_the_link_lost_was_repaired_or_sent_again(rows: Rows) -> None:
    sent, repaired, missing, resent = map(number, rows["pro1 => enclave"][5:])
    assert sent == EWR
    assert repaired > 0
    assert 0 < missing < EWR
    assert resent == missing


def number(cell: str) -> int:
    return int(cell.replace(",", ""))
