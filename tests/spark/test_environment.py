"""A cluster whose workers have Spark and Python alone: what an archive brings them, and what fails."""

import json
import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import clients
import pytest

from aqueduct.work import environment
from aqueduct.work.reasons import GIVE
from servers import spark
from servers.broker import Broker
from servers.spark import HOME, Cluster

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 5_000


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster whose hosts' Python has no packages."""
    bare = tmp_path_factory.mktemp("bare")
    venv.create(bare, symlinks=True)
    path = f"{bare}/bin:/usr/bin:/bin"
    with spark.running(tmp_path_factory.mktemp("spark"), PATH=path, PYTHONPATH="") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("environment") / "env.tar.gz"
    environment.write(out)
    return out


@pytest.fixture(scope="module")
def topic(brokers: list[Broker]) -> str:
    return clients.numbered(brokers[0], "bare", 2, RECORDS)


def run(cluster: Cluster, *command: str, **variables: str) -> Run:
    mine = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        command,
        cwd=cluster.directory,
        env={**mine, **cluster.environment, **variables},
        capture_output=True,
        text=True,
        timeout=180,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def aqueduct(cluster: Cluster, *arguments: str, **variables: str) -> Run:
    command = (sys.executable, "-m", "aqueduct.cli", *arguments, "--master", cluster.url)
    return run(cluster, *command, **variables)


def submit(cluster: Cluster, archive: str, verb: str, *arguments: str) -> Run:
    command = (str(HOME / "bin/spark-submit"), "--master", cluster.url, "--archives", archive)
    return run(cluster, *command, str(ROOT / f"spark_apps/{verb}.py"), *arguments)


def values(broker: Broker, topic: str) -> list[list[tuple[object, ...]]]:
    return [
        [(each.key(), each.value(), each.timestamp()) for each in clients.read(broker, topic, partition)]
        for partition in range(2)
    ]


def test_an_archive_is_all_that_workers_lack(
    cluster: Cluster, brokers: list[Broker], topic: str, archive: Path, tmp_path: Path
) -> None:
    """Back up by spark-submit, restore by the command line."""
    store, report = f"file://{tmp_path}/store", tmp_path / "report.json"
    reached = ("--bootstrap-servers", brokers[0].plaintext, "--store", store)
    named = f"{archive}#environment"
    done = submit(cluster, named, "backup", *reached, "--topics", topic, "--report", str(report))
    assert done.code == 0, done.err
    assert sum(json.loads(report.read_text())["tasks"].values()) > 0
    conf = ("--conf", f"spark.archives={named}")
    done = aqueduct(cluster, "restore", *reached, "--topics", f"{topic}:{topic}.again", *conf)
    assert done.code == 0, done.err
    before, after = values(brokers[0], topic), values(brokers[0], f"{topic}.again")
    assert [len(each) for each in before] == [RECORDS] * 2
    assert before == after


def changed(archive: Path, out: Path, name: str, content: bytes) -> Path:
    """Write the archive with another content of one file."""
    with tarfile.open(archive) as whole, tarfile.open(out, "w:gz", compresslevel=1) as copy:
        for entry in whole:
            found = whole.extractfile(entry)
            assert found
            data = content if entry.name == name else found.read()
            entry.size = len(data)
            copy.addfile(entry, BytesIO(data))
    return out


def no_archive(_: Path, __: Path) -> Path | None:
    return None


def damaged(archive: Path, folder: Path) -> Path:
    out = folder / "damaged.tar.gz"
    out.write_bytes(archive.read_bytes()[:1_000_000])
    return out


def of_another_python(archive: Path, folder: Path) -> Path:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    launcher = environment.LAUNCHER.format(python="3.99", machine=os.uname().machine)
    assert python not in launcher
    return changed(archive, folder / "other.tar.gz", "bin/python", launcher.encode())


def of_another_version(archive: Path, folder: Path) -> Path:
    return changed(archive, folder / "old.tar.gz", "lib/aqueduct/wording.py", b"")  # what others import


def of_something_else(_: Path, folder: Path) -> Path:
    out = folder / "else.tar.gz"
    with tarfile.open(out, "w:gz") as made:
        made.addfile(tarfile.TarInfo("readme"))
    return out


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (no_archive, f"Workers lack the Python package aqueduct: {GIVE}."),
        (damaged, "The archive damaged.tar.gz can't be unpacked (unexpected end of file): pack it again"),
        (
            of_another_python,
            f"The worker {os.uname().nodename} has no python3.99: its environment was packed",
        ),
        (of_another_version, "Workers have another version of Aqueduct than this host: "),
        (of_something_else, "Workers found no ./environment/bin/python in an archive of spark.archives: "),
    ],
)
def test_workers_that_lack_something_are_a_sentence_before_anything_is_written(
    cluster: Cluster,
    brokers: list[Broker],
    topic: str,
    archive: Path,
    tmp_path: Path,
    make: object,
    sentence: str,
) -> None:
    assert callable(make)
    made = make(archive, tmp_path)
    given = ("--conf", f"spark.archives={made}#environment") if made else ()
    # Without an archive workers use what stands in PYSPARK_PYTHON: a Python that is there, and bare.
    variables = {} if made else {"PYSPARK_PYTHON": f"python{sys.version_info.major}.{sys.version_info.minor}"}
    store = tmp_path / "store"
    reached = ("--bootstrap-servers", brokers[0].plaintext, "--store", f"file://{store}", "--topics", topic)
    done = aqueduct(cluster, "backup", *reached, *given, **variables)
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith(f"aqueduct: {sentence}"), done.err
    assert "Traceback" not in done.err
    # The store's own name is written before any work.
    assert [path.name for path in store.rglob("*") if path.is_file()] == ["store.json"]
