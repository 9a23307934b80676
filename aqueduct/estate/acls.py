"""ACLs of flows, links, backups, landings, schema registries, connectors and monitoring.

They are entries of `kafka_acls`. All other operations are denied.

The sources are Kafka 4.3.1 (names in connect-mirror and connect-runtime), KIP-618 (transactions), KIP-545
(synchronised groups), and the operations that brokers require for each request. Of a topic: CreateTopics
needs create, CreatePartitions alter, IncrementalAlterConfigs alter_configs. Of a group: ListGroups shows the
groups that the client may describe, OffsetFetch needs describe, OffsetCommit needs read of the group and of
the topic. Of a transactional id: FindCoordinator needs describe, InitProducerId write. Of the cluster:
DescribeAcls needs describe, DescribeClientQuotas describe_configs; no other request needs these two.
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
    """An ACL that allows operations; fields and values are those of `kafka_acls`."""

    principal: str
    resource: str  # topic, group, transactional_id, cluster
    name: str  # `*` with literal: all names
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
# Services whose ACLs exist only during a run: a restore creates them for its tasks, and deletes them.
FOR_A_RUN = ("restore",)
LAND_PREFIX = "aqueduct-land-"  # of the consumer groups of landings


def managed_principals(revoked: Iterable[str] = ()) -> str:
    """Return a regular expression for the principals whose ACLs Aqueduct manages: services and revoked ones.

    Their ACLs are deleted if the inventory no longer needs them, also those of a killed restore.
    """
    services = "|".join(principal(service, "") for service in (*SERVICES, *FOR_A_RUN))
    return "|".join([f"^({services})", *(f"^{re.escape(name)}$" for name in revoked)])


def flow_acls(site: str, flows: Iterable[Flow]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs that flows need at one site: for mirrors, and for the reconcile of each target.

    The ACLs are sorted, with one entry for each principal and resource.
    """
    acls: list[DeclaredAcl] = []
    for flow in flows:
        acls += source_acls(flow) if flow.source == site else []
        acls += target_acls(flow) if flow.target == site else []
    return _merged(acls)


def link_acls(site: str, arriving: tuple[Link, ...], leaving: Iterable[Link]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs that links need at one site: for their ends, and for dedup."""
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
    """Return the principal of dedup for one source, without rights for topics of other sources."""
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
    """Return the ACLs of the backup of a site's cluster.

    It reads all topics, and commits offsets of its own group, with which Kafka's tools show its progress.
    """
    backup = principal("backup", site)
    return (
        *_allow(backup, "cluster", [Resource("kafka-cluster", "literal")], "describe describe_configs"),
        *_allow(backup, "group", [EVERY], "describe"),
        *_allow(backup, "group", [Resource(POSITION_GROUP, "prefixed")], "read"),
        *_allow(backup, "topic", [EVERY], "describe describe_configs read"),
    )


def drill_acls(sites: Iterable[str]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs at a site for the drills of these sites, which read topics to compare them."""
    return tuple(
        acl
        for site in sorted(set(sites))
        for acl in _allow(principal("drill", site), "topic", [EVERY], "describe describe_configs read")
    )


def land_acls(site: str, topics: Iterable[str]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of a site's landings, which read their topics and commit offsets."""
    land = principal("land", site)
    return (
        *_allow(land, "group", [Resource(LAND_PREFIX, "prefixed")], "describe read"),
        *_allow(land, "topic", resources(topics), "describe describe_configs read"),
    )


def schema_registry_acls(site: str) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of a site's schema registry, for its own topics and groups only."""
    registry, own = principal("schema_registry", site), [Resource(own_prefix(site), "prefixed")]
    return (
        *_allow(registry, "group", own, "describe read"),
        *_allow(registry, "topic", own, "describe describe_configs read write"),
    )


def monitoring_acls(sites: Iterable[str]) -> tuple[DeclaredAcl, ...]:
    """Return the ACLs of the monitoring of these sites, which describes the cluster and its topics."""
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
        # KIP-618: one producer for the configuration, and one for each task of a source connector.
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
            acls += _allow(connect, "topic", letters, "describe read write")  # status.yml counts the records
            acls += _allow(connect, "topic", [Resource(REPLAYED, "literal")], "describe read")
            acls += _replay_acls(site, connector)
    return _merged(acls)


def _replay_acls(site: str, sink: DeclaredConnector) -> list[DeclaredAcl]:
    """Return the ACLs for the replay of a sink's dead-letter records (playbooks/dlq_replay.yml)."""
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
    """Return the ACLs of a flow at its source, which only read. Its internal topics are at the target."""
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
    if flow.engine == "classic":  # it creates no topics
        return [
            # The bindings of its positions are committed offsets, which need read of the topic.
            *_allow(mirror, "topic", topics, "describe read write"),
            *_allow(mirror, "group", [Resource(bindings_group(flow.group), "literal")], "describe read"),
            *_allow(principal("reconcile", flow.target), "topic", topics, "describe read"),
        ]
    shared = [
        *_allow(mirror, "topic", topics, "alter alter_configs create describe describe_configs write"),
        # Offsets of synchronised groups are fetched and committed, which needs read of the topic.
        *_allow(mirror, "group", resources(flow.groups), "describe read"),
        *_allow(mirror, "topic", topics if flow.groups else [], "read"),
        *_allow(principal("reconcile", flow.target), "topic", topics, "describe read"),
    ]
    # Both engines need the internal topics of both: playbooks/switch_mirror.yml moves positions between them,
    # and each engine checks at its start whether the other one runs the flow.
    own = [Resource(name, "literal") for name in state_topics(flow.name)]
    tasks = Resource(f"{CLIENT}-{flow.name}-", "prefixed")
    connect = f"{flow.name}-mm2"  # the group of the MirrorMaker workers of this flow
    leader = Resource(f"connect-cluster-{connect}", "literal")
    connect_tasks = Resource(f"{connect}-", "prefixed")
    return [
        *shared,
        *_allow(mirror, "topic", own, "create describe describe_configs read write"),
        # The hosts of the flow are members of this group.
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
    """Return MirrorMaker's internal topics, all of them at the target (offset-syncs.topic.location)."""
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
    """Return the narrowest resources that cover all names that the patterns match."""
    covering = {resource(pattern) for pattern in patterns}
    return [EVERY] if EVERY in covering else sorted(covering)


# Characters at the beginning that match only themselves, without quantifiers.
_LITERALS = re.compile(r"(?:(?:[a-zA-Z0-9_-]|\\[^a-zA-Z0-9])(?![*+?{]))*")


def resource(pattern: str) -> Resource:
    """Return a resource that covers all names that a pattern matches. A legal name matches only itself."""
    if LEGAL_NAME.fullmatch(pattern):
        return Resource(pattern, "literal")
    literals = "" if "|" in pattern else _LITERALS.match(pattern)[0]  # type: ignore[index]  # always matches
    if not literals:
        return EVERY
    return Resource(re.sub(r"\\(.)", r"\1", literals), "literal" if literals == pattern else "prefixed")
