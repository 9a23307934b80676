"""A real Hadoop: HDFS and YARN with a node each."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import hdfs
from servers.hadoop import NODE, configure, java, page
from servers.process import Process, free_ports

MEMORY_MB, CORES = 6144, 6  # what applications may have: two, each of a driver and two executors


@dataclass(frozen=True)
class Hadoop:
    """HDFS and YARN on ports of their own."""

    directory: Path
    files: str  # HDFS's URL
    pages: str  # of the ResourceManager

    @property
    def environment(self) -> dict[str, str]:
        """Return what Spark's `--master yarn` needs."""
        return {"HADOOP_CONF_DIR": str(self.directory / "conf"), "SPARK_LOCAL_IP": NODE}

    def applications(self) -> list[dict[str, Any]]:
        """Return what the ResourceManager says of all applications."""
        found: dict[str, Any] = json.loads(page(f"{self.pages}/ws/v1/cluster/apps"))
        return list((found["apps"] or {}).get("app", []))

    def containers(self) -> list[str]:
        """Return the logs of all containers."""
        return [each.read_text() for each in sorted((self.directory / "logs").rglob("std*"))]


@contextmanager
def running(directory: Path, **variables: str) -> Iterator[Hadoop]:
    """Yield a Hadoop that keeps everything in the directory, with its nodes ready.

    `variables`: of its hosts' environment.
    """
    conf = directory / "conf"
    names = (
        "clients",
        "scheduler",
        "tracker",
        "admin",
        "pages",
        "node",
        "localizer",
        "node_page",
        "collector",
    )
    at = hdfs.ports()
    at |= {name: f"{NODE}:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    configure(conf, hdfs.settings(directory, at) | _settings(directory, at))
    environment = {**os.environ, "HADOOP_CONF_DIR": str(conf), "JAVA_HOME": str(_java_home()), **variables}
    hdfs.format_names(conf)
    metrics = f"http://{at['pages']}/ws/v1/cluster/metrics"

    def server(main: str, said: str) -> Process:
        log = directory / f"{main.rpartition('.')[2]}.log"
        return Process(java(main, conf), log, lambda: said in page(metrics), environment)

    servers = (
        *hdfs.nodes(directory, conf, at, environment),
        server("yarn.server.resourcemanager.ResourceManager", '"activeNodes":0'),
        server("yarn.server.nodemanager.NodeManager", '"activeNodes":1'),
    )
    with ExitStack() as stack:
        for each in servers:
            stack.enter_context(each.running())
        # Before it is killed the node ends its containers, which would outlive it.
        stack.callback(_end, servers[-1].id)
        yield Hadoop(directory, f"hdfs://{at['files']}", f"http://{at['pages']}")


def _settings(directory: Path, at: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return YARN's settings, by file: every address is of this host."""
    return {
        "yarn-site": {
            "yarn.resourcemanager.hostname": NODE,
            "yarn.resourcemanager.address": at["clients"],
            "yarn.resourcemanager.scheduler.address": at["scheduler"],
            "yarn.resourcemanager.resource-tracker.address": at["tracker"],
            "yarn.resourcemanager.admin.address": at["admin"],
            "yarn.resourcemanager.webapp.address": at["pages"],
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.hostname": NODE,
            "yarn.nodemanager.address": at["node"],
            "yarn.nodemanager.localizer.address": at["localizer"],
            "yarn.nodemanager.webapp.address": at["node_page"],
            "yarn.nodemanager.collector-service.address": at["collector"],
            "yarn.nodemanager.local-dirs": f"{directory}/local",
            "yarn.nodemanager.log-dirs": f"{directory}/logs",
            "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
            "yarn.nodemanager.resource.cpu-vcores": str(CORES),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
        },
        "capacity-scheduler": {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
        },
    }


def _java_home() -> Path:
    return Path(str(shutil.which("java"))).resolve().parents[1]


def _end(process: int) -> None:
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)
