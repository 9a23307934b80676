"""A real ZooKeeper, and brokers that keep their metadata there: the last Kafka that does, and that brings it.

Their jars are in AQUEDUCT_OLDER_KAFKA_JARS.
"""

import os
import socket
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aqueduct.estate.schema_registry import properties_file
from aqueduct.estate.zookeeper import Server, settings
from aqueduct.recovery.zookeeper.quorum_keys import QuorumKeys
from servers.broker import answers
from servers.pki import Authority
from servers.process import QUICK, START_SECONDS, Process, binary, free_ports

VERSION = "3.9.2"  # of Kafka
LOG = Path(__file__).resolve().parents[1] / "roles/artifact/files/log4j.properties"
LOGGING = f"-Dlog4j.configuration=file:{LOG}"
SETTINGS = """
tickTime=500
initLimit=20
syncLimit=10
dataDir={directory}/data
clientPortAddress=127.0.0.1
clientPort={port}
admin.enableServer=false
4lw.commands.whitelist=srvr
maxClientCnxns=0
"""
TLS = """
secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
ssl.clientAuth=need
ssl.keyStore.location={keystore}
ssl.keyStore.type=PEM
ssl.trustStore.location={truststore}
ssl.trustStore.type=PEM
"""
BROKER = """
broker.id={node_id}
zookeeper.connect={connect}
zookeeper.session.timeout.ms=10000
zookeeper.connection.timeout.ms=120000
zookeeper.set.acl=false
listeners=PLAINTEXT://{servers}
log.dirs={directory}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions={coordinators}
group.initial.rebalance.delay.ms=0
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:ANONYMOUS
"""


@dataclass(frozen=True)
class ZooKeeper:
    """A server, with a port for plaintext and, with an authority, one for mutual TLS."""

    directory: Path
    process: Process
    port: int
    secure_port: int | None

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    def shell(self, *command: str) -> str:
        """Return what ZooKeeper's own client says to a command; RuntimeError if it fails."""
        argv = [*java("org.apache.zookeeper.ZooKeeperMain"), "-server", self.connect, *command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=180)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return done.stdout


def java(main: str, *arguments: str, jvm: tuple[str, ...] = ()) -> list[str]:
    """Return the command of a class of ZooKeeper, or of Kafka 3.9; it logs, as the roles have it."""
    jars = f"{binary('AQUEDUCT_OLDER_KAFKA_JARS')}/*"
    return ["java", *QUICK, LOGGING, *jvm, "-cp", jars, main, *arguments]


