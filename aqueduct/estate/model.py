"""An estate as roles and checks see it: sites, their Kafka nodes, and the flows that arrive there.

It is read from Ansible's `groups` and `hostvars`. Another host's role defaults are not among its hostvars, so
what a default decides (ports, roles) comes in `defaults`, the plain values of roles/kafka/defaults/main.yml.
Everything is read for one site at a time: a filter that every host evaluates must not read a thousand hosts.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqueduct.errors import Refused
from aqueduct.estate.patterns import may_match, surely_matches
from aqueduct.kafka.line import MBIT

SITE_PREFIX = "site_"
NEW, TRANSACTIONS_SINCE = (4,), (0, 11)  # versions of Kafka; the latter: KIP-98
KRAFT, ZOOKEEPER = "kraft", "zookeeper"  # where a cluster keeps its metadata

Groups = Mapping[str, Sequence[str]]
HostVars = Mapping[str, Mapping[str, Any]]


def texts(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return the texts of a list of the inventory; a text that stands for a list is its only element.

    The inventory check refuses such a text. What reads an unchecked inventory must not take its letters.
    """
    return (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A Kafka node. Ports: `port` for clients and brokers, `controller_port` for the quorum."""

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
    header: str = ""  # name=value that this source's records have in a topic that several sources feed
    given_name: str = ""
    engine: str = "mm2"  # or batches, classic
    tasks: int = 2  # not of the classic engine
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)  # of MirrorMaker 2
    start: str = ""  # of the classic one: earliest, latest
    threads: int = 1  # of each of its processes
    line_ms: int = 0  # round-trip time of the line to the source; 0: not declared
    line_mbit: int = MBIT
    first_start: bool = False  # of batches: topics at the target may have records of others
    source_servers: tuple[str, ...] = ()  # of a source outside the estate
    source_settings: Mapping[str, str] = field(
        default_factory=dict, hash=False
    )  # a client's, of such a source
    source_version: str = ""  # of Kafka there, where it is an old one

    @property
    def name(self) -> str:
        """MirrorMaker's alias of the source; a second flow from one site needs another."""
        return self.given_name or self.source

    @property
    def prefix(self) -> str:
        """Return what topics' names get in front at the target (Default- or IdentityReplicationPolicy)."""
        return f"{self.name}." if self.naming == "prefix" else ""

    @property
    def groups_pattern(self) -> str:
        """Return one regular expression for names of groups that the flow synchronises; empty: none."""
        if not self.groups:
            return ""
        exclude = f"(?!(?:{'|'.join(self.groups_exclude)})$)" if self.groups_exclude else ""
        return f"{exclude}(?:{'|'.join(self.groups)})"

    @property
    def topics_pattern(self) -> str:
        """Return one regular expression for whole names that the flow carries (MM2's DefaultTopicFilter)."""
        excluded = [*self.topics_exclude, r"mm2.*\.internal", r".*\.replica", "__.*"]
        if self.prefix and self.engine == "batches":
            # A topic that came from the target has the target's prefix, as DefaultReplicationPolicy sees it.
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
        """Return the source's version of Kafka, such as (0, 10, 0, 1); ValueError if what is said is none."""
        return tuple(int(part) for part in self.source_version.split(".")) if self.source_version else NEW

    @property
    def isolation(self) -> str:
        """Return the source's isolation.level; brokers without transactions refuse the other."""
        return "read_committed" if self.version >= TRANSACTIONS_SINCE else "read_uncommitted"

    @property
    def group(self) -> str:
        """Return the classic mirror's consumer group at the source, whose offsets are its positions."""
        return f"{principal('mirror_maker', self.target)}-{self.name}"

    @classmethod
    def of(cls, target: str, declared: Mapping[str, Any]) -> "Flow":
        """Make a flow from an item of `mirror_maker_flows`."""
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
    """A flow's MirrorMaker (mirror_maker@<flow>) on one host of the site where its records arrive."""

    host: str
    flow: str
    target: str
    engine: str = "mm2"


@dataclass(frozen=True, kw_only=True)
class Site:
    name: str
    hosts: tuple[str, ...]
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]  # those that arrive here

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if "broker" in node.roles)

    @property
    def controllers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if "controller" in node.roles)


def site_name(group_names: Iterable[str]) -> str:
    """Return the site of a host that is in these groups; Refused where it is not exactly one."""
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
    """Return a service's principal, its certificate's CN: of a service (of a site), never of a host."""
    if service == "object_store":  # one may serve many sites, and it asks nobody for anything
        return "object-store"
    if service.startswith("spark_"):  # they are one cluster
        return f"spark-{site}"
    return f"{service.removesuffix('_maker').replace('_', '-')}-{site}"


def members(groups: Groups, site: str, service: str) -> list[str]:
    """Return a site's hosts that run a service, in the inventory's order; Refused without such a site."""
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
        # With ZooKeeper each node is a broker, and one of them the active controller.
        roles=("broker",) if value("kafka_metadata") == ZOOKEEPER else tuple(value("kafka_roles")),
        advertised_host=variables.get("kafka_advertised_host") or host,
        port=int(value("kafka_port")),
        controller_port=int(value("kafka_controller_port")),
        rack=value("kafka_rack"),
    )


def read_flows(groups: Groups, hostvars: HostVars, site: str) -> tuple[Flow, ...]:
    """Return the flows that arrive at a site; they are the same on all of its mirror_maker hosts."""
    for host in members(groups, site, "mirror_maker")[:1]:
        return tuple(Flow.of(site, declared) for declared in hostvars[host].get("mirror_maker_flows") or ())
    return ()


def read_all_flows(groups: Groups, hostvars: HostVars) -> tuple[Flow, ...]:
    return tuple(flow for site in site_names(groups) for flow in read_flows(groups, hostvars, site))


def read_uncompared(groups: Groups, hostvars: HostVars) -> tuple[Flow, ...]:
    """Return the flows whose target has no host that reconciles."""
    flows = read_all_flows(groups, hostvars)
    return tuple(flow for flow in flows if not members(groups, flow.target, "reconcile"))


def read_mirrors(
    groups: Groups, hostvars: HostVars, source: str, topics: Collection[str] | None = None
) -> tuple[MirrorUnit, ...]:
    """Return the mirrors that read a site; with `topics`, those that may read one of them."""
    return tuple(
        MirrorUnit(host=host, flow=flow.name, target=flow.target, engine=flow.engine)
        for flow in read_all_flows(groups, hostvars)
        if flow.source == source and (topics is None or flow.may_carry(topics))
        for host in members(groups, flow.target, "mirror_maker")
    )
