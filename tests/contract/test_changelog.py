"""CHANGELOG.md has the form of Keep a Changelog: one line for each change that a user sees."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
MOST_CHARACTERS = 300  # of an entry
RELEASE = re.compile(r"## \[\d+\.\d+\.\d+\] - (?:Unreleased|\d{4}-\d\d-\d\d)")


def faults(text: str) -> Iterator[str]:
    sections: list[str] = []
    entries: set[str] = set()
    for line in text.splitlines()[1:]:
        if line.startswith("## "):
            sections = []
            if not RELEASE.fullmatch(line):
                yield f"no release: {line}"
        elif line.startswith("### "):
            sections.append(line.removeprefix("### "))
            if sections != [name for name in SECTIONS if name in sections]:
                yield f"section in another order, twice or unknown: {line}"
        elif line.startswith("- "):
            if not sections:
                yield f"in no section: {line}"
            if len(line) > MOST_CHARACTERS or not re.search(r"[.)]$", line):
                yield f"no sentence of one line: {line[:60]}"
            if line in entries:
                yield f"twice: {line[:60]}"
            entries.add(line)
        elif sections and line and not re.fullmatch(r"\*\*[A-Z][\w -]+\*\*", line):
            yield f"neither an entry nor a group of entries: {line[:60]}"


def test_changelog_has_one_line_for_each_change() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{(ROOT / 'VERSION').read_text().strip()}] - " in text
    assert list(faults(text)) == []


START = "# Changelog\n\n## [0.1.0] - Unreleased\n\n### Added\n\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (START + "**Links**\n\n- A change.\n", 0),
        (START + "- A change.\n  It goes on.\n", 1),
        (START + "- A change\n", 1),
        (START + f"- {'Long ' * 60}.\n", 1),
        (START + "- A change.\n- A change.\n", 1),
        (START + "### Found\n", 1),
        (START + "### Fixed\n\n### Changed\n", 1),
        ("# Changelog\n\n## Unreleased\n\n- A change.\n", 2),
    ],
)
def test_fault_of_changelog_is_found(text: str, number: int) -> None:
    assert len(list(faults(text))) == number
