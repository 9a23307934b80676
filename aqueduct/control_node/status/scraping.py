"""Asks the exporters of all hosts, and the brokers of all clusters, at once and within a deadline."""

import json
import queue
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from aqueduct.common import timestamps
from aqueduct.control_node.status.clusters import ANSWER
from aqueduct.control_node.status.exporter_facts import (
    NODE,
    NOT_MONITORED,
    EstateFile,
    HostScrape,
    ScrapedCluster,
    ScrapedHost,
    host_facts,
)
from aqueduct.control_node.status.model import ObjectKind
from aqueduct.errors import labelled
from aqueduct.estate.model import principal
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.tls import tls_context

MOST_THREADS = 256
MOST_BYTES = 8 << 20  # of one page
NODE_PRINCIPAL = "monitoring"  # the service that answers for all exporters of a host
CONNECT_SECONDS = 3  # a host that is gone must not hold a thread until the deadline
END_SECONDS = 0.3  # before the deadline, so that a process that is ended can still be reported

Question = Callable[[float], Any]  # given the monotonic time of the deadline


@dataclass(frozen=True, kw_only=True)
class ExporterAnswer:
    """The answer of one exporter. Times: seconds since 1970."""

    page: str = ""
    error: str = ""
    asked: float = 0.0
    answered: float = 0.0
    certificate_end: float = 0.0


def gather(
    estate: EstateFile, client: ClientConfig, properties: Path, seconds: float, sites: Collection[str] = ()
) -> dict[str, Any]:
    """Return a file of facts. `sites`: those that are asked; empty: all that are not out of reach.

    `properties`: the file of `client`, by which brokers are asked, too.
    """
    beyond = {str(site) for site in estate.document["unreachable"]}
    asked_sites = {host.site for host in estate.hosts} | {cluster.site for cluster in estate.clusters}
    asked_sites = (asked_sites & {*sites} if sites else asked_sites) - beyond
    hosts = [host for host in estate.hosts if host.site in asked_sites]
    clusters = [cluster for cluster in estate.clusters if cluster.site in asked_sites]
    context = tls_context(client)
    questions: dict[tuple[str, str], Question] = {
        ("", cluster.site): _cluster_question(cluster, properties) for cluster in clusters
    }
    questions |= {
        (host.name, exporter): _exporter_question(host, exporter, context)
        for host in hosts
        for exporter in host.exporters
    }
    answers = _in_parallel(questions, seconds)
    silence = f"no answer within {seconds:g} s"
    facts: dict[str, Any] = {
        str(declared["name"]): {"error": NOT_MONITORED}
        for declared in estate.document["declared"]
        if declared["kind"] == ObjectKind.HOST.label and declared["site"] in asked_sites
    }
    for host in hosts:
        of_host = {exporter: answers.get((host.name, exporter)) for exporter in host.exporters}
        facts[host.name] = host_facts(host, _scrape(of_host, silence, principal(NODE_PRINCIPAL, host.site)))
    for cluster in clusters:
        answer = answers.get(("", cluster.site)) or {"code": None, "output": "", "error": silence}
        for name in cluster.hosts:
            facts[name] = {**facts.get(name, {"error": NOT_MONITORED}), "answers": {ANSWER: answer}}
    return {**estate.document, "now": timestamps.now(), "first_seen": None, "hosts": facts}


def _scrape(answers: Mapping[str, ExporterAnswer | None], silence: str, expected: str) -> HostScrape:
    """Return what a host's exporters said. `expected`: the principal of their certificates."""
    given = {exporter: answer for exporter, answer in answers.items() if answer and answer.page}
    node = given.get(NODE)
    return HostScrape(
        pages={exporter: answer.page for exporter, answer in given.items()},
        errors={
            exporter: answer.error if answer else silence
            for exporter, answer in answers.items()
            if exporter not in given
        },
        asked=node.asked if node else 0.0,
        answered=node.answered if node else 0.0,
        certificate_ends={
            f"{expected}.pem": answer.certificate_end for answer in given.values() if answer.certificate_end
        },
    )


def _in_parallel(questions: Mapping[Any, Question], seconds: float) -> dict[Any, Any]:
    """Return the answers that came before the deadline.

    The threads are daemons: one that still waits, such as for a name server, does not keep the process alive.
    """
    deadline = time.monotonic() + seconds
    waiting: queue.SimpleQueue[tuple[Any, Question]] = queue.SimpleQueue()
    answered: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    for entry in questions.items():
        waiting.put(entry)

    def work() -> None:
        while time.monotonic() < deadline:
            try:
                key, question = waiting.get_nowait()
            except queue.Empty:
                return
            answered.put((key, question(deadline)))

    for _ in range(min(MOST_THREADS, len(questions))):
        threading.Thread(target=work, daemon=True).start()
    answers: dict[Any, Any] = {}
    while len(answers) < len(questions) and (remaining := deadline - time.monotonic()) > 0:
        try:
            key, answer = answered.get(timeout=remaining)
        except queue.Empty:
            break
        answers[key] = answer
    return answers