def said(port: int, word: str = "srvr") -> str:
    """Return what a server says to a four-letter word; nothing while it isn't there."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as there:
            there.sendall(word.encode())
            return b"".join(iter(lambda: there.recv(4096), b"")).decode()
    except OSError:
        return ""


@contextmanager
def running(
    directory: Path, authority: Authority | None = None, *, jvm: tuple[str, ...] = (), more: str = ""
) -> Iterator[ZooKeeper]:
    """Yield a server that keeps everything in the directory; `more`: settings."""
    port, secure = free_ports(2)
    settings = SETTINGS.format(directory=directory, port=port) + more
    if authority:
        keystore = authority.issue("zookeeper")
        settings += TLS.format(port=secure, keystore=keystore, truststore=authority.certificate)
    (directory / "zoo.cfg").write_text(settings)
    command = java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(directory / "zoo.cfg"), jvm=jvm)
    process = Process(command, directory / "log", lambda: bool(said(port)))
    with process.running():
        yield ZooKeeper(directory, process, port, secure if authority else None)


@contextmanager
def ensemble(directory: Path, many: int = 3) -> Iterator[list[ZooKeeper]]:
    """Yield servers that keep one tree, after they have chosen a leader."""
    ports = iter(free_ports(2 * many))
    members = "".join(
        f"server.{number}=127.0.0.1:{next(ports)}:{next(ports)}\n" for number in range(1, many + 1)
    )
    folders = [directory / str(number) for number in range(1, many + 1)]
    for folder in folders:
        (folder / "data").mkdir(parents=True)
        (folder / "data/myid").write_text(folder.name)
    with ExitStack() as stack, ThreadPoolExecutor() as starting:
        contexts = [running(folder, more=members) for folder in folders]
        servers = list(starting.map(stack.enter_context, contexts))
        deadline = time.monotonic() + START_SECONDS
        while not all("Mode: " in said(each.port) for each in servers):
            if time.monotonic() > deadline:
                raise RuntimeError("the servers chose no leader")
            time.sleep(0.1)
        yield servers


def leader(servers: Iterable[ZooKeeper]) -> ZooKeeper:
    """Return the server that the others follow."""
    [found] = [each for each in servers if "Mode: leader" in said(each.port)]
    return found


@contextmanager
def estates_ensemble(directory: Path, authority: Authority, size: int = 3) -> Iterator[dict[Server, Process]]:
    """Yield the servers of an ensemble with mutual TLS, as an estate's role has it, each with its process."""
    places = [free_ports(3) for _ in range(size)]
    servers = [
        Server(
            host=f"host-{n}",
            server_id=n,
            name="127.0.0.1",
            port=port,
            quorum_port=quorum_port,
            election_port=election_port,
        )
        for n, (port, quorum_port, election_port) in enumerate(places, start=1)
    ]
    homes = {server: directory / str(server.server_id) for server in servers}
    for server, home in homes.items():
        configure(server, servers, home, authority)
    trust_each_other(homes.values())
    with ExitStack() as stack:
        yield {server: stack.enter_context(server_process(home).running()) for server, home in homes.items()}


def configure(server: Server, ensemble: list[Server], home: Path, authority: Authority) -> None:
    """Write the files of a server of an ensemble into its folder, as an estate's role does."""
    (home / "quorum").mkdir(parents=True)
    key = home / "service.pem"
    key.write_bytes(authority.issue("zookeeper-old").read_bytes())
    ca = str(authority.certificate)
    own = settings(
        server.server_id,
        ensemble,
        directory=str(home),
        key=str(key),
        ca=ca,
        super_user="CN=zookeeper-old",
        quorum=str(home / "quorum"),
    )
    own |= {"admin.enableServer": "false"}  # its port is not one of ours
    (home / "myid").write_text(f"{server.server_id}\n")
    (home / "zoo.cfg").write_text(properties_file(own))
    quorum_keys(home).offer(key, in_use=False)


def quorum_keys(home: Path) -> QuorumKeys:
    return QuorumKeys(home / "quorum", os.getuid(), os.getgid())


def trust_each_other(homes: Collection[Path], *more: str) -> None:
    """Have servers trust what each of them shows and offers, and `more`."""
    every = [quorum_keys(home).certificates() for home in homes]
    for home in homes:
        quorum_keys(home).trust([pem for each in every for pem in (each.used, each.offered)] + [*more])


def server_process(home: Path) -> Process:
    """Return the process of a server whose files are in its folder; nobody waits until it serves."""
    command = java("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg"))
    return Process(command, home / "log", lambda: True)


@dataclass(frozen=True)
class OlderBroker:
    """A broker of Kafka 3.9 whose metadata is in ZooKeeper. Who asks it may do all."""

    plaintext: str  # bootstrap servers
    process: Process


def broker(
    connect: str,
    node_id: int,
    directory: Path,
    coordinators: int = 2,
    *,
    jvm: tuple[str, ...] = (),
    more: str = "",
) -> OlderBroker:
    """Return a broker that goes on with what the directory has; `more`: settings, {servers} filled in."""
    directory.mkdir(exist_ok=True)
    servers = f"127.0.0.1:{free_ports(1)[0]}"
    properties = directory / "server.properties"
    properties.write_text(
        (BROKER + more).format(
            node_id=node_id, connect=connect, servers=servers, directory=directory, coordinators=coordinators
        )
    )
    command, log = java("kafka.Kafka", str(properties), jvm=jvm), directory / "broker.log"
    return OlderBroker(servers, Process(command, log, answers(servers, node_id)))
