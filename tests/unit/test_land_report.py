"""What people are told of tables."""

from dataclasses import replace

from kit.identifiers import printed

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import ExitCode, Skipped
from aqueduct.land import report
from aqueduct.land.outcome import CompactedTable, LandedTable, TableStatus
from aqueduct.land.plan import UnopenedRange
from aqueduct.land.report import compacted_report, compacted_text, status_code, status_report, status_text

NOW = "2026-01-01T00:00:00.000+00:00"


def status(staged: int, dead: int) -> TableStatus:
    return TableStatus(
        table="a.b",
        commits=1,
        committed=NOW,
        files=1,
        rows=1,
        bytes=1,
        late=None,
        bad=0,
        compacted=None,
        partitions={},
        deleted={},
        unopened={},
        catalogue=None,
        staged=staged,
        dead=dead,
    )


def test_status_shows_staged_and_abandoned_bytes() -> None:
    assert "taged" not in status_text([status(0, 0)])
    assert status_text([status(2_000_000, 0)]).endswith("\n  Uncommitted files of runs: 2.0 MB.")
    told = status_text([status(2_000_000, 1_500_000)])
    assert "2.0 MB; 1.5 MB of this is from killed runs" in told
    [reported] = status_report([status(2, 1)])["tables"]
    assert (reported["staged"], reported["dead"]) == (2, 1)


def test_absent_declared_topics_make_status_incomplete() -> None:
    lacking = replace(status(0, 0), left_out=(Skipped("topics eu.+", "no topic", "pattern-matches-nothing"),))
    assert status_code([status(0, 0)]) == ExitCode.DONE
    assert status_code([status(0, 0), lacking]) == ExitCode.INCOMPLETE
    assert "  Skipped: [pattern-matches-nothing] topics eu.+" in status_text([lacking])
    [reported] = status_report([lacking])["tables"]
    assert [each["id"] for each in reported["left_out"]] == ["pattern-matches-nothing"]


def test_compaction_reports_removed_data_of_killed_runs() -> None:
    done = CompactedTable(table="a.b", landed=True, buried=1_500_000)
    assert compacted_text([done]) == (
        "a.b: no small files to join; removed 1.5 MB of uncommitted files of killed runs."
    )
    [told] = compacted_report([done])["tables"]
    assert told["buried"] == 1_500_000


def test_unopened_batches_make_landing_incomplete() -> None:
    """The output has some of them, the report has all."""
    skipped = [
        UnopenedRange(
            range=Range("flights", 0, 10 * number, 10 * number + 3),
            why=("it is too large after decompression"),
        )
        for number in range(100)
    ]
    landed = LandedTable(table="a.b", commits=1, unopened=skipped)
    assert report.exit_code([landed], fail_on_poison=False) == ExitCode.INCOMPLETE
    text = report.text([landed], 1.0)
    assert set(printed(text)) == {"decompression-limit-exceeded"}
    assert len(text.splitlines()) < 20
    assert "flights-0, offsets 10 to 12" in text
    [reported] = report.report([landed])["tables"]
    assert len(reported["unopened"]) == 100
    assert reported["unopened"][1]["from"] == 10
    assert reported["unopened"][1]["to"] == 13
