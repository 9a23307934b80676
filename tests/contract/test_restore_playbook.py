"""What playbooks/restore.yml is told by --extra-vars, before it touches a host."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = ROOT / "playbooks/restore.yml"
HEADER = PLAYBOOK.read_text().split("- name:")[0]
KNOWN = (
    "snapshot topics from_time to_time instance groups_pattern restore_id no_groups no_settings acls append"
)
KNOWN_NAMES = [*KNOWN.split(), "dry_run", "skip_verify", "release_retention"]


def said(**variables: str) -> str:
    given = [f"--extra-vars={name}={value}" for name, value in variables.items()]
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", PLAYBOOK, "--inventory=inventories/lab", *given],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("misspelt", ["dryrun", "snapshots", "backup_snapshot", "backup_dry_run"])
def test_a_misspelt_variable_is_refused(misspelt: str) -> None:
    assert f"has no variable {misspelt}. Nothing was done." in said(site="pro1", **{misspelt: "1"})


def test_what_the_playbook_says_that_it_has_is_taken() -> None:
    told = said(site="nowhere", backup_timeout_seconds="5", **dict.fromkeys(KNOWN_NAMES, "true"))
    assert "those with backups are pro1" in told
    assert set(KNOWN_NAMES) <= set(re.findall(r"\w+", HEADER))


@pytest.mark.parametrize("value", ["ture", "", "1.5", "maybe"])
def test_what_is_neither_true_nor_false_is_refused(value: str) -> None:
    assert f"dry_run={value}: must be true or false. Nothing was done." in said(site="pro1", dry_run=value)
