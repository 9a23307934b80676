"""The model of an estate for roles and checks: sites, their Kafka nodes, and the flows that arrive there.

It is read from Ansible's `groups` and `hostvars`. The hostvars of another host do not contain role defaults,
so `defaults` passes the plain values of roles/kafka/defaults/main.yml (ports, roles). Functions read one site
at a time, because each host evaluates them in filters, and an estate can have a thousand hosts.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqueduct.errors import Refused
from aqueduct.estate.patterns import may_match, surely_matches
from aqueduct.kafka.line import MBIT

SITE_PREFIX = "site_"
NEW, TRANSACTIONS_SINCE = (4,), (0, 11)  # versions of Kafka: the default, and the first one with KIP-98
KRAFT, ZOOKEEPER = "kraft", "zookeeper"  # where a cluster stores its metadata

Groups = Mapping[str, Sequence[str]]
HostVars = Mapping[str, Mapping[str, Any]]


def texts(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return a list of the inventory as a tuple. A single text becomes the only element.

    The inventory check refuses a text in place of a list. Without the check, Python would iterate over its
    characters.
    """
    return (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A Kafka node. `port` is for clients and brokers, `controller_port` for the quorum."""

    host: str
    node_id: int
    roles: tuple[str, ...]
    advertised_host: str
    port: int
    controller_port: int
    rack: str

    @property
    def address(self) -> str:
        return f"{self.advertised_host}:{self.port}"

    @property
    def controller_address(self) -> str:
        return f"{self.advertised_host}:{self.controller_port}"


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A mirror of topics of `source` at `target`. Patterns are Java regular expressions for whole names."""

    source: str
    target: str
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    naming: str = "identity"  # or prefix: `flights` of pro1 arrives as `pro1.flights`
    groups: tuple[str, ...] = ()  # consumer groups whose offsets are synchronised; none by default
    groups_exclude: tuple[str, ...] = ()
    header: str = ""  # name=value of records of this source, in a topic with records of several sources
    given_name: str = ""
    engine: str = "mm2"  # or batches, classic
    tasks: int = 2  # not for the engine classic
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)  # for the engine mm2
    start: str = ""  # for the engine classic: earliest or latest
    threads: int = 1  # for each process of the engine classic
    line_ms: int = 0  # round-trip time of the line to the source; 0: not declared
    line_mbit: int = MBIT
    first_start: bool = False  # for the engine batches: target topics may have records of other producers
    source_servers: tuple[str, ...] = ()  # of a source outside the estate
    source_settings: Mapping[str, str] = field(
        default_factory=dict, hash=False
    )  # client properties for a source outside the estate
    source_version: str = ""  # Kafka version of an old source

    @property
    def name(self) -> str:
        """MirrorMaker's alias of the source. A second flow from the same site needs another name."""
        return self.given_name or self.source

    @property
    def prefix(self) -> str:
        """Return the prefix of topic names at the target (Default- or IdentityReplicationPolicy)."""
        return f"{self.name}." if self.naming == "prefix" else ""

    @property
    def groups_pattern(self) -> str:
        """Return one regular expression for the groups whose offsets the flow synchronises; empty: none."""
        if not self.groups:
            return ""
        exclude = f"(?!(?:{'|'.join(self.groups_exclude)})$)" if self.groups_exclude else ""
        return f"{exclude}(?:{'|'.join(self.groups)})"

    @property
    def topics_pattern(self) -> str:
        """Return one regular expression for the whole names of mirrored topics (DefaultTopicFilter)."""
        excluded = [*self.topics_exclude, r"mm2.*\.internal", r".*\.replica", "__.*"]
        if self.prefix and self.engine == "batches":
            # Topics that originate at the target have its prefix (DefaultReplicationPolicy).
            excluded.append(rf"(?:.*\.)?{re.escape(self.target)}\..*")
        exclude = "|".join(excluded)
        return f"(?!(?:{exclude})$)(?:{'|'.join(self.topics)})"

    def may_carry(self, topics: Collection[str]) -> bool:
        """Return whether one of these topics of the source may be mirrored."""
        return any(
            any(may_match(pattern, topic) for pattern in self.topics)
            and not any(surely_matches(pattern, topic) for pattern in self.topics_exclude)
            for topic in topics
        )

    @property
    def version(self) -> tuple[int, ...]:
        """Return the source's version of Kafka, such as (0, 10, 0, 1); ValueError if it is not a version."""
        return tuple(int(part) for part in self.source_version.split(".")) if self.source_version else NEW

    @property
    def isolation(self) -> str:
        """Return the isolation.level for the source. Brokers without transactions reject read_committed."""
        return "read_committed" if self.version >= TRANSACTIONS_SINCE else "read_uncommitted"

    @property
    def group(self) -> str:
        """Return the consumer group of a classic mirror at the source; its offsets are the position."""
        return f"{principal('mirror_maker', self.target)}-{self.name}"

    @classmethod
    def of(cls, target: str, declared: Mapping[str, Any]) -> "Flow":
        """Create a flow from an item of `mirror_maker_flows`."""
        return cls(
            source=declared["source"],
            target=target,
            topics=texts(declared["topics"]),
            topics_exclude=texts(declared.get("topics_exclude", ())),
            naming=declared.get("naming", "identity"),
            groups=texts(declared.get("groups", ())),
            groups_exclude=texts(declared.get("groups_exclude", ())),
            header=declared.get("header", ""),
            given_name=declared.get("name", ""),
            engine=declared.get("engine", "mm2"),
            tasks=int(declared.get("tasks", 2)),
            settings=dict(declared.get("settings", {})),
            start=declared.get("start", ""),
            threads=int(declared.get("threads", 1)),
            line_ms=int(declared.get("line_ms", 0)),
            line_mbit=int(declared.get("line_mbit", MBIT)),
            first_start=bool(declared.get("first_start", False)),
            source_servers=texts(declared.get("source_servers", ())),
            source_settings=dict(declared.get("source_settings", {})),
            source_version=str(declared.get("source_version", "")),
        )


