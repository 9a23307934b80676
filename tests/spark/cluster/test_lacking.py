"""Workers that have Spark and Python alone, and what they are given instead of what they lack."""

import os
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import drivers
import pytest
from drivers import LEAST, ROOT, Run, aqueduct

from aqueduct.work import environment
from aqueduct.work.spark_errors import GIVE, OTHER_VERSION
from servers.broker import Broker
from servers.spark import Cluster


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


def of_another_python(_: Path, folder: Path) -> Path:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    launcher = environment.LAUNCHER.format(python="3.99", machine=os.uname().machine)
    assert python not in launcher
    entry = tarfile.TarInfo("bin/python")
    entry.size, entry.mode = len(launcher), 0o755
    with tarfile.open(out := folder / "other.tar.gz", "w:gz") as made:  # nothing else of it is reached
        made.addfile(entry, BytesIO(launcher.encode()))
    return out


def of_another_version(archive: Path, folder: Path) -> Path:
    return changed(
        archive, folder / "old.tar.gz", "lib/aqueduct/common/wording.py", b""
    )  # what others import


def of_almost_the_same_version(archive: Path, folder: Path) -> Path:
    """All can be imported, and all is there that tasks name."""
    name = "aqueduct/common/wording.py"
    return changed(archive, folder / "like.tar.gz", f"lib/{name}", (ROOT / name).read_bytes() + b"# other\n")


def of_something_else(_: Path, folder: Path) -> Path:
    out = folder / "else.tar.gz"
    with tarfile.open(out, "w:gz") as made:
        made.addfile(tarfile.TarInfo("readme"))
    return out


CASES = {
    no_archive: f"Workers lack the Python package aqueduct. {GIVE}.",
    damaged: "Workers cannot unpack the archive damaged.tar.gz: unexpected end of file. ",
    of_another_python: f"The worker {os.uname().nodename} has no python3.99: its environment is for ",
    of_another_version: OTHER_VERSION,
    of_almost_the_same_version: OTHER_VERSION,
    of_something_else: "Workers found no ./environment/bin/python in the archives of spark.archives. ",
}


@pytest.fixture(scope="module")
def ended(
    cluster: Cluster,
    brokers: list[Broker],
    topic: str,
    archive: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Run, Path]]:
    """Return how a backup ended, and its store, for each case."""
    commands, stores = {}, {}
    for make in CASES:
        folder = tmp_path_factory.mktemp("case")
        made = make(archive, folder)
        given = ("--conf", f"spark.archives={made}#environment") if made else ()
        # Without an archive workers use what stands in PYSPARK_PYTHON: a Python that is there, and bare.
        python = None if made else f"python{sys.version_info.major}.{sys.version_info.minor}"
        store = stores[make.__name__] = folder / "store"
        reached = ("--bootstrap-server", brokers[0].plaintext, "--store", f"file://{store}")
        at = ("--master", cluster.url, "--wait", "180s", *LEAST)
        command = aqueduct("backup", *reached, "--topics", topic, *at, *given)
        commands[make.__name__] = command, {"PYSPARK_PYTHON": python}
    runs = drivers.ended_all(cluster, commands)
    return {name: (run, stores[name]) for name, run in runs.items()}


@pytest.mark.parametrize(("case", "sentence"), [(make.__name__, said) for make, said in CASES.items()])
def test_unsuitable_workers_are_reported_before_any_write(
    ended: dict[str, tuple[Run, Path]], case: str, sentence: str
) -> None:
    run, store = ended[case]
    assert run.code == 1
    assert run.last.startswith(f"aqueduct: [spark-environment-mismatch] {sentence}"), run.page
    assert "Traceback" not in run.page
    # The store's own name is written before any work.
    assert [path.name for path in store.rglob("*") if path.is_file()] == ["store.json"]
