#!/usr/bin/python
"""Ansible module: wait until a server of ZooKeeper serves, and its ensemble has one leader."""

DOCUMENTATION = r"""
module: zookeeper_ready
short_description: Wait until a ZooKeeper server is ready, and its ensemble has a leader
description:
  - Queries the servers with the four-letter word C(srvr), over TLS with a client certificate.
  - If the time limit expires, the module fails and lists the remaining problems. Nothing is changed.
author: The Aqueduct project (!UNKNOWN)
options:
  own: {description: "Server to wait for, as C(host:port).", type: str, required: true}
  servers: {description: "All servers of the ensemble.", type: list, elements: str, required: true}
  every: {description: "Wait until all servers are ready, not only most of them.", type: bool, default: false}
  certificate: {description: PEM file with key and certificate., type: path, required: true}
  ca: {description: PEM file of the CA., type: path, required: true}
  timeout_seconds: {description: Time limit in seconds., type: int, default: 120}
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
leads: {description: Whether this server is the leader or runs standalone., type: bool, returned: success}
silent: {description: "Servers that are not ready.", type: list, returned: success}
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
    wrong = [f"{server} is not ready ({reason})." for server, reason in silent.items() if server in needed]
    leaders = [server for server in given["servers"] if modes.get(server) in LEADING]
    if len(leaders) != 1:
        found = f"several leaders: {' and '.join(leaders)}" if leaders else "no leader"
        wrong.append(f"The ensemble has {found}.")
    if len(given["servers"]) > 1 and "standalone" in modes.values():
        alone = [server for server, mode in modes.items() if mode == "standalone"]
        wrong.append(f"{' and '.join(alone)} runs standalone, but must be a member of the ensemble.")
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
            msg=f"[service-key-unusable] {given['certificate']} and {given['ca']} cannot be used: {error}."
        )
    deadline = time.monotonic() + given["timeout_seconds"]
    while True:
        modes, wrong = look(given, context)
        if not wrong:
            break
        if time.monotonic() > deadline:
            module.fail_json(
                msg=f"[zookeeper-not-ready] {' '.join(wrong)} "
                f"The time limit of {given['timeout_seconds']} s has expired."
            )
        time.sleep(0.3)
    mode = modes[given["own"]]
    silent = [server for server in given["servers"] if server not in modes]
    if silent:
        module.warn(
            f"{' and '.join(silent)} is not ready, so the ensemble tolerates fewer failures. "
            "Start the ZooKeeper server there."
        )
    module.exit_json(changed=False, mode=mode, leads=mode in LEADING, silent=silent)


if __name__ == "__main__":
    main()
