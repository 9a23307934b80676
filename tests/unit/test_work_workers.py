"""What workers add to a verb's report and exit code."""

from pathlib import Path

import pytest

from aqueduct.common import job_files
from aqueduct.errors import ExitCode, Skipped
from aqueduct.work import session
from aqueduct.work.workers import Workers

ID = "spark-key-within-reach"


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a key that only this process needs."""
    monkeypatch.setattr(job_files, "_kept", set())
    monkeypatch.setattr(session, "_hidden", set())
    path = tmp_path / "signing.pem"
    path.touch()
    job_files.keep(path)
    return path


def test_key_not_hidden_on_cluster_is_reported(key: Path) -> None:
    (finding,) = session._within_reach("spark://master:7077")
    assert finding.id == ID
    assert str(key) in finding.what
    assert session._within_reach("local[2]") == ()
    session._hidden.add(str(key.resolve()))
    assert session._within_reach("spark://master:7077") == ()


def test_finding_appears_in_report_and_exit_code() -> None:
    workers, content = Workers("test"), {"left_out": [{"id": "topic-unknown"}], "snapshot": 1}
    assert workers.reported(content) == {**content, "tasks": {}}
    assert workers.exit_code(ExitCode.DONE) is ExitCode.DONE
    workers.figures.within_reach = (Skipped("a key", "it is in reach", ID),)
    reported = workers.reported(content)
    assert [entry["id"] for entry in reported["left_out"]] == ["topic-unknown", ID]
    assert [entry["id"] for entry in workers.reported({})["left_out"]] == [ID]
    assert workers.exit_code(ExitCode.DONE) is ExitCode.INCOMPLETE
    for code in (ExitCode.FAILED, ExitCode.REFUSED, ExitCode.INCOMPLETE):
        assert workers.exit_code(code) is code
