"""Services whose rounds are refused: the first one ends the service, a later one is reported and skipped."""

import time
from collections.abc import Iterator

import pytest
from kit.identifiers import assert_printed
from kit.manifests import EMPTY

from aqueduct import cli
from aqueduct.errors import Failed, NoMatch, Refused
from aqueduct.kafka.client_config import End
from aqueduct.link.dedup import run as dedup
from aqueduct.link.dedup.run import DedupOrder, report_gone
from aqueduct.link.dedup.share import Clean, DedupCounts, DedupShare
from aqueduct.snapshots.backup import run as backup
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.run import BackupOutcome
from aqueduct.work.workers import Workers

SERVICE = ["backup", "--bootstrap-server", "b:9092", "--store", "file:///s", "--topics-pattern", "a.*"]
END = End("cluster", "b:9092")
SHARE = DedupShare(
    end=END,
    group="g",
    run="r",
    raw_topics={"raw": None},
    gap_topic="gaps",
    buckets=(0,),
    partitions=1,
    clean={"a": Clean("a", 2, 1000)},
    every_topic=False,
    grace_seconds=0,
    seconds=1,
)
UNMATCHED = NoMatch("pattern-matches-nothing", "There is no topic.")


class Enough(Exception):
    """The end of a service that would run on."""


def outcome() -> BackupOutcome:
    return BackupOutcome(manifest=EMPTY, stored_bytes=0, left_out=(), seconds=0.0)


def rounds(monkeypatch: pytest.MonkeyPatch, *ends: BackupOutcome | Exception) -> list[BackupOrder]:
    """Let the rounds of a backup end so; return the orders that they get."""
    left, orders = iter(ends), list[BackupOrder]()

    def back_up(order: BackupOrder, _: Workers) -> BackupOutcome:
        orders.append(order)
        end = next(left)
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(backup, "back_up", back_up)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return orders


def test_backup_continues_if_pattern_no_longer_matches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = rounds(monkeypatch, outcome(), UNMATCHED, UNMATCHED, outcome(), Enough())
    with pytest.raises(Enough):
        cli.main([*SERVICE, "--every", "1s"])
    said = capsys.readouterr()
    assert said.err.count("[pattern-matches-nothing]") == 2
    assert said.out.count("Snapshot 1:") == 2
    assert [order.again for order in orders] == [False, True, True, True, True]


@pytest.mark.parametrize(
    "ends",
    [
        [UNMATCHED],
        [Failed("cluster-unreachable", "No broker answers."), UNMATCHED],
        [outcome(), Refused("store-of-another", "Another cluster has it.")],
    ],
    ids=["first round", "no round before did anything", "another reason"],
)
def test_other_refusals_end_a_backup(
    monkeypatch: pytest.MonkeyPatch, ends: list[BackupOutcome | Exception]
) -> None:
    rounds(monkeypatch, *ends)
    assert cli.main([*SERVICE, "--every", "1s"]) == 2


def test_one_backup_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds(monkeypatch, UNMATCHED)
    assert cli.main(SERVICE) == 2


def dedup_rounds(
    monkeypatch: pytest.MonkeyPatch, *plans: DedupShare | Exception, every: float | None = 0
) -> Iterator[DedupCounts]:
    """Run a dedup whose plans these are, and yield what its rounds report."""
    left = iter(plans)

    def plan(_: DedupOrder, *, again: bool = False) -> tuple[DedupShare, list[object], tuple[str, ...]]:
        made = next(left)
        if isinstance(made, Exception):
            raise made
        return made, [], ()

    monkeypatch.setattr(dedup, "_plan", plan)
    monkeypatch.setattr(dedup, "dedup", lambda _: DedupCounts())
    order = DedupOrder(end=END, raw_topics=("raw",), gap_topic="gaps", every_seconds=every)
    found: list[DedupCounts] = []
    with Workers("test") as workers, pytest.raises(Enough):
        dedup.run(order, workers, lambda done, _: found.append(done))
    return iter(found)


def test_a_dedup_that_cannot_plan_any_more_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused = Refused("topic-unknown", "The cluster has no topic gaps.")
    found = dedup_rounds(monkeypatch, SHARE, refused, SHARE, Enough())
    assert len([*found]) == 2
    assert "[topic-unknown] The cluster has no topic gaps." in caplog.text


def test_a_dedup_that_never_planned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(_: DedupOrder, *, again: bool = False) -> None:
        raise Refused("topic-unknown", "The cluster has no topic gaps.")

    monkeypatch.setattr(dedup, "_plan", plan)
    with Workers("test") as workers, pytest.raises(Refused):
        dedup.run(
            DedupOrder(end=END, raw_topics=("raw",), gap_topic="gaps", every_seconds=0),
            workers,
            lambda *_: None,
        )


def test_deleted_clean_topic_does_not_stop_others() -> None:
    share = DedupShare(**vars(SHARE) | {"gone": {"b": "clean.b"}})
    assert "no longer has the topic clean.b" in share.why_not_writable("b", 0)
    assert share.why_not_writable("a", 1) == ""
    assert "only 2 partitions" in share.why_not_writable("a", 2)
    assert share.why_not_writable("not wanted", 0) == ""
    done = DedupCounts()
    gone = report_gone(share, done, ())
    [silent] = done.silent
    assert_printed(silent, "topic-unknown", "clean.b")
    assert report_gone(share, again := DedupCounts(), gone) == gone
    assert again.silent == ()
