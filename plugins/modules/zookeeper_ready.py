#!/usr/bin/python
"""Ansible module: wait until a server of ZooKeeper serves, and its ensemble has one leader."""

DOCUMENTATION = r"""
module: zookeeper_ready
short_description: Wait until a server of ZooKeeper serves, and its ensemble has one leader
description:
  - Asks servers what they are by the four-letter word C(srvr), over TLS and with a certificate.
  - When the time is up it fails with what is still wrong. Nothing is changed.
author: The Aqueduct project (!UNKNOWN)
options:
  own: {description: "The server that is to serve, as C(host:port).", type: str, required: true}
  servers: {description: "All of the ensemble.", type: list, elements: str, required: true}
  every: {description: "Wait until all of them serve, not only most.", type: bool, default: false}
  certificate: {description: PEM file with key and certificate., type: path, required: true}
  ca: {description: PEM file of the authority., type: path, required: true}
  timeout_seconds: {description: How long to wait., type: int, default: 120}
"""

EXAMPLES = r"""
- name: Wait until the ensemble has a leader
  aqueduct.estate.zookeeper_ready:
    own: zookeeper-1.example.com:2182
    servers: [zookeeper-1.example.com:2182, zookeeper-2.example.com:2182, zookeeper-3.example.com:2182]
    certificate: /etc/aqueduct/zookeeper/tls/zookeeper.pem
    ca: /etc/aqueduct/zookeeper/tls/ca.pem
"""

RETURN = r"""
mode: {description: "V(standalone), V(leader) or V(follower).", type: str, returned: success}
leads: {description: Whether the ensemble has no leader without it., type: bool, returned: success}
silent: {description: "Servers that don't serve.", type: list, returned: success}
"""

import socket
import ssl
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils.deadlines import within

LEADING = ("leader", "standalone")
ANSWER_SECONDS = 5  # for a connection and all of an answer
MOST = 1 << 16  # bytes of it


def asked(server: str, context: Any) -> str:
    """Return a server's mode; OSError if there is no answer, ValueError if it doesn't serve."""
    host, _, port = server.rpartition(":")

    def ask() -> bytes:
        with (
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host.strip("[]")) as tls,
            tls.makefile("rb") as answer,
        ):
            tls.sendall(b"srvr")
            return bytes(answer.read(MOST))

    reply = within(ANSWER_SECONDS, ask).decode(errors="replace")
    for line in reply.splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ").strip()
    raise ValueError(reply.strip() or "it closed the connection")


def look(given: dict[str, Any], context: Any) -> tuple[dict[str, str], list[str]]:
    """Ask all once; the modes of those that serve, and what is wrong."""
    modes, silent = {}, {}
    for server in dict.fromkeys([given["own"], *given["servers"]]):
        try:
            modes[server] = asked(server, context)
        except (OSError, ValueError) as error:
            silent[server] = str(error)
    needed = given["servers"] if given["every"] else [given["own"]]
    wrong = [f"{server} does not serve ({reason})." for server, reason in silent.items() if server in needed]
    leaders = [server for server in given["servers"] if modes.get(server) in LEADING]
    if len(leaders) != 1:
        wrong.append(f"The ensemble has {' and '.join(leaders) or 'nobody'} that leads, and needs one.")
    if len(given["servers"]) > 1 and "standalone" in modes.values():
        alone = [server for server, mode in modes.items() if mode == "standalone"]
        wrong.append(f"{' and '.join(alone)} serves alone, as if the others were not of its ensemble.")
    return modes, wrong


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "own": {"type": "str", "required": True},
            "servers": {"type": "list", "elements": "str", "required": True},
            "every": {"type": "bool", "default": False},
            "certificate": {"type": "path", "required": True},
            "ca": {"type": "path", "required": True},
            "timeout_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        context = ssl.create_default_context(cafile=given["ca"])
        context.load_cert_chain(given["certificate"])
    except OSError as error:
        module.fail_json(
            msg=f"[service-key-unusable] {given['certificate']} and {given['ca']} can't be used: {error}."
        )
    deadline = time.monotonic() + given["timeout_seconds"]
    while True:
        modes, wrong = look(given, context)
        if not wrong:
            break
        if time.monotonic() > deadline:
            module.fail_json(
                msg=f"[zookeeper-not-ready] {' '.join(wrong)} It was waited for {given['timeout_seconds']} s."
            )
        time.sleep(0.3)
    mode = modes[given["own"]]
    silent = [server for server in given["servers"] if server not in modes]
    if silent:
        module.warn(f"{' and '.join(silent)} of the ensemble does not serve; it bears fewer failures so.")
    module.exit_json(changed=False, mode=mode, leads=mode in LEADING, silent=silent)


if __name__ == "__main__":
    main()
