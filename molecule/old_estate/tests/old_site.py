"""The old site: its brokers asked by librdkafka, its ZooKeeper by ZooKeeper's own client."""

import json
from dataclasses import dataclass
from typing import Any

from lab import Lab

ENSEMBLE, SECOND = "old-kafka-1", "old-kafka-2"
BROKERS = {ENSEMBLE: 11, SECOND: 12}
LAKE, LAKE_SECOND = "lake-kafka-1", "lake-kafka-2"
KAFKA = "/etc/aqueduct/kafka"
LOG = "/var/lib/kafka/log"
JARS = "/opt/aqueduct/kafka-3.9.2/libs/*"
# How ZooKeeper's own client comes with a certificate: a PEM file of a host, with the estate's authority.
CLIENT = """
zookeeper.client.secure=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keyStore.location={key}
zookeeper.ssl.keyStore.type=PEM
zookeeper.ssl.trustStore.location={ca}
zookeeper.ssl.trustStore.type=PEM
"""
RECORDS = 200
BROKER_KEY, BROKER_CA = f"{KAFKA}/tls/kafka-old.pem", f"{KAFKA}/tls/ca.pem"


@dataclass(frozen=True)
class OldSite:
    lab: Lab

    def shell(self, *command: str, key: str = BROKER_KEY) -> str:
        """Return what ZooKeeper's client says to a command on a broker's host; its errors, if it fails."""
        self.lab.run(
            *(SECOND, "sh", "-c", "umask 077; cat > /run/zookeeper-client"),
            stdin=CLIENT.format(key=key, ca=BROKER_CA),
        )
        done = self.lab.run(
            *(SECOND, "java", "-XX:TieredStopAtLevel=1", "-cp", JARS, "org.apache.zookeeper.ZooKeeperMain"),
            *("-waitforconnection", "-server", f"{ENSEMBLE}:2182"),
            *("-client-configuration", "/run/zookeeper-client", *command),
            check=False,
        )
        return done.stderr if done.returncode else done.stdout

    def with_key_of(self, principal: str) -> str:
        """Bring a client's key, signed by the estate's authority, to a broker's host; its path there."""
        path = f"/run/{principal}.pem"
        pem = (self.lab.pki / f"clients/{principal}.pem").read_text()
        self.lab.run(SECOND, "sh", "-c", f"umask 077; cat > {path}", stdin=pem)
        return path

    def meta(self, host: str) -> dict[str, str]:
        """Return a data folder's meta.properties."""
        lines = self.lab.run(host, "cat", f"{LOG}/meta.properties").stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def write_meta(self, host: str, name: str, value: str) -> None:
        """Change a data folder's meta.properties by hand."""
        self.lab.run(host, "sed", "-i", f"s/^{name}=.*/{name}={value}/", f"{LOG}/meta.properties")

    def ids(self, host: str = ENSEMBLE) -> set[int]:
        return set(self.lab.admin(host).list_topics(timeout=60).brokers)

    def is_whole(self) -> bool:
        """Return whether both brokers are there, and each partition has a leader and all replicas in sync."""
        found = self.lab.admin(ENSEMBLE).list_topics(timeout=60)
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        return {*found.brokers} == {*BROKERS.values()} and all(
            each.leader >= 0 and {*each.isrs} == {*each.replicas} for each in partitions
        )

    def started(self, unit: str) -> dict[str, str]:
        """Return when a unit's processes began, by host."""
        show = ("systemctl", "show", "--property=MainPID,ActiveEnterTimestampMonotonic", unit)
        return {host: self.lab.run(host, *show).stdout for host in BROKERS}

    def znode(self, path: str) -> Any:
        """Return what a znode of Kafka's has."""
        said = self.shell("get", path)
        return json.loads(next(line for line in said.splitlines() if line.startswith("{")))


def write(lab: Lab, begin: str, host: str = ENSEMBLE) -> list[bytes]:
    """Write records as the principal `dispatch`; their values."""
    producer = lab.producer(host, "dispatch")
    values = [f"{begin}-{number}".encode() for number in range(RECORDS)]
    delivered: list[object] = []
    for value in values:
        producer.produce("flights", value, value, on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(300) == 0
    assert delivered == [None] * len(values)
    return values


def read(lab: Lab, host: str, topic: str = "flights") -> list[bytes | None]:
    return [record.value for records in lab.read(host, topic).values() for record in records]
