"""A broker and an S3 server on this machine, each a process of its own, as in production but on one disk.

The broker's JVM has both compilers: without C2 it is several times slower.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

START_SECONDS = 90
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
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

# As every listener of ours has it: the client shows a certificate, too. Here both have the same one.
TLS = """,SSL://127.0.0.1:{port}
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
"""


@contextmanager
def broker(directory: Path, tls: str = "") -> Iterator[tuple[str, int]]:
    """Yield a broker of one node; its bootstrap servers, without TLS, and its process.

    `tls`: how a listener with TLS follows the others, if it is to have one (TLS)."""
    directory.mkdir()
    java = ["java", "-Xmx1g", "-cp", f"{os.environ['AQUEDUCT_KAFKA_JARS']}/*"]
    port, controller = free_ports(2)
    properties = directory / "server.properties"
    properties.write_text(PROPERTIES.format(port=port, controller=controller, directory=directory, tls=tls))
    log = directory / "broker.log"
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties)]
    with log.open("w") as stdout:
        subprocess.run([*java, *tool], stdout=stdout, stderr=stdout, check=True)  # noqa: S603
    servers = f"127.0.0.1:{port}"
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def ready() -> bool:
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    with running([*java, "kafka.Kafka", str(properties)], log, ready) as process:
        yield servers, process


@contextmanager
def object_store(directory: Path) -> Iterator[tuple[dict[str, str], int]]:
    """Run versitygw with the bucket `bench`, without TLS; yield its users' environment, and its process."""
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
    """Run a process; yield its id from when it is ready on."""
    with ExitStack() as stack:
        stdout = stack.enter_context(log.open("a"))
        process = stack.enter_context(
            subprocess.Popen(command, stdout=stdout, stderr=stdout, env=environment)  # noqa: S603
        )
        stack.callback(process.kill)
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command[0]} did not start; it said:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield process.pid


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
