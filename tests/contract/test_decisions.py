"""docs/decisions/README.md lists every record with its status."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parents[2] / "docs/decisions"
ROW = re.compile(
    r"^\| (?P<topic>[A-Z][\w -]+) \| \[(?P<number>\d{4})\]\((?P<file>[\w-]+\.md)\) "
    r"\| (?P<decision>[A-Z`].+\.) "
    r"\| (?P<status>in force|in force in part|superseded) "
    r"\| (?:\[(?P<successor>\d{4})\]\([\w-]+\.md\) )?\|$",
    re.MULTILINE,
)
STATUS = re.compile(
    r"^\*\*Status\*\*: (in force in part|in force|superseded)(?: by \[(\d{4})\])?", re.MULTILINE
)


def records() -> Mapping[str, str]:
    """Return the text of each record by its file's name."""
    return {path.name: path.read_text() for path in sorted(DECISIONS.glob("[0-9]*.md"))}


def faults(index: str, texts: Mapping[str, str]) -> list[str]:
    rows = [row.groupdict() for row in ROW.finditer(index)]
    listed = [row["file"] for row in rows]
    problems = [f"{name} is not listed once" for name in texts if listed.count(name) != 1]
    problems += [f"{name} does not exist" for name in listed if name not in texts]
    for row in rows:
        name, text = row["file"], texts.get(row["file"], "")
        status = STATUS.search(text)
        if not text.startswith(f"# {row['number']}: ") or not name.startswith(row["number"]):
            problems.append(f"{name} has another number")
        elif not status or status.groups() != (row["status"], row["successor"]):
            problems.append(f"{name} has another status")
        elif (row["status"] == "superseded") != bool(row["successor"]):
            problems.append(f"{name} is superseded by no record, or in force beside one")
    return problems


def test_index_lists_every_record_with_its_status() -> None:
    assert len(records()) > 40
    assert faults((DECISIONS / "README.md").read_text(), records()) == []


INDEX = "| Code | [0001](0001-a.md) | A decision. | in force | |\n"
RECORD = {"0001-a.md": "# 0001: A\n\n**Status**: in force.\n"}


@pytest.mark.parametrize(
    ("index", "texts", "expected"),
    [
        (INDEX, RECORD, []),
        ("", RECORD, ["0001-a.md is not listed once"]),
        (INDEX * 2, RECORD, ["0001-a.md is not listed once"]),
        (INDEX, {}, ["0001-a.md does not exist", "0001-a.md has another number"]),
        (INDEX, {"0001-a.md": "# 0001: A\n"}, ["0001-a.md has another status"]),
        (INDEX.replace("in force", "superseded"), RECORD, ["0001-a.md has another status"]),
        (
            INDEX.replace("in force |", "superseded | [0002](0002-b.md)"),
            {"0001-a.md": "# 0001: A\n\n**Status**: superseded by [0002](0002-b.md).\n"},
            [],
        ),
    ],
)
def test_fault_of_index_is_found(index: str, texts: Mapping[str, str], expected: list[str]) -> None:
    assert faults(index, texts) == expected
