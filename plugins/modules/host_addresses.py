#!/usr/bin/python
"""Ansible module: find out under which addresses a host sees other hosts."""

DOCUMENTATION = r"""
module: host_addresses
short_description: Resolve the names of other hosts on a host
description:
  - Names are resolved on the host itself, as its services resolve them. Nothing is changed.
  - The module warns about a host name that this host cannot resolve, and returns the other addresses.
author: The Aqueduct project (!UNKNOWN)
options:
  hosts: {description: "The names of each host, as lists.", type: list, elements: list, required: true}
  others: {description: "Further names, addresses and networks.", type: list, elements: str, default: []}
"""

EXAMPLES = r"""
- name: Look up the addresses of the permitted hosts
  aqueduct.estate.host_addresses:
    hosts: [[kafka-1.example.com, kafka-1], [kafka-2.example.com]]
    others: [192.0.2.0/24]
  register: addresses
"""

RETURN = r"""
ipv4: {description: "Addresses and networks, without loopback ones.", type: list, returned: success}
ipv6: {description: IPv6 addresses and networks., type: list, returned: success}
unknown: {description: Names of hosts that cannot be resolved., type: list, returned: success}
"""

import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any

from ansible.module_utils.basic import AnsibleModule

Network = IPv4Network | IPv6Network


def resolved(name: str) -> Iterator[Network]:
    """Yield the addresses of a name, or the network that it is; nothing where nobody knows it."""
    try:
        yield ip_network(name, strict=False)
        return
    except ValueError:
        pass
    try:
        address_infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    for *_, address in address_infos:
        yield ip_network(str(address[0]).partition("%")[0])


def addresses(hosts: Iterable[Iterable[str]], others: Iterable[str]) -> dict[str, list[str]]:
    """Return the addresses of all, and the hosts that have none."""
    networks: set[Network] = set()
    unknown = []
    for names in [*map(list, hosts), *([other] for other in others)]:
        host_networks = {network for name in names for network in resolved(str(name))}
        if not host_networks:
            unknown.append(str(names[0]))
        # A host's own name may stand for 127.0.1.1 there; nothing comes from there by a network.
        networks |= {network for network in host_networks if not network.is_loopback}
    return {
        "ipv4": [_text(network) for network in collapse_addresses(n for n in networks if n.version == 4)],
        "ipv6": [_text(network) for network in collapse_addresses(n for n in networks if n.version == 6)],
        "unknown": unknown,
    }


def _text(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "list", "elements": "list", "required": True},
            "others": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    facts: dict[str, Any] = dict(addresses(module.params["hosts"], module.params["others"]))
    if facts["unknown"]:
        module.warn(
            f"This host cannot resolve the name of {', '.join(facts['unknown'])}. Connections from there to "
            "restricted ports are dropped. Add the name to DNS or /etc/hosts, and run the playbook again."
        )
    module.exit_json(changed=False, **facts)


if __name__ == "__main__":
    main()
