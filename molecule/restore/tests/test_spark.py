"""Backups and restores of the site, and reconciles of the lake, work on the lake's Spark cluster."""

import json
import re

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from estate import MASTER, SITE, WORKERS, Estate
from lab import Lab, wait_until
from loss import Outcome

from demo.spark import EVENTS, logs

PAGES = {
    "master": (MASTER, 8480, "/json/"),
    "history": (MASTER, 18480, "/api/v1/applications"),
    "worker": (WORKERS[0], 8481, "/json/"),
}
# Runs in a host: asks for a page with the host's authority, and with a certificate where one is given.
ASK = """
import ssl, sys, urllib.request as r
url, ca, *certificate = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
if certificate: context.load_cert_chain(*certificate)
opener = r.build_opener(r.ProxyHandler({}), r.HTTPSHandler(context=context))
print(opener.open(url, timeout=60).read().decode())
"""

# Runs in a host: the status and the place that a page which redirects names.
FIRST_ANSWER = """
import http.client, sys, urllib.parse
url = urllib.parse.urlsplit(sys.argv[1])
asked = http.client.HTTPConnection(url.netloc, timeout=60)
asked.request("GET", url.path)
answer = asked.getresponse()
print(answer.status, answer.headers["Location"])
"""
# Runs in a host: which files hold a text, and whether processes and what all may read do.
SEEN = """
import json, os, pathlib, stat
secret = b"SECRET"
own, everybody = [], []
def look(path, found):
    try:
        if secret in path.read_bytes():
            found.append(str(path))
    except OSError:
        pass
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if int(process.name) != os.getpid():
        look(process / "cmdline", everybody)
for root in ("/etc", "/run", "/var/lib/aqueduct-spark", "/var/lib/aqueduct-spark-events"):
    for folder, _, names in os.walk(root):
        for path in (pathlib.Path(folder, name) for name in names):
            if not stat.S_ISREG(path.lstat().st_mode):
                continue
            private = not stat.S_IMODE(path.stat().st_mode) & 0o077
            look(path, own if private else everybody)
print(json.dumps({"in files of their owner": sorted(own), "for everybody": sorted(everybody)}))
"""
CERTIFICATE = "/etc/aqueduct/spark_master/tls/spark-lake.pem"
UNITS = [
    (MASTER, "spark_master"),
    (MASTER, "spark_history"),
    *((worker, "spark_worker") for worker in WORKERS),
]


def began(lab: Lab, host: str, unit: str) -> str:
    return lab.run(host, "systemctl", "show", "--property=InvocationID", unit).stdout


def ask(estate: Estate, page: str, *certificate: str) -> tuple[int, str]:
    tls = "/etc/aqueduct/spark_master/tls"
    at, port, path = PAGES[page]
    asked = (f"https://{at}:{port}{path}", f"{tls}/ca.pem", *certificate)
    done = estate.lab.run(MASTER, "python3", "-c", ASK, *asked, check=False)
    return done.returncode, done.stdout or done.stderr


def reported(estate: Estate, report: str) -> dict[str, int]:
    return dict(json.loads((estate.lab.reports / f"{report}.json").read_text())["tasks"])


def test_tasks_of_a_backup_ran_on_both_workers(estate: Estate, outcome: Outcome) -> None:
    assert outcome.after
    assert set(reported(estate, "backup-pro1")) == {*WORKERS}, outcome.backup_said


def test_both_workers_run_a_task_of_each_restore(estate: Estate, outcome: Outcome) -> None:
    """Each is tried first. A job of this small restore is one task, which either may get."""
    assert outcome.after
    assert 0 < len(reported(estate, "restore-pro1")) <= len(WORKERS)
    applications = list(logs(estate.lab, SITE, "aqueduct restore"))
    assert applications
    for events in applications:
        ended = {each["Task Info"]["Host"] for each in events if each["Event"] == "SparkListenerTaskEnd"}
        assert ended == {*WORKERS}


def test_history_server_shows_completed_reconcile(estate: Estate, outcome: Outcome) -> None:
    """Another user writes the log than the one that reads it, and nobody else may."""
    assert outcome.after
    done = estate.lab.play("reconcile")
    assert done.returncode == 0, done.stdout
    assert set(reported(estate, "pro1-lake")) <= {*WORKERS}
    assert sum(reported(estate, "pro1-lake").values()) > 0

    def shown() -> list[str]:
        code, said = ask(estate, "history", CERTIFICATE)
        assert code == 0, said
        return [each["name"] for each in json.loads(said)]

    wait_until("the reconcile in the history", lambda: "aqueduct reconcile" in shown())
    found = estate.lab.run(
        MASTER, "find", EVENTS, "-ignore_readdir_race", "-mindepth", "1", "-printf", "%u %M;"
    ).stdout
    rights = {each for each in found.split(";") if each}
    assert rights == {"reconcile drwxrwx---", "reconcile -rw-rw----"}


