"""Applications by spark-submit, from a host that has Java, Python and PyPI's pyspark, and nothing of ours."""

import json
import os
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from demo.__main__ import LAB
from demo.lab import to_the_end

pytestmark = pytest.mark.long

DRIVER, MASTER, STORE, LAKE, SOURCE, ENCLAVE = (
    *("driver", "dwpro1-spark-1", "dwpro1-store-1", "dwpro1-kafka-1", "pro1-kafka-1", "enclave-kafka-1"),
)
WORKERS = {"dwpro1-spark-2", "dwpro1-spark-3"}
VERBS = ("backup", "verify", "restore", "reconcile", "dedup")
EVENTS = "/var/lib/aqueduct-spark-events"
EWR = 120_835
HOME = "/home/analyst"
DEFAULTS = """
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.network.crypto.authEngineVersion 2
spark.network.crypto.saslFallback false
spark.network.crypto.cipher AES/GCM/NoPadding
spark.driver.host {driver}
spark.driver.bindAddress 0.0.0.0
spark.eventLog.enabled true
spark.eventLog.dir file://{home}/events
"""
CLIENT = """
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location={home}/admin.pem
ssl.truststore.type=PEM
ssl.truststore.location={home}/ca.pem
"""


def said(*command: str) -> str:
    """Return what a command on this machine says."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Driver:
    """The host of an analyst."""

    container: str
    store: dict[str, str]  # environment by which the estate's object store is reached

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        variables = {**self.store, "SPARK_CONF_DIR": f"{HOME}/conf"}
        variables["PYSPARK_DRIVER_PYTHON"] = f"{HOME}/environment/bin/python"
        # Else spark-submit looks for it beside that Python, which has no pyspark of its own.
        variables["SPARK_HOME"] = f"{HOME}/spark/lib/python3.11/site-packages/pyspark"
        given = [option for name, value in variables.items() for option in ("--env", f"{name}={value}")]
        argv = ["docker", "exec", "--workdir", HOME, *given, self.container, *command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0 or not check, done.stdout + done.stderr[-4000:]
        return done

    def submit(self, verb: str, *arguments: str) -> None:
        done = self.run(
            "spark/bin/spark-submit", "--master", f"spark://{MASTER}:7077",
            "--archives", "env.tar.gz#environment", f"spark_apps/{verb}.py", *arguments,
        )  # fmt: skip
        print(f"$ spark-submit ... spark_apps/{verb}.py\n{done.stdout}", flush=True)

    def has(self, file: Path, name: str, mode: str = "0600") -> None:
        said("docker", "cp", "--quiet", str(file), f"{self.container}:{HOME}/{name}")
        self.run("chmod", "-R", mode, name)


@contextmanager
def hosted(folder: Path) -> Iterator[Driver]:
    """Yield the driver's host: Debian's Java and Python, and two wheels of PyPI's."""
    lake = LAB.variables[LAKE]
    name = f"{lake['lab_name']}-{DRIVER}"
    [image, *_] = said("docker", "images", "aqueduct-lab", "--format", "{{.Repository}}:{{.Tag}}").split()
    [network, *_] = json.loads(said("docker", "inspect", LAB.container(LAKE)))[0]["NetworkSettings"][
        "Networks"
    ]
    environment = dict(
        line.split("=", 1)
        for line in LAB.run(SOURCE, "cat", "/etc/aqueduct/backup/environment").stdout.splitlines()
        if line.startswith("AWS_")
    )
    environment = {key: value.strip('"') for key, value in environment.items()}
    environment["AWS_CA_BUNDLE"] = f"{HOME}/ca.pem"
    wheels = Path(os.environ["AQUEDUCT_KAFKA_JARS"]).parent
    host = ("--name", name, "--hostname", DRIVER, "--network", network)
    said("docker", "run", "--detach", *host, image, "sleep", "infinity")
    try:
        driver = Driver(name, environment)
        said("docker", "exec", name, "mkdir", "-p", f"{HOME}/conf", f"{HOME}/events")
        for wheel in (*wheels.glob("pyspark-*"), *wheels.glob("py4j-*")):
            driver.has(wheel, wheel.name)
        driver.run("python3", "-m", "venv", "spark")
        driver.run("bash", "-c", "spark/bin/pip install --quiet --no-index --find-links . pyspark")
        LAB.run(MASTER, "/opt/aqueduct/spark/bin/aqueduct", "environment", "--out", "/opt/env.tar.gz")
        archive = folder / "env.tar.gz"
        said("docker", "cp", "--quiet", f"{LAB.container(MASTER)}:/opt/env.tar.gz", str(archive))
        driver.has(archive, "env.tar.gz")
        driver.run("bash", "-c", "mkdir environment && tar -xzf env.tar.gz -C environment")
        driver.has(Path("spark_apps"), "spark_apps", "u+rwX")
        secret = (LAB.pki / "passwords/spark.dwpro1").read_text().split()[0]
        for file, text in (
            ("conf/spark-defaults.conf", DEFAULTS.format(secret=secret, driver=name, home=HOME)),
            ("admin.properties", CLIENT.format(home=HOME)),
        ):
            (folder / "text").write_text(text)
            driver.has(folder / "text", file)
        driver.has(LAB.pki / "clients/admin.pem", "admin.pem")
        driver.has(LAB.pki / "ca/ca.pem", "ca.pem")
        yield driver
    finally:
        said("docker", "rm", "--force", name)


