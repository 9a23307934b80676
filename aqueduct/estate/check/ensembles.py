"""Checks of a site's ZooKeeper ensemble: number and ids of servers, and its use by brokers."""

from collections.abc import Iterator

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.model import ZOOKEEPER
from aqueduct.estate.zookeeper import MAX_ID


def is_used(inventory: Inventory, sound: Sound, site: str) -> bool:
    """Return whether a site's cluster stores its metadata in ZooKeeper."""
    hosts = inventory.members(site, "kafka")
    return any(sound.set_or_default(host, "kafka_metadata") == ZOOKEEPER for host in hosts)


def check_ensemble(inventory: Inventory, sound: Sound, site: str, used: bool) -> Iterator[Finding]:
    hosts = inventory.members(site, "zookeeper")
    yield from _check_servers(inventory, sound, site, hosts)
    if hosts and not used:
        fault = Labelled(
            "ensemble-unused",
            f"no broker of site {site} stores its metadata in {some(hosts)}; set kafka_metadata: "
            f"zookeeper, or remove {some(hosts)} from the group zookeeper.",
        )
        yield Finding(where=inventory.declared(hosts[0]), what="zookeeper", fault=fault, is_warning=True)
    brokers = inventory.members(site, "kafka") if used else []
    for host in brokers:
        if "kafka_metadata" in inventory.hosts[host]:
            yield from _check_broker(inventory, sound, host)
    if brokers and not hosts and not inventory.hosts[brokers[0]].get("kafka_zookeeper_connect"):
        fault = Labelled(
            "ensemble-missing",
            f"site {site} has no ensemble; put one or three of its hosts into the group zookeeper, or set "
            "kafka_zookeeper_connect.",
        )
        yield inventory.finding(brokers[0], "kafka_metadata", fault)


def _check_servers(inventory: Inventory, sound: Sound, site: str, hosts: list[str]) -> Iterator[Finding]:
    if hosts and len(hosts) % 2 == 0:
        fewer, more = len(hosts) - 1, len(hosts) + 1
        fault = Labelled(
            "node-count-even",
            f"the {len(hosts)} servers of site {site} tolerate no more failures than {fewer} "
            f"would; use {fewer} or {more}.",
        )
        yield Finding(where=inventory.declared(hosts[-1]), what="zookeeper", fault=fault)
    first_with: dict[int, str] = {}
    for host in hosts:
        number = sound.value(host, "zookeeper_id")
        if number is None:
            continue
        first = first_with.setdefault(int(number), host)
        if first != host:
            fault = Labelled(
                "node-id-repeated",
                f"{first} of site {site} already has the number {number}; give {host} another number.",
            )
            yield inventory.finding(host, "zookeeper_id", fault)
        if not 1 <= int(number) <= MAX_ID:
            fault = Labelled(
                "number-out-of-range", f"the number of a server must be from 1 to {MAX_ID}, not {number}."
            )
            yield inventory.finding(host, "zookeeper_id", fault)


def _check_broker(inventory: Inventory, sound: Sound, host: str) -> Iterator[Finding]:
    roles = sound.value(host, "kafka_roles")
    if roles is not None and list(roles) != ["broker"]:
        fault = Labelled(
            "zookeeper-mode-conflict",
            "with kafka_metadata: zookeeper, every node is only a broker; delete this line.",
        )
        yield inventory.finding(host, "kafka_roles", fault)
    if sound.value(host, "kafka_former_principals"):
        fault = Labelled(
            "zookeeper-mode-conflict",
            "with kafka_metadata: zookeeper, the principal of the brokers cannot change, because "
            "it owns the znodes; delete this line.",
        )
        yield inventory.finding(host, "kafka_former_principals", fault)
