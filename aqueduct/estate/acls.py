"""The rights of flows, links, backups, landings, registries, connectors and monitoring.

They are entries of `kafka_acls`. All else is denied.

Derived from Kafka 4.3.1: names from connect-mirror and connect-runtime, transactions from KIP-618,
synchronised groups from KIP-545, and what brokers ask for each request: CreateTopics create, CreatePartitions
alter, IncrementalAlterConfigs alter_configs of the topic; ListGroups shows the groups that one may describe,
OffsetFetch describe, OffsetCommit read of the group and of the topic; FindCoordinator describe and
InitProducerId write of the transactional id; DescribeAcls describe and DescribeClientQuotas describe_configs
of the cluster, which nothing else needs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.connect.replay_ledger import TOPIC as REPLAYED
from aqueduct.connect.replay_ledger import transactional_id
from aqueduct.estate.connectors import DeclaredConnector, internal_topics, worker_group
from aqueduct.estate.links import RECORD, Link, kept_raw, ledgers
from aqueduct.estate.model import Flow, principal
from aqueduct.estate.schema_registry import own_prefix
from aqueduct.link.ledger import entry
from aqueduct.mirror.classic_binding import bindings_group
from aqueduct.mirror.engine.names import CLIENT, group_of, state_topics
from aqueduct.snapshots.backup.selection import POSITION_GROUP


@dataclass(frozen=True, kw_only=True)
class DeclaredAcl:
    """One allowance; fields and values are those of `kafka_acls`."""

    principal: str
    resource: str  # topic, group, transactional_id, cluster
    name: str  # `*` with literal: every one
    pattern: str  # literal, prefixed
    operations: tuple[str, ...]


class Resource(NamedTuple):
    name: str
    pattern: str


EVERY = Resource("*", "literal")
# The services whose rights are derived here.
SERVICES = (
    "mirror_maker",
    "reconcile",
    "connect",
    "dlq_replay",
    "backup",
    "drill",
    "diode_upstream",
    "diode_downstream",
    "dedup",
    "land",
    "schema_registry",
    "monitoring",
)
# Whose rights nothing in the inventory needs: a restore grants them to its tasks, and revokes them.
FOR_A_RUN = ("restore",)
LAND_PREFIX = "aqueduct-land-"  # of its groups


def managed_principals(revoked: Iterable[str] = ()) -> str:
    """Return a regular expression of principals: those of services, and who is revoked.

    Their rights go when nothing in the inventory needs them any more; so do those that a killed restore left.
    """
    services = "|".join(principal(service, "") for service in (*SERVICES, *FOR_A_RUN))
    return "|".join([f"^({services})", *(f"^{re.escape(name)}$" for name in revoked)])


def flow_acls(site: str, flows: Iterable[Flow]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs that an estate's flows need at one site: for mirrors, and for each target's reconcile.

    Entries are sorted, and each principal and resource has one.
    """
    acls: list[DeclaredAcl] = []
    for flow in flows:
        acls += source_acls(flow) if flow.source == site else []
        acls += target_acls(flow) if flow.target == site else []
    return _merged(acls)


