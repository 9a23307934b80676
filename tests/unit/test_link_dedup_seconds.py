"""The time of a task of dedup, by a clock that the test moves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aqueduct.link.dedup import task
from aqueduct.link.dedup.share import DedupShare


def test_slow_start_leaves_task_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that took longer than `--every` left no time to read, in each round again."""
    now, left = [0.0], []

    class SlowRun:
        def __init__(self, *_: object) -> None:
            now[0] += 60

        def to_end(self, deadline: float, _: Callable[[], None]) -> None:
            left.append(deadline - now[0])

    @contextmanager
    def connected(*_: object) -> Iterator[Any]:
        yield SimpleNamespace()

    monkeypatch.setattr(task, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(task, "connect", connected)
    monkeypatch.setattr(task, "_Run", SlowRun)
    task.dedup(cast(DedupShare, SimpleNamespace(end="cluster", group="g", buckets=(), seconds=2)))
    assert left == [2]
