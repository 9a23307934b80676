"""A broker and an S3 server on this machine, each a process of its own, as in production but on one disk.

Tests start their brokers from here, too.
"""

import base64
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

START_SECONDS = 90
KEYS = {"AWS_ACCESS_KEY_ID": "bench-access-key", "AWS_SECRET_ACCESS_KEY": "bench-secret-key"}

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{tls}
log.dirs={directory}/data
log.retention.ms=-1
log.segment.delete.delay.ms=100
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""

# The JVM has both compilers: without C2 a broker is several times slower.
JAVA = ("java", "-Xmx1g")

# As every listener of ours has it: the client shows a certificate, too. Here both have the same one.
TLS = """,SSL://127.0.0.1:{port}
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
"""


@dataclass(frozen=True)
class Node:
    """A broker of one node whose folder is formatted, and the command that starts it."""

    servers: str  # bootstrap servers, without TLS
    command: list[str]
    log: Path

    def answers(self) -> bool:
        try:
            AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=1)
        except KafkaException:
            return False
        return True


def node(directory: Path, java: Sequence[str] = JAVA, tls: str = "") -> Node:
    """Make a node that keeps everything in the directory. SystemExit: the folder can't be formatted.

    `tls`: how a listener with TLS goes on behind the others (TLS), and more properties.
    """
    port, controller = free_ports(2)
    properties, log = directory / "server.properties", directory / "broker.log"
    properties.write_text(PROPERTIES.format(port=port, controller=controller, directory=directory, tls=tls))
    command = [*java, "-cp", f"{os.environ['AQUEDUCT_KAFKA_JARS']}/*"]
    # A UUID as Kafka writes it: 22 characters of base64 for 16 bytes, and no option.
    cluster = "M" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:21] + "A"
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(properties)]
    with log.open("w") as stdout:
        formatted = subprocess.run([*command, *tool], stdout=stdout, stderr=stdout)  # noqa: S603
    if formatted.returncode:
        raise SystemExit(f"{directory} can't be formatted for Kafka; it said:\n{log.read_text()[-2000:]}")
    return Node(f"127.0.0.1:{port}", [*command, "kafka.Kafka", str(properties)], log)


@contextmanager
def broker(directory: Path, tls: str = "") -> Iterator[tuple[str, int]]:
    """A broker of one node; its bootstrap servers, without TLS, and its process. `tls`: see `node`."""
    directory.mkdir()
    made = node(directory, tls=tls)
    with running(made.command, made.log, made.answers) as process:
        yield made.servers, process


@contextmanager
def object_store(directory: Path) -> Iterator[tuple[dict[str, str], int]]:
    """versitygw with the bucket `bench`, without TLS; the environment of who uses it, and its process."""
    (directory / "data/bench").mkdir(parents=True)
    (directory / "iam").mkdir()
    (port,) = free_ports(1)
    command = [os.environ["AQUEDUCT_VERSITYGW"], "--port", f"127.0.0.1:{port}", "--quiet"]
    command += ["--iam-dir", str(directory / "iam"), "posix", str(directory / "data")]
    keys = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}

    def ready() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with running(command, directory / "gateway.log", ready, {"PATH": os.environ["PATH"], **keys}) as process:
        endpoint = f"http://127.0.0.1:{port}"
        region = {"AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        yield {**KEYS, **region, "AWS_ENDPOINT_URL": endpoint}, process


@contextmanager
def running(
    command: list[str], log: Path, ready: Callable[[], bool], environment: dict[str, str] | None = None
) -> Iterator[int]:
    """A process, from when it is ready on; its number."""
    with ExitStack() as stack:
        stdout = stack.enter_context(log.open("a"))
        process = stack.enter_context(
            subprocess.Popen(command, stdout=stdout, stderr=stdout, env=environment)  # noqa: S603
        )
        stack.callback(process.kill)
        await_start(process, ready, log)
        yield process.pid


def await_start(process: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
    """Wait until a process is ready. SystemExit: it ended, or was not within START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} did not start; it said:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
