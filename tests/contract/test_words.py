"""A name means one thing in the whole package."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def types(source: str) -> Iterator[str]:
    """Yield the names of a module's classes, type aliases and type variables."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            names = (each.id for each in node.targets if isinstance(each, ast.Name))
            yield from (name for name in names if name[0].isupper() and not name.isupper())


def doubled(sources: Iterable[str]) -> set[str]:
    times: defaultdict[str, int] = defaultdict(int)
    for source in sources:
        for name in types(source):
            times[name] += 1
    return {name for name, number in times.items() if number > 1}


def test_types_of_package_have_unique_names() -> None:
    paths = sorted((ROOT / "aqueduct").rglob("*.py"))
    assert len(paths) > 100
    assert doubled(path.read_text() for path in paths) == set()


def test_a_doubled_name_is_found() -> None:
    one, other = "class Outcome: ...\nLIMIT = 1\nT = 2", "Outcome = tuple[int, int]\nLIMIT = 2\nT = 3"
    assert doubled([one, other]) == {"Outcome"}
    assert doubled([one]) == set()
