"""Each host serves its metrics over mutual TLS, to permitted clients only."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from alert_faults import (
    ALERTMANAGER,
    EVALUATED,
    FAULTS,
    FIRING,
    QUIET,
    Labels,
    alertmanager_config,
    early_rules,
    missing,
    prometheus_config,
    proofs,
    table,
)
from lab import Lab, wait_until
from tests.exporter_names import KAFKA, NODE

from aqueduct.control_node import certificates

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
GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/monitoring.md"
# The estate's Prometheus and Alertmanager, as docs/guides/monitoring.md configures them: Debian's programs
# without their services.
PROMETHEUS = "east-kafka-3"
FOLDER = "/var/lib/estate-prometheus"
TEMPLATES = "/usr/share/prometheus"  # where Debian's Alertmanager looks for its own
TEXTFILES = "/var/lib/estate-status"  # of its node exporter, as if that host were the control node
UNITS = ("estate-prometheus", "estate-alertmanager", "estate-receiver")
FETCH = f"""
mkdir -p {FOLDER}/program {FOLDER}/rules {FOLDER}/east {FOLDER}/west {TEXTFILES} && cd {FOLDER}
packages="prometheus prometheus-alertmanager"
apt-get download -q $packages || {{ apt-get update -q && apt-get download -q $packages; }}
for package in *.deb; do dpkg-deb --fsys-tarfile $package | tar -x -C program ./usr; done
ln -sfn {FOLDER}/program/usr/share/prometheus {TEMPLATES}
"""
# Receives what Alertmanager sends, and appends a line for each alert: receiver, status and labels.
RECEIVER = """
import http.server, json, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[1], "a") as file:
            for alert in message["alerts"]:
                print(json.dumps([self.path[1:], alert["status"], alert["labels"]]), file=file, flush=True)
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 9099), Receiver).serve_forever()
"""
QUERY = """
import sys, urllib.parse, urllib.request
path, *pairs = sys.argv[1:]
options = urllib.parse.urlencode([tuple(pair.split("=", 1)) for pair in pairs])
print(urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/{path}?{options}", timeout=60).read().decode())
"""
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


def asked_from(lab: Lab, host: str) -> tuple[int, dict[str, Any]]:
    """Ask for the state of the estate without Ansible, from one of its hosts."""
    command = "/opt/aqueduct/base/bin/aqueduct status --config /etc/aqueduct/status/status.yml --json"
    done = lab.run(host, "runuser", "-u", "monitoring", "--", *command.split(), "--patience=60", check=False)
    return done.returncode, json.loads(done.stdout)


def states(document: dict[str, Any], kind: str) -> dict[str, str]:
    return {status["name"]: status["state"] for status in document["objects"] if status["kind"] == kind}


def test_each_host_shows_the_state_of_the_estate(lab: Lab) -> None:
    """Without Ansible. Site west has another authority, so its hosts are unknown in the east, not well."""
    code, document = asked_from(lab, "east-kafka-1")
    assert code == 3, document
    assert states(document, "cluster")["east"] == "well"
    brokers = states(document, "broker")
    assert {brokers[f"east-kafka-{number}"] for number in (1, 2, 3)} == {"well"}
    hosts = states(document, "host")
    assert {hosts["west-broker-1"], hosts["west-controller-1"]} == {"unknown"}
    assert states(document, "cluster")["west"] == "unknown"
    assert document["hosts"] == {"asked": 5, "answered": 3}
    certificates = states(document, "certificate")
    assert certificates["monitoring-east at east-kafka-2"] == "well"
    assert certificates["kafka-east at east-kafka-2"] == "unknown", "no exporter shows it"
    lab.run("east-kafka-3", "systemctl", "stop", "kafka")
    try:
        _, document = asked_from(lab, "east-kafka-1")
        assert states(document, "broker")["east-kafka-3"] == "needs action"
        assert states(document, "host")["east-kafka-3"] == "needs action"
    finally:
        lab.run("east-kafka-3", "systemctl", "start", "kafka")
    wait_until("the broker", lambda: states(asked_from(lab, "east-kafka-1")[1], "cluster")["east"] == "well")


def test_a_dead_exporter_is_started_again(lab: Lab) -> None:
    host = "east-kafka-1"
    lab.run(host, "systemctl", "kill", "--signal=KILL", "node_exporter")
    page = url(of(lab, host, "node"))
    certificate = f"{TLS}/monitoring-east.pem"
    wait_until("the node exporter", lambda: scrape(lab, host, page, certificate)[0] == 200)


@pytest.fixture(scope="module")
def prometheus(lab: Lab) -> Iterator[Query]:
    """Run Prometheus and Alertmanager with the rules and the targets of both sites, and yield a function
    that queries the first."""
    host = PROMETHEUS

    def query(path: str, **options: object) -> list[dict[str, Any]]:
        pairs = [f"{name}={value}" for name, value in options.items()]
        done = lab.run(host, "python3", "-c", QUERY, path, *pairs)
        return list(json.loads(done.stdout)["data"]["result"])

    lab.run(host, "sh", "-ec", FETCH)
    for name, content in written_files(lab).items():
        lab.run(host, "tee", f"{FOLDER}/{name}", stdin=content)
    programs = f"{FOLDER}/program/usr/bin"
    lab.run(host, f"{programs}/amtool", "check-config", f"{FOLDER}/alertmanager.yml")
    commands = (
        (f"{programs}/prometheus", f"--config.file={FOLDER}/prometheus.yml",
         f"--storage.tsdb.path={FOLDER}/data", "--web.listen-address=127.0.0.1:9090"),
        (f"{programs}/prometheus-alertmanager", f"--config.file={FOLDER}/alertmanager.yml",
         f"--storage.path={FOLDER}/alerts", f"--web.listen-address={ALERTMANAGER}",
         "--cluster.listen-address="),
        ("/usr/bin/python3", f"{FOLDER}/receiver.py", f"{FOLDER}/notifications"),
    )  # fmt: skip
    try:
        for unit, command in zip(UNITS, commands, strict=True):
            lab.run(host, "systemd-run", f"--unit={unit}", *command)
        ups = f"{2 * len(lab.variables)} targets"  # node and Kafka of each host
        wait_until(
            f"figures of {ups}",
            lambda: (
                [sample["value"][1] for sample in query("query", query="sum(up)")]
                == [str(2 * len(lab.variables))]
            ),
        )
        yield query
    finally:
        lab.run(host, "systemctl", "stop", *UNITS, check=False)
        lab.run(host, "sh", "-c", f"rm -rf {FOLDER} {TEXTFILES}/* {TEMPLATES}", check=False)


def written_files(lab: Lab) -> dict[str, str]:
    """Return what Prometheus and Alertmanager read, by path below their folder."""
    guide = GUIDE.read_text()
    rules = sorted((Path(lab.inventory) / "monitoring/rules").iterdir())
    files = {
        "prometheus.yml": json.dumps(prometheus_config(guide, FOLDER, ("east", "west"))),
        "alertmanager.yml": json.dumps(alertmanager_config(guide, "http://127.0.0.1:9099")),
        "receiver.py": RECEIVER,
        "rules/early.yml": json.dumps(early_rules(file.read_text() for file in rules)),
        "east/ca.pem": (lab.pki / "ca/ca.pem").read_text(),
        "east/monitoring-east.pem": (lab.pki / "clients/monitoring-east.pem").read_text(),
        "west/ca.pem": (lab.pki / "provided/ca.pem").read_text(),
        "west/monitoring-west.pem": (lab.pki / "provided/west-broker-1/monitoring-west.pem").read_text(),
    }
    files |= {f"rules/{file.name}": file.read_text() for file in rules}
    for site in ("east", "west"):
        own = [target for target in targets(lab) if target["labels"]["site"] == site]
        files[f"{site}/targets.json"] = json.dumps(own)
    return files


def publish_status(lab: Lab, **variables: object) -> None:
    """Run playbooks/status.yml, and give its metrics to the node exporter."""
    (lab.reports / "status.prom").unlink(missing_ok=True)
    asked = lab.play("status", **variables)
    assert (lab.reports / "status.prom").exists(), asked.stdout[-3000:]
    file = f"{TEXTFILES}/status.prom"
    lab.run(PROMETHEUS, "tee", f"{file}.new", stdin=(lab.reports / "status.prom").read_text())
    lab.run(PROMETHEUS, "mv", f"{file}.new", file)


def firing(query: Query, series: str = FIRING) -> list[dict[str, str]]:
    """Return the labels of each alert that fires, except for full disks of this machine."""
    return [alert for sample in query("query", query=series) if not is_own_disk(alert := sample["metric"])]


def is_own_disk(alert: Mapping[str, str]) -> bool:
    """Return whether an alert reports a full disk of the machine that the lab runs on."""
    is_disk = alert["alertname"] == "DiskFilling" or alert.get("id") == "disk-filling"
    return is_disk and alert.get("mountpoint") != FILLED


# What happens to hosts.


def run_backup(lab: Lab) -> None:
    """Run the backup of files until it has ended."""
    lab.run(BACKUP_HOST, "systemctl", "start", BACKUP_UNIT, check=False)
    wait_until("the end of the backup", lambda: backup_state(lab) not in ("activating", "active"))


def backup_state(lab: Lab) -> str:
    shown = lab.run(BACKUP_HOST, "systemctl", "show", "--property=ActiveState", "--value", BACKUP_UNIT)
    return shown.stdout.strip()


def fail_backup(lab: Lab) -> None:
    lab.run("east-kafka-3", "systemctl", "stop", "ssh.socket", "ssh.service", check=False)
    run_backup(lab)
    assert backup_state(lab) == "failed"


def repair_backup(lab: Lab) -> None:
    lab.run("east-kafka-3", "systemctl", "start", "ssh")
    run_backup(lab)
    assert backup_state(lab) == "inactive"


def fill_disk(lab: Lab) -> None:
    mount = f"mkdir -p {FILLED} && mount -t tmpfs -o size=8m tmpfs {FILLED}"
    lab.run("east-kafka-3", "sh", "-ec", f"{mount} && head -c 7500000 /dev/zero >{FILLED}/filler")
    lab.run("east-kafka-3", "systemctl", "restart", "node_exporter")  # whose namespace has the new mount


def empty_disk(lab: Lab) -> None:
    lab.run("east-kafka-3", "sh", "-ec", f"rm {FILLED}/filler && umount {FILLED} && rmdir {FILLED}")
    lab.run("east-kafka-3", "systemctl", "restart", "node_exporter")


def shorten_certificate(lab: Lab) -> None:
    """Have the estate's authority sign the key of a service again, for ten days."""
    host = "east-kafka-3"
    pem = lab.run(host, "sh", "-ec", f"cp -p {CERTIFICATE} {FOLDER}/kept.pem && cat {CERTIFICATE}").stdout
    key = lab.run(host, "openssl", "pkey", "-in", CERTIFICATE, "-pubout").stdout
    request = certificates.Wanted(
        principal="monitoring-east",
        names=(host,),
        usages=certificates.SERVICE,
        validity_days=10,
        renewal_days=5,
    )
    issued = certificates.issue(
        key, request, certificates.load_authority(lab.pki / "ca"), certificates.utc_now()
    )
    own = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)
    lab.run(host, "tee", CERTIFICATE, stdin=own.sub(lambda _: issued, pem, count=1))


