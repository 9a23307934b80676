"""Logs of a running broker, which removes segments and whole logs while they are inspected."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from aqueduct.errors import Refused
from aqueduct.kafka import data_folder
from aqueduct.recovery.broker_ids.disk_logs import inspect_folder

OLD, NEW = (f"{offset:020}.log" for offset in (0, 7))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data folder with two logs of two empty segments."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    for name in ("a-0", "b-0"):
        (tmp_path / name).mkdir()
        for segment in (OLD, NEW):
            (tmp_path / name / segment).touch()
    return tmp_path


def removing(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Remove a segment or a log when the first segment of log `a-0` is read."""
    last_batch = data_folder.last_batch

    def removed(segment: Path) -> Any:
        found = last_batch(segment)
        if segment.parent.name == "a-0" and path.is_dir():
            shutil.rmtree(path)
        elif segment.parent.name == "a-0":
            path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(data_folder, "last_batch", removed)


def test_log_whose_segment_was_removed_is_inspected_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removing(monkeypatch, folder / "a-0" / OLD)
    assert [(log.folder, log.end) for log in inspect_folder(folder).logs] == [("a-0", 7), ("b-0", 7)]


def test_log_that_was_removed_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removing(monkeypatch, folder / "a-0")
    assert [log.folder for log in inspect_folder(folder).logs] == ["b-0"]


def test_segment_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "a-0" / OLD).unlink()
    (folder / "a-0" / OLD).symlink_to(folder / "nowhere")
    with pytest.raises(Refused, match=OLD):
        inspect_folder(folder)
