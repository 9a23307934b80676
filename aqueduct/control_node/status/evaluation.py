"""Evaluation of the facts of all hosts: the state of each declared object."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from aqueduct.control_node.status import first_sight
from aqueduct.control_node.status.backups import judge_backup, judge_drill
from aqueduct.control_node.status.certificates import judge_certificate
from aqueduct.control_node.status.clusters import judge_cluster, judge_node
from aqueduct.control_node.status.connectors import judge_connector
from aqueduct.control_node.status.flows import judge_flow
from aqueduct.control_node.status.hosts import judge_host
from aqueduct.control_node.status.landings import judge_landing
from aqueduct.control_node.status.links import RAW, judge_link
from aqueduct.control_node.status.model import DeclaredObject, EstateStatus, ObjectKind, ObjectStatus
from aqueduct.control_node.status.shared_checks import EstateFacts, unanswered

JUDGES = {
    ObjectKind.CLUSTER: judge_cluster,
    ObjectKind.FLOW: judge_flow,
    ObjectKind.CONNECTOR: judge_connector,
    ObjectKind.LANDING: judge_landing,
    ObjectKind.BACKUP: judge_backup,
    ObjectKind.DRILL: judge_drill,
    ObjectKind.CERTIFICATE: judge_certificate,
    ObjectKind.HOST: judge_host,
}
# Figures without which an object of a kind is not well. Others may be unknown: a process can run without a
# known version, and old records without a time.
REQUIRED: dict[ObjectKind, tuple[str, ...]] = {
    ObjectKind.CLUSTER: ("brokers", "controllers", "partitions", "under_replicated", "offline"),
    ObjectKind.BROKER: (),
    ObjectKind.CONTROLLER: ("active", "behind_ms"),
    ObjectKind.FLOW: ("partitions", "lag", "largest_lag"),
    ObjectKind.LINK: (),  # see _required
    ObjectKind.CONNECTOR: ("state", "tasks", "failed_tasks"),
    ObjectKind.LANDING: ("lag", "rows", "rejected", "files", "bytes", "skipped", "failures"),
    ObjectKind.BACKUP: ("age_seconds",),
    ObjectKind.DRILL: ("rpo_seconds", "rto_seconds", "age_seconds"),
    ObjectKind.CERTIFICATE: ("days_left",),
    ObjectKind.HOST: ("failed_units", "disk_percent", "clock_skew"),
}


def evaluate(
    declared: Iterable[DeclaredObject],
    facts: EstateFacts,
    *,
    unreachable: Collection[str] = (),
    site: str = "",
) -> EstateStatus:
    """Judge each object. `unreachable`: sites that are not asked; `site`: only this one's objects."""
    declared_objects = list(declared)
    others = {
        declared_object.site for declared_object in declared_objects if site and declared_object.site
    } - {site}
    beyond = frozenset(unreachable) | others  # sites whose hosts are not asked
    hosts = [
        (declared_object.site, declared_object.name)
        for declared_object in declared_objects
        if declared_object.kind == ObjectKind.HOST
    ]
    far = {host for of, host in hosts if of in beyond}
    asked = {host for of, host in hosts if of not in beyond}
    clusters = {
        declared_object.site: declared_object.hosts
        for declared_object in declared_objects
        if declared_object.kind == ObjectKind.CLUSTER
    }
    objects = []
    for declared_object in declared_objects:
        if declared_object.site in others:
            continue
        near = _without(declared_object, far)
        if declared_object.site in beyond or (declared_object.hosts and not near.hosts):
            objects.append(ObjectStatus(declared=declared_object, is_asked=False))
        elif declared_object.kind in (ObjectKind.BROKER, ObjectKind.CONTROLLER):
            objects.append(judge_node(declared_object, clusters.get(declared_object.site, ()), facts))
        elif declared_object.kind == ObjectKind.LINK:
            objects.append(judge_link(declared_object, facts, beyond))
        else:
            objects.append(JUDGES[declared_object.kind](near, facts))
        objects[-1] = _without_gaps(objects[-1])
        if facts.first_sights is not None:
            objects[-1] = first_sight.dated(objects[-1], facts.first_sights, facts.now)
    answered = sum(facts.of(host).has_answered for host in asked)
    return EstateStatus(objects=tuple(objects), asked=facts.now, answered=answered, hosts=len(asked))


def _without_gaps(status: ObjectStatus) -> ObjectStatus:
    """Return the status of an object; one without a required figure is unknown, not well.

    A figure that a check skipped, because another finding makes it meaningless, is not missing.
    """
    findings, figures = status.findings, status.figures
    if not status.is_asked or any(finding.is_unknown for finding in findings):
        return status
    missing = [
        name
        for name in _required(status.declared)
        if (name in figures or not findings) and figures.get(name) is None
    ]
    is_empty = not findings and all(figure is None for figure in figures.values())
    if not missing and not is_empty:
        return status
    host = next(iter(status.declared.hosts), status.declared.source_host)
    cause = f"no value of {', '.join(missing)}" if missing else "no host was queried for its figures"
    return replace(
        status, findings=(*findings, unanswered(status.declared, host, cause, "systemctl --failed"))
    )


def _required(declared: DeclaredObject) -> tuple[str, ...]:
    if declared.kind != ObjectKind.LINK:
        return REQUIRED[declared.kind]
    of_dedup = ("dedup_lag", "missing", "lost") if declared.details["mode"] == RAW else ()
    return (*(("beat_age",) if declared.details["downstream"] else ()), *of_dedup)


def _without(declared: DeclaredObject, far: Collection[str]) -> DeclaredObject:
    """Return an object of the whole estate without the hosts that are not asked from here."""
    if declared.site or not far:
        return declared
    return DeclaredObject(
        kind=declared.kind,
        name=declared.name,
        site=declared.site,
        hosts=tuple(host for host in declared.hosts if host not in far),
        details=declared.details,
    )
