"""The documentation is true: generated pages are new, links lead somewhere, examples do what they show.

A ```console block is run, all of a page in one copy of the repository, and must print what stands in it; a line of
three dots is any number of lines. One that needs more than a controller is marked `<!-- in the lab -->` before it.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from generate import pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_generated_page_is_new(path: Path) -> None:
    assert path.read_text() == pages()[path], "run script/docs"


def dead_links(page: Path, text: str) -> Iterator[str]:
    """Links to files that are not there, and names of files in code spans that are of none in the repository."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if "://" not in target and not (page.parent / target).exists():
            yield target
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._")
    for name in re.findall(rf"`((?:{folders})/[^`\s]*)`", prose):
        pattern = re.sub(r"<\w+>", "*", name.partition(":")[0])
        if not name.startswith("inventories/mine") and not any(ROOT.glob(pattern)):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page, page.read_text())) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[one](README.md) and [other](docs/nowhere.md#part)", ["docs/nowhere.md"]),
        ("`roles/kafka/defaults/main.yml`, `roles/<role>/meta` and `roles/kafkaesque`", ["roles/kafkaesque"]),
    ],
)
def test_a_dead_link_is_found(text: str, expected: list[str]) -> None:
    assert list(dead_links(ROOT / "README.md", text)) == expected


EXAMPLE = re.compile(r"^(?P<lab><!-- in the lab -->\n)?```console\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(text: str) -> Iterator[tuple[str, str]]:
    """Each command of the examples that need no lab, and its output."""
    for example in EXAMPLE.finditer(text):
        for part in re.split(r"^\$ ", example["text"], flags=re.MULTILINE)[1:]:
            lines = re.match(r"(?:.*\\\n)*.*\n", part)
            assert lines
            if not example["lab"]:
                yield lines[0], part[lines.end() :]


def as_shown(shown: str, printed: str) -> bool:
    lines = (r"(.*\n)*" if line.strip() == "..." else re.escape(line) for line in shown.splitlines(keepends=True))
    return re.fullmatch("".join(lines), printed) is not None


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what git has of this repository, or would take, with its environment."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            copy = tmp_path / "aqueduct" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)
    (tmp_path / "aqueduct/.venv").symlink_to(ROOT / ".venv")
    return tmp_path / "aqueduct"