def restore_certificate(lab: Lab) -> None:
    lab.run("east-kafka-3", "cp", "-p", f"{FOLDER}/kept.pem", CERTIFICATE)


def systemctl(host: str, *words: str) -> Callable[[Lab], object]:
    return lambda lab: lab.run(host, "systemctl", *words)


FILLED = "/mnt/filling"
CERTIFICATE = f"{TLS}/monitoring-east.pem"
BACKUP_HOST, BACKUP_UNIT = "east-kafka-2", "file_backup@east-kafka.service"
# How each fault begins, and how it is repaired.
ACTIONS: dict[str, tuple[Callable[[Lab], object], Callable[[Lab], object]]] = {
    "the unit fault fails": (
        lambda lab: lab.run(
            "east-kafka-3", "systemd-run", "--unit=fault", "--property=Type=exec", "/bin/false", check=False
        ),
        systemctl("east-kafka-3", "reset-failed", "fault"),
    ),
    "a file system is 89 % full": (fill_disk, empty_disk),
    "a certificate ends in 10 days": (shorten_certificate, restore_certificate),
    "a backup of files fails, and no later one succeeds": (fail_backup, repair_backup),
    "a node exporter is gone": (
        systemctl("west-controller-1", "stop", "node_exporter"),
        systemctl("west-controller-1", "start", "node_exporter"),
    ),
    "a metrics port is closed": (
        systemctl("east-kafka-1", "stop", "monitoring"),
        systemctl("east-kafka-1", "start", "monitoring"),
    ),
    "a host with the only broker of its site is gone": (
        lambda lab: lab.lose("west-broker-1"),
        lambda lab: lab.restart("west-broker-1"),
    ),
    "a broker is stopped": (
        systemctl("east-kafka-2", "stop", "kafka"),
        systemctl("east-kafka-2", "start", "kafka"),
    ),
    "a second controller and broker of three is stopped": (
        systemctl("east-kafka-1", "stop", "kafka"),
        systemctl("east-kafka-1", "start", "kafka"),
    ),
}


