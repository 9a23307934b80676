"""Checks of the host names of services, which must be usable with Java's TLS and as `host:port`."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, Path
from aqueduct.estate.check.valid_inventory import Sound

# The variable with the host name, by service with clients on other hosts; empty: the inventory name.
VARIABLES = {
    "connect": "",
    "hdfs": "hdfs_host",
    "hive_metastore": "hive_metastore_host",
    "hive_server": "hive_server_host",
    "kafka": "kafka_advertised_host",
    "mirror_maker": "",
    "object_store": "object_store_host",
    "schema_registry": "schema_registry_host",
    "spark_history": "spark_host",
    "spark_master": "spark_host",
    "spark_worker": "spark_host",
    "zookeeper": "zookeeper_host",
}
LISTENERS = "kafka_extra_listeners"

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LONGEST = 253
PORTS = range(1, 1 << 16)
_REMEDY = "use a host name of letters, digits, hyphens and dots"
_REMEDY_OF_DOT = "remove the dot"


def check_host_names(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    for service, variable in VARIABLES.items():
        for host in inventory.members(site, service):
            if variable not in inventory.hosts[host]:
                if unusable := fault(host, instead=f", or set {variable}" if variable else ""):
                    yield Finding(where=inventory.declared(host), what=host, fault=unusable)
            elif unusable := fault(str(sound.value(host, variable) or "")):
                yield inventory.finding(host, variable, unusable)
    for host in inventory.members(site, "kafka"):
        for number, listener in enumerate(sound.value(host, LISTENERS) or ()):
            if unusable := fault(str(listener["advertised_host"])):
                path: Path = (number, "advertised_host")
                yield inventory.finding(host, LISTENERS, unusable, path)


def server_fault(address: str, *, with_tls: bool) -> Labelled | None:
    """Return the fault of an address `host:port` for clients; None if it has none."""
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]") and _is_ipv6(host[1:-1]):
        host = "bracketed"
    if not host or not port:
        return Labelled("address-form-wrong", f"{address} is not host:port; add the port.")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) not in PORTS:
        sentence = f"{address} has no port from {PORTS[0]} to {PORTS[-1]}; correct it."
        return Labelled("number-out-of-range", sentence)
    if not with_tls:
        host = host.replace("_", "-").removesuffix(".")
    return fault(host, "put the IPv6 address in brackets, [address]:port")


def fault(name: str, remedy_of_ipv6: str = _REMEDY, instead: str = "") -> Labelled | None:
    """Return the fault of a host name; None if it has none, or if the name is empty.

    `instead`: the end of the remedy, for a host with a variable for another name.
    """
    if not name or _is_ipv4(name):
        return None
    if reason := _reason(name, remedy_of_ipv6):
        return Labelled("host-name-unusable", f"{reason}{instead}.")
    return None


def _reason(name: str, remedy_of_ipv6: str) -> str:
    if _is_ipv6(name.strip("[]")):
        return f"{name} is an IPv6 address, which host:port cannot contain; {remedy_of_ipv6}"
    labels = name.removesuffix(".").split(".")
    if "_" in name and all(map(_LABEL.fullmatch, name.replace("_", "a").removesuffix(".").split("."))):
        return f"Java refuses TLS to {name}, because of the underscore; {_REMEDY}"
    if name.endswith(".") and all(map(_LABEL.fullmatch, labels)):
        return f"{name} ends with a dot, which names in certificates do not; {_REMEDY_OF_DOT}"
    if labels[-1].isdecimal():
        return f"{name} is neither an IPv4 address nor a host name; {_REMEDY}"
    if len(name) > _LONGEST or not all(map(_LABEL.fullmatch, labels)):
        return f"{name} is not a host name (RFC 1123); {_REMEDY}"
    return ""


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
