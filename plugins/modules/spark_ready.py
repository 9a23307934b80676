#!/usr/bin/python
"""Ansible module: wait until a process of a Spark cluster serves."""

DOCUMENTATION = r"""
module: spark_ready
short_description: Wait until a process of a Spark cluster serves
description:
  - Runs on the process's host and changes nothing. When the time is up it fails with what is still wrong.
  - A master serves when it leads, or is a standby of the leading one; a worker when the leading master has
    it as alive; a history server when it answers.
author: The Aqueduct project (!UNKNOWN)
options:
  service:
    description: What is asked.
    type: str
    choices: [spark_master, spark_worker, spark_history]
    required: true
  host:
    description: The name under which others reach it. A name of this host alone is refused.
    type: str
    required: true
  page: {description: "The address of its page, without a path.", type: str, required: true}
  masters: {description: Pages of the masters; for a worker., type: list, elements: str, default: []}
  certificate: {description: PEM file with key and certificate for the pages., type: path, required: true}
  ca: {description: PEM file of the authority., type: path, required: true}
  timeout_seconds: {description: How long to wait., type: int, default: 120}
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
    """Tell why a master does not serve; empty if it does."""
    return (
        ""
        if state.get("status") in ("ALIVE", "STANDBY")
        else f"The master at {page} is {state.get('status')}."
    )


def of_worker(host: str, states: dict[str, dict[str, Any] | str]) -> str:
    """Tell why a worker does not serve, by what masters' pages say (an error is text); empty if it does."""
    leading = {page: state for page, state in states.items() if isinstance(state, dict)}
    leading = {page: state for page, state in leading.items() if state.get("status") == "ALIVE"}
    if not leading:
        answers = "; ".join(
            f"{page} {state if isinstance(state, str) else 'is ' + str(state.get('status'))}"
            for page, state in states.items()
        )
        return f"No master leads that the worker {host} could be registered with: {answers}."
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
        f"The master at {' and '.join(leading)} does not have the worker {host} (it has {others}): "
        "see that both have the same secret, and that they reach each other by these names."
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
    return problem and f"{problem} {given['service']} was waited for {given['timeout_seconds']} s."


def problem_of(given: dict[str, Any]) -> str:
    """Tell what keeps the process from serving; empty if nothing does."""
    host = given["host"]
    if own := loopback(host):
        return (
            "[spark-host-loopback] "
            f"{host} is {own} on this host, by which nobody else reaches Spark: set spark_host to a name or "
            "an address that all hosts of the cluster reach, or correct /etc/hosts."
        )
    try:
        reason = waited(given, Pages(given["certificate"], given["ca"]))
    except OSError as error:
        return f"[service-key-unusable] {given['certificate']} and {given['ca']} can't be used: {error}."
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