def test_the_user_of_executors_reads_no_event_logs(estate: Estate, outcome: Outcome) -> None:
    """Nor by way of the files that another process of that user sees."""
    assert outcome.after
    lab: Lab = estate.lab
    process = lab.run(MASTER, "systemctl", "show", "--property=MainPID", "--value", "spark_master").stdout
    seen = f"/proc/{process.strip()}/root"
    as_spark = ("runuser", "-u", "spark", "--", "ls")
    assert lab.run(MASTER, "ls", EVENTS).stdout, "there are some"
    assert "etc" in lab.run(MASTER, *as_spark, seen).stdout.split(), "this way is open"
    for folder in (EVENTS, f"{seen}{EVENTS}"):
        listed = lab.run(MASTER, *as_spark, folder, check=False)
        assert listed.returncode != 0, listed.stdout
        assert "Permission denied" in listed.stderr


def test_worker_keys_are_valid_for_clients_only(estate: Estate, outcome: Outcome) -> None:
    """A captured worker would listen with them in the place of a broker of the driver's host."""
    assert outcome.after
    issued = {path.name: path for path in (estate.lab.pki / "ca/issued").glob("*.pem")}
    sent = {
        name: path
        for name, path in issued.items()
        if re.search(r"\.(backup|reconcile|restore)-\w+\.pem$", name)
    }
    assert {f"{SITE}.backup-pro1.pem", f"{SITE}.restore-pro1.pem", f"{MASTER}.reconcile-lake.pem"} <= {*sent}
    for name, path in sent.items():
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert [*usages] == [ExtendedKeyUsageOID.CLIENT_AUTH], name
    for folder in ("/etc/aqueduct/backup/tls", "/run/aqueduct-restore"):
        listed = estate.lab.run(SITE, "find", folder, "-name", "*.p12", check=False).stdout
        assert listed == "", "a server's stores"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_refuses_who_has_no_certificate(estate: Estate, page: str) -> None:
    code, said = ask(estate, page, CERTIFICATE)
    assert (code, said[:1] in ("{", "[")) == (0, True), said
    code, said = ask(estate, page)
    assert code == 1, f"it answered: {said}"
    assert re.search("certificate.required|connection reset", said, re.IGNORECASE), said
    at, port, path = PAGES[page]
    found = estate.lab.run(MASTER, "python3", "-c", FIRST_ANSWER, f"http://{at}:{port - 400}{path}").stdout
    assert found.split() == ["302", f"https://{at}:{port}{path}"]


def test_the_secret_stands_nowhere_where_others_see_it(estate: Estate, outcome: Outcome) -> None:
    """No list of processes, no unit, no file that others may read; not while tasks run either."""
    assert outcome.after
    secret = (estate.lab.pki / "passwords/spark.lake").read_text().strip()
    assert len(secret) >= 32
    for host in estate.lab.variables:
        seen = json.loads(estate.lab.run(host, "python3", "-", stdin=SEEN.replace("SECRET", secret)).stdout)
        assert seen["in files of their owner"] == OWNERS.get(host, []), host
        assert seen["for everybody"] == [], host


# What the master and each worker have of it, and each application's user.
OWNERS = {
    SITE: ["/etc/aqueduct/backup/spark-defaults.conf"],
    MASTER: ["/etc/aqueduct/reconcile/spark-defaults.conf", "/etc/aqueduct/spark_master/spark-defaults.conf"],
    **{worker: ["/etc/aqueduct/spark_worker/spark-defaults.conf"] for worker in WORKERS},
}


@pytest.mark.long
def test_a_setting_of_one_worker_restarts_it_alone(estate: Estate, outcome: Outcome) -> None:
    assert outcome.after
    lab: Lab = estate.lab
    before = {(host, unit): began(lab, host, unit) for host, unit in UNITS}
    done = lab.play("spark", "--limit=site_lake", spark_worker_cleanup_seconds=80_000)
    assert done.returncode == 0, done.stdout
    after = {(host, unit): began(lab, host, unit) for host, unit in UNITS}
    changed = {each for each in UNITS if before[each] != after[each]}
    assert changed == {(worker, "spark_worker") for worker in WORKERS}
