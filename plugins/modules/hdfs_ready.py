#!/usr/bin/python
"""Ansible module: wait until a host's part of HDFS serves, and have folders there."""

DOCUMENTATION = r"""
module: hdfs_ready
short_description: Wait until the HDFS nodes of a host are ready, and create folders in HDFS
description:
  - Runs on a host of HDFS and queries its NameNode as the super user of HDFS.
  - A NameNode is ready when it has left safe mode. A DataNode is ready when the NameNode lists it as live.
  - Warns about a DataNode that has registered with a loopback address, because no other host can write to it.
  - If the time limit expires, the module fails and lists the remaining problems. No folder is ever deleted.
author: The Aqueduct project (!UNKNOWN)
options:
  page: {description: "URL of the NameNode's web interface, without a path.", type: str, required: true}
  datanode: {description: "Name of the host's DataNode; empty if the host has none.", type: str, default: ""}
  certificate: {description: PEM file with key and certificate of the client., type: path, required: true}
  ca: {description: PEM file of the CA., type: path, required: true}
  folders:
    description: The folders, parents first.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: The folder., type: str, required: true}
      owner: {description: "Its owner, and the group of that name.", type: str, required: true}
      mode: {description: Its permissions in octal digits., type: str, default: "755"}
  timeout_seconds: {description: Time limit in seconds., type: int, default: 120}
"""

EXAMPLES = r"""
- name: Wait until the NameNode is ready, and create a folder
  aqueduct.estate.hdfs_ready:
    page: https://hdfs-1.example.com:9871
    certificate: /etc/aqueduct/hdfs/tls/hdfs.pem
    ca: /etc/aqueduct/hdfs/tls/ca.pem
    folders:
      - {path: /backup, owner: backup, mode: "700"}
"""

RETURN = r"""
made: {description: Folders that were created or changed., type: list, returned: success}
"""

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils.deadlines import within

ANSWER_SECONDS = 10  # for all of an answer
SUPERUSER = "hdfs"  # who runs the NameNode


class NameNode:
    """The page and the REST server of a NameNode, as a client with a certificate has them."""

    def __init__(self, page: str, certificate: str, ca: str) -> None:
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(certificate)
        https = urllib.request.HTTPSHandler(context=context)
        self._page = page
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)

    def bean(self, name: str) -> dict[str, Any]:
        """Read one of its beans; OSError or ValueError if it can't be had."""
        query = urllib.parse.urlencode({"qry": f"Hadoop:service=NameNode,name={name}"})
        beans = self._asked("GET", f"/jmx?{query}")["beans"]
        if not beans:
            raise ValueError("it has not started yet")
        return dict(beans[0])

    def status(self, path: str) -> dict[str, Any] | None:
        """Return what is at a path, None if nothing is."""
        try:
            return dict(self._file("GET", path, op="GETFILESTATUS")["FileStatus"])
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def make(self, path: str, owner: str, mode: str) -> None:
        """Make a folder, or give the one that is there its owner and its permissions."""
        self._file("PUT", path, op="MKDIRS", permission=mode)
        self._file("PUT", path, op="SETOWNER", owner=owner, group=owner)
        self._file("PUT", path, op="SETPERMISSION", permission=mode)

    def _file(self, method: str, path: str, **parameters: str) -> dict[str, Any]:
        query = urllib.parse.urlencode({**parameters, "user.name": SUPERUSER})
        return self._asked(method, f"/webhdfs/v1{urllib.parse.quote(path)}?{query}")

    def _asked(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._page + path, method=method)  # noqa: S310

        def ask() -> bytes:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                return bytes(answer.read(16 << 20))

        text = within(ANSWER_SECONDS, ask)
        return dict(json.loads(text)) if text else {}


def look(given: dict[str, Any], names: Any) -> str:
    """Ask once; what is wrong, empty if nothing is."""
    page = given["page"]
    try:
        state = names.bean("FSNamesystemState")["FSState"]
        alive = {live.rpartition(":")[0] for live in json.loads(names.bean("NameNodeInfo")["LiveNodes"])}
    except (OSError, ValueError) as error:
        return f"The NameNode at {page} does not answer ({getattr(error, 'reason', error)})."
    if given["datanode"] and given["datanode"] not in alive:
        others = ", ".join(sorted(alive)) or "none"
        return f"The NameNode at {page} does not list the DataNode {given['datanode']} (it lists {others})."
    if state != "Operational":
        return f"The NameNode at {page} is in safe mode: DataNodes with blocks of files have not registered."
    return ""


def loopback(given: dict[str, Any], names: Any) -> str:
    """Return a warning if the DataNode has registered with a loopback address; empty otherwise."""
    for name, live in json.loads(names.bean("NameNodeInfo")["LiveNodes"]).items():
        if name.rpartition(":")[0] == given["datanode"] and live["xferaddr"].startswith("127."):
            return (
                f"The DataNode {given['datanode']} has registered with {live['xferaddr']}, a loopback "
                "address. No other host can write to it. Set the real address of the host in /etc/hosts, and "
                "restart hdfs_datanode."
            )
    return ""


def waited(given: dict[str, Any], names: Any) -> str:
    """Ask until nothing is wrong, or the time is up; then, what is."""
    deadline = time.monotonic() + given["timeout_seconds"]
    while (problem := look(given, names)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return problem and f"{problem} The time limit of {given['timeout_seconds']} s has expired."


def lacking(folder: dict[str, str], names: Any) -> bool:
    """Report whether a folder is missing or differs from its declaration."""
    status = names.status(folder["path"])
    declared = ("DIRECTORY", folder["owner"], folder["owner"], int(folder["mode"], 8))
    return not status or declared != (
        status["type"],
        status["owner"],
        status["group"],
        int(status["permission"], 8),
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "page": {"type": "str", "required": True},
            "datanode": {"type": "str", "default": ""},
            "certificate": {"type": "path", "required": True},
            "ca": {"type": "path", "required": True},
            "folders": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "str", "required": True},
                    "owner": {"type": "str", "required": True},
                    "mode": {"type": "str", "default": "755"},
                },
            },
            "timeout_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        names = NameNode(given["page"], given["certificate"], given["ca"])
    except OSError as error:
        module.fail_json(
            msg=f"[service-key-unusable] {given['certificate']} and {given['ca']} cannot be used: {error}."
        )
    if problem := waited(given, names):
        module.fail_json(msg=f"[hdfs-not-ready] {problem}")
    try:
        if warning := loopback(given, names):
            module.warn(warning)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"[hdfs-not-ready] The NameNode at {given['page']} does not answer ({error}).")
    made = []
    for folder in given["folders"]:
        try:
            if lacking(folder, names):
                made.append(folder["path"])
                if not module.check_mode:
                    names.make(**folder)
        except (OSError, ValueError) as error:
            module.fail_json(
                msg=f"[hdfs-folder-unavailable] Cannot create the folder {folder['path']} in HDFS: {error}."
            )
    module.exit_json(changed=bool(made), made=made)


if __name__ == "__main__":
    main()