def copied(topic: str, name: str) -> int:
    """Copy a topic of the enclave to the lake, which can't reach it; return how many partitions it has."""
    with LAB.reading(ENCLAVE, topic, "read_uncommitted") as (consumer, places):
        asked = AdminClient(LAB.client(LAKE))
        asked.create_topics([NewTopic(name, len(places), 1)])[name].result()
        producer = Producer(LAB.client(LAKE))
        for message in to_the_end(consumer, places):
            place, headers = message.partition() or 0, message.headers() or []
            producer.produce(name, message.value(), message.key(), partition=place, headers=headers)
            producer.poll(0)
        assert producer.flush(300) == 0
    return len(places)


@pytest.mark.usefixtures("said")
def test_spark_submit_runs_every_verb_on_lake_cluster(tmp_path: Path) -> None:
    [link] = LAB.links
    with hosted(tmp_path) as driver:
        assert driver.run("spark/bin/pip", "list", "--format=freeze").stdout.count("==") <= 4
        broker, lake = f"{SOURCE}:9092", f"{LAKE}:9092"
        end = ("--command-config", f"{HOME}/admin.properties")
        mark = secrets.token_hex(4)
        raw, gaps, again, clean = (f"{name}-{mark}" for name in ("raw", "gaps", "again", "clean"))
        store = ("--store", f"s3://backup/{mark}")
        driver.submit("backup", "--bootstrap-server", broker, *end, *store, "--topics", "flights")
        driver.submit("verify", *store)
        driver.submit(
            "restore",
            "--bootstrap-server",
            lake,
            *end,
            *store,
            "--topics",
            f"flights:{again}",
            "--no-groups",
        )
        driver.submit(
            "reconcile",
            *("--source-bootstrap-server", broker),
            *("--target-bootstrap-server", lake),
            *end,
            *("--topics", f"flights:{again}"),
        )
        made = NewTopic(gaps, copied(link.raw_topic, raw), 1, config={"cleanup.policy": "compact"})
        asked = AdminClient(LAB.client(LAKE))
        for each in asked.create_topics([made, NewTopic(clean, 4, 1)]).values():
            each.result()
        driver.submit(
            "dedup", "--bootstrap-server", lake, *end, "--raw-topics", raw, "--gap-topic", gaps,
            "--topics", f"flights:{clean}", "--until-caught-up",
        )  # fmt: skip
        with LAB.reading(SOURCE, "flights") as (consumer, places):
            wanted = Counter((each.key(), each.value()) for each in to_the_end(consumer, places))
        for topic in (again, clean):
            with LAB.reading(LAKE, topic) as (consumer, places):
                found = Counter((each.key(), each.value()) for each in to_the_end(consumer, places))
            assert (found.total(), found == wanted) == (EWR, True), topic
        tasks = shown(driver, tmp_path)
        print("the history server shows tasks:", tasks)
    assert tasks.keys() == {f"aqueduct {verb}" for verb in VERBS}
    for verb, ran in tasks.items():
        assert ran.keys() <= WORKERS, verb
        assert ran.total() > 0, verb
    assert set().union(*tasks.values()) == WORKERS


def shown(driver: Driver, folder: Path) -> dict[str, Counter[str]]:
    """Return what the history server shows of each application: how many tasks each host ran.

    The event logs are brought to it, for its folder is on its own host.
    """
    logs = folder / "events"
    said("docker", "cp", "--quiet", f"{driver.container}:{HOME}/events", str(logs))
    assert len(list(logs.iterdir())) == len(VERBS)
    for log in logs.iterdir():
        said("docker", "cp", "--quiet", str(log), f"{LAB.container(MASTER)}:{EVENTS}/")
    LAB.run(MASTER, "chgrp", "-R", "spark_events", EVENTS)
    LAB.run(MASTER, "chmod", "-R", "g+rX", EVENTS)
    port = LAB.variables[MASTER]["lab_published_port"]
    ask = [
        *("curl", "--silent", "--fail", "--resolve", f"{MASTER}:{port}:127.0.0.1"),
        *("--cacert", str(LAB.pki / "ca/ca.pem"), "--cert", str(LAB.pki / "clients/admin.pem")),
    ]
    page = f"https://{MASTER}:{port}/api/v1/applications"
    ids = {log.name.removeprefix("eventlog_v2_").split(".")[0] for log in logs.iterdir()}
    deadline = time.monotonic() + 600  # it looks for new logs every 10 s
    while not ids <= {each["id"] for each in json.loads(said(*ask, page))}:
        assert time.monotonic() < deadline
        time.sleep(2)
    tasks: dict[str, Counter[str]] = {}
    for each in json.loads(said(*ask, page)):
        if each["id"] in ids:
            executors = json.loads(said(*ask, f"{page}/{each['id']}/allexecutors"))
            tasks[each["name"]] = Counter()
            for executor in executors:
                if executor["id"] != "driver":
                    tasks[each["name"]][executor["hostPort"].split(":")[0]] += executor["completedTasks"]
    return tasks
