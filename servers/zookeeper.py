"""A real ZooKeeper, from the jars in AQUEDUCT_OLDER_KAFKA_JARS: the last Kafka that has it brings it."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.pki import Authority
from servers.process import QUICK, Process, binary, free_ports

VERSION = "3.9.2"  # of Kafka
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
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return done.stdout


def java(main: str, *arguments: str, jvm: tuple[str, ...] = ()) -> list[str]:
    """Return the command of a class of ZooKeeper."""
    return ["java", *QUICK, *jvm, "-cp", f"{binary('AQUEDUCT_OLDER_KAFKA_JARS')}/*", main, *arguments]


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
