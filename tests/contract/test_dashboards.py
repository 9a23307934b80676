"""Grafana's dashboards show figures that exporters really give, and their expressions are right."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import estate_facts, exporter_names
from kit.prometheus import promtool

from aqueduct.control_node.status import metrics
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.objects import declared_objects

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "docs/dashboards").iterdir())
PROMETHEUS = {"up", "ALERTS"}
NAME = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)(?=\{|\[| *[-+/*)>=<]|$)")
VARIABLES = {"$site": "s", "$flow": "f"}


def panels(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text())["panels"])


def expressions(file: Path) -> list[str]:
    return [target["expr"] for panel in panels(file) for target in panel["targets"]]


def used(expression: str) -> set[str]:
    """Return the names of figures: what has labels, a range, or stands alone."""
    without_strings = re.sub(r'"[^"]*"', '""', expression)
    without_by = re.sub(r"\bby *\([^)]*\)", "", without_strings)
    without_labels = re.sub(r"\{[^}]*\}", "{}", without_by)
    return {name for name in NAME.findall(without_labels) if name not in ("or", "and", "vector")}


@pytest.fixture(scope="module")
def exported() -> set[str]:
    declared = declared_objects(estate_facts.GROUPS, estate_facts.HOSTVARS, estate_facts.DEFAULTS)
    page = metrics.text(evaluate(declared, estate_facts.facts(estate_facts.sound() | {"pro-kafka-1": {}})))
    own = {line.partition("{")[0].partition(" ")[0] for line in page.splitlines()}
    return own | exporter_names.EVERY.keys() | PROMETHEUS


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_each_panel_shows_figures_that_exist(file: Path, exported: set[str]) -> None:
    names = {name for expression in expressions(file) for name in used(expression)}
    assert len(names) > 5
    assert names - exported == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_expressions_are_right(file: Path, tmp_path: Path) -> None:
    every = expressions(file)
    for variable, value in VARIABLES.items():
        every = [expression.replace(variable, value) for expression in every]
    rules = [{"record": f"r{number}", "expr": expression} for number, expression in enumerate(every)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    done = subprocess.run(
        [promtool(), "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_panels_do_not_overlap(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels(file):
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_names_are_found_in_expressions() -> None:
    assert used('sum by (site) (rate(a_total{x="b"}[2m]))') == {"a_total"}
    assert used("1 - a{} / b{}") == {"a", "b"}
    assert used("c") == {"c"}
