"""The state of an estate as metrics, in a file for the textfile collector of Prometheus's node exporter."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric

from aqueduct import prometheus
from aqueduct.status.model import SECTIONS, EstateStatus, ObjectState, ObjectStatus

OWN = prometheus.Named("aqueduct_status")


def write(path: Path, status: EstateStatus) -> None:
    """Replace the file. Failed if it cannot be written."""
    prometheus.write(path, list(metrics(status)))


def metrics(status: EstateStatus) -> Iterator[Metric]:
    """Yield the metrics. A figure that is not known has no sample."""
    yield OWN.gauge("time", "when the hosts were asked, Unix time", status.asked / 1000)
    yield OWN.gauge("hosts", "hosts that were asked", status.hosts)
    yield OWN.gauge("hosts_answered", "hosts that answered", status.answered)
    count_by_state = Counter(
        (object_status.declared.kind.section, object_status.state) for object_status in status.objects
    )
    objects = [
        (float(count_by_state[section, state]), {"section": section, "state": state.value})
        for section in SECTIONS
        for state in ObjectState
    ]
    yield OWN.gauge("objects", "declared objects by state", *objects)
    findings = [
        (float(count), {**_labels(object_status), "id": id_, "state": state.value})
        for object_status in status.objects
        for (id_, state), count in Counter(
            (finding.id, finding.state) for finding in object_status.findings
        ).items()
    ]
    yield OWN.gauge("findings", "findings of an object, by identifier", *findings)
    figures = [
        (float(value), {**_labels(object_status), "figure": figure})
        for object_status in status.objects
        for figure, value in object_status.figures.items()
        if isinstance(value, int | float)
    ]
    yield OWN.gauge("figure", "a measured value of an object", *figures)


def _labels(object_status: ObjectStatus) -> prometheus.Labels:
    declared = object_status.declared
    return {"kind": declared.kind.label, "name": declared.name, "site": declared.site}
