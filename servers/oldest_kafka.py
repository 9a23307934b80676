"""The oldest broker that clients of Kafka 3.9 read (KIP-97): 0.10.0, which runs on today's Java.

Kafka 4's clients want 2.1 (KIP-896). Its jars are in AQUEDUCT_OLDEST_KAFKA_JARS. A topic that is written to
or asked for is made, with two partitions.
"""

from pathlib import Path

from servers.process import QUICK, Process, binary, free_ports, listens
from servers.zookeeper import LOGGING, OlderBroker

VERSION = "0.10.0.1"
COORDINATES = f"org.apache.kafka:kafka_2.11:{VERSION}"
PROPERTIES = """
broker.id=1
zookeeper.connect={connect}
listeners=PLAINTEXT://{servers}
log.dirs={directory}/data
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
log.cleaner.dedupe.buffer.size=2097152
"""


def broker(connect: str, directory: Path) -> OlderBroker:
    """Return a broker that goes on with what the directory has."""
    directory.mkdir(exist_ok=True)
    (port,) = free_ports(1)
    servers = f"127.0.0.1:{port}"
    properties = directory / "server.properties"
    properties.write_text(PROPERTIES.format(connect=connect, servers=servers, directory=directory))
    command = ["java", *QUICK, LOGGING, "-cp", f"{binary('AQUEDUCT_OLDEST_KAFKA_JARS')}/*", "kafka.Kafka"]
    process = Process([*command, str(properties)], directory / "broker.log", lambda: listens(port))
    return OlderBroker(servers, process)
