"""A real Hadoop: HDFS and YARN with a node each, from the jars in AQUEDUCT_HADOOP_JARS.

There is no distribution: each server is a class. What its scripts would bring stands here: settings, a
log4j.properties (else they are silent), folders of web pages (else HDFS ends) and Java 17's open packages.
"""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from servers.process import QUICK, Process, binary, free_ports

VERSION = "3.4.1"
# The jars, by Maven: what the modules themselves bring is neither all nor of one version.
COORDINATES = (
    *(f"org.apache.hadoop:hadoop-{module}:{VERSION}" for module in ("common", "hdfs", "hdfs-client")),
    *(
        f"org.apache.hadoop:hadoop-yarn-server-{module}:{VERSION}"
        for module in ("resourcemanager", "nodemanager", "timelineservice")
    ),
    "com.fasterxml.jackson.core:jackson-core:2.12.7",
)
LOG = """
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
NODE = "127.0.0.1"
MEMORY_MB, CORES = 6144, 6  # what applications may have: two, each of a driver and two executors
JVM = (*QUICK, "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED")


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
        found: dict[str, Any] = json.loads(_get(f"{self.pages}/ws/v1/cluster/apps"))
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
    for folder in ("webapps/hdfs", "webapps/datanode"):
        (conf / folder).mkdir(parents=True)
    (conf / "log4j.properties").write_text(LOG)
    names: tuple[str, ...] = ("files", "files_page", "data", "data_page", "data_ipc")
    names += (
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
    at = {name: f"{NODE}:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    for file, settings in _settings(directory, at).items():
        (conf / f"{file}.xml").write_text(_xml(settings))
    environment = {**os.environ, "HADOOP_CONF_DIR": str(conf), "JAVA_HOME": str(_java_home()), **variables}
    _run(_java("hdfs.server.namenode.NameNode", conf, "-format", "-nonInteractive"))

    def server(main: str, page: str, said: str) -> Process:
        log = directory / f"{main.rpartition('.')[2]}.log"
        return Process(_java(main, conf), log, lambda: said in _get(page), environment)

    live = f"http://{at['files_page']}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    metrics = f"http://{at['pages']}/ws/v1/cluster/metrics"
    servers = (
        server("hdfs.server.namenode.NameNode", live, '"FSState" : "Operational"'),
        server("hdfs.server.datanode.DataNode", live, '"NumLiveDataNodes" : 1'),
        server("yarn.server.resourcemanager.ResourceManager", metrics, '"activeNodes":0'),
        server("yarn.server.nodemanager.NodeManager", metrics, '"activeNodes":1'),
    )
    with ExitStack() as stack:
        for each in servers:
            stack.enter_context(each.running())
        # Before it is killed the node ends its containers, which would outlive it.
        stack.callback(_end, servers[-1].id)
        yield Hadoop(directory, f"hdfs://{at['files']}", f"http://{at['pages']}")


def _settings(directory: Path, at: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return all settings, by file: every address is of this host."""
    return {
        "core-site": {
            "fs.defaultFS": f"hdfs://{at['files']}",
            "hadoop.tmp.dir": f"{directory}/scratch",
        },
        "hdfs-site": {
            "dfs.namenode.rpc-address": at["files"],
            "dfs.namenode.http-address": at["files_page"],
            "dfs.namenode.name.dir": f"{directory}/names",
            "dfs.datanode.hostname": NODE,
            "dfs.datanode.address": at["data"],
            "dfs.datanode.http.address": at["data_page"],
            "dfs.datanode.ipc.address": at["data_ipc"],
            "dfs.datanode.data.dir": f"{directory}/blocks",
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
        },
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


def _xml(settings: Mapping[str, str]) -> str:
    found = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{''.join(found)}</configuration>"


def _java(main: str, conf: Path, *arguments: str) -> list[str]:
    jars = f"{conf}:{binary('AQUEDUCT_HADOOP_JARS')}/*"
    return ["java", *JVM, "-cp", jars, f"org.apache.hadoop.{main}", *arguments]


def _java_home() -> Path:
    return Path(str(shutil.which("java"))).resolve().parents[1]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{command[-3:]} failed:\n{done.stderr[-3000:]}")


def _get(url: str) -> str:
    """Return a page; nothing while there is none."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return str(answer.read(), "utf-8")
    except OSError:
        return ""


def _end(process: int) -> None:
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)
