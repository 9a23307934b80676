"""A real HDFS: a NameNode and a DataNode, each of which may be killed and started again."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.hadoop import NODE, configure, java, page, run
from servers.process import Process, free_ports, listens

PORTS = ("files", "files_page", "data", "data_page", "data_ipc")
HEAP = ("-Xmx256m",)


@dataclass(frozen=True)
class HdfsServer:
    """HDFS on ports of its own. Its superuser is who started it."""

    directory: Path
    url: str
    name_node: Process
    data_node: Process

    def shell(self, *arguments: str) -> str:
        """Return what Hadoop's own `hdfs dfs` says; RuntimeError if it fails."""
        return run(java("fs.FsShell", self.directory / "conf", *arguments, jvm=HEAP))

    def admin(self, *arguments: str) -> str:
        """Return what Hadoop's own `hdfs dfsadmin` says; RuntimeError if it fails."""
        return run(java("hdfs.tools.DFSAdmin", self.directory / "conf", *arguments, jvm=HEAP))


def ports() -> dict[str, str]:
    """Return addresses that nobody has, by the names of PORTS."""
    return {name: f"{NODE}:{port}" for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)}


def settings(directory: Path, at: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return HDFS's settings, by file: every address is of this host."""
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
            # Else each file takes 0.4 s to close, until the DataNode has told of its block.
            "dfs.namenode.file.close.num-committed-allowed": "1",
        },
    }


def format_names(conf: Path) -> None:
    """Make a new NameNode's empty file system."""
    run(java("hdfs.server.namenode.NameNode", conf, "-format", "-nonInteractive", jvm=HEAP))


def nodes(
    directory: Path, conf: Path, at: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> tuple[Process, Process]:
    """Return a NameNode, which may be in safe mode when it is ready, and a DataNode."""
    state = f"http://{at['files_page']}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"

    def node(main: str, ready: Callable[[], bool]) -> Process:
        log = directory / f"{main.rpartition('.')[2]}.log"
        return Process(java(main, conf, jvm=HEAP), log, ready, environment)

    data = int(at["data"].rpartition(":")[2])
    return (
        node("hdfs.server.namenode.NameNode", lambda: '"FSState"' in page(state)),
        node(
            "hdfs.server.datanode.DataNode",
            lambda: listens(data) and '"NumLiveDataNodes" : 1' in page(state),
        ),
    )


@contextmanager
def running(directory: Path) -> Iterator[HdfsServer]:
    """Yield an HDFS that keeps everything in the directory, when it can be written."""
    conf, at = directory / "conf", ports()
    configure(conf, settings(directory, at))
    format_names(conf)
    name_node, data_node = nodes(directory, conf, at, {**os.environ, "HADOOP_CONF_DIR": str(conf)})
    with name_node.running(), data_node.running():
        yield HdfsServer(directory, f"hdfs://{at['files']}", name_node, data_node)
