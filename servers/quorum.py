"""A KRaft cluster whose controllers are processes of their own, each with its disk, as are the brokers."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from servers.broker import answers, format_folders, new_uuid, parsed
from servers.process import QUICK, Process, free_ports, java, listens

OF_ALL = """
node.id={node_id}
process.roles={role}
controller.quorum.bootstrap.servers={controllers}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners={listeners}
log.dirs={folders}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
"""
OF_BROKERS = """
offsets.topic.replication.factor=2
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True)
class Node:
    node_id: int
    directory: Path
    process: Process
    address: str

    @property
    def data(self) -> Path:
        return self.directory / "data"


@dataclass(frozen=True)
class Quorum:
    """Controllers and brokers, none of which runs."""

    cluster_id: str
    controllers: tuple[Node, ...]
    brokers: tuple[Node, ...]

    @property
    def plaintext(self) -> str:
        return ",".join(each.address for each in self.brokers)

    @contextmanager
    def running(self, *nodes: Node) -> Iterator[None]:
        """Run nodes in this order. Without names, run all: first controllers, then all brokers at once."""
        with ExitStack() as stack, ThreadPoolExecutor() as starting:
            for each in nodes or self.controllers:
                stack.enter_context(each.process.running())
            if not nodes:
                brokers = [each.process.running() for each in self.brokers]
                list(starting.map(stack.enter_context, brokers))
            yield


def formatted(
    directory: Path,
    controllers: int = 1,
    brokers: int = 2,
    settings: Mapping[str, str] | None = None,
    folders: Sequence[str] = ("data",),
) -> Quorum:
    """Format the nodes of a new cluster: controllers from 101 on, brokers from 1 on.

    `settings`: further ones of all nodes, or others. `folders`: names of a broker's data folders.
    """
    ports = free_ports(controllers + brokers)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    voting = ",".join(addresses[:controllers])
    cluster_id = new_uuid()
    ids = [101 + number for number in range(controllers)]
    initial = ",".join(
        f"{node_id}@{address}:{new_uuid()}" for node_id, address in zip(ids, addresses, strict=False)
    )
    nodes = []
    for node_id, address in zip(ids + [1 + number for number in range(brokers)], addresses, strict=True):
        controls = node_id in ids
        folder = directory / f"node-{node_id}"
        folder.mkdir(parents=True)
        properties = folder / "server.properties"
        text = OF_ALL.format(
            node_id=node_id,
            role="controller" if controls else "broker",
            controllers=voting,
            listeners=f"{'CONTROLLER' if controls else 'PLAINTEXT'}://{address}",
            folders=",".join(f"{folder}/{name}" for name in (("data",) if controls else folders)),
        )
        more = "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        properties.write_text(text + ("" if controls else OF_BROKERS) + more)
        if controls:
            _format_voter(properties, cluster_id, initial)
        else:
            format_folders(parsed(properties), cluster_id)
        ready = partial(listens, int(address.rpartition(":")[2])) if controls else answers(address, node_id)
        process = Process(java("kafka.Kafka", properties, jvm=QUICK), folder / "node.log", ready)
        nodes.append(Node(node_id, folder, process, address))
    return Quorum(cluster_id, tuple(nodes[:controllers]), tuple(nodes[controllers:]))


def format_again(cluster: Quorum, node: Node) -> None:
    """Format a broker's data folders that are not formatted any more, as its administrator does."""
    format_folders(parsed(node.directory / "server.properties"), cluster.cluster_id)


def _format_voter(properties: Path, cluster_id: str, initial: str) -> None:
    """Format the storage of a controller. `initial`: the controllers that vote."""
    arguments = ("format", "--cluster-id", cluster_id, "--config", str(properties))
    tool = java("kafka.tools.StorageTool", *arguments, "--initial-controllers", initial)
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the storage was not formatted:\n{done.stdout}{done.stderr}")
