"""A real Spark cluster: a standalone master and workers of one core, with a secret and encrypted RPC."""

import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from aqueduct.work import jvm
from servers.process import Process, free_ports, listens

HOME = Path(pyspark.__file__).parent
SECRET = "tests-only-secret"  # noqa: S105


@dataclass(frozen=True)
class Cluster:
    """A cluster on ports of its own."""

    directory: Path
    port: int
    web: int
    master: Process
    workers: Sequence[Process]

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return what a driver needs: the secret, and where it is reached."""
        return {"SPARK_CONF_DIR": str(self.directory / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}

    def state(self) -> dict[str, Any]:
        """Return the state of the master: its workers, and the applications that it has seen."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/json/") as answer:
            return dict(json.load(answer))

    def applications(self) -> list[dict[str, Any]]:
        """Return the applications that the master has seen."""
        found = self.state()
        return [*found["activeapps"], *found["completedapps"]]


@contextmanager
def running(directory: Path, workers: int = 2, **variables: str) -> Iterator[Cluster]:
    """Yield a cluster that keeps everything in the directory; `variables`: of its hosts' environment."""
    conf = directory / "conf"
    conf.mkdir()
    light = f"{jvm.LIGHT} {jvm.sharing()}"
    defaults = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.authEngineVersion": "2",
        "spark.network.crypto.saslFallback": "false",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        # Drivers of spark-submit start as lightly as ours.
        "spark.driver.defaultJavaOptions": light,
        "spark.driver.extraClassPath": jvm.jars(),
    }
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in defaults.items()))
    port, web, *webs = free_ports(2 + workers)
    environment = {
        **os.environ,
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(HOME),
        **variables,
    }
    environment |= {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": light,
        "SPARK_DAEMON_CLASSPATH": jvm.jars(),
    }

    def process(name: str, kind: str, page: int, *options: str) -> Process:
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        command += ["--webui-port", str(page), *options]
        return Process(command, directory / f"{name}.log", lambda: listens(page), environment)

    master = process("master", "master.Master", web, "--port", str(port))
    own = (
        "--cores",
        "1",
        "--memory",
        "1g",
        "--work-dir",
        str(directory / "work"),
        f"spark://127.0.0.1:{port}",
    )
    every = [process(f"worker-{n}", "worker.Worker", page, *own) for n, page in enumerate(webs)]
    with ExitStack() as stack:
        for each in (master, *every):
            stack.enter_context(each.running())
        yield Cluster(directory, port, web, master, every)
