"""The looks of `aqueduct mirror --wait`; what one look finds is tested in test_mirror_status.py."""

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import cast

import pytest

from aqueduct.cli import duration, mirror
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.estate.patterns import PatternError
from aqueduct.mirror.reading import MirrorReader
from aqueduct.mirror.status import Log, MirrorProgress

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
LOSING = MirrorProgress(partition=A0, next=10, log=Log(15, 20), drained=False)
BEHIND = MirrorProgress(partition=A0, next=16, log=Log(15, 20), drained=False)
CAUGHT_UP = MirrorProgress(partition=A0, next=20, log=Log(15, 20), drained=False)


class Flow:
    """A flow that gives one look after another, for ever the last one."""

    source = "pro1"

    def __init__(self, *looks: MirrorProgress | Failed) -> None:
        self._looks: Iterator[MirrorProgress | Failed] = iter([*looks, *[looks[-1]] * 1000])

    def look(self) -> tuple[list[str], list[MirrorProgress]]:
        look = next(self._looks)
        if isinstance(look, Failed):
            raise look
        return [], [look]

    def position_findings(self) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "POLL_SECONDS", 0.001)


def look(flow: Flow, wait: float) -> tuple[list[str], list[MirrorProgress], Iterable[MirrorProgress]]:
    args = argparse.Namespace(wait=wait, until_caught_up=True, started=False)
    return mirror._look(cast(MirrorReader, flow), args)


def test_mirror_check_repeats_until_caught_up_or_timeout() -> None:
    findings, progress, _ = look(Flow(BEHIND, BEHIND, CAUGHT_UP), wait=60)
    assert (findings, progress) == ([], [CAUGHT_UP])
    findings, progress, _ = look(Flow(BEHIND), wait=0.02)
    assert (findings, progress) == (["[mirror-behind] Not caught up: a-0 (4 records)."], [BEHIND])


def test_lost_records_stay_reported_after_mirror_passes_them() -> None:
    findings, progress, lost = look(Flow(LOSING, BEHIND, CAUGHT_UP), wait=60)
    assert [sentence.split()[0] for sentence in findings] == ["[mirror-records-lost]"]
    assert (progress, list(lost)) == ([CAUGHT_UP], [LOSING])


def test_unreachable_cluster_is_retried_until_timeout() -> None:
    findings, _, _ = look(Flow(Failed("away"), Failed("away"), CAUGHT_UP), wait=60)
    assert findings == []
    with pytest.raises(Failed, match="away"):
        look(Flow(Failed("away")), wait=0.02)


def test_table_lists_partitions_behind_and_counts_rest() -> None:
    ahead = MirrorProgress(partition=A1, next=5, log=Log(0, 5), drained=False)
    assert mirror._table([ahead, BEHIND]).splitlines() == [
        "topic  partition  records behind",
        "a              0               4",
        "2 partitions, 1 of them behind by 4 records.",
    ]
    assert mirror._table([ahead]) == "1 partition, 0 of them behind by 0 records."


def test_table_counts_partitions_whose_lag_is_unknown() -> None:
    last = mirror._table([CAUGHT_UP], [A1]).splitlines()[-1]
    assert "2 partitions" in last
    assert "1 of them" in last


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10), ("5m", 300), ("1h", 3600), ("7d", 604_800), ("0s", 0)]
)
def test_durations(text: str, seconds: int) -> None:
    assert duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "1w", "10", "s", "1.5s", "-1s", "1 s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="10s, 5m, 1h or 7d"):
        duration.parse(text)


class Mirror:
    """A flow whose last look had these patterns and mirrored topics."""

    source = "pro1"

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def unmatched(self, unmatched: Callable[[Iterable[str], Collection[str]], list[str]]) -> list[str]:
        if self._error:
            raise self._error
        return unmatched(["a", "b.*", r"\p{Upper}+"], {"a", "c"})


def test_unmatched_pattern_is_finding_and_unreadable_one_unknown() -> None:
    first, second = mirror._unmatched(cast(MirrorReader, Mirror()))
    assert first.startswith("[pattern-matches-nothing] b.* in the topics ")
    assert second.startswith("[pattern-matches-nothing] ")
    [unknown] = mirror._unmatched(cast(MirrorReader, Mirror(PatternError("it has a loop"))))
    assert unknown.startswith("[pattern-invalid] ")
    [unknown] = mirror._unmatched(cast(MirrorReader, Mirror(Failed("It does not answer."))))
    assert unknown.endswith("is not known: It does not answer.")
