"""The state of an estate as metrics: text for the textfile collector of Prometheus's node exporter.

By hand, because this package runs on the control node and on hosts without prometheus_client.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from aqueduct.control_node.status.model import SECTIONS, EstateStatus, ObjectState, ObjectStatus

Sample = tuple[float, dict[str, str]]  # value and labels


def text(status: EstateStatus) -> str:
    """Return the metrics. A figure that is not known has no sample."""
    return "".join(f"{line}\n" for line in _lines(status))


def _lines(status: EstateStatus) -> Iterator[str]:
    yield from _gauge("time", "when the hosts were queried, Unix time", [(status.asked / 1000, {})])
    yield from _gauge("hosts", "hosts that were queried", [(status.hosts, {})])
    yield from _gauge("hosts_answered", "hosts that answered", [(status.answered, {})])
    count_by_state = Counter(
        (object_status.declared.kind.section, object_status.state) for object_status in status.objects
    )
    objects = [
        (float(count_by_state[section, state]), {"section": section, "state": state.value})
        for section in SECTIONS
        for state in ObjectState
    ]
    yield from _gauge("objects", "declared objects by state", objects)
    findings = [
        (float(count), {**_labels(object_status), "id": id_, "state": state.value})
        for object_status in status.objects
        for (id_, state), count in Counter(
            (finding.id, finding.state) for finding in object_status.findings
        ).items()
    ]
    yield from _gauge("findings", "findings of an object, by identifier", findings)
    figures = [
        (float(value), {**_labels(object_status), "figure": figure})
        for object_status in status.objects
        for figure, value in object_status.figures.items()
        if isinstance(value, int | float)
    ]
    yield from _gauge("figure", "a measured value of an object", figures)


def _labels(object_status: ObjectStatus) -> dict[str, str]:
    declared = object_status.declared
    return {"kind": declared.kind.label, "name": declared.name, "site": declared.site}


def _gauge(name: str, meaning: str, rows: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP aqueduct_status_{name} {meaning}"
    yield f"# TYPE aqueduct_status_{name} gauge"
    for value, labels in rows:
        written = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels.items())
        yield f"aqueduct_status_{name}{f'{{{written}}}' if written else ''} {value!r}"


def _escaped(content: str) -> str:
    return content.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
