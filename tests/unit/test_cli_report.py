import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.cli import report_file
from aqueduct.errors import Failed, Refused

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_report(tmp_path: Path) -> None:
    path = tmp_path / "report_file.json"
    path.write_text("an old one")
    report_file.write(path, "test", 3, STARTED, {"left_out": ["ä"]})
    found = json.loads(path.read_text())
    assert datetime.fromisoformat(found.pop("ended")) > STARTED
    assert found == {
        "verb": "test",
        "exit_code": 3,
        "started": "2026-01-02T03:04:05.000+00:00",
        "left_out": ["ä"],
    }
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_report(tmp_path: Path) -> None:
    path = tmp_path / "report_file.json"
    path.write_text("an old one")
    with pytest.raises(TypeError):
        report_file.write(path, "test", 0, STARTED, {"left_out": object()})
    assert path.read_text() == "an old one"


def test_what_breaks_off_leaves_nothing_half(tmp_path: Path) -> None:
    path = tmp_path / "report_file.json"
    path.mkdir()
    with raises(Failed, "report-not-writable", path, "Is a directory"):
        report_file.write(path, "test", 0, STARTED, {})
    assert list(tmp_path.iterdir()) == [path]


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "report_file.json"
    with raises(Failed, "report-not-writable", path, "No such file or directory"):
        report_file.write(path, "test", 0, STARTED, {})


@pytest.mark.parametrize("name", ["store.json", "snapshots/1", "."])
def test_report_inside_store_is_refused(tmp_path: Path, name: str) -> None:
    store = tmp_path / "a store"
    with raises(Refused, "report-inside-store", "--report", store / name, f"file://{tmp_path}/a%20store"):
        report_file.outside(store / name, f"file://{tmp_path}/a%20store")
    report_file.outside(tmp_path / "report_file.json", f"file://{tmp_path}/a%20store")
    report_file.outside(store / name, "s3://bucket/a")
    report_file.outside(None, f"file://{store}")
