"""All objects that an inventory declares, whether they answer or not."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aqueduct.control_node.status.model import AUTHORITY, DeclaredObject, ObjectKind
from aqueduct.estate.check.secrets import WITH_CERTIFICATE
from aqueduct.estate.connectors import read_connectors
from aqueduct.estate.links import ledgers, read_links
from aqueduct.estate.model import (
    Groups,
    HostVars,
    members,
    principal,
    read_flows,
    read_site,
    site_names,
)

ESTATE = ""  # the site of an object of the whole estate
METADATA = (
    ("zookeeper", "zookeeper_backup_store_url", "znodes", "zookeeper_backup"),
    ("kafka", "kafka_quorum_backup_store_url", "quorum", "quorum_backup"),
)


def declared_objects(groups: Groups, hostvars: HostVars, defaults: Mapping[str, Any]) -> list[DeclaredObject]:
    """Return the objects of all sites. `defaults`: of the role kafka."""
    objects = [
        declared for site in site_names(groups) for declared in _of_site(groups, hostvars, defaults, site)
    ]
    hosts = tuple(
        dict.fromkeys(
            host for declared in objects if declared.kind == ObjectKind.CERTIFICATE for host in declared.hosts
        )
    )
    if hosts:
        authority = DeclaredObject(
            kind=ObjectKind.CERTIFICATE,
            name="authority",
            site=ESTATE,
            hosts=hosts,
            details={"is": AUTHORITY},
        )
        objects.append(authority)
    return objects


def _of_site(
    groups: Groups, hostvars: HostVars, defaults: Mapping[str, Any], site: str
) -> Iterator[DeclaredObject]:
    estate_site = read_site(groups, hostvars, defaults, site)
    if estate_site.nodes:
        asked = tuple(node.host for node in estate_site.nodes)
        yield DeclaredObject(kind=ObjectKind.CLUSTER, name=site, site=site, hosts=asked)
    for kind, nodes in (
        (ObjectKind.BROKER, estate_site.brokers),
        (ObjectKind.CONTROLLER, estate_site.controllers),
    ):
        if kind == ObjectKind.CONTROLLER and _uses_zookeeper(estate_site.nodes):
            continue
        for node in nodes:
            yield DeclaredObject(
                kind=kind, name=node.host, site=site, hosts=(node.host,), node_id=node.node_id
            )
    mirrors = tuple(members(groups, site, "mirror_maker"))
    for flow in read_flows(groups, hostvars, site):
        yield DeclaredObject(
            kind=ObjectKind.FLOW,
            name=f"{flow.name} to {site}",
            site=site,
            hosts=mirrors,
            source=flow.source,
            details={"flow": flow.name},
        )
    yield from _links(groups, hostvars, site)
    workers = tuple(members(groups, site, "connect"))
    for connector in read_connectors(groups, hostvars, site):
        if connector.state != "absent":
            yield DeclaredObject(
                kind=ObjectKind.CONNECTOR,
                name=f"{site}/{connector.name}",
                site=site,
                hosts=workers,
                details={
                    "connector": connector.name,
                    "state": connector.state,
                    "dead_letters": connector.dead_letters,
                },
            )
    yield from _landings(groups, hostvars, site)
    yield from _backups(groups, hostvars, site)
    for host in members(groups, site, "drill"):
        drilled = hostvars[host].get("drill_site") or site
        yield DeclaredObject(kind=ObjectKind.DRILL, name=f"{drilled} at {host}", site=site, hosts=(host,))
    for host in estate_site.hosts:
        yield from _certificates(groups, hostvars, site, host)
    for host in estate_site.hosts:
        yield DeclaredObject(kind=ObjectKind.HOST, name=host, site=site, hosts=(host,))


def _uses_zookeeper(nodes: Iterable[Any]) -> bool:
    return not any("controller" in node.roles for node in nodes)


def _links(groups: Groups, hostvars: HostVars, site: str) -> Iterator[DeclaredObject]:
    dedup = tuple(members(groups, site, "dedup"))
    for link in read_links(groups, hostvars, site):
        ends = (link.downstream, *(dedup if link.mode == "raw" else ()))
        yield DeclaredObject(
            kind=ObjectKind.LINK,
            name=f"{link.name} to {site}",
            site=site,
            hosts=tuple(dict.fromkeys(filter(None, ends))),
            source=link.source,
            source_host=link.upstream,
            details={
                "link": link.name,
                "mode": link.mode,
                "downstream": link.downstream,
                "upstream_unit": f"diode_upstream@{site}-{link.sent_by or link.name}",
            },
        )


def _landings(groups: Groups, hostvars: HostVars, site: str) -> Iterator[DeclaredObject]:
    for host in members(groups, site, "land"):
        for table in hostvars[host].get("land_tables") or ():
            name = str(table["table"])
            yield DeclaredObject(
                kind=ObjectKind.LANDING,
                name=f"{site}/{name}",
                site=site,
                hosts=(host,),
                details={"table": name},
            )


def _backups(groups: Groups, hostvars: HostVars, site: str) -> Iterator[DeclaredObject]:
    def backup(name: str, host: str, unit: str) -> DeclaredObject:
        details = {"unit": unit}
        return DeclaredObject(
            kind=ObjectKind.BACKUP, name=f"{name} at {host}", site=site, hosts=(host,), details=details
        )

    for host in members(groups, site, "backup"):
        yield backup(f"topics of {site}", host, "backup")
    for host in members(groups, site, "file_backup"):
        for source in hostvars[host].get("file_backup_sources") or ():
            yield backup(f"files {source['name']}", host, f"file_backup@{source['name']}")
    for service, variable, name, unit in METADATA:
        keepers = [host for host in members(groups, site, service) if hostvars[host].get(variable)]
        for host in keepers[:1]:  # one of them backs up what all of them have
            yield backup(f"{name} of {site}", host, unit)


def _certificates(groups: Groups, hostvars: HostVars, site: str, host: str) -> Iterator[DeclaredObject]:
    names: list[str] = []
    for service in WITH_CERTIFICATE:
        if host not in groups.get(service, ()):
            continue
        name = principal(service, site)
        if service == "kafka":
            names.append(str(hostvars[host].get("kafka_principal") or name))
        elif service == "dedup":  # one of each source
            names += [f"{name}.{ledger.source}" for ledger in ledgers(read_links(groups, hostvars, site))]
        else:
            names.append(name)
    for name in dict.fromkeys(names):  # services of Spark share one
        yield DeclaredObject(
            kind=ObjectKind.CERTIFICATE,
            name=f"{name} at {host}",
            site=site,
            hosts=(host,),
            details={"principal": name},
        )
