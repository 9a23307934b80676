"""A real Hive metastore on a real PostgreSQL, from AQUEDUCT_HIVE_METASTORE and AQUEDUCT_POSTGRESQL.

Its tarball has no Hadoop, whose jars AQUEDUCT_HADOOP_JARS names, and the tables of its database are made by
its own tool.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.hadoop import JVM, NODE, configure, run
from servers.process import Process, binary, free_ports, listens

COORDINATES = "org.apache.hive:hive-standalone-metastore:3.1.3:tar.gz:bin"
DRIVER = "org.postgresql:postgresql:42.7.4"
PACKAGE = "org.apache.hadoop.hive.metastore"
USER = "hive"  # of the database
NOBODY = 65534  # on this host: PostgreSQL refuses to run as root
STARTING, READY = "starting PostgreSQL", "database system is ready to accept connections"
# It answers nobody who wants its disks: what is lost with the host's power need not be kept.
FAST = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "jit=off")


@dataclass(frozen=True)
class HiveMetastore:
    """A metastore on a port of its own, which it keeps when it is started again."""

    directory: Path
    port: int
    process: Process
    database: Process

    @property
    def url(self) -> str:
        return f"thrift://{NODE}:{self.port}"


def settings(directory: Path, database: int) -> dict[str, str]:
    """Return the metastore's settings, on the database at that port."""
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{NODE}:{database}/postgres",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": USER,
        "metastore.warehouse.dir": f"file://{directory}/warehouse",
        # By default these are classes of all of Hive, which is not here.
        "metastore.expression.proxy": f"{PACKAGE}.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": f"{PACKAGE}.events.EventCleanerTask",
    }


@contextmanager
def database() -> Iterator[tuple[int, Process]]:
    """Yield the port and the process of an empty PostgreSQL, when it takes connections."""
    home = Path(binary("AQUEDUCT_POSTGRESQL")).parent
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="postgresql-") as scratch:
        if os.geteuid() == 0:  # whose folders the other user can't read
            home = shutil.copytree(home, Path(scratch, "postgresql"), symlinks=True)
            os.chown(scratch, NOBODY, NOBODY)
        programs, data = home / "bin", f"{scratch}/data"
        run(_plain([programs / "initdb", "-D", data, "-A", "trust", "-U", USER, "--locale=C.UTF-8", "-N"]))
        listen = ("-p", port, "-k", "", "-c", f"listen_addresses={NODE}")
        log = Path(scratch, "log")

        def ready() -> bool:
            return listens(port) and READY in log.read_text().rpartition(STARTING)[2]

        process = Process(_plain([programs / "postgres", "-D", data, *listen, *FAST]), log, ready)
        with process.running():
            yield port, process


def _plain(command: list[object]) -> list[str]:
    """Return the command as one of a user who is not root."""
    words = [str(each) for each in command]
    if os.geteuid():
        return words
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]


@contextmanager
def running(directory: Path, hadoop: Mapping[str, str] | None = None) -> Iterator[HiveMetastore]:
    """Yield a metastore that keeps all but its database in the directory, when it takes calls.

    `hadoop`: settings of its file systems.
    """
    conf = directory / "conf"
    with database() as (at, process):
        configure(conf, {"metastore-site": settings(directory, at), "core-site": hadoop or {}})
        run(schema_tool(conf, "-initSchema"))
        with serving(directory, process) as server:
            yield server


def schema_tool(conf: Path, *arguments: str) -> list[str]:
    """Return the command of the tool that makes and upgrades the schema."""
    home = f"METASTORE_HOME={binary('AQUEDUCT_HIVE_METASTORE')}"
    return ["env", home, *_java("tools.MetastoreSchemaTool", conf, "-dbType", "postgres", *arguments)]


@contextmanager
def serving(directory: Path, of: Process) -> Iterator[HiveMetastore]:
    """Yield a metastore on a database that has its schema, by the settings that are in the directory."""
    [port] = free_ports(1)
    command = _java("HiveMetaStore", directory / "conf", "-p", str(port))
    environment = {**os.environ, "METASTORE_HOME": binary("AQUEDUCT_HIVE_METASTORE")}
    server = Process(command, directory / "metastore.log", lambda: listens(port), environment)
    with server.running():
        yield HiveMetastore(directory, port, server, of)


def _java(main: str, conf: Path, *arguments: str) -> list[str]:
    jars = (conf, f"{binary('AQUEDUCT_HADOOP_JARS')}/*", f"{binary('AQUEDUCT_HIVE_METASTORE')}/lib/*")
    return ["java", *JVM, "-cp", ":".join(map(str, jars)), f"{PACKAGE}.{main}", *arguments]
