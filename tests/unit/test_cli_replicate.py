"""Exit codes of `aqueduct replicate`; what a flow does is tested in tests/broker/test_mirror_engine.py."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from kit.identifiers import assert_printed, has_fact

from aqueduct.cli import main, replicate
from aqueduct.common.topic_names import TopicPartition
from aqueduct.mirror.engine import run
from aqueduct.mirror.engine.figures import MirrorFigures
from aqueduct.mirror.engine.position import Position
from aqueduct.mirror.engine.task import Assignment
from aqueduct.mirror.status import Log, MirrorProgress

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
# A client still writes at the source: there are always records that came after the start.
PROGRESS = MirrorProgress(partition=A0, next=20, log=Log(0, 25), drained=False)


class Topics:
    """A flow without partitions to assign."""

    caught_up = True

    def __init__(self, *_: object) -> None:
        pass

    def prepare(self) -> list[object]:
        return [Assignment(targets={}, max_bytes={})]

    def sample(self) -> None:
        pass

    def synchronise(self) -> None:
        pass

    def is_caught_up(self, _: object) -> bool:
        return self.caught_up

    def progress(self) -> list[MirrorProgress]:
        return [PROGRESS]


class Idle:
    """An upkeep that does nothing."""

    prepared = None

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def lead(self, _: object) -> None:
        pass


@pytest.fixture(autouse=True)
def stopping(monkeypatch: pytest.MonkeyPatch) -> Event:
    stopping = Event()

    @contextmanager
    def connected(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(replicate, "until_signal", lambda: stopping)
    monkeypatch.setattr(run, "connect", connected)
    monkeypatch.setattr(run, "FlowTopics", Topics)
    monkeypatch.setattr(run, "check_positions", lambda *_: None)
    monkeypatch.setattr(run.TaskPool, "start", lambda *_: None)
    monkeypatch.setattr(run.offsets, "ends", lambda *_: {})
    return stopping


def replicated(report: Path, *options: str) -> int:
    ends = [f"--{end}-bootstrap-server=localhost:1" for end in ("source", "target")]
    return main(["replicate", "--flow=f", *ends, "--topics-pattern=a", f"--report={report}", *options])


def test_run_that_caught_up_is_done(tmp_path: Path) -> None:
    assert replicated(tmp_path / "report", "--until-caught-up") == 0


def test_run_ended_before_it_caught_up_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopping: Event, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Topics, "caught_up", False)
    stopping.set()  # by SIGTERM
    assert replicated(tmp_path / "report", "--until-caught-up") == 3
    assert_printed(capsys.readouterr().out, "mirror-behind", 5)
    report = json.loads((tmp_path / "report").read_text())
    assert [problem["id"] for problem in report["problems"]] == ["mirror-behind"]


def test_run_without_end_is_done_when_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopping: Event
) -> None:
    monkeypatch.setattr(run, "Upkeep", Idle)
    stopping.set()
    assert replicated(tmp_path / "report") == 0


def test_partition_without_leader_has_unknown_lag_in_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = dict.fromkeys((A0, A1), Position(topic_id="", next=20, target_topic_id="", target_end=20))
    monkeypatch.setattr(MirrorFigures, "positions", property(lambda _: positions))
    assert replicated(tmp_path / "report", "--until-caught-up") == 0
    assert has_fact(capsys.readouterr().out, "2 partitions")
    entries = json.loads((tmp_path / "report").read_text())["partitions"]
    assert [(entry["partition"], entry["behind"]) for entry in entries] == [(0, 5), (1, None)]
