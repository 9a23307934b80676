"""The valid values of an inventory, which are the input of checks that compare values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, Path
from aqueduct.estate.check.variables import Roles, is_sound
from aqueduct.estate.model import Node, read_node

# Variables that must be the same on all hosts of a site with the service.
SITE_WIDE = {
    "kafka_metadata": "kafka",
    "kafka_zookeeper_connect": "kafka",
    "kafka_topics": "kafka",
    "kafka_acls": "kafka",
    "mirror_maker_flows": "mirror_maker",
    "diode_downstream_links": "diode_downstream",
    "connect_connectors": "connect",
    "connect_plugins": "connect",
    "connect_secrets": "connect",
}

_NODE = (
    "kafka_node_id",
    "kafka_metadata",
    "kafka_roles",
    "kafka_rack",
    "kafka_port",
    "kafka_controller_port",
    "kafka_advertised_host",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Item:
    """An item of a list that a site declares. `host`: a host with this list. `place`: the index in it."""

    inventory: Inventory
    host: str
    variable: str
    place: int
    value: Mapping[str, Any]

    def finding(self, fault: Labelled, path: Path = (), is_warning: bool = False) -> Finding:
        """Return a finding about a part of the item. `path`: from the item to the part."""
        return self.inventory.finding(self.host, self.variable, fault, (self.place, *path), is_warning)


class Sound:
    def __init__(self, inventory: Inventory, roles: Roles, defaults: Mapping[str, Any]) -> None:
        self._inventory = inventory
        self._specs = roles.variables
        self._defaults = defaults

    def value(self, host: str, variable: str) -> Any:
        """Return a host's value; None if it is not set, not valid or not known."""
        value = self._inventory.hosts[host].get(variable)
        return value if variable in self._specs and is_sound(value, self._specs[variable]) else None

    def set_or_default(self, host: str, variable: str) -> Any:
        """Return a host's value of a variable of the role kafka, or the role's default."""
        value = self.value(host, variable)
        return self._defaults.get(variable) if value is None else value

    def nodes(self, site: str) -> list[Node]:
        """Return a site's Kafka nodes, except those with variables that are not valid or not known."""
        nodes = []
        for host in self._inventory.members(site, "kafka"):
            set_here = [name for name in _NODE if name in self._inventory.hosts[host]]
            values = {name: self.value(host, name) for name in set_here}
            if "kafka_node_id" in values and None not in values.values():
                nodes.append(read_node(host, values, self._defaults))
        return nodes

    def items(self, site: str, variable: str) -> Iterator[Item]:
        """Yield the valid items of a site-wide list, from the first host that has the list."""
        hosts = self._inventory.members(site, SITE_WIDE[variable]) or self._inventory.members(site)
        host = next((host for host in hosts if variable in self._inventory.hosts[host]), None)
        if host is None or variable not in self._specs:
            return
        value = self._inventory.hosts[host][variable]
        spec = {"type": "dict", "options": self._specs[variable]["options"]}
        for index, declared in enumerate(value if isinstance(value, list | tuple) else ()):
            if is_sound(declared, spec):
                yield Item(
                    inventory=self._inventory, host=host, variable=variable, place=index, value=declared
                )
