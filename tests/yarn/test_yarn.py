"""Applications on YARN 3.4.1 with HDFS, whose node has Spark and Python alone, in both deploy modes."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kit import clients

from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.link.ledger.arrivals import bucket
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Frame
from aqueduct.work import environment
from servers import broker, yarn
from servers.broker import Broker
from servers.spark import HOME
from servers.yarn import Hadoop

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 5_000
PARTITIONS = 2
PATIENTLY = ("--wait", "300s")  # a driver may wait for a machine that does much else


@dataclass(frozen=True)
class Yarn:
    """A Hadoop, a broker, an archive, and the folder that applications are submitted from."""

    hadoop: Hadoop
    broker: Broker
    folder: Path

    def submit(self, mode: str, verb: str, *arguments: str, attempts: int | None = 1, code: int = 0) -> str:
        """Run an application by spark-submit, as docs/guides/yarn.md tells; return what it said."""
        options = ["--archives", "env.tar.gz#environment"]
        if mode == "cluster":
            # The driver is in a container, too.
            files = "backup.properties,backup.pem,authority.pem"
            options += ["--files", files, "--conf", "spark.pyspark.python=./environment/bin/python"]
            options += ["--conf", f"spark.yarn.maxAppAttempts={attempts}"] if attempts else []
        command = [str(HOME / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", mode, *options]
        return self.run([*command, str(ROOT / f"spark_apps/{verb}.py"), *arguments, *PATIENTLY], code)

    def run(self, command: Sequence[str], code: int = 0) -> str:
        mine = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**mine, **self.hadoop.environment, "SPARK_CONF_DIR": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == code, done.stdout + done.stderr + "\n".join(self.hadoop.containers())
        return done.stdout + done.stderr

    def newest(self) -> dict[str, Any]:
        """Return what YARN says of the application that began last."""
        return max(self.hadoop.applications(), key=lambda each: int(each["startedTime"]))

    def with_the_key(self) -> set[Path]:
        """Return the files on YARN's node that hold the client's key."""
        key = (self.folder / "backup.pem").read_bytes()
        files = (path for path in (self.hadoop.directory / "local").rglob("*") if path.is_file())
        return {path for path in files if path.stat().st_size < 100_000 and key in path.read_bytes()}

    def cluster(self) -> tuple[str, ...]:
        """Return a verb's arguments that say where Kafka is, and by which key."""
        return ("--bootstrap-server", self.broker.tls, "--command-config", "backup.properties")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    bare, folder = tmp_path_factory.mktemp("bare"), tmp_path_factory.mktemp("submit")
    venv.create(bare, symlinks=True)
    environment.write(folder / "env.tar.gz")
    # Where a cluster has no Spark, these jars go to HDFS once (spark.yarn.archive).
    (folder / "spark-defaults.conf").write_text(
        f"spark.yarn.jars local:{HOME}/jars/*\nspark.executor.instances 2\nspark.driver.memory 512m\n"
        "spark.executor.memory 512m\nspark.yarn.submit.waitAppCompletion true\n"
    )
    with (
        broker.running(tmp_path_factory.mktemp("broker"), supers=("backup",)) as kafka,
        yarn.running(tmp_path_factory.mktemp("hadoop"), PATH=f"{bare}/bin:/usr/bin:/bin") as hadoop,
    ):
        config = kafka.authority.client_config("backup")
        # Paths in it are relative: the same words are right here and in the driver's container.
        (folder / config.name).write_text(config.read_text().replace(f"{config.parent}/", ""))
        for name in ("backup.pem", "authority.pem"):
            (folder / name).write_bytes((config.parent / name).read_bytes())
        yield Yarn(hadoop, kafka, folder)


