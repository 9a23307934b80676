"""Verdicts, and what is told of them."""

from dataclasses import replace

import pytest

from aqueduct.common.offset_ranges import Range
from aqueduct.common.wording import COLUMNS
from aqueduct.errors import ExitCode, Skipped
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import report
from aqueduct.mirror.reconcile.difference import Unmatched
from aqueduct.mirror.reconcile.digest import Digest, RangeDigest
from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedLane
from aqueduct.mirror.reconcile.verdict import Difference, Verdict

TARGET = End("target", "lake:9092")
ONE_SOURCE = ComparedFlow(TARGET, (End("source", "pro1-a:9092,pro1-b:9092"),))
TWO_SOURCES = ComparedFlow(TARGET, (End("source", "pro1:9092"), End("source", "pro2:9092")))


def reading(records: int, ordered: int = 0, unordered: int = 0, append_times: int = 0) -> RangeDigest:
    """Make a reading; untimed digests are equal wherever the count is."""
    return RangeDigest(
        timed=Digest(records, ordered, unordered), untimed=Digest(records), append_times=append_times
    )


def verdict(*readings: RangeDigest | None, topic: str = "flights", partition: int = 2) -> Verdict:
    ranges = [each and Range(topic, partition, 100, 100 + each.records) for each in readings]
    return Verdict(
        ComparedLane(topic, partition, tuple(ranges)), tuple(each or RangeDigest() for each in readings)
    )


def missing(*ranges: tuple[int, int]) -> Unmatched:
    return Unmatched(sum(last - first + 1 for first, last in ranges), ranges)


def test_comparison_by_absent_header_is_incomplete() -> None:
    flow = replace(ONE_SOURCE, header=("origin", b"EWR"))
    silent = replace(verdict(reading(5), reading(5)), readings=(reading(0), reading(0)))
    assert report.exit_code(flow, [silent]) == ExitCode.INCOMPLETE
    assert (
        "[header-matches-nothing] No record at the source or the target has the header origin=EWR"
    ) in report.text(flow, [silent])
    assert [each["id"] for each in report.report(flow, [silent])["left_out"]] == ["header-matches-nothing"]
    # Some records carry it; the source is empty; no header is asked for.
    assert report.exit_code(flow, [silent, verdict(reading(1, 1), reading(1, 1))]) == ExitCode.DONE
    assert report.exit_code(flow, [verdict(reading(0), reading(0))]) == ExitCode.DONE
    assert report.exit_code(ONE_SOURCE, [silent]) == ExitCode.DONE
    assert report.exit_code(ONE_SOURCE, [verdict(reading(1, 1), reading(1, 2))]) == ExitCode.INCOMPLETE


def test_pattern_part_without_topic_makes_comparison_incomplete() -> None:
    skipped = (Skipped("topics fligths", "no topic", "pattern-matches-nothing"),)
    equal = verdict(reading(5), reading(5))
    assert report.exit_code(ONE_SOURCE, [equal]) == ExitCode.DONE
    assert report.exit_code(ONE_SOURCE, [equal], skipped) == ExitCode.INCOMPLETE
    assert "[pattern-matches-nothing] topics fligths: " in report.text(ONE_SOURCE, [equal], skipped)
    left_out = report.report(ONE_SOURCE, [equal], skipped)["left_out"]
    assert [omission["id"] for omission in left_out] == ["pattern-matches-nothing"]


def test_one_source_is_equal_if_its_digest_is() -> None:
    assert verdict(reading(5, 1), reading(5, 1)).equal
    assert not verdict(reading(5, 1), reading(5, 2)).equal
    assert not verdict(reading(5, 1), reading(4, 1)).equal
    assert verdict(reading(0), reading(0)).equal
    assert verdict(reading(0), None).equal
    assert not verdict(reading(1), None).equal


def test_times_set_by_target_are_not_compared() -> None:
    assert verdict(reading(5, 1, append_times=1), reading(5, 2)).equal
    assert not verdict(reading(5, 1), reading(5, 2, append_times=1)).equal


def test_absent_partition_is_unequal_without_second_reading() -> None:
    for source in reading(0), reading(7):
        absent = verdict(None, source)
        assert not absent.equal
        assert not absent.needs_second_reading
    assert absent.unmatched(1) == Unmatched(7, ((100, 106),))


def test_merged_sources_require_second_reading_for_order() -> None:
    merged = verdict(reading(7, 1, 30), reading(5, 2, 10), reading(2, 3, 20))
    assert merged.same_records
    assert merged.needs_second_reading
    assert replace(merged, difference=Difference()).equal
    assert not replace(merged, difference=Difference(out_of_order=(1, 5))).equal
    assert not verdict(reading(7, 1, 30), reading(5, 2, 10), reading(2, 3, 21)).same_records


def test_of_merged_sources_only_one_may_have_records() -> None:
    assert verdict(reading(5, 1), reading(0), reading(5, 1)).equal


UNEQUAL = verdict(reading(4, 1), reading(5, 2))
MERGED = verdict(reading(4, 1), reading(3, 2), reading(2, 3))


