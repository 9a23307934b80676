"""An estate as roles and checks see it: sites, their Kafka nodes, and the flows that arrive there.

It is read from Ansible's `groups` and `hostvars`. Another host's role defaults are not among its hostvars, so
what a default decides (ports, roles) comes in `defaults`, the plain values of roles/kafka/defaults/main.yml.
Everything is read for one site at a time: a filter that every host evaluates must not read a thousand hosts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqueduct.errors import Refused

SITE_PREFIX = "site_"
KRAFT, ZOOKEEPER = "kraft", "zookeeper"  # where a cluster keeps its metadata

Groups = Mapping[str, Sequence[str]]
HostVars = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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

    @property
    def name(self) -> str:
        """MirrorMaker's alias of the source; a second flow from one site needs another."""
        return self.given_name or self.source

    @property
    def prefix(self) -> str:
        """Return what topics' names get in front at the target (Default- or IdentityReplicationPolicy)."""
        return f"{self.name}." if self.naming == "prefix" else ""

    @property
    def topics_pattern(self) -> str:
        """Return one regular expression for whole names that the flow carries (MM2's DefaultTopicFilter)."""
        exclude = "|".join([*self.topics_exclude, r"mm2.*\.internal", r".*\.replica", "__.*"])
        return f"(?!(?:{exclude})$)(?:{'|'.join(self.topics)})"

    @classmethod
    def of(cls, target: str, declared: Mapping[str, Any]) -> "Flow":
        """Make a flow from an item of `mirror_maker_flows`."""
        return cls(
            source=declared["source"],
            target=target,
            topics=tuple(declared["topics"]),
            topics_exclude=tuple(declared.get("topics_exclude", ())),
            naming=declared.get("naming", "identity"),
            groups=tuple(declared.get("groups", ())),
            groups_exclude=tuple(declared.get("groups_exclude", ())),
            header=declared.get("header", ""),
            given_name=declared.get("name", ""),
        )


@dataclass(frozen=True)
class MirrorUnit:
    """A flow's MirrorMaker (mirror_maker@<flow>) on one host of the site where its records arrive."""

    host: str
    flow: str
    target: str


@dataclass(frozen=True)
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
        found = " and ".join(sorted(sites)) or "no site"
        raise Refused(f"a host is in {found}: put it into exactly one group {SITE_PREFIX}<name>.")
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
        raise Refused(f"there is no site {site}: the inventory has no group {SITE_PREFIX}{site}.")
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
        raise Refused(f"kafka_node_id of {host} is not set: every Kafka node has its own.")
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


def read_mirrors(groups: Groups, hostvars: HostVars, source: str) -> tuple[MirrorUnit, ...]:
    """Return the mirrors that read a site."""
    return tuple(
        MirrorUnit(host, flow.name, flow.target)
        for flow in read_all_flows(groups, hostvars)
        if flow.source == source
        for host in members(groups, flow.target, "mirror_maker")
    )
