#!/usr/bin/python
"""Ansible module: have a server's key for its ensemble's quorum, and the certificates that it trusts."""

DOCUMENTATION = r"""
module: zookeeper_quorum_keys
short_description: Install a ZooKeeper server's quorum key, and the certificates that the server trusts
description:
  - A server signs its own certificate for the key of its service, and uses it with the other servers of its
    ensemble.
  - Without O(key), O(trusted) and O(take), the module only reads. Keys never leave the host.
author: The Aqueduct project (!UNKNOWN)
options:
  folder: {description: "Folder of the files; root owns it.", type: path, required: true}
  owner: {description: User who can read the files., type: str, required: true}
  key:
    description: PEM file with key and certificate of the service; the quorum certificate is for this key.
    type: path
  settings: {description: "C(zoo.cfg) of the server, which shows its present configuration.", type: path}
  trusted: {description: "Certificates to trust; no others are trusted.", type: list, elements: str}
  authorities: {description: PEM file of further certificates to trust., type: path}
  take: {description: Use the new key and certificate., type: bool, default: false}
  ask:
    description: Election ports of other servers (C(host:port)) that must trust the new certificate first.
    type: list
    elements: str
    default: []
  timeout_seconds: {description: Time limit until these servers trust it., type: int, default: 30}
"""

EXAMPLES = r"""
- name: Read the certificates of the server
  aqueduct.estate.zookeeper_quorum_keys:
    folder: /etc/aqueduct/zookeeper_quorum
    owner: zookeeper
    settings: /etc/aqueduct/zookeeper/zoo.cfg
"""

RETURN = r"""
used: {description: "Certificate that the server uses now, or empty.", type: str, returned: success}
offered: {description: New certificate that the server will use next., type: str, returned: success}
trusted: {description: Certificates that the server trusts., type: list, returned: success}
of_authority:
  description: Whether a CA signed the certificate that is in use.
  type: bool
  returned: success
former:
  description: Whether O(settings) are those of a former version, with which a server trusts the whole CA.
  type: bool
  returned: success
"""

import grp
import pwd
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils.deadlines import within

ANSWER_SECONDS = 5
# With TLS 1.3, the other side checks the certificate after the handshake, on a busy host seconds later.
# ZooKeeper closes a connection that sends nothing after 5 seconds, also if it trusts the certificate.
VERDICT_SECONDS = 3


def runs_with_service_key(settings: "str | None", folder: str) -> bool:
    """Return whether a server's settings have a quorum by TLS whose keys are not in the folder."""
    try:
        text = Path(settings or "").read_text()
    except OSError:
        return False
    return "sslQuorum=true" in text.splitlines() and f"={folder}/" not in text


def refusal(server: str, context: ssl.SSLContext) -> str:
    """Return why a server's election port does not take a certificate; nothing if it does, or nobody listens.

    A server that does not run reads its files when it starts.
    """
    try:
        return str(within(2 * ANSWER_SECONDS, lambda: _refusal(server, context)))
    except TimeoutError as error:
        return f"{server} cannot be reached ({error})"


def _refusal(server: str, context: ssl.SSLContext) -> str:
    host, _, port = server.rpartition(":")
    try:
        plain = socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS)
    except ConnectionRefusedError:
        return ""
    except OSError as error:
        return f"{server} cannot be reached ({error})"
    try:
        with plain, context.wrap_socket(plain) as encrypted:
            encrypted.settimeout(VERDICT_SECONDS if encrypted.version() == "TLSv1.3" else 0.01)
            with suppress(TimeoutError):
                if not encrypted.recv(1):
                    return f"{server} closed the connection"
    except OSError as error:
        return f"{server} does not trust it ({error})"
    return ""


def await_trust(module: Any, keys: Any) -> None:
    """Wait until all servers that run trust the key that is offered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # whom it shows itself to is no matter
    context.load_cert_chain(keys.offering)
    deadline = time.monotonic() + module.params["timeout_seconds"]
    while refusals := [reason for server in module.params["ask"] if (reason := refusal(server, context))]:
        if time.monotonic() > deadline:
            module.fail_json(
                msg="[quorum-key-untrusted] "
                "Some servers of the ensemble do not trust the new certificate of this server after "
                f"{module.params['timeout_seconds']} s: {'; '.join(refusals)}. "
                "This server keeps its former certificate. Repair these servers, and run the playbook again."
            )
        time.sleep(0.3)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "owner": {"type": "str", "required": True},
            "key": {"type": "path", "no_log": False},
            "settings": {"type": "path"},
            "trusted": {"type": "list", "elements": "str"},
            "authorities": {"type": "path"},
            "take": {"type": "bool", "default": False},
            "ask": {"type": "list", "elements": "str", "default": []},
            "timeout_seconds": {"type": "int", "default": 30},
        },
    )
    try:
        from aqueduct.errors import AqueductError
        from aqueduct.recovery.zookeeper.quorum_keys import QuorumKeys, split
    except ImportError as error:
        module.fail_json(
            msg=f"[host-package-outdated] The Aqueduct package on this host is too old ({error}). "
            "Run playbooks/hosts.yml for this host first."
        )

    given = module.params
    changed, former = False, runs_with_service_key(given["settings"], given["folder"])
    try:
        owner = pwd.getpwnam(given["owner"]).pw_uid, grp.getgrnam(given["owner"]).gr_gid
        keys = QuorumKeys(Path(given["folder"]), *owner)
        if given["key"]:
            changed = keys.offer(Path(given["key"]), in_use=former)
        if given["trusted"] is not None:
            authorities = split(Path(given["authorities"]).read_text()) if given["authorities"] else []
            changed = keys.trust([*given["trusted"], *authorities]) or changed
        if given["take"] and keys.certificates().is_replaced:
            await_trust(module, keys)
            changed = keys.take() or changed
        certificates = asdict(keys.certificates())
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    except (KeyError, OSError) as error:
        module.fail_json(msg=f"[quorum-keys-unavailable] {error}")
    module.exit_json(changed=changed, former=former, **certificates)


if __name__ == "__main__":
    main()