def _exporter_question(host: ScrapedHost, exporter: str, context: ssl.SSLContext) -> Question:
    expected = principal(NODE_PRINCIPAL, host.site)
    return lambda deadline: _page(host.address, exporter, context, deadline, expected)


def _page(
    address: str, exporter: str, context: ssl.SSLContext, deadline: float, expected: str
) -> ExporterAnswer:
    """Ask for a page of metrics. `expected`: the principal of the certificate.

    Other services of the host have certificates for its name, too, and each could listen in its place.
    """
    name, _, port = address.rpartition(":")
    remaining = max(0.1, deadline - time.monotonic())
    connection = HTTPSConnection(
        name.strip("[]"), int(port), timeout=min(CONNECT_SECONDS, remaining), context=context
    )
    asked = time.time()
    try:
        connection.connect()
        certificate = connection.sock.getpeercert()
        if error := principal_error(certificate, expected):
            return ExporterAnswer(error=error)
        connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
        connection.request("GET", f"/{exporter}")
        response = connection.getresponse()
        content = response.read(MOST_BYTES)
    except ssl.SSLCertVerificationError as error:
        return ExporterAnswer(error=f"its certificate is not accepted: {error.verify_message}")
    except (OSError, HTTPException, ValueError) as error:
        return ExporterAnswer(error=str(getattr(error, "strerror", None) or error) or type(error).__name__)
    finally:
        connection.close()
    if response.status != HTTPStatus.OK:
        return ExporterAnswer(error=f"HTTP status {response.status}")
    return ExporterAnswer(
        page=content.decode(errors="replace"),
        error="" if content else "its page is empty",
        asked=asked,
        answered=time.time(),
        certificate_end=ssl.cert_time_to_seconds(str(certificate["notAfter"])) if certificate else 0.0,
    )


def principal_error(certificate: Any, expected: str) -> str:
    """Return why a certificate, in the form of `getpeercert`, is not a principal's; nothing if it is."""
    if (shown := _common_names(certificate)) == [expected]:
        return ""
    sentence = f"its certificate is that of {' and '.join(shown) or 'no service'}, not of {expected}"
    return labelled("exporter-principal-wrong", sentence)


def _common_names(certificate: Any) -> list[str]:
    """Return the CNs of a certificate, in the form of `getpeercert`."""
    pairs = [pair for names in (certificate or {}).get("subject", ()) for pair in names]
    return [str(value) for key, value in pairs if key == "commonName"]


def _cluster_question(cluster: ScrapedCluster, properties: Path) -> Question:
    return lambda deadline: _health(cluster, properties, deadline)


def _health(cluster: ScrapedCluster, properties: Path, deadline: float) -> dict[str, Any]:
    """Ask a cluster by the command that its own hosts are asked by."""
    argv = [sys.executable, "-m", "aqueduct.cli", "health", "--json"]
    argv += ["--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(properties)]
    argv += ["--expected-brokers", ",".join(map(str, cluster.brokers))]
    remaining = max(0.1, deadline - time.monotonic() - END_SECONDS)
    try:
        process = subprocess.run(  # noqa: S603 (our own command)
            argv, capture_output=True, check=False, timeout=remaining, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"code": None, "output": "", "error": "its brokers did not answer before the deadline"}
    except OSError as error:
        return {"code": None, "output": "", "error": str(error.strerror)}
    output = process.stdout.decode(errors="replace")
    if _shows_no_topic(output):
        reason = "the cluster shows this certificate no topic; playbooks/kafka.yml grants it that"
        return {"code": None, "output": "", "error": reason}
    return {"code": process.returncode, "output": output, "error": process.stderr.decode(errors="replace")}


def _shows_no_topic(output: str) -> bool:
    """Return whether a cluster hides its topics, by the answer of `aqueduct health --json`."""
    try:
        document = json.loads(output)
    except ValueError:
        return False
    problems = document.get("problems") if isinstance(document, dict) else None
    return isinstance(problems, list) and any(
        isinstance(problem, dict) and problem.get("id") == "cluster-topics-hidden" for problem in problems
    )
