"""The state of an estate as metrics."""

import pytest
from kit.estate_facts import DEFAULTS, GROUPS, HOSTVARS, SECONDS, facts, sound
from prometheus_client.parser import text_string_to_metric_families

from aqueduct.control_node.status import metrics
from aqueduct.control_node.status.evaluation import evaluate
from aqueduct.control_node.status.objects import declared_objects

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def written(raw: dict[str, dict[str, object]]) -> Samples:
    status = evaluate(declared_objects(GROUPS, HOSTVARS, DEFAULTS), facts(raw))
    return {
        (sample.name.removeprefix("aqueduct_status_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text(status))
        for sample in family.samples
    }


def key(metric: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return metric, frozenset(labels.items())


def test_a_sound_estate_has_no_findings() -> None:
    found = written(sound())
    assert found[key("time")] == SECONDS
    assert (found[key("hosts")], found[key("hosts_answered")]) == (3, 3)
    assert found[key("objects", section="flows", state="well")] == 1
    assert found[key("objects", section="flows", state="needs action")] == 0
    assert [name for name, _ in found if name == "findings"] == []
    flow = {"kind": "flow", "name": "pro to lake", "site": "lake"}
    assert found[key("figure", **flow, figure="lag")] == 3


@pytest.mark.parametrize(("change", "state"), [("failed", "needs action"), ("", "unknown")])
def test_findings_have_their_identifiers(change: str, state: str) -> None:
    raw = sound()
    if change:
        raw["lake-kafka-1"]["units"]["mirror_maker@pro"]["state"] = change
    else:
        raw["lake-kafka-1"]["answers"].pop("flow:pro")
    found = written(raw)
    id_ = "unit-not-active" if change else "object-not-answered"
    flow = {"kind": "flow", "name": "pro to lake", "site": "lake"}
    assert found[key("findings", **flow, id=id_, state=state)] == 1
    assert found[key("objects", section="flows", state=state)] == 1
    lag = key("figure", **flow, figure="lag")
    assert (lag in found) == bool(change), "a value that is not known is no number"


def test_names_may_have_any_letters() -> None:
    hostvars = {**HOSTVARS, "lake-land-1": {**HOSTVARS["lake-land-1"], "drill_site": 'a"b\\c\nd'}}
    status = evaluate(declared_objects(GROUPS, hostvars, DEFAULTS), facts(sound()))
    found = {
        sample.labels.get("name")
        for family in text_string_to_metric_families(metrics.text(status))
        for sample in family.samples
    }
    assert 'a"b\\c\nd at lake-land-1' in found
