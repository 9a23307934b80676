"""docs/architecture.md describes every part of the product, and no page denies a part that exists."""

import re
from pathlib import Path

import pytest

from docs.generate import pages

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = ROOT / "docs/architecture.md"


def package_rooms() -> set[str]:
    """Return the subpackages of aqueduct/, nested ones by their own names."""
    return {path.parent.name for path in ROOT.glob("aqueduct/*/**/__init__.py")}


def undescribed(text: str) -> list[str]:
    """Return the rooms, shared modules, roles and folders that a page does not describe.

    A room of the package begins a paragraph; a nested room is named in one. Modules, roles and folders have a
    row in a table whose second cell is not empty.
    """
    paragraphs = set(re.findall(r"^\*\*`aqueduct/(\w+)/`\*\* \w", text, re.MULTILINE))
    top = {path.parent.name for path in ROOT.glob("aqueduct/*/__init__.py")}
    nested = {room for room in package_rooms() - top if f"`{room}/`" not in text and f"/{room}`" not in text}
    rows = [row.groups() for row in re.finditer(r"^\| (.+?) \| (?=\w|`)", text, re.MULTILINE)]
    described = {name for (cell,) in rows for name in re.findall(r"`([\w./]+?)/?`", cell)}
    modules = {path.stem for folder in ("", "common/") for path in ROOT.glob(f"aqueduct/{folder}*.py")}
    modules -= {"__init__"}
    roles = {path.name for path in (ROOT / "roles").iterdir()}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._"}
    folders -= {"aqueduct", "roles"}  # their parts have tables and paragraphs of their own
    ours = {name for name in folders if any((ROOT / name).rglob("*.*"))} - {"pki", "reports"}
    return sorted((top - paragraphs) | nested | ((modules | roles | ours) - described))


def test_architecture_describes_every_part() -> None:
    assert undescribed(ARCHITECTURE.read_text()) == []


@pytest.mark.parametrize(
    ("removed", "part"),
    [
        ("**`aqueduct/recovery/`**", "recovery"),
        ("`wire/`", "wire"),
        ("| `offset_sets` |", "offset_sets"),
        ("`zookeeper` | a", "zookeeper"),
        ("| `demo/` |", "demo"),
    ],
)
def test_undescribed_part_is_found(removed: str, part: str) -> None:
    text = ARCHITECTURE.read_text()
    assert removed in text
    assert set(undescribed(text.replace(removed, ""))) - set(undescribed(text)) == {part}


def test_architecture_has_deployment_and_data_flow_diagrams() -> None:
    text = ARCHITECTURE.read_text()
    diagrams = re.findall(
        r"^### ([\w ]+)$(?:(?!^#).)*?^```mermaid\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    assert [title for title, _ in diagrams] == ["Deployment", "Data flow"]
    for _, diagram in diagrams:
        opened = len(re.findall(r"^ *subgraph\b", diagram, re.MULTILINE))
        assert diagram.startswith("flowchart ")
        assert len(re.findall(r"^ *end$", diagram, re.MULTILINE)) == opened


# Sentences that say that the product lacks a part, rather than that a topic or a file is absent.
ABSENCE = re.compile(
    r"\b(?:(?:is|are) (?:not|never)(?: yet)? (?:built|documented|implemented|provided|supported)"
    r"|not (?:yet|built|implemented)|nothing (?:builds|deploys|makes)"
    r"|(?:has|have|is|are) no (?:command|guide|playbook|role|script|verb)s?\b"
    r"|(?:planned|future|later) (?:release|version)s?|remains? to be|(?:is|are) planned)\b",
    re.IGNORECASE,
)
PAGES = [
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md"))
    if page.name != "CHANGELOG.md" and page not in pages()
]


def capabilities() -> set[str]:
    """Return the words for capabilities: those in the names of verbs, roles, playbooks and guides."""
    names = re.findall(r"^## aqueduct ([\w-]+)", pages()[ROOT / "docs/cli.md"], re.MULTILINE)
    names += [
        path.stem for folder in ("roles", "playbooks", "docs/guides") for path in (ROOT / folder).iterdir()
    ]
    return {word for name in names for word in re.split(r"[_-]", name) if len(word) > 3} - {
        "host",
        "hosts",
        "site",
    }


def denied_capabilities(text: str) -> list[tuple[str, str]]:
    """Return sentences that say that the product lacks something, each with a capability that it names."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    claims = [claim for claim in re.split(r"(?<=[.!?;])\s+|\n|\|", prose) if ABSENCE.search(claim)]
    known = capabilities()
    return [
        (claim, word)
        for claim in claims
        for word in re.findall(r"[a-z]{4,}", claim.lower())
        if word in known or word.removesuffix("s") in known
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_denies_a_capability(page: Path) -> None:
    assert denied_capabilities(page.read_text()) == []


@pytest.mark.parametrize(
    "claim",
    [
        "The way from ZooKeeper to KRaft is not built yet.",
        "Lost quorums remain to be recovered by hand.",
        "There is no role for it: restores are planned.",
        "Migrating to `kraft` comes with a later release.",
    ],
)
def test_denial_of_capability_is_found(claim: str) -> None:
    assert denied_capabilities(claim)
