"""Applications by spark-submit, from a host that has Java, Python and PyPI's pyspark, and nothing of ours."""

import json
import os
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
        given = [option for name, value in variables.items() for option in ("--env", f"{name}={value}")]
        argv = ["docker", "exec", "--workdir", HOME, *given, self.container, *command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 or not check, done.stdout + done.stderr[-4000:]
        return done

    def submit(self, verb: str, *arguments: str) -> dict[str, int]:
        """Run an application; return how many tasks each host ran."""
        done = self.run(
            "spark/bin/spark-submit", "--master", f"spark://{MASTER}:7077",
            "--archives", "env.tar.gz#environment", f"spark_apps/{verb}.py", *arguments,
            "--report", f"{HOME}/{verb}.json",
        )  # fmt: skip
        print(f"$ spark-submit ... spark_apps/{verb}.py\n{done.stdout}", flush=True)
        return dict(json.loads(self.run("cat", f"{verb}.json").stdout)["tasks"])

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
        LAB.run(MASTER, "/opt/aqueduct/spark/bin/aqueduct", "environment", "--out", "/tmp/env.tar.gz")  # noqa: S108
        archive = folder / "env.tar.gz"
        said("docker", "cp", "--quiet", f"{LAB.container(MASTER)}:/tmp/env.tar.gz", str(archive))
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
        assert producer.flush(60) == 0
    return len(places)


@pytest.mark.usefixtures("said")
def test_each_verb_runs_by_spark_submit_on_the_lake_s_cluster(tmp_path: Path) -> None:
    [link] = LAB.links
    with hosted(tmp_path) as driver:
        assert driver.run("spark/bin/pip", "list", "--format=freeze").stdout.count("==") <= 4
        broker, lake = f"{SOURCE}:9092", f"{LAKE}:9092"
        end = ("--client-config", f"{HOME}/admin.properties")
        store = ("--store", "s3://backup/submitted")
        tasks = {
            "backup": driver.submit(
                "backup", "--bootstrap-servers", broker, *end, *store, "--topics", "flights"
            ),
            "verify": driver.submit("verify", *store),
            "restore": driver.submit(
                "restore", "--bootstrap-servers", lake, *end, *store, "--topics", "flights:flights-again"
            ),
            "reconcile": driver.submit(
                "reconcile", "--source", broker, "--target", lake, *end, "--topics", "flights:flights-again"
            ),
        }
        partitions = copied(link.raw_topic, "raw-again")
        asked = AdminClient(LAB.client(LAKE))
        gaps = NewTopic("gaps-again", partitions, 1, config={"cleanup.policy": "compact"})
        clean = NewTopic("flights-clean", 4, 1)
        for made in asked.create_topics([gaps, clean]).values():
            made.result()
        tasks["dedup"] = driver.submit(
            "dedup", "--bootstrap-servers", lake, *end, "--raw-topics", "raw-again",
            "--gap-topic", "gaps-again", "--topics", "flights:flights-clean", "--until-caught-up",
        )  # fmt: skip
        for verb, ran in tasks.items():
            print(verb, ran)
            assert ran, verb
            assert ran.keys() <= WORKERS, verb
        assert set().union(*tasks.values()) == WORKERS
        for topic in ("flights-again", "flights-clean"):
            with LAB.reading(LAKE, topic) as (consumer, places):
                found = Counter((each.key(), each.value()) for each in to_the_end(consumer, places))
            with LAB.reading(SOURCE, "flights") as (consumer, places):
                wanted = Counter((each.key(), each.value()) for each in to_the_end(consumer, places))
            assert (found.total(), found == wanted) == (EWR, True), topic
        check_history(driver, tmp_path)


def check_history(driver: Driver, folder: Path) -> None:
    """See each application on the history server's page, to which its event log was brought."""
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
        *("--cacert", str(LAB.pki / "ca/ca.pem")),
        "--cert", str(LAB.pki / "clients/admin.pem"), f"https://{MASTER}:{port}/api/v1/applications",
    ]  # fmt: skip
    ids = {log.name.removeprefix("eventlog_v2_").split(".")[0] for log in logs.iterdir()}
    deadline = time.monotonic() + 60
    while True:
        shown = json.loads(said(*ask))
        names = {each["name"] for each in shown if each["id"] in ids}
        if names == {f"aqueduct {verb}" for verb in VERBS}:
            break
        assert time.monotonic() < deadline, (ids, [(each["id"], each["name"]) for each in shown])
        time.sleep(2)
    print("the history server shows:", sorted(names))
