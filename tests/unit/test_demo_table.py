"""Rows of the demo's table."""

from typing import Any

import pytest

from demo.sink import Content
from demo.table import Row, table

MIRROR = {"source": "pro1", "target": "lake", "per_second": 12.4, "behind": 0}
LINK = {**MIRROR, "target": "enclave", "sent": 9, "repaired": 2, "missing": 3, "resent": 3}


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


def test_a_mirror_has_no_figures_of_a_link() -> None:
    head, row = table([Row.of("->", MIRROR, report())]).splitlines()
    assert head.split()[-4:] == ["sent", "repaired", "missing", "resent"]
    assert row.split() == ["pro1", "->", "lake", "8", "8", "yes", "12", "0", "-", "-", "-", "-"]


def test_a_link_has_them() -> None:
    assert str(Row.of("=>", LINK, report())).split()[-4:] == ["9", "2", "3", "3"]


@pytest.mark.parametrize("told", [MIRROR, LINK], ids=["mirror", "link"])
@pytest.mark.parametrize("wrong", [{"missing": 1}, {"extra": 1}, {"timestamps": False}], ids=str)
def test_a_record_too_few_or_too_many_is_seen(told: dict[str, Any], wrong: dict[str, Any]) -> None:
    row = Row.of("->", told, report(**wrong, exit_code=3))
    assert not row.equal
    assert " NO " in str(row)


def test_only_over_a_link_may_the_order_differ() -> None:
    assert Row.of("=>", LINK, report(exit_code=3)).equal
    assert not Row.of("->", MIRROR, report(exit_code=3)).equal


def test_a_connector_s_row_is_of_its_topic_and_its_files() -> None:
    told = {"site": "lake", "records_in": 8, "records_out": 7, "equal": False, "per_second": 12.4}
    assert str(Row.of_sink(told)).split() == ["lake", "+>", "files", "8", "7", "NO", "12", "1", *("-" * 4)]


def test_content_is_the_same_in_another_order_and_not_with_another_value() -> None:
    assert Content.of([b"a", b"b", b"b"]) == Content.of([b"b", b"a", b"b"])
    assert Content.of([b"a", b"b", b"b"]) != Content.of([b"a", b"a", b"b"])
    assert Content.of([b"a", b"b"]) != Content.of([b"a", b"b", b"b"])
