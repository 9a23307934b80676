"""A real Connect worker for one test session, in distributed mode, with mutual TLS to broker and REST."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from servers.broker import Broker
from servers.pki import Authority
from servers.process import Process, free_ports, java

STORE_PASSWORD = "for-tests-only"  # noqa: S105
TLS = """
{prefix}security.protocol=SSL
{prefix}ssl.keystore.type=PEM
{prefix}ssl.keystore.location={keystore}
{prefix}ssl.truststore.type=PEM
{prefix}ssl.truststore.location={truststore}
"""
PROPERTIES = """
bootstrap.servers={servers}
group.id={group}
config.storage.topic={group}-configs
offset.storage.topic={group}-offsets
status.storage.topic={group}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.replication.factor=1
status.storage.partitions=1
offset.flush.interval.ms=1000
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
plugin.path={plugins}
plugin.discovery=service_load
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
consumer.metadata.max.age.ms=1000
listeners=https://127.0.0.1:{port}
listeners.https.ssl.client.auth=required
listeners.https.ssl.keystore.type=PKCS12
listeners.https.ssl.keystore.location={rest_keystore}
listeners.https.ssl.keystore.password={password}
listeners.https.ssl.key.password={password}
listeners.https.ssl.truststore.type=PKCS12
listeners.https.ssl.truststore.location={rest_truststore}
listeners.https.ssl.truststore.password={password}
"""


@dataclass(frozen=True)
class Worker:
    url: str
    properties: Path
    client_config: Path  # of a client that REST lets in
    broker: Broker


@contextmanager
def running(broker: Broker, directory: Path) -> Iterator[Worker]:
    """Yield a worker when its REST API answers. Its files are in the directory, its state in the broker."""
    [port] = free_ports(1)
    properties = write_properties(broker.authority, broker.tls, port, directory)
    client_config = broker.authority.client_config("rest-client")
    # A client of its own asks: the tested client must not decide whether it may be tested.
    context = ssl.create_default_context(cafile=str(broker.authority.certificate))
    context.load_cert_chain(broker.authority.issue("waiting"))

    def ready() -> bool:
        connection = HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
        try:
            connection.request("GET", "/connectors")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    command = java("org.apache.kafka.connect.cli.ConnectDistributed", properties)
    with Process(command, directory / "connect.log", ready).running():
        yield Worker(f"https://127.0.0.1:{port}", properties, client_config, broker)


def write_properties(authority: Authority, servers: str, port: int, directory: Path) -> Path:
    """Create the key stores of a worker, and return its valid properties."""
    directory.mkdir(exist_ok=True)
    identity = authority.issue("connect")
    plugins = directory / "plugins"
    plugins.mkdir()
    rest_keystore, rest_truststore = java_stores(authority, identity, directory)
    text = PROPERTIES.format(
        servers=servers,
        group="connect",
        plugins=plugins,
        port=port,
        rest_keystore=rest_keystore,
        rest_truststore=rest_truststore,
        password=STORE_PASSWORD,
    )
    for prefix in ("", "producer.", "consumer.", "admin."):
        text += TLS.format(prefix=prefix, keystore=identity, truststore=authority.certificate)
    properties = directory / "worker.properties"
    properties.write_text(text)
    return properties


def java_stores(authority: Authority, identity: Path, directory: Path) -> tuple[Path, Path]:
    """Write the identity as PKCS12 for Java: a key store and a trust store."""
    pem = identity.read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, pkcs12.PKCS12PrivateKeyTypes)
    own, trusted = x509.load_pem_x509_certificate(pem), authority.certificate.read_bytes()
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    keystore, truststore = directory / "rest.p12", directory / "trust.p12"
    keystore.write_bytes(pkcs12.serialize_key_and_certificates(b"rest", key, own, None, encryption))
    ca = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(trusted), b"ca")
    truststore.write_bytes(pkcs12.serialize_java_truststore([ca], encryption))
    return keystore, truststore
