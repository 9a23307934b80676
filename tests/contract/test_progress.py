"""What a playbook prints: no retries of a task that waits, and a refusal of tags that no task has."""

from pathlib import Path

import pytest
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ["doctor", "drill", "kafka", "restore", "site"]


@pytest.fixture
def waiting(tmp_path: Path) -> str:
    return str(ansible_process.waiting_playbook(tmp_path))


@pytest.mark.parametrize("verbose", [False, True])
def test_retries_are_shown_only_with_v(verbose: bool, waiting: str) -> None:
    done = ansible_process.play("--inventory=localhost,", waiting, *(["-v"] if verbose else []))
    assert done.returncode == 0, done.stdout
    assert (Path(waiting).parent / "attempts").read_text().count("\n") == 3
    assert done.stdout.count("FAILED - RETRYING") == (2 if verbose else 0), done.stdout
    assert "it is there" in done.stdout


def test_a_tag_of_a_task_is_accepted(waiting: str) -> None:
    done = ansible_process.play("--inventory=localhost,", waiting, "--tags=later")
    assert done.returncode == 0, done.stderr
    assert "it is there" in done.stdout
    assert "Wait for the file" not in done.stdout


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_an_unknown_tag_is_refused(playbook: str) -> None:
    done = ansible_process.play("--inventory=inventories/lab", f"playbooks/{playbook}.yml", "--tags=topics")
    assert done.returncode == 2, done.stdout
    assert "No task has the tag topics. Nothing was done." in done.stderr
    assert "TASK" not in done.stdout
