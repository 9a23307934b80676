"""A real broker for one test session: a KRaft node of its own, with plaintext, mutual TLS and SASL listeners.

Who comes by plaintext is a super user; who comes by TLS may do what ACLs allow. By SASL comes USER, a super
user: by PLAIN at once, by SCRAM once it was made.
"""

import base64
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pki import Authority

START_SECONDS = 90
USER, PASSWORD = "anna", "correct; horse"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL:SASL_SSL,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{plaintext},SSL://127.0.0.1:{tls},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
log.dirs={directory}/data
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=100
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{user}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl.ssl.client.auth=none
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_{user}="{password}";
listener.name.sasl.scram-sha-256.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
"""


class Process:
    """A broker's process, which may be killed and started again: what it wrote stays."""

    def __init__(self, command: Sequence[str | Path], servers: str, log: Path) -> None:
        self._command, self._servers, self._log = command, servers, log

    def start(self) -> None:
        """Return when the broker is ready to be used."""
        with self._log.open("a") as stdout:
            self._process = subprocess.Popen(self._command, stdout=stdout, stderr=stdout)
        _wait_until_ready(self._process, self._servers, self._log)

    def kill(self) -> None:
        """Stop the broker as a host does that loses its power, but for its disks."""
        self._process.kill()
        self._process.wait()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pause the broker: it takes connections, and answers nothing."""
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
    """Yield a broker that keeps everything in the directory, ready to be used."""
    jars = os.environ.get("AQUEDUCT_KAFKA_JARS")
    assert jars, "set AQUEDUCT_KAFKA_JARS to a directory with Kafka's jars: this test runs a real broker"
    java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    plaintext, tls, sasl, controller = free_ports(4)
    authority = Authority(directory / "pki")
    properties = directory / "server.properties"
    properties.write_text(
        PROPERTIES.format(
            plaintext=plaintext,
            tls=tls,
            sasl=sasl,
            user=USER,
            password=PASSWORD,
            controller=controller,
            directory=directory,
            keystore=authority.issue("broker"),
            truststore=authority.certificate,
        )
    )
    log = directory / "broker.log"
    storage_tool = [
        "kafka.tools.StorageTool",
        "format",
        "--cluster-id",
        _cluster_id(),
        "--config",
        properties,
    ]
    with log.open("w") as stdout:
        formatted = subprocess.run([*java, *storage_tool], stdout=stdout, stderr=stdout)
        assert formatted.returncode == 0, log.read_text()
    process = Process([*java, "kafka.Kafka", properties], f"127.0.0.1:{plaintext}", log)
    try:
        process.start()
        yield Broker(*(f"127.0.0.1:{port}" for port in (plaintext, tls, sasl)), authority, process)
    finally:
        process.kill()  # nothing is to be kept


def _wait_until_ready(process: subprocess.Popen[bytes], servers: str, log: Path) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            continue
        return
    raise AssertionError(f"the broker did not start:\n{log.read_text()[-3000:]}")


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _cluster_id() -> str:
    """Return a UUID as Kafka writes it: 22 characters of base64 for 16 bytes, and no option."""
    return "M" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:21] + "A"
