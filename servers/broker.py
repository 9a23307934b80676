"""A real broker: a KRaft node of its own, with plaintext, mutual TLS and SASL listeners.

Who comes by plaintext is a super user; who comes by TLS may do what ACLs allow. By SASL comes USER, a super
user: by PLAIN at once, by SCRAM once it was made.
"""

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from servers.pki import Authority
from servers.process import QUICK, Process, binary, free_ports, java

# Versions with KRaft, each with the variable of its jars.
JARS = {
    "3.9.2": "AQUEDUCT_OLDER_KAFKA_JARS",
    "4.3.1": "AQUEDUCT_KAFKA_JARS",
    "4.4.0": "AQUEDUCT_NEWEST_KAFKA_JARS",
}
DEFAULT = "4.3.1"
USER, PASSWORD = "anna", "correct; horse"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL:SASL_SSL,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://{address}:{plaintext},SSL://127.0.0.1:{tls},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
log.dirs={directory}/data
log.retention.ms=-1
auto.create.topics.enable=false
log.segment.delete.delay.ms=100
offsets.topic.replication.factor=1
offsets.topic.num.partitions={coordinators}
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.share.heartbeat.interval.ms=500
group.share.min.heartbeat.interval.ms=500
log.cleaner.backoff.ms=3000
metadata.max.idle.interval.ms=0
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{user}{supers}
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

# Of one more broker of the cluster, whose controller is the first one.
JOINING = """
process.roles=broker
node.id={node_id}
controller.quorum.voters=1@{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://{servers}
advertised.listeners=PLAINTEXT://{advertised}
log.dirs={folders}
auto.create.topics.enable=false
offsets.topic.num.partitions={coordinators}
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
broker.heartbeat.interval.ms=500
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


@dataclass(frozen=True)
class Broker:
    plaintext: str  # bootstrap servers
    tls: str
    sasl: str
    authority: Authority
    process: Process
    cluster_id: str
    controller: str  # its address
    coordinators: int  # partitions of __consumer_offsets: each broker takes the number at its start
    data: Path  # its data folder


@contextmanager
def running(
    directory: Path,
    *,
    jvm: Sequence[str] = QUICK,
    supers: Sequence[str] = (),
    coordinators: int = 1,
    settings: Mapping[str, str] | None = None,
    address: str = "127.0.0.1",
    enter: Sequence[str] = (),
    version: str = DEFAULT,
) -> Iterator[Broker]:
    """Yield a broker that keeps everything in the directory, ready to be used.

    `supers`: names in certificates of further super users. `settings`: further ones of the broker.
    `address`: of its plaintext listener. `enter`: how its command begins, to run in a network namespace.
    `version`: one of JARS.
    """
    plaintext, tls, sasl, controller = free_ports(4)
    authority = Authority(directory / "pki")
    properties = directory / "server.properties"
    properties.write_text(
        PROPERTIES.format(
            address=address,
            plaintext=plaintext,
            tls=tls,
            sasl=sasl,
            user=USER,
            password=PASSWORD,
            supers="".join(f";User:CN={name}" for name in supers),
            controller=controller,
            coordinators=coordinators,
            directory=directory,
            keystore=authority.issue("broker"),
            truststore=authority.certificate,
        )
        + "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
    )
    cluster_id = new_uuid()
    by_plaintext = f"{address}:{plaintext}"
    by_tls, by_sasl = (f"127.0.0.1:{port}" for port in (tls, sasl))
    node = _formatted(properties, cluster_id, by_plaintext, jvm, enter, jars=JARS[version])
    with node.running() as process:
        at = f"127.0.0.1:{controller}"
        addresses = by_plaintext, by_tls, by_sasl
        data = directory / "data"
        yield Broker(*addresses, authority, process, cluster_id, at, coordinators, data)


def joining(
    first: Broker,
    node_id: int,
    directory: Path,
    advertised: str = "",
    folders: Sequence[str] = ("data",),
) -> Process:
    """Return one more broker of its cluster, which goes on with what the directory has.

    It says that it is at its address, or at another one. It is ready when the first one knows it, too.
    `folders`: names of its data folders in the directory.
    """
    directory.mkdir(exist_ok=True)
    properties = directory / "server.properties"
    servers = f"127.0.0.1:{free_ports(1)[0]}"
    properties.write_text(
        JOINING.format(
            node_id=node_id,
            controller=first.controller,
            coordinators=first.coordinators,
            servers=servers,
            advertised=advertised or servers,
            folders=",".join(f"{directory}/{name}" for name in folders),
        )
    )
    return _formatted(properties, first.cluster_id, servers, others=[first.plaintext])


def _formatted(
    properties: Path,
    cluster_id: str,
    servers: str,
    jvm: Sequence[str] = QUICK,
    enter: Sequence[str] = (),
    others: Sequence[str] = (),
    *,
    jars: str = JARS[DEFAULT],
) -> Process:
    """Format the node's storage unless it is formatted. Return the broker; its log is beside its properties.

    `others`: brokers that are to know it when it is ready. `jars`: the variable of its jars. The result is
    what StorageTool writes, of the usual version without its JVM: tests start many brokers.
    """
    settings = parsed(properties)
    if jars != JARS[DEFAULT] and unformatted(settings):
        arguments = ("format", "--cluster-id", cluster_id, "--config", properties)
        command = java("kafka.tools.StorageTool", *arguments, variable=jars)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    else:
        format_folders(settings, cluster_id)
    known = [answers(each, int(settings["node.id"])) for each in (servers, *others)]
    return Process(
        [*enter, *java("kafka.Kafka", properties, jvm=jvm, variable=jars)],
        properties.with_name("broker.log"),
        lambda: all(ready() for ready in known),
    )


def parsed(properties: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)


def unformatted(settings: Mapping[str, str]) -> list[Path]:
    """Return the data folders of a node that are not formatted."""
    folders = map(Path, settings["log.dirs"].split(","))
    return [folder for folder in folders if not (folder / "meta.properties").exists()]


def format_folders(settings: Mapping[str, str], cluster_id: str) -> None:
    """Format the folders that are not formatted, as StorageTool does for a node without a dynamic voter."""
    first = Path(settings["log.dirs"].split(",")[0])
    for folder in unformatted(settings):
        folder.mkdir(exist_ok=True)
        meta = {
            "version": 1,
            "cluster.id": cluster_id,
            "node.id": settings["node.id"],
            "directory.id": new_uuid(),
        }
        if folder == first:  # which gets the metadata
            shutil.copy(f"{binary('AQUEDUCT_KAFKA_JARS')}.bootstrap", folder / "bootstrap.checkpoint")
        text = "".join(f"{name}={value}\n" for name, value in meta.items())
        (folder / "meta.properties").write_text(text)


def answers(servers: str, node_id: int) -> Callable[[], bool]:
    """Return what tells whether the broker at an address answers its clients, and names a broker to them.

    A broker that has just started answers before it knows that the controller takes it for one that runs:
    until then its partitions have no leader. Each time it is a new client that asks: one that knows other
    brokers asks those.
    """

    def ready() -> bool:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 200})
        try:
            return node_id in admin.list_topics(timeout=5).brokers
        except KafkaException:
            return False

    return ready


def new_uuid() -> str:
    """Return a UUID as Kafka writes it: 22 characters of base64 for 16 bytes, and no option."""
    return "M" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:21] + "A"