@dataclass(frozen=True, kw_only=True)
class MirrorUnit:
    """The unit of a flow (mirror_maker@<flow>) on one host of its target site."""

    host: str
    flow: str
    target: str
    engine: str = "mm2"


@dataclass(frozen=True, kw_only=True)
class Site:
    name: str
    hosts: tuple[str, ...]
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]  # that arrive at this site

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if "broker" in node.roles)

    @property
    def controllers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if "controller" in node.roles)


def site_name(group_names: Iterable[str]) -> str:
    """Return the site of a host that is in these groups; Refused if it is not in exactly one site."""
    sites = [name.removeprefix(SITE_PREFIX) for name in group_names if name.startswith(SITE_PREFIX)]
    if len(sites) != 1:
        membership = " and ".join(sorted(sites)) or "no site"
        raise Refused(
            "host-site-ambiguous",
            f"A host is in {membership}. Put each host into exactly one group {SITE_PREFIX}<name>.",
        )
    return sites[0]


def site_names(groups: Groups) -> list[str]:
    return sorted(name.removeprefix(SITE_PREFIX) for name in groups if name.startswith(SITE_PREFIX))


def principal(service: str, site: str) -> str:
    """Return the principal of a service of a site: the CN of its certificate, the same on all hosts."""
    if service == "object_store":  # one store may serve several sites, and it is never a client
        return "object-store"
    if service.startswith("spark_"):  # all roles of a Spark cluster share a principal
        return f"spark-{site}"
    return f"{service.removesuffix('_maker').replace('_', '-')}-{site}"


def members(groups: Groups, site: str, service: str) -> list[str]:
    """Return a site's hosts that run a service, in inventory order; Refused for an unknown site."""
    if SITE_PREFIX + site not in groups:
        raise Refused(
            "site-unknown",
            f"The inventory has no group {SITE_PREFIX}{site} for the site {site}. "
            f"Correct the name of the site, or add the group {SITE_PREFIX}{site}.",
        )
    serving = set(groups.get(service, ()))
    return [host for host in groups[SITE_PREFIX + site] if host in serving]


def read_site(groups: Groups, hostvars: HostVars, defaults: Mapping[str, Any], site: str) -> Site:
    return Site(
        name=site,
        hosts=tuple(groups.get(SITE_PREFIX + site, ())),
        nodes=tuple(read_node(host, hostvars[host], defaults) for host in members(groups, site, "kafka")),
        flows=read_flows(groups, hostvars, site),
    )


def read_node(host: str, variables: Mapping[str, Any], defaults: Mapping[str, Any]) -> Node:
    def value(name: str) -> Any:
        return variables[name] if name in variables else defaults[name]

    if "kafka_node_id" not in variables:
        raise Refused(
            "node-id-missing",
            f"kafka_node_id of {host} is not set. Set a number that no other Kafka node of the site has.",
        )
    return Node(
        host=host,
        node_id=int(variables["kafka_node_id"]),
        # With ZooKeeper, each node is a broker, and one of them is also the active controller.
        roles=("broker",) if value("kafka_metadata") == ZOOKEEPER else tuple(value("kafka_roles")),
        advertised_host=variables.get("kafka_advertised_host") or host,
        port=int(value("kafka_port")),
        controller_port=int(value("kafka_controller_port")),
        rack=value("kafka_rack"),
    )


def read_flows(groups: Groups, hostvars: HostVars, site: str) -> tuple[Flow, ...]:
    """Return the flows that arrive at a site. All its mirror_maker hosts declare the same flows."""
    for host in members(groups, site, "mirror_maker")[:1]:
        return tuple(Flow.of(site, declared) for declared in hostvars[host].get("mirror_maker_flows") or ())
    return ()


def read_all_flows(groups: Groups, hostvars: HostVars) -> tuple[Flow, ...]:
    return tuple(flow for site in site_names(groups) for flow in read_flows(groups, hostvars, site))


def read_uncompared(groups: Groups, hostvars: HostVars) -> tuple[Flow, ...]:
    """Return the flows whose target site has no host in the group reconcile."""
    flows = read_all_flows(groups, hostvars)
    return tuple(flow for flow in flows if not members(groups, flow.target, "reconcile"))


def read_mirrors(
    groups: Groups, hostvars: HostVars, source: str, topics: Collection[str] | None = None
) -> tuple[MirrorUnit, ...]:
    """Return the mirrors that read a site; with `topics`, only those that may read one of these topics."""
    return tuple(
        MirrorUnit(host=host, flow=flow.name, target=flow.target, engine=flow.engine)
        for flow in read_all_flows(groups, hostvars)
        if flow.source == source and (topics is None or flow.may_carry(topics))
        for host in members(groups, flow.target, "mirror_maker")
    )