def notified(lab: Lab) -> list[tuple[str, str, dict[str, str]]]:
    """Return receiver, status and labels of each alert that Alertmanager has sent."""
    lines = lab.run(PROMETHEUS, "cat", f"{FOLDER}/notifications", check=False).stdout.splitlines()
    return [(receiver, status, labels) for receiver, status, labels in map(json.loads, lines)]


def unsent(lab: Lab, status: str) -> list[Labels]:
    """Return the alerts of faults that their receiver does not have with a status yet."""
    sent = [
        labels
        for receiver, sent_status, labels in notified(lab)
        if sent_status == status and receiver == RECEIVERS[labels["severity"]]
    ]
    return missing(sent, FAULTS)


RECEIVERS = {"page": "on-call", "ticket": "tickets"}


def test_what_is_sound_fires_nothing(lab: Lab, prometheus: Query) -> None:
    run_backup(lab)
    publish_status(lab)
    watchdog = 'ALERTS{alertname="Watchdog",alertstate="firing"}'
    wait_until("the first evaluation of rules", lambda: len(prometheus("query", query=watchdog)) == 1)
    wait_until("the state of the estate", lambda: prometheus("query", query="aqueduct_status_time"))
    time.sleep(2 * EVALUATED)
    assert firing(prometheus) == []
    wait_until("the dead man's switch", lambda: "dead-mans-switch" in {sent[0] for sent in notified(lab)})


