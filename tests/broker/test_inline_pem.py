"""Inline PEM in client properties (KIP-651) opens a TLS listener, for both libraries."""

from pathlib import Path

from confluent_kafka.admin import AclOperation
from kit import clients

from aqueduct.kafka import client, client_config
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import reader
from servers.broker import Broker


def test_inline_pem_opens_a_tls_listener(broker: Broker, tmp_path: Path) -> None:
    topic = clients.create(broker, clients.unique("inline"))
    clients.allow(broker, "inline", topic, AclOperation.DESCRIBE)
    pem = broker.authority.issue("inline").read_text()
    key, certificate = pem.index("-----BEGIN PRIVATE"), pem.index("-----BEGIN CERT")
    blocks = {
        "ssl.keystore.key": pem[key : certificate if certificate > key else None],
        "ssl.keystore.certificate.chain": pem[certificate : key if key > certificate else None],
        "ssl.truststore.certificates": broker.authority.certificate.read_text(),
    }
    file = tmp_path / "client.properties"
    inline = [f"{name}={block.strip()}".replace("\n", "\\n\\\n") for name, block in blocks.items()]
    stores = ["security.protocol=SSL", "ssl.keystore.type=PEM", "ssl.truststore.type=PEM"]
    file.write_text("\n".join([*stores, "client.id=inline", *inline]) + "\n")
    end = End("cluster", broker.tls, client_config.load(file))
    with client.connect(end, "test") as connected:
        assert topic in connected.topics([topic])
    assert topic in reader.partitions(end)
