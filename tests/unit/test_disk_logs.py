"""Logs in a data folder whose broker runs: it removes old segments, and the logs of deleted topics."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aqueduct.errors import Refused
from aqueduct.kafka import data_folder
from aqueduct.recovery.broker_ids.disk_logs import inspect_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a-0", "b-0"):
        (tmp_path / name).mkdir()
        for start in (0, 7):
            (tmp_path / name / f"{start:020}.log").touch()
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=C\nnode.id=3\n")
    return tmp_path


def at_first_segment(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Make a change when the first segment is read."""
    last_batch, changes = data_folder.last_batch, [change]

    def read(segment: Path, *, check_crc: bool = True) -> object:
        if changes:
            changes.pop()()
        return last_batch(segment, check_crc=check_crc)

    monkeypatch.setattr(data_folder, "last_batch", read)


def ends(folder: Path) -> dict[str, int]:
    return {log.folder: log.end for log in inspect_folder(folder, running=True).logs}


def test_segments_removed_during_inspection_are_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expire() -> None:
        for name in ("a-0", "b-0"):
            (folder / name / f"{0:020}.log").unlink()

    at_first_segment(monkeypatch, expire)
    assert ends(folder) == {"a-0": 7, "b-0": 7}


def test_logs_removed_during_inspection_are_not_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def delete() -> None:
        (folder / "a-0").rename(folder / f"a-0.{'0' * 32}-delete")

    at_first_segment(monkeypatch, delete)
    assert ends(folder) == {"b-0": 7}


def test_segment_that_cannot_be_read_is_named(folder: Path) -> None:
    segment = folder / "a-0" / f"{0:020}.log"
    segment.unlink()
    segment.symlink_to(folder / "nowhere")
    with pytest.raises(Refused, match=segment.name):
        inspect_folder(folder)
