"""Metrics of every host, by mutual TLS, for those who may read them."""

import json
import time
from collections.abc import Callable, Iterator
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
# The estate's Prometheus, as docs/guides/monitoring.md connects it: Debian's program without its service.
PROMETHEUS = "east-kafka-3"
FOLDER = "/var/lib/estate-prometheus"
FETCH = f"""
mkdir -p {FOLDER}/program && cd {FOLDER} && apt-get download -q prometheus
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x -C program ./usr/bin/prometheus
"""
CONFIG = {
    "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
    "rule_files": [f"{FOLDER}/rules/*.yml"],
    "scrape_configs": [
        {
            "job_name": "aqueduct",
            "scheme": "https",
            "file_sd_configs": [{"files": [f"{FOLDER}/targets.json"]}],
            "tls_config": {
                "ca_file": f"{TLS}/ca.pem",
                "cert_file": f"{TLS}/monitoring-east.pem",
                "key_file": f"{TLS}/monitoring-east.pem",
            },
        }
    ],
}
QUERY = """
import sys, urllib.parse, urllib.request
path, *pairs = sys.argv[1:]
options = urllib.parse.urlencode([tuple(pair.split("=", 1)) for pair in pairs])
print(urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/{path}?{options}", timeout=60).read().decode())
"""
FIRING = 'ALERTS{alertstate="firing",alertname!="Watchdog"}'
Query = Callable[..., list[dict[str, Any]]]


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
        elif host != "west-controller-1":  # it is only a controller
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


@pytest.fixture(scope="module")
def prometheus(lab: Lab) -> Iterator[Query]:
    """Run Prometheus with the rules and the targets of a site, and yield a function that queries it."""
    host = PROMETHEUS

    def query(path: str, **options: object) -> list[dict[str, Any]]:
        pairs = [f"{name}={value}" for name, value in options.items()]
        done = lab.run(host, "python3", "-c", QUERY, path, *pairs)
        return list(json.loads(done.stdout)["data"]["result"])

    lab.run(host, "sh", "-ec", FETCH)
    files = {"prometheus.yml": json.dumps(CONFIG)}
    files["targets.json"] = json.dumps(
        [target for target in targets(lab) if target["labels"]["site"] == "east"]
    )
    rules = (Path(lab.inventory) / "monitoring/rules").iterdir()
    files |= {f"rules/{file.name}": file.read_text() for file in rules}
    lab.run(host, "mkdir", "-p", f"{FOLDER}/rules")
    for name, content in files.items():
        lab.run(host, "tee", f"{FOLDER}/{name}", stdin=content)
    command = [f"{FOLDER}/program/usr/bin/prometheus", f"--config.file={FOLDER}/prometheus.yml"]
    command += [f"--storage.tsdb.path={FOLDER}/data", "--web.listen-address=127.0.0.1:9090"]
    lab.run(host, "systemd-run", "--unit=estate-prometheus", *command)
    try:
        wait_until(
            "figures of all targets",
            lambda: [each["value"][1] for each in query("query", query="min(up)")] == ["1"],
        )
        yield query
    finally:
        lab.run(host, "systemctl", "stop", "estate-prometheus", check=False)
        lab.run(host, "rm", "-r", FOLDER, check=False)


def firing(query: Query) -> set[tuple[str, str]]:
    """Return name and host of each alert that fires; a disk of this machine may be full."""
    found = [each["metric"] for each in query("query", query=FIRING)]
    alerts = {(each["alertname"], each.get("instance", "")) for each in found}
    return {alert for alert in alerts if alert[0] != "DiskFilling"}


FAULTS = [
    ("KafkaDown", ("systemctl", "stop", "kafka"), ("systemctl", "start", "kafka")),
    ("HostDown", ("systemctl", "stop", "monitoring"), ("systemctl", "start", "monitoring")),
    (
        "UnitFailed",
        ("systemd-run", "--unit=fault", "--property=Type=exec", "/bin/false"),
        ("systemctl", "reset-failed", "fault"),
    ),
]


def test_what_is_sound_fires_nothing(prometheus: Query) -> None:
    watchdog = 'ALERTS{alertname="Watchdog",alertstate="firing"}'
    wait_until("the first evaluation of rules", lambda: len(prometheus("query", query=watchdog)) == 1)
    assert firing(prometheus) == set()


@pytest.mark.parametrize(("alert", "fault", "repair"), FAULTS, ids=[name for name, _, _ in FAULTS])
def test_a_fault_fires_its_alert_and_the_repair_clears_it(
    lab: Lab, prometheus: Query, alert: str, fault: tuple[str, ...], repair: tuple[str, ...]
) -> None:
    host = "east-kafka-2"
    began = time.monotonic()
    lab.run(host, *fault, check=False)
    try:
        wait_until(alert, lambda: (alert, host) in firing(prometheus), every=1)
        fired = time.monotonic()
    finally:
        repaired = time.monotonic()
        lab.run(host, *repair)
    wait_until("no alert", lambda: not firing(prometheus), every=1)
    cleared = time.monotonic()
    print(f"{alert}: {fired - began:.0f} s until it fired, {cleared - repaired:.0f} s until it was cleared")


def test_a_rolling_restart_fires_nothing(lab: Lab, prometheus: Query) -> None:
    began = time.time()
    done = lab.play("rolling_restart", "--limit", "site_east", kafka_restart_all=True)
    assert done.returncode == 0, done.stdout[-3000:]
    time.sleep(60)  # what is late would fire by then
    history = prometheus("query_range", query=FIRING, start=began, end=time.time(), step=15)
    found = {each["metric"]["alertname"] for each in history} - {"DiskFilling"}
    assert found == set()
