"""python -m demo.fetch: brings what the lab's hosts need into the cache, one thing beside the other.

playbooks/hosts.yml would fetch it, too, but after the containers are up. Of what is there, nothing is said.
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from aqueduct.control_node import artifacts
from aqueduct.control_node.artifacts import Artifact
from aqueduct.errors import AqueductError

ROOT = Path(__file__).resolve().parents[1]
LAB_PYTHON = "3.11"  # of Debian 12


def version(role: str) -> str:
    """Read the version that a role has by default."""
    defaults = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())
    return str(defaults[f"{role}_version"])


def metastore_files() -> list[str]:
    """Read the coordinates of the metastore's files."""
    files = yaml.safe_load((ROOT / "roles/hive_metastore/vars/main.yml").read_text())
    names = ("_hive_metastore_programs", "_hive_metastore_driver")
    number = version("hive_metastore")
    return [files[name]["maven"].replace("{{ hive_metastore_version }}", number) for name in names]


def wanted(cache: str) -> dict[str, Callable[[], Artifact]]:
    """List what is fetched, the slowest first."""
    kafka, versitygw, hadoop = version("kafka"), version("object_store"), version("hdfs")
    locks = sorted(path for path in (ROOT / "locks").glob("*.txt") if path.stem != "controller")
    locks.sort(key=lambda path: -path.stat().st_size)

    def file(maven: str) -> Callable[[], Artifact]:
        lock = str(ROOT / "artifacts/files.sha256")
        return lambda: artifacts.single_file(maven=maven, url=None, sha256=None, lock=lock, cache=cache)

    def wheels(lock: Path) -> Callable[[], Artifact]:
        return lambda: artifacts.wheelhouse(lock=str(lock), python=LAB_PYTHON, cache=cache)

    return {
        "the object store": lambda: artifacts.versitygw(
            version=versitygw,
            source="go",
            archive_url=None,
            archive_sha256=None,
            lock=str(ROOT / f"artifacts/versitygw-{versitygw}.sha256"),
            toolchain=str(ROOT / "artifacts/go.txt"),
            cache=cache,
        ),
        f"Kafka {kafka}": lambda: artifacts.kafka_jars(
            version=kafka,
            source="maven",
            archive_url=None,
            archive_sha256=None,
            lock=str(ROOT / f"artifacts/kafka-{kafka}.sha256"),
            cache=cache,
        ),
        f"Hadoop {hadoop}": lambda: artifacts.hadoop_jars(
            version=hadoop, lock=str(ROOT / f"artifacts/hadoop-{hadoop}.sha256"), cache=cache
        ),
        **{maven.split(":")[1]: file(maven) for maven in metastore_files()},
        **{f"the wheels of {lock.stem}": wheels(lock) for lock in locks},
    }


def fetch(name: str, bring: Callable[[], Artifact]) -> bool:
    """Bring one thing, and say how it went."""
    started = time.monotonic()
    try:
        if bring().fetched:
            print(f"      fetched {name} in {time.monotonic() - started:.0f} s", flush=True)
    except AqueductError as error:
        print(f"      could not fetch {name}: {error}", flush=True)
        return False
    return True


def main() -> None:
    cache = os.environ["AQUEDUCT_CACHE"]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(fetch, *zip(*wanted(cache).items(), strict=True)))
    sys.exit(not all(done))


if __name__ == "__main__":
    main()
