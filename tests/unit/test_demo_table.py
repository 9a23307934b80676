"""Rows of the demo's table, and the shortened table in README."""

import re
from pathlib import Path
from typing import Any

import pytest

from demo.sink import Content
from demo.table import HEADS, Row, link_summary, table

README = Path(__file__).resolve().parents[2] / "README.md"
MIRROR = {"source": "pro1", "target": "lake", "per_second": 12.4, "behind": 0}
LINK = {**MIRROR, "target": "enclave", "sent": 1_009, "repaired": 2, "missing": 3, "resent": 4}


def report(
    missing: int = 0, extra: int = 0, *, timestamps: bool = True, exit_code: int = 0
) -> dict[str, Any]:
    """Build a report of `aqueduct reconcile`: two partitions, the faults in the second."""
    partitions = [
        {
            "source_records": 4,
            "target_records": 4 - lacks + more,
            "timestamps": right,
            "target": {"extra": {"records": more}},
            "sources": [{"missing": {"records": lacks}}],
        }
        for lacks, more, right in ((0, 0, True), (missing, extra, timestamps))
    ]
    return {"exit_code": exit_code, "partitions": partitions}


def cells(line: str) -> list[str]:
    """Split a line of the table: columns are two spaces or more apart."""
    return re.split(r" {2,}", line.strip())


def test_mirror_row_has_no_link_figures() -> None:
    head, row = table([Row.of_mirror(MIRROR, report())]).splitlines()
    assert cells(head) == [*HEADS]
    assert cells(row) == ["pro1 -> lake mirror", "8", "8", "yes", "12", "0", "-", "-"]


def test_link_row_has_datagrams_and_records() -> None:
    assert Row.of_link(LINK, report()).cells()[-2:] == ("2", "4")


def test_link_summary_counts_records_missing_before_resend() -> None:
    figures = re.findall(r"([\d,]+) (lost datagrams|records) were (\w+)", link_summary(LINK))
    assert figures == [
        ("1,009", "records", "sent"),
        ("2", "lost datagrams", "repaired"),
        ("3", "records", "missing"),
        ("4", "records", "resent"),
    ]


@pytest.mark.parametrize(
    ("make", "streamed"), [(Row.of_mirror, MIRROR), (Row.of_link, LINK)], ids=["mirror", "link"]
)
@pytest.mark.parametrize("wrong", [{"missing": 1}, {"extra": 1}, {"timestamps": False}], ids=str)
def test_missing_and_extra_records_are_unequal(make: Any, streamed: Any, wrong: dict[str, Any]) -> None:
    row = make(streamed, report(**wrong, exit_code=3))
    assert not row.equal
    assert "NO" in row.cells()


def test_order_is_compared_only_for_mirrors() -> None:
    assert Row.of_link(LINK, report(exit_code=3)).equal
    assert not Row.of_mirror(MIRROR, report(exit_code=3)).equal


def test_connector_row_compares_topic_and_file() -> None:
    sink = {"site": "lake", "records_in": 8, "records_out": 7, "equal": False, "per_second": 12.4}
    row = ("lake -> file connector", "8", "7", "NO", "12", "1", "-", "-")
    assert Row.of_sink(sink).cells() == row


def test_columns_are_aligned_whatever_the_sites_are_called() -> None:
    long = Row.of_mirror({**MIRROR, "source": "a-site-with-a-long-name"}, report())
    lines = table([long, Row.of_link(LINK, report())]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert all(len(cells(line)) == len(HEADS) for line in lines)


def test_readme_shows_the_demo_table() -> None:
    """README leaves out rows and the column records/s; what it shows has the form that the demo prints."""
    shown = re.search(r"^```text\n(flow .*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert shown is not None
    head, *rows = map(cells, shown[1].splitlines())
    assert head == [name for name in HEADS if name != "records/s"]
    assert len(rows) >= 3
    printed = [cells(line) for line in table([made(row) for row in rows]).splitlines()[1:]]
    for row in printed:
        del row[HEADS.index("records/s")]
    assert rows == printed


def made(row: list[str]) -> Row:
    """Make the row of a mirror, a link or a connector that has the figures of a row in README."""
    flow, records_in, records_out, equal, lag, repaired, resent = row
    source, target, kind = re.fullmatch(r"(\w+) -> (\w+) (\w+)", flow).groups()  # type: ignore[union-attr]
    ends = {"source": source, "target": target, "site": source, "equal": equal == "yes", "per_second": 0.0}
    figures = {"records_in": number(records_in), "records_out": number(records_out), "behind": number(lag)}
    compared = report(exit_code=0 if equal == "yes" else 3)
    for partition, count_in, count_out in zip(
        compared["partitions"], (figures["records_in"], 0), (figures["records_out"], 0), strict=True
    ):
        partition |= {"source_records": count_in, "target_records": count_out}
    match kind:
        case "mirror":
            return Row.of_mirror(ends | figures, compared)
        case "link":
            of_link = {"repaired": number(repaired), "resent": number(resent)}
            return Row.of_link(ends | figures | of_link, compared)
        case _:
            return Row.of_sink(ends | figures)


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_content_ignores_order_but_not_values() -> None:
    assert Content.of([b"a", b"b", b"b"]) == Content.of([b"b", b"a", b"b"])
    assert Content.of([b"a", b"b", b"b"]) != Content.of([b"a", b"a", b"b"])
    assert Content.of([b"a", b"b"]) != Content.of([b"a", b"b", b"b"])