def link_acls(site: str, arriving: tuple[Link, ...], leaving: Iterable[Link]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs that links need at one site: their ends, and the dedup of what arrives."""
    acls: list[DeclaredAcl] = []
    for link in leaving:
        sender = principal("diode_upstream", site)
        acls += _allow(sender, "topic", resources(link.topics), "describe describe_configs read")
        positions = [Resource(name, "literal") for name in (link.group, f"{link.group}-resend")]
        acls += _allow(sender, "group", positions, "describe read")
    receiver = principal("diode_downstream", site)
    for link in arriving:
        if link.mode == RECORD:
            acls += _allow(receiver, "topic", resources(link.topics), "describe write")
    for link in kept_raw(arriving):
        raw = [Resource(link.raw_topic, "literal")]
        acls += _allow(receiver, "topic", raw, "describe describe_configs write")
        dedup = _dedup(site, link.source)
        acls += _allow(dedup, "topic", raw, "describe read")
        clean = resources(link.clean_topics.values() or link.topics)
        acls += _allow(dedup, "topic", clean, "describe describe_configs write")
    for ledger in ledgers(arriving):
        dedup, group = _dedup(site, ledger.source), entry.group(ledger.gap_topic)
        gaps = [Resource(ledger.gap_topic, "literal")]
        acls += _allow(dedup, "topic", gaps, "describe describe_configs read write")
        acls += _allow(dedup, "group", [Resource(group, "literal")], "describe read")
        acls += _allow(dedup, "transactional_id", [Resource(f"{group}-", "prefixed")], "describe write")
    return _merged(acls)


def _dedup(site: str, source: str) -> str:
    """Return the principal of one source's dedup: another's clean and gap topics are nothing to it."""
    return principal("dedup", f"{site}.{source}")


def _merged(acls: Iterable[DeclaredAcl]) -> tuple[DeclaredAcl, ...]:
    needed: dict[tuple[str, str, str, str], set[str]] = {}
    for acl in acls:
        key = (acl.principal, acl.resource, acl.name, acl.pattern)
        needed.setdefault(key, set()).update(acl.operations)
    return tuple(
        DeclaredAcl(
            principal=principal,
            resource=resource,
            name=name,
            pattern=pattern,
            operations=tuple(sorted(operations)),
        )
        for (principal, resource, name, pattern), operations in sorted(needed.items())
    )


def backup_acls(site: str) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of the backup of a site's cluster: to read all of it, and to commit offsets of its own
    group, by which Kafka's tools tell how far it has come."""
    backup = principal("backup", site)
    return (
        *_allow(backup, "cluster", [Resource("kafka-cluster", "literal")], "describe describe_configs"),
        *_allow(backup, "group", [EVERY], "describe"),
        *_allow(backup, "group", [Resource(POSITION_GROUP, "prefixed")], "read"),
        *_allow(backup, "topic", [EVERY], "describe describe_configs read"),
    )


def drill_acls(sites: Iterable[str]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs, at the site whose backup is drilled, of the drill hosts of these sites: to read."""
    return tuple(
        acl
        for site in sorted(set(sites))
        for acl in _allow(principal("drill", site), "topic", [EVERY], "describe describe_configs read")
    )


def land_acls(site: str, topics: Iterable[str]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of a site's landings: to read their topics, and to commit how far they are."""
    land = principal("land", site)
    return (
        *_allow(land, "group", [Resource(LAND_PREFIX, "prefixed")], "describe read"),
        *_allow(land, "topic", resources(topics), "describe describe_configs read"),
    )


def schema_registry_acls(site: str) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of a site's schema registry: for its own topics and groups, and no others."""
    registry, own = principal("schema_registry", site), [Resource(own_prefix(site), "prefixed")]
    return (
        *_allow(registry, "group", own, "describe read"),
        *_allow(registry, "topic", own, "describe describe_configs read write"),
    )


def monitoring_acls(sites: Iterable[str]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs, at each site, of those who may read all metrics: to describe cluster and topics."""
    return tuple(
        acl
        for site in sorted(set(sites))
        for monitoring in [principal("monitoring", site)]
        for acl in (
            *_allow(monitoring, "cluster", [Resource("kafka-cluster", "literal")], "describe"),
            *_allow(monitoring, "topic", [EVERY], "describe"),
        )
    )


def connect_acls(site: str, connectors: Iterable[DeclaredConnector]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of a site's Connect: its own group and topics, and those of each connector."""
    connect, group = principal("connect", site), worker_group(site)
    own = [Resource(name, "literal") for name in internal_topics(site).values()]
    acls = [
        *_allow(connect, "group", [Resource(group, "literal")], "describe read"),
        *_allow(connect, "topic", own, "describe describe_configs read write"),
        # KIP-618: one producer for the configuration, and one for each task of a source.
        *_allow(
            connect, "transactional_id", [Resource(f"connect-cluster-{group}", "literal")], "describe write"
        ),
        *_allow(connect, "transactional_id", [Resource(f"{group}-", "prefixed")], "describe write"),
    ]
    for connector in connectors:
        written = "describe write"
        if any(key.startswith("topic.creation.") for key in connector.config):  # KIP-158
            written += " create describe_configs"
        acls += _allow(connect, "topic", resources(connector.writes), written)
        acls += _allow(connect, "topic", resources(connector.reads), "describe read")
        if connector.is_sink:
            acls += _allow(connect, "group", [Resource(connector.group, "literal")], "describe read")
        if connector.dead_letters:
            letters = [Resource(connector.dead_letters, "literal")]
            acls += _allow(connect, "topic", letters, "describe read write")  # status.yml counts them
            acls += _allow(connect, "topic", [Resource(REPLAYED, "literal")], "describe read")
            acls += _replay_acls(site, connector)
    return _merged(acls)


def _replay_acls(site: str, sink: DeclaredConnector) -> list[DeclaredAcl]:
    """Return the ACLs by which a sink's dead-letter records are sent back (playbooks/dlq_replay.yml)."""
    replay, letters = principal("dlq_replay", site), sink.dead_letters
    return [
        *_allow(replay, "topic", [Resource(letters, "literal")], "describe read"),
        *_allow(replay, "topic", resources(sink.reads), "describe write"),
        *_allow(replay, "topic", [Resource(REPLAYED, "literal")], "describe read write"),
        *_allow(
            replay, "transactional_id", [Resource(transactional_id(letters), "literal")], "describe write"
        ),
    ]


def source_acls(flow: Flow) -> list[DeclaredAcl]:
    """Return a flow's rights at its source: to read and describe. The mirror's own topics are elsewhere."""
    mirror, topics = principal("mirror_maker", flow.target), resources(flow.topics)
    if flow.engine == "classic":
        return [
            *_allow(mirror, "topic", topics, "describe read"),
            *_allow(mirror, "group", [Resource(flow.group, "literal")], "describe read"),
            *_allow(principal("reconcile", flow.target), "topic", topics, "describe read"),
        ]
    return [
        *_allow(mirror, "topic", topics, "describe describe_configs read"),
        *_allow(mirror, "group", resources(flow.groups), "describe"),
        *_allow(principal("reconcile", flow.target), "topic", topics, "describe read"),
    ]


def target_acls(flow: Flow) -> list[DeclaredAcl]:
    mirror, topics = principal("mirror_maker", flow.target), written(flow)
    if flow.engine == "classic":  # it makes no topics
        return [
            # The bindings of its positions are offsets of a group, for which the topic is read, too.
            *_allow(mirror, "topic", topics, "describe read write"),
            *_allow(mirror, "group", [Resource(bindings_group(flow.group), "literal")], "describe read"),
            *_allow(principal("reconcile", flow.target), "topic", topics, "describe read"),
        ]
    shared = [
        *_allow(mirror, "topic", topics, "alter alter_configs create describe describe_configs write"),
        # Offsets of synchronised groups are looked up and committed, for which the topic is read, too.
        *_allow(mirror, "group", resources(flow.groups), "describe read"),
        *_allow(mirror, "topic", topics if flow.groups else [], "read"),
        *_allow(principal("reconcile", flow.target), "topic", topics, "describe read"),
    ]
    # The state of both engines: playbooks/switch_mirror.yml moves positions from one to the other, and each
    # finds out at its start whether the other one has the flow.
    own = [Resource(name, "literal") for name in state_topics(flow.name)]
    tasks = Resource(f"{CLIENT}-{flow.name}-", "prefixed")
    connect = f"{flow.name}-mm2"  # the Connect group of this flow's MirrorMaker
    leader = Resource(f"connect-cluster-{connect}", "literal")
    connect_tasks = Resource(f"{connect}-", "prefixed")
    return [
        *shared,
        *_allow(mirror, "topic", own, "create describe describe_configs read write"),
        # Hosts share the flow as members of this group.
        *_allow(mirror, "group", [Resource(group_of(flow.name), "literal")], "describe read"),
        *_allow(mirror, "transactional_id", [tasks], "describe write"),
        *_allow(mirror, "topic", mirror_topics(flow), "create describe describe_configs read write"),
        *_allow(mirror, "group", [Resource(connect, "literal")], "describe read"),
        # KIP-618: one producer for the configuration, and one for each task of each connector.
        *_allow(mirror, "transactional_id", [leader, connect_tasks], "describe write"),
    ]


def _allow(principal: str, resource: str, names: Iterable[Resource], operations: str) -> list[DeclaredAcl]:
    return [
        DeclaredAcl(
            principal=principal,
            resource=resource,
            name=name,
            pattern=pattern,
            operations=tuple(operations.split()),
        )
        for name, pattern in names
    ]


def written(flow: Flow) -> list[Resource]:
    """Return the topics that a flow writes at its target."""
    topics = resources(flow.topics)
    if not flow.prefix:
        return topics
    if topics == [EVERY]:
        return [Resource(flow.prefix, "prefixed")]
    return [Resource(flow.prefix + topic.name, topic.pattern) for topic in topics]


def mirror_topics(flow: Flow) -> list[Resource]:
    """Return MirrorMaker's own topics; all are at the target (offset-syncs.topic.location)."""
    names = (
        f"mm2-configs.{flow.name}.internal",
        f"mm2-offsets.{flow.name}.internal",
        f"mm2-status.{flow.name}.internal",
        f"mm2-offset-syncs.{flow.name}.internal",
        f"{flow.name}.checkpoints.internal",
        "heartbeats",
    )
    return [Resource(name, "literal") for name in names]


def resources(patterns: Iterable[str]) -> list[Resource]:
    """Return the narrowest resources that cover every name which one of the patterns matches."""
    covering = {resource(pattern) for pattern in patterns}
    return [EVERY] if EVERY in covering else sorted(covering)


# Characters that stand for themselves, up to one that is repeated or optional.
_LITERALS = re.compile(r"(?:(?:[a-zA-Z0-9_-]|\\[^a-zA-Z0-9])(?![*+?{]))*")


def resource(pattern: str) -> Resource:
    """Return a resource that covers every name that a pattern matches; a legal name stands for itself."""
    if LEGAL_NAME.fullmatch(pattern):
        return Resource(pattern, "literal")
    literals = "" if "|" in pattern else _LITERALS.match(pattern)[0]  # type: ignore[index]  # always matches
    if not literals:
        return EVERY
    return Resource(re.sub(r"\\(.)", r"\1", literals), "literal" if literals == pattern else "prefixed")
