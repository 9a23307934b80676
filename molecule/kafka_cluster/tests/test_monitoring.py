"""Metrics of every host, by mutual TLS, for those who may read them."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, wait_until

from tests.exporter_names import KAFKA, NODE

# Prints the status and the page; TLS is what a scrape of Prometheus does.
SCRAPE = """
import json, ssl, sys, urllib.error, urllib.request
url, ca, certificate = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
if certificate:
    context.load_cert_chain(certificate)
try:
    with urllib.request.urlopen(url, timeout=60, context=context) as answer:
        print(json.dumps([answer.status, answer.read().decode()]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, ""]))
except OSError as error:
    print(json.dumps([0, str(error)]))
"""
TLS = "/etc/aqueduct/monitoring/tls"


def targets(lab: Lab) -> list[dict[str, Any]]:
    return list(json.loads((Path(lab.inventory) / "monitoring/targets.json").read_text()))


def scrape(lab: Lab, host: str, url: str, certificate: str) -> tuple[int, str]:
    """Scrape a page from one of the hosts, with a certificate of that host or none."""
    done = lab.run(host, "python3", "-c", SCRAPE, url, f"{TLS}/ca.pem", certificate)
    status, page = json.loads(done.stdout)
    return int(status), str(page)


def url(target: dict[str, Any]) -> str:
    return f"https://{target['targets'][0]}{target['labels']['__metrics_path__']}"


def names(page: str) -> set[str]:
    return {line.partition("{")[0].partition(" ")[0] for line in page.splitlines() if line[:1] != "#"}


def of(lab: Lab, host: str, exporter: str) -> dict[str, Any]:
    [found] = [
        target
        for target in targets(lab)
        if (target["labels"]["instance"], target["labels"]["exporter"]) == (host, exporter)
    ]
    return found


def test_each_target_gives_its_figures(lab: Lab) -> None:
    found = {(target["labels"]["instance"], target["labels"]["exporter"]) for target in targets(lab)}
    hosts = {host for host, _ in found}
    assert found == {(host, exporter) for host in hosts for exporter in ("node", "kafka")}
    assert len(hosts) == 5
    for target in targets(lab):
        site, host = target["labels"]["site"], target["labels"]["instance"]
        certificate = f"{TLS}/monitoring-{site}.pem"
        status, page = scrape(lab, host, url(target), certificate)
        assert status == 200, (target, page)
        if target["labels"]["exporter"] == "node":
            assert NODE.keys() - names(page) == set()
        elif host != "west-controller-1":  # which is no broker
            controller = {name for name in KAFKA if "_controller_" in name}
            expected = KAFKA.keys() - (controller if host == "west-broker-1" else set())
            assert expected - names(page) == set(), host


def test_only_those_who_may_read_figures_get_them(lab: Lab) -> None:
    host = "east-kafka-1"
    page = url(of(lab, host, "kafka"))
    assert scrape(lab, "east-kafka-2", page, f"{TLS}/monitoring-east.pem")[0] == 200
    assert scrape(lab, "east-kafka-2", page, "/etc/aqueduct/kafka/tls/kafka-east.pem")[0] == 403
    assert scrape(lab, "east-kafka-2", page, "")[0] == 0, "no certificate"
    assert scrape(lab, "east-kafka-2", f"{page}x", f"{TLS}/monitoring-east.pem")[0] == 404


@pytest.mark.parametrize("port", ["9100", "9405"])
def test_exporters_listen_on_localhost_alone(lab: Lab, port: str) -> None:
    listening = lab.run("east-kafka-1", "ss", "--listening", "--tcp", "--numeric").stdout
    addresses = {line.split()[3] for line in listening.splitlines() if line.split()[3].endswith(f":{port}")}
    assert {address.rpartition(":")[0] for address in addresses} <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
    assert addresses


def test_a_dead_exporter_is_started_again(lab: Lab) -> None:
    host = "east-kafka-1"
    lab.run(host, "systemctl", "kill", "--signal=KILL", "node_exporter")
    page = url(of(lab, host, "node"))
    certificate = f"{TLS}/monitoring-east.pem"
    wait_until("the node exporter", lambda: scrape(lab, host, page, certificate)[0] == 200)