@pytest.fixture(scope="module")
def topic(running: Yarn) -> str:
    name = clients.create(running.broker, clients.unique("yarn"), PARTITIONS)
    for partition in range(PARTITIONS):
        clients.produce(running.broker, name, [f"{partition}-{n}" for n in range(RECORDS)], partition)
    return name


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_backup_and_its_restore(running: Yarn, topic: str, tmp_path: Path, mode: str) -> None:
    store, report = ("--store", f"file://{tmp_path}/store"), tmp_path / "report.json"
    again = f"{topic}.{mode}"
    running.submit(mode, "backup", *running.cluster(), *store, "--topics", topic, "--report", str(report))
    assert sum(json.loads(report.read_text())["tasks"].values()) > 0
    running.submit(mode, "verify", *store)
    running.submit(mode, "restore", *running.cluster(), *store, "--topics", f"{topic}:{again}")
    for partition in range(PARTITIONS):
        before, after = (clients.records(running.broker, name, partition) for name in (topic, again))
        assert len(before) == RECORDS
        assert before == after
    ends = ("--source-bootstrap-server", running.broker.tls, "--target-bootstrap-server", running.broker.tls)
    running.submit(
        mode, "reconcile", *ends, "--command-config", "backup.properties", "--topics", f"{topic}:{again}"
    )
    # A driver in a container is named by spark-submit, before it is one.
    ours = (
        f"aqueduct {verb}" if mode == "client" else f"{verb}.py"
        for verb in ("backup", "verify", "restore", "reconcile")
    )
    found = {each["name"]: each["finalStatus"] for each in running.hadoop.applications()}
    assert [found[name] for name in ours] == ["SUCCEEDED"] * 4


def test_application_in_container_succeeds_without_spark_work(
    running: Yarn, topic: str, tmp_path: Path
) -> None:
    store = ("--store", f"file://{tmp_path}/store")
    running.submit("client", "backup", *running.cluster(), *store, "--topics", topic)
    renamed = ("--topics", f"{topic}:{topic}.never")
    running.submit("cluster", "restore", *running.cluster(), *store, *renamed, "--dry-run")
    assert running.newest()["finalStatus"] == "SUCCEEDED"


@pytest.mark.parametrize("attempts", [None, 2])
def test_application_in_container_with_yarn_retries_is_refused(
    running: Yarn, topic: str, tmp_path: Path, attempts: int | None
) -> None:
    verb = ("backup", *running.cluster(), "--store", f"file://{tmp_path}/store", "--topics", topic)
    running.submit("cluster", *verb, attempts=attempts, code=1)
    assert running.newest()["finalStatus"] == "FAILED"
    said = "aqueduct: [spark-setting-unsupported] YARN would run this application again"
    assert any(said in each for each in running.hadoop.containers())
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_dedup(running: Yarn, mode: str) -> None:
    raw, gaps, clean = (clients.unique(f"{name}.{mode}") for name in ("raw", "gaps", "clean"))
    clients.create(running.broker, raw, PARTITIONS)
    clients.create(running.broker, gaps, PARTITIONS, cleanup_policy="compact")
    clients.create(running.broker, clean, PARTITIONS)
    rows = [Record(1_700_000_000_000, offset, body(b"k", b"%d" % offset)) for offset in range(100)]
    for partition in range(PARTITIONS):
        came = Frame(
            topic=clean,
            topic_id=UUID(int=1),
            partition=partition,
            first=0,
            last=99,
            batches=bytes(build(Records.listed(rows))),
        )
        twice = [{"key": frame.key(came), "value": frame.pack(came)}] * 2
        clients.produce(running.broker, raw, twice, bucket(clean, partition, PARTITIONS))
    topics = ("--raw-topics", raw, "--gap-topic", gaps, "--topics", clean, "--gap-grace", "0s")
    running.submit(mode, "dedup", *running.cluster(), *topics, "--until-caught-up")
    for partition in range(PARTITIONS):
        assert [int(each.value()) for each in clients.read(running.broker, clean, partition)] == [*range(100)]


def test_command_line_backup_leaves_no_key_on_nodes(running: Yarn, topic: str, tmp_path: Path) -> None:
    archive = ("--conf", "spark.archives=env.tar.gz#environment")
    verb = ("backup", *running.cluster(), "--store", f"file://{tmp_path}/store", "--topics", topic)
    before = running.with_the_key()
    page = running.run(
        [sys.executable, "-m", "aqueduct.cli", *verb, "--master", "yarn", *archive, *PATIENTLY]
    )
    assert "Working on Spark at yarn, 2 executors on 1 host" in page
    assert running.with_the_key() == before


def test_what_files_brings_stays_in_yarns_cache(running: Yarn, topic: str, tmp_path: Path) -> None:
    """Check what the guide warns of, and that the test before it can find a key."""
    verb = ("backup", *running.cluster(), "--store", f"file://{tmp_path}/store", "--topics", topic)
    running.submit("cluster", *verb)
    assert {path.name for path in running.with_the_key()} == {"backup.pem"}
