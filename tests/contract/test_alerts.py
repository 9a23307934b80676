"""The alert rules: each names figures that there are, and says what is so and what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml
from prometheus_client import generate_latest

from aqueduct.link import metrics
from aqueduct.link.dedup.metrics import Figures
from aqueduct.link.dedup.task import Done
from aqueduct.link.wire.counters import Counters
from aqueduct.link.wire.key_frame import Kind

FILE = Path(__file__).resolve().parents[2] / "docs/alerts/link.yml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
JOBS = ("aqueduct-diode-upstream", "aqueduct-diode-downstream", "aqueduct-dedup")
# A figure with what stands around it: a function's name and labels.
FIGURE = re.compile(r"(?:(\w+)\()?\b(aqueduct_\w+)(?:\{([^}]*)\})?")


def exported() -> dict[str, set[str]]:
    """What both ends and dedup tell Prometheus: samples, and the values of labels that a rule may ask for."""
    sight = SimpleNamespace(sender="0" * 64, kind=Kind.LIVE, beat=True, beat_at=0.0, key_created=0, missing=0)
    receiver = MagicMock(counters=Counters(), sessions=lambda: [sight])
    dedup = Figures()
    dedup.add(Done(), 0.0)
    ends: Any = (
        (metrics.upstream, MagicMock(outlets=[MagicMock()])),
        (metrics.downstream, MagicMock(receiver=receiver)),
        (Figures.all, dedup),
    )
    found: dict[str, set[str]] = {}
    for told, figures in ends:
        collector: Any = SimpleNamespace(collect=lambda told=told, figures=figures: told(figures))
        for line in generate_latest(collector).decode().splitlines():
            if sample := re.match(r"([a-z_]+)(?:\{(.*)\})? ", line):
                found.setdefault(sample[1], set()).update((sample[2] or "").split(","))
    return found


EXPORTED = exported()


def faults(rule: dict[str, Any]) -> Iterator[str]:
    expression = str(rule.get("expr", ""))
    figures = list(FIGURE.finditer(expression))
    jobs = re.findall(r'up\{job="([^"]*)"\}', expression)
    if not figures and not jobs:
        yield "it looks at no figure"
    yield from (f"nothing is collected as job {job}" for job in jobs if job not in JOBS)
    for function, name, labels in (figure.groups() for figure in figures):
        if name not in EXPORTED:
            yield f"there is no figure {name}"
            continue
        if (function in ("rate", "increase")) != name.endswith("_total"):
            yield f"{name} is asked for as what it is not"
        yield from (
            f"{name} has no {label}"
            for label in (labels or "").split(",")
            if label not in EXPORTED[name] | {""}
        )
    if rule.get("labels", {}).get("severity") not in ("page", "ticket"):
        yield "it has no severity"
    for name in ("summary", "remedy"):
        if not re.search(r"\w.*\.$", rule.get("annotations", {}).get(name, ""), re.DOTALL):
            yield f"its {name} is no sentence"


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_names_what_there_is_and_what_to_do(alert: str) -> None:
    assert list(faults(RULES[alert])) == []


def test_each_alert_has_a_name_of_its_own() -> None:
    assert len(RULES) == sum(len(group["rules"]) for group in GROUPS) > 15


def test_figures_of_both_ends_are_known() -> None:
    known = {
        "aqueduct_diode_upstream_lag",
        "aqueduct_diode_downstream_blocks_lost_total",
        "aqueduct_dedup_lag",
    }
    assert known <= EXPORTED.keys()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"expr": "increase(aqueduct_diode_downstream_blocks_mislaid_total[5m]) > 0"}, "there is no figure"),
        ({"expr": 'up{job="aqueduct-diod-upstream"} == 0'}, "nothing is collected"),
        ({"expr": 'aqueduct_diode_downstream_beat_age{kind="life"} > 1'}, "has no kind"),
        ({"expr": "aqueduct_diode_downstream_blocks_lost_total > 0"}, "as what it is not"),
        ({"expr": "rate(aqueduct_diode_upstream_lag[5m]) > 0"}, "as what it is not"),
        ({"expr": "1 > 0"}, "it looks at no figure"),
        ({"labels": {}}, "it has no severity"),
        ({"annotations": {"summary": "All is well."}}, "its remedy is no sentence"),
    ],
)
def test_a_faulty_alert_is_found(changed: dict[str, Any], expected: str) -> None:
    [found] = faults({**RULES["LinkLoses"], **changed})
    assert expected in found