@pytest.mark.parametrize(
    ("flow", "unequal", "sentence"),
    [
        (
            ONE_SOURCE,
            replace(UNEQUAL, difference=Difference((missing(), missing((5012, 5148))))),
            "flights-2: 137 records of the source are not in the target, first at source offset 5012.",
        ),
        (
            ONE_SOURCE,
            replace(UNEQUAL, difference=Difference((missing((8, 8)), missing((5, 5), (9, 10))))),
            "flights-2: 3 records of the source are not in the target, first at source offset 5, "
            "and 1 record of the target is not in the source, first at target offset 8.",
        ),
        (
            ONE_SOURCE,
            replace(UNEQUAL, difference=Difference(out_of_order=(1, 77))),
            "flights-2: the same records in another order, first at source offset 77.",
        ),
        (
            ONE_SOURCE,
            replace(UNEQUAL, difference=Difference((missing(), missing()))),
            (
                "flights-2: different at the first reading, but equal at the second reading; retention may "
                "have deleted records."
            ),
        ),
        (
            TWO_SOURCES,
            replace(MERGED, difference=Difference((missing(), missing(), missing((4, 4))))),
            "flights-2: 1 record of the source pro2:9092 is not in the target, "
            "first at source pro2:9092 offset 4.",
        ),
    ],
)
def test_sentences(flow: ComparedFlow, unequal: Verdict, sentence: str) -> None:
    *_, last = report.sentences(flow, [verdict(*unequal.readings, partition=1), unequal])
    assert last == Skipped("flights-2", sentence, "records-differ")


def test_an_absent_topic_is_one_sentence() -> None:
    verdicts = [
        verdict(None, reading(2), partition=0),
        verdict(None, reading(3), partition=1),
        verdict(reading(1), reading(1), topic="other", partition=0),
        verdict(None, reading(1), topic="other", partition=1),
    ]
    absent, partition = report.sentences(ONE_SOURCE, verdicts)
    assert (absent.what, absent.id) == ("flights", "compared-topic-missing")
    assert "5 records of the source" in absent.why
    assert (partition.what, partition.id) == ("other-1", "records-differ")


def test_text() -> None:
    verdicts = [verdict(reading(12345), reading(12345), partition=0), verdict(None, reading(1), partition=1)]
    assert report.text(ONE_SOURCE, verdicts).splitlines() == [
        "source           target     topic    partition  records in  records out  equal",
        "pro1-a:9092,...  lake:9092  flights          0      12,345       12,345    yes",
        "pro1-a:9092,...  lake:9092  flights          1           1            0     NO",
        "",
        "[records-differ] flights-1: this partition does not exist at the target; 1 record is missing.",
        "2 partitions, 1 unequal; 12,346 records in, 12,345 records out.",
    ]


def test_table_with_long_names_fits_page_width() -> None:
    servers = ["a-broker-of-the-source.example.org:9092", "another.example.org:9092", "lake.example.org:9092"]
    flow = ComparedFlow(End("target", servers[2]), tuple(End("source", each) for each in servers[:2]))
    readings = [reading(10**9), reading(10**9), reading(0)]
    verdicts = [verdict(*readings, topic=f"t{'o' * 246}-{n}", partition=99_999) for n in range(2)]
    lines = report.text(flow, verdicts).splitlines()[:3]
    assert all(COLUMNS - 5 < len(line) <= COLUMNS for line in lines)
    assert all(" to" in line and f"oo-{n} " in line for n, line in enumerate(lines[1:]))
    assert report.report(flow, verdicts)["partitions"][0]["topic"] == f"t{'o' * 246}-0"


def test_of_many_lanes_the_unequal_ones_are_shown() -> None:
    verdicts = [verdict(reading(n % 2), reading(1), topic=f"t{n}", partition=0) for n in range(200)]
    lines = report.text(ONE_SOURCE, verdicts).splitlines()
    assert sum(line.endswith("NO") for line in lines) == report.ROWS
    assert not any(line.endswith("yes") for line in lines)
    assert "... and 50 more differences. The file of --report lists all of them." in lines
    assert lines[-1] == "200 partitions, 100 unequal; 200 records in, 100 records out."
    assert len(report.report(ONE_SOURCE, verdicts)["left_out"]) == 100


def test_of_many_lanes_no_equal_one_is_shown() -> None:
    verdicts = [verdict(reading(1), reading(1), partition=n) for n in range(200)]
    assert report.text(ONE_SOURCE, verdicts) == (
        "200 partitions, none unequal; 200 records in, 200 records out."
    )


def test_report() -> None:
    flow = replace(ONE_SOURCE, header=("origin", b"EWR"))
    unequal = replace(UNEQUAL, difference=Difference((missing(), missing((101, 101)))))
    sentence = "flights-2: 1 record of the source is not in the target, first at source offset 101."
    assert report.report(flow, [unequal]) == {
        "target": "lake:9092",
        "sources": ["pro1-a:9092,pro1-b:9092"],
        "order": "partition",
        "header": "origin=EWR",
        "partitions": [
            {
                "topic": "flights",
                "partition": 2,
                "equal": False,
                "timestamps": True,
                "source_records": 5,
                "target_records": 4,
                "target": {
                    "topic": "flights",
                    "from": 100,
                    "to": 104,
                    "records": 4,
                    "extra": {"records": 0, "ranges": ()},
                },
                "sources": [
                    {
                        "topic": "flights",
                        "from": 100,
                        "to": 105,
                        "records": 5,
                        "missing": {"records": 1, "ranges": ((101, 101),)},
                    }
                ],
                "out_of_order": None,
            }
        ],
        "left_out": [{"id": "records-differ", "what": "flights-2", "why": sentence}],
    }
