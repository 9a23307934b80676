"""The metadata of an end, as librdkafka gives it; records are read in tests/spark/test_reconcile.py."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct.common.offset_ranges import Range
from aqueduct.errors import Failed
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import reader, run
from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedTopics

SOURCE, TARGET = End("source", "source:1"), End("target", "target:1")
FLOW = ComparedFlow(TARGET, (SOURCE,))
HEALTHY = SimpleNamespace(partitions={0: None}, error=None)
# A topic whose metadata has an error has no partitions, or not all.
BROKEN = SimpleNamespace(partitions={}, error="LEADER_NOT_AVAILABLE")
HALF = SimpleNamespace(partitions={0: None}, error="LEADER_NOT_AVAILABLE")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Mapping[str, Any]]]:
    """Return what each end answers in turn, and then for ever."""
    answers: dict[str, list[Mapping[str, Any]]] = {}

    class Admin:
        def __init__(self, settings: Mapping[str, str]) -> None:
            self._mine = answers[settings["bootstrap.servers"]]

        def list_topics(self, timeout: float) -> Any:
            assert timeout
            return SimpleNamespace(topics=self._mine.pop(0) if len(self._mine) > 1 else self._mine[0])

    monkeypatch.setattr(reader, "AdminClient", Admin)
    monkeypatch.setattr(reader, "ranges", lambda _, asked: {tp: Range(*tp, 0, 7) for tp in asked})
    monkeypatch.setattr(reader, "LEADER_SECONDS", 0.001)
    monkeypatch.setattr(reader, "OFFSETS_SECONDS", 0.01)
    return answers


@pytest.mark.parametrize("broken", [SOURCE, TARGET])
@pytest.mark.parametrize("topic", [BROKEN, HALF])
@pytest.mark.parametrize("topics", [("orders", None), (None, "orders")])
def test_topic_with_metadata_error_fails_comparison(
    answers: dict[str, list[Mapping[str, Any]]],
    broken: End,
    topic: Any,
    topics: tuple[str | None, str | None],
) -> None:
    """Its partitions are unknown: neither are there none, nor are its records missing."""
    for end in (SOURCE, TARGET):
        answers[end.bootstrap_servers] = [{"orders": topic if end is broken else HEALTHY, "other": BROKEN}]
    with raises(Failed, "topic-not-ready", "orders", broken.bootstrap_servers):
        run.plan(FLOW, ComparedTopics.parse(*topics))


def test_metadata_error_that_passes_is_tolerated(
    answers: dict[str, list[Mapping[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "OFFSETS_SECONDS", 60)
    answers["source:1"] = [{"orders": BROKEN}, {"orders": BROKEN}, {"orders": HEALTHY}]
    answers["target:1"] = [{"orders": HEALTHY}]
    [lane] = run.plan(FLOW, ComparedTopics.parse("orders", None))
    assert lane.ranges == (Range("orders", 0, 0, 7), Range("orders", 0, 0, 7))
