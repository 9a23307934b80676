"""Checks of groups, files of variables, sites, and the node ids and roles of Kafka nodes."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, did_you_mean, some
from aqueduct.estate.check.valid_inventory import SITE_WIDE
from aqueduct.estate.check.variables import Roles
from aqueduct.estate.model import SITE_PREFIX, Node

# A site's name is part of principals, and a cluster alias of MirrorMaker 2, in which a dot is a separator.
LEGAL_SITE = re.compile(r"[a-zA-Z0-9_-]+")


def check_groups(inventory: Inventory, roles: Roles) -> Iterator[Finding]:
    yield from _hosts(inventory, roles)
    for site in inventory.sites:
        if not LEGAL_SITE.fullmatch(site):
            fault = Labelled(
                "site-name-illegal",
                "the name of a site becomes part of names in Kafka; rename it with only letters, "
                "digits, - and _.",
            )
            yield inventory.group_finding(SITE_PREFIX + site, fault)
    known_groups = [*roles.services, *(SITE_PREFIX + site for site in inventory.sites)]
    for group in sorted(set(inventory.groups) - {*known_groups, "all", "ungrouped"}):
        if guess := did_you_mean(group, known_groups, ""):
            fault = Labelled(
                "inventory-group-unknown", f"no role uses this group, so nothing is deployed for it; {guess}"
            )
            yield inventory.group_finding(group, fault, is_warning=True)


def check_group_files(inventory: Inventory) -> Iterator[Finding]:
    """Check for files of group_vars and host_vars that Ansible does not read."""
    for group, file in inventory.group_files.items():
        if group not in inventory.groups:
            remedy = did_you_mean(group, inventory.groups, "rename it after a group, or delete it.")
            fault = Labelled(
                "group-file-unused",
                f"group {group} does not exist, so Ansible does not read this file; {remedy}",
            )
            yield Finding(where=file, what=group, fault=fault, is_warning=not group.startswith(SITE_PREFIX))
    for file, used in inventory.ignored_files.items():
        sentence = f"Ansible reads {used} and ignores this file; merge the two files, and delete one."
        yield Finding(where=file, what="the whole file", fault=Labelled("variables-file-ignored", sentence))


def _hosts(inventory: Inventory, roles: Roles) -> Iterator[Finding]:
    for host, sites in inventory.sites_of.items():
        if len(sites) > 1:
            groups = some([SITE_PREFIX + site for site in sites])
            yield Finding(
                where=inventory.declared(host),
                what=host,
                fault=Labelled(
                    "host-site-ambiguous", f"the host is in {groups}; keep it in only one of them."
                ),
            )
    homeless: dict[str, list[str]] = {}
    for service in roles.services:
        for host in inventory.groups.get(service, ()):
            if host not in inventory.sites_of:
                homeless.setdefault(host, []).append(service)
    for host, services in homeless.items():
        fault = Labelled(
            "host-site-ambiguous",
            f"the host is in {some(services)} but in no site; put it into one group {SITE_PREFIX}<name>.",
        )
        yield Finding(where=inventory.declared(host), what=host, fault=fault)


def check_site_wide(inventory: Inventory, site: str) -> Iterator[Finding]:
    for variable, service in SITE_WIDE.items():
        first, *others = inventory.members(site, service) or [""]
        for host in others:
            if inventory.hosts[host].get(variable) != inventory.hosts[first].get(variable):
                remedy = f"set it once, in group_vars/{SITE_PREFIX}{site}.yml."
                yield inventory.finding(
                    host,
                    variable,
                    Labelled("site-value-differs", f"{host} and {first} have different values; {remedy}"),
                )
                break


def check_nodes(
    inventory: Inventory, site: str, nodes: Sequence[Node], has_controllers: bool
) -> Iterator[Finding]:
    """Check the ids and roles of a site's nodes.

    `nodes`: nodes with valid variables. `has_controllers`: the metadata of the site is not in ZooKeeper.
    """
    first_with: dict[int, str] = {}
    for node in nodes:
        first = first_with.setdefault(node.node_id, node.host)
        if first != node.host:
            fault = Labelled(
                "node-id-repeated",
                f"{first} of site {site} already has the number {node.node_id}; give {node.host} "
                "another number.",
            )
            yield inventory.finding(node.host, "kafka_node_id", fault)
    if not nodes or len(nodes) < len(inventory.members(site, "kafka")):
        return  # other nodes have findings, so roles cannot be counted
    count = Counter(role for node in nodes for role in node.roles)
    for role in ("controller", "broker") if has_controllers else ():
        if not count[role]:
            fault = Labelled(
                "site-role-missing",
                f"site {site} has no {role}; add {role} to kafka_roles of at least one host.",
            )
            yield inventory.finding(nodes[0].host, "kafka_roles", fault)
    # A warning, because a site has two controllers after one of three machines was lost.
    if count["controller"] and count["controller"] % 2 == 0:
        fewer, more = count["controller"] - 1, count["controller"] + 1
        host = next(node.host for node in nodes if "controller" in node.roles)
        fault = Labelled(
            "node-count-even",
            f"the {count['controller']} controllers of site {site} tolerate no more failures than "
            f"{fewer} would; use {fewer} or {more}.",
        )
        yield inventory.finding(host, "kafka_roles", fault, is_warning=True)
