"""docs/good-results.md lists every verb, and every playbook that reports success in words of its own."""

import re
from pathlib import Path

from aqueduct.cli import VERBS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/good-results.md").read_text()
CLAIM = re.compile(r"success_msg|All announced offsets")


def named_verbs(text: str) -> set[str]:
    """Return the verbs that are listed as `aqueduct VERB`, or after one in the same list."""
    verbs = set(re.findall(r"`aqueduct ([a-z]+)", text))
    for words in re.findall(r"`aqueduct [a-z ]+`((?:,? (?:and )?`[a-z]+`)+)", text):
        verbs |= set(re.findall(r"`([a-z]+)`", words))
    return verbs


def claiming_playbooks() -> set[str]:
    """Return the playbooks that report a good result, in the playbook or in a task file of the same name."""
    playbooks = {path.name for path in ROOT.glob("playbooks/*.yml") if CLAIM.search(path.read_text())}
    tasks = {path.name for path in ROOT.glob("roles/*/tasks/*.yml") if CLAIM.search(path.read_text())}
    return playbooks | {name for name in tasks if (ROOT / "playbooks" / name).exists()}


def test_every_verb_is_on_the_page() -> None:
    assert named_verbs(PAGE) == VERBS.keys()


def test_page_lists_every_playbook_that_reports_success() -> None:
    named = set(re.findall(r"`playbooks/([a-z_]+\.yml)`", PAGE))
    assert {"doctor.yml", "reconcile.yml", "drill.yml"} <= claiming_playbooks()
    assert claiming_playbooks() <= named
    assert {name for name in named if not (ROOT / "playbooks" / name).exists()} == set()