def test_faults_fire_their_alerts_and_repairs_clear_them(lab: Lab, prometheus: Query) -> None:
    """All faults last at the same time. Prometheus's own history has the times of each alert."""
    began: dict[str, float] = {}
    repaired: dict[str, float] = {}
    start = time.time()
    try:
        for fault in FAULTS:
            began[fault.name] = time.time()
            ACTIONS[fault.name][0](lab)
        publish_status(lab, status_backup_hours=0)
        wait_until_none("alerts that do not fire", lambda: missing(firing(prometheus), FAULTS))
        wait_until_none("alerts without a notification", lambda: unsent(lab, "firing"))
    finally:
        problems = repair(lab, began, repaired)
    assert problems == []
    wait_until(
        "the brokers", lambda: lab.admin("east-kafka-1").list_topics(timeout=60).brokers.keys() == {1, 2, 3}
    )
    wait_until("the west broker", lambda: lab.admin("west-broker-1").list_topics(timeout=60).brokers)
    wait_until_none("alerts of services", lambda: [
        alert for alert in firing(prometheus) if not alert["alertname"].startswith("Estate")
    ])  # fmt: skip
    publish_status(lab)
    wait_until_none("alerts that still fire", lambda: firing(prometheus))
    wait_until_none("alerts that are not reported as resolved", lambda: unsent(lab, "resolved"))
    history = prometheus("query_range", query=FIRING, start=start, end=time.time(), step=1)
    print(f"\n{table(proofs(history, began, repaired))}\nall faults together: {time.time() - start:.0f} s")


def repair(lab: Lab, began: Collection[str], repaired: dict[str, float]) -> list[str]:
    """Repair each fault that has begun, also if another repair fails; return what failed.

    The last to begin is the first to be repaired: brokers take the longest.
    """
    problems = []
    for name in reversed([*began]):
        repaired[name] = time.time()
        try:
            ACTIONS[name][1](lab)
        except (subprocess.SubprocessError, AssertionError) as error:
            problems.append(f"{name}: {error}")
    return problems


def wait_until_none(subject: str, remaining: Callable[[], Sequence[object]]) -> None:
    """Wait until nothing remains; the failure lists what remained last."""
    last: list[object] = []

    def is_empty() -> bool:
        last[:] = remaining()
        return not last

    try:
        wait_until(subject, is_empty, every=1)
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from error


# Planned work, each of which the guide promises needs no silence. The second one renews all certificates.
PLANNED: dict[str, tuple[str, tuple[str, ...], dict[str, object]]] = {
    "rolling_restart": ("rolling_restart", ("--limit", "site_east"), {"kafka_restart_all": True}),
    "site_with_renewal": (
        "site",
        (),
        {"certificates_renewal_days": 370, "certificates_validity_days": 390},
    ),
}


@pytest.mark.parametrize("work", PLANNED)
def test_planned_work_fires_nothing(lab: Lab, prometheus: Query, work: str) -> None:
    playbook, arguments, variables = PLANNED[work]
    # The state of the estate is not asked meanwhile, which EstateNotAsked would report after 15 minutes.
    lab.run(PROMETHEUS, "rm", "-f", f"{TEXTFILES}/status.prom")
    before = started(lab)
    wait_until_none("alerts that fire", lambda: firing(prometheus, QUIET))
    began = time.time()
    done = lab.play(playbook, *arguments, **variables)
    assert done.returncode == 0, done.stdout[-3000:]
    after = started(lab)
    assert all(before[host] != after[host] for host in before), "every broker of the site was restarted"
    time.sleep(60)  # what is late would fire by then
    history = prometheus("query_range", query=QUIET, start=began, end=time.time(), step=EVALUATED)
    assert [series["metric"] for series in history if not is_own_disk(series["metric"])] == []


def started(lab: Lab) -> dict[str, str]:
    """Return when Kafka was started, by host of the site east."""
    show = ("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "kafka")
    return {host: lab.run(host, *show).stdout for host in lab.variables if host.startswith("east-")}
