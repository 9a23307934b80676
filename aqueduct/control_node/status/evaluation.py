"""Evaluation of the facts of all hosts: the state of each declared object."""

from collections.abc import Collection, Iterable

from aqueduct.control_node.status.backups import judge_backup, judge_drill
from aqueduct.control_node.status.certificates import judge_certificate
from aqueduct.control_node.status.clusters import judge_cluster, judge_node
from aqueduct.control_node.status.connectors import judge_connector
from aqueduct.control_node.status.flows import judge_flow
from aqueduct.control_node.status.hosts import judge_host
from aqueduct.control_node.status.landings import judge_landing
from aqueduct.control_node.status.links import judge_link
from aqueduct.control_node.status.model import DeclaredObject, EstateStatus, ObjectKind, ObjectStatus
from aqueduct.control_node.status.shared_checks import EstateFacts

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
    answered = sum(facts.of(host).has_answered for host in asked)
    return EstateStatus(objects=tuple(objects), asked=facts.now, answered=answered, hosts=len(asked))


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
