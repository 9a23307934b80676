"""A real broker for one test session: a KRaft node of its own, with plaintext, mutual TLS and SASL listeners.

Who comes by plaintext is a super user; who comes by TLS may do what ACLs allow. By SASL comes USER, a super
user: by PLAIN at once, by SCRAM once it was made.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pki import Authority

from bench import servers

# A test's broker has little to do, and is to be there soon.
JAVA = ("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
RIGHTS = """
log.cleaner.backoff.ms=100
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


class Process:
    """A broker's process, which may be killed and started again: what it wrote stays."""

    def __init__(self, node: servers.Node) -> None:
        self._node = node

    def start(self) -> None:
        """Return when the broker is ready to be used."""
        with self._node.log.open("a") as stdout:
            self._process = subprocess.Popen(self._node.command, stdout=stdout, stderr=stdout)
        servers.await_start(self._process, self._node.answers, self._node.log)

    def kill(self) -> None:
        """As a host does that loses its power, but for its disks."""
        self._process.kill()
        self._process.wait()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It takes connections, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@dataclass(frozen=True)
class Broker:
    plaintext: str  # bootstrap servers
    tls: str
    sasl: str
    authority: Authority
    process: Process


@contextmanager
def running(directory: Path) -> Iterator[Broker]:
    """A broker that keeps everything in the directory, ready to be used."""
    jars = os.environ.get("AQUEDUCT_KAFKA_JARS")
    assert jars, "set AQUEDUCT_KAFKA_JARS to a directory with Kafka's jars: this test runs a real broker"
    (port,) = servers.free_ports(1)
    authority = Authority(directory / "pki")
    stores = {"keystore": authority.issue("broker"), "truststore": authority.certificate}
    node = servers.node(directory, JAVA, servers.TLS.format(port=port, **stores) + RIGHTS)
    process = Process(node)
    try:
        process.start()
        yield Broker(node.servers, f"127.0.0.1:{port}", authority, process)
    finally:
        process.kill()  # nothing is to be kept
