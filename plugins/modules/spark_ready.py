#!/usr/bin/python
"""Ansible module: wait until a process of a Spark cluster serves."""

DOCUMENTATION = r"""
module: spark_ready
short_description: Wait until a process of a Spark cluster is ready
description:
  - Runs on the host of the process and changes nothing. If the time limit expires, the module fails and lists
    the remaining problems.
  - A master is ready when it is the leader, or a standby of the leader. A worker is ready when the leading
    master lists it as alive. A history server is ready when it answers.
author: The Aqueduct project (!UNKNOWN)
options:
  service:
    description: Process to check.
    type: str
    choices: [spark_master, spark_worker, spark_history]
    required: true
  host:
    description: Name at which other hosts reach the process. A loopback name is refused.
    type: str
    required: true
  page: {description: "URL of its web interface, without a path.", type: str, required: true}
  masters:
    description: URLs of the masters' web interfaces; for a worker.
    type: list
    elements: str
    default: []
  certificate: {description: PEM file with key and certificate of the client., type: path, required: true}
  ca: {description: PEM file of the CA., type: path, required: true}
  timeout_seconds: {description: Time limit in seconds., type: int, default: 120}
"""

EXAMPLES = r"""
- name: Wait until the worker is registered
  aqueduct.estate.spark_ready:
    service: spark_worker
    host: spark-1.example.com
    page: https://spark-1.example.com:8481
    masters: [https://spark-1.example.com:8480]
    certificate: /etc/aqueduct/spark_worker/tls/spark.pem
    ca: /etc/aqueduct/spark_worker/tls/ca.pem
"""

RETURN = ""

import ipaddress
import json
import socket
import ssl
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils.deadlines import within

ANSWER_SECONDS = 10  # for all of a page
MOST = 16 << 20  # bytes of it


class Pages:
    """The pages of a cluster, as a client with a certificate sees them."""

    def __init__(self, certificate: str, ca: str) -> None:
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(certificate)
        https = urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)

    def read(self, url: str) -> dict[str, Any]:
        """Read a page's JSON; OSError or ValueError if it can't be had."""

        def ask() -> bytes:
            with self._opener.open(url, timeout=ANSWER_SECONDS) as answer:
                return bytes(answer.read(MOST))

        return dict(json.loads(within(ANSWER_SECONDS, ask)))


def loopback(host: str) -> str:
    """Return the address of this host alone that a name stands for; empty if others reach it by the name."""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return ""  # who binds to it says so
    return next((ip for ip in sorted(addresses) if ipaddress.ip_address(ip.split("%")[0]).is_loopback), "")


def of_master(state: dict[str, Any], page: str) -> str:
    """Return why a master is not ready; empty if it is ready."""
    return (
        ""
        if state.get("status") in ("ALIVE", "STANDBY")
        else f"The master at {page} is {state.get('status')}."
    )


def of_worker(host: str, states: dict[str, dict[str, Any] | str]) -> str:
    """Return why a worker is not ready, by the masters' states (an error is text); empty if it is ready."""
    leading = {page: state for page, state in states.items() if isinstance(state, dict)}
    leading = {page: state for page, state in leading.items() if state.get("status") == "ALIVE"}
    if not leading:
        answers = "; ".join(
            f"{page} {state if isinstance(state, str) else 'is ' + str(state.get('status'))}"
            for page, state in states.items()
        )
        return f"The worker {host} cannot register, because no master is the leader: {answers}."
    alive = {
        worker["host"]
        for state in leading.values()
        if isinstance(state, dict)
        for worker in state["workers"]
        if worker["state"] == "ALIVE"
    }
    if host in alive:
        return ""
    others = ", ".join(sorted(alive)) or "none"
    return (
        f"The worker {host} is not registered with the master at {' and '.join(leading)} "
        f"(registered: {others}). Check that both have the same secret, and can reach each other at these "
        "names."
    )


def look(given: dict[str, Any], pages: Pages) -> str:
    """Ask once; what is wrong, empty if nothing is."""

    def state(page: str) -> dict[str, Any] | str:
        try:
            return pages.read(f"{page}/json/")
        except (OSError, ValueError) as error:
            return f"does not answer ({getattr(error, 'reason', error)})"

    if given["service"] == "spark_worker":
        return of_worker(given["host"], {page: state(page) for page in given["masters"]})
    if given["service"] == "spark_master":
        master = state(given["page"])
        return f"{given['page']} {master}." if isinstance(master, str) else of_master(master, given["page"])
    try:
        pages.read(f"{given['page']}/api/v1/version")
    except (OSError, ValueError) as error:
        return f"{given['page']} does not answer ({getattr(error, 'reason', error)})."
    return ""


def waited(given: dict[str, Any], pages: Pages) -> str:
    """Ask until nothing is wrong, or the time is up; then, what is."""
    deadline = time.monotonic() + given["timeout_seconds"]
    while (problem := look(given, pages)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return problem and f"{problem} The time limit of {given['timeout_seconds']} s has expired."


def problem_of(given: dict[str, Any]) -> str:
    """Return why the process is not ready; empty if it is ready."""
    host = given["host"]
    if own := loopback(host):
        return (
            "[spark-host-loopback] "
            f"{host} is {own} on this host, a loopback address. Other hosts cannot reach Spark at this "
            "address. Set spark_host to a name or an address that all hosts of the cluster can reach, or "
            "correct /etc/hosts."
        )
    try:
        reason = waited(given, Pages(given["certificate"], given["ca"]))
    except OSError as error:
        return f"[service-key-unusable] {given['certificate']} and {given['ca']} cannot be used: {error}."
    return f"[spark-not-ready] {reason}" if reason else ""


def main() -> None:
    """Run the module."""
    text: dict[str, Sequence[str] | str | bool] = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "service": {**text, "choices": ["spark_master", "spark_worker", "spark_history"]},
            "host": text,
            "page": text,
            "masters": {"type": "list", "elements": "str", "default": []},
            "certificate": {"type": "path", "required": True},
            "ca": {"type": "path", "required": True},
            "timeout_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    if problem := problem_of(module.params):
        module.fail_json(msg=problem)
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
