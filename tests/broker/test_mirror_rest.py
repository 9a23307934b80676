"""The REST listener of a real MirrorMaker, to which a client with any certificate of the authority connects.

Its workers send each other the settings of tasks there. They sign them with a key that is in MirrorMaker's
own topic, which only the flow's principal reads.
"""

import json
import ssl
from collections.abc import Iterator
from http.client import HTTPException, HTTPSConnection

import pytest
from kit import clients
from kit.connect_worker import STORE_PASSWORD, java_stores
from kit.mirrors import mirror_maker

from servers.broker import Broker
from servers.process import free_ports

TASKS = "/pro1/lake/connectors/MirrorSourceConnector"
REST = """
listeners=https://127.0.0.1:{port}
rest.advertised.listener=https
listeners.https.ssl.client.auth=required
listeners.https.ssl.keystore.type=PKCS12
listeners.https.ssl.keystore.location={keystore}
listeners.https.ssl.keystore.password={password}
listeners.https.ssl.key.password={password}
listeners.https.ssl.truststore.type=PKCS12
listeners.https.ssl.truststore.location={truststore}
listeners.https.ssl.truststore.password={password}
"""


class Mirror:
    def __init__(self, broker: Broker, port: int) -> None:
        self.authority, self.port = broker.authority, port

    def answer(self, method: str, path: str, principal: str = "", **headers: str) -> int:
        """Return the status of the answer to a client with that principal's certificate, or without one."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if principal:
            context.load_cert_chain(self.authority.issue(principal))
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        body = json.dumps([{"task.assigned.partitions": "stolen-0", "topics": "stolen"}])
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture(scope="module")
def mirror(brokers: list[Broker], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """Yield a mirror that copies, so its session key is in its topic."""
    source, target = brokers[:2]
    directory = tmp_path_factory.mktemp("mirror")
    topic = clients.numbered(source, "mirrored", 1, 10)
    clients.create(target, topic, 1)
    [port] = free_ports(1)
    keystore, truststore = java_stores(source.authority, source.authority.issue("mirror-lake"), directory)
    rest = REST.format(port=port, keystore=keystore, truststore=truststore, password=STORE_PASSWORD)
    with mirror_maker(source, target, directory, topics=topic, rest=rest):
        clients.wait_for("the mirror copies", lambda: len(clients.records(target, topic)) == 10)
        yield Mirror(source, port)


def test_a_client_without_a_certificate_is_refused(mirror: Mirror) -> None:
    with pytest.raises((OSError, HTTPException)):
        mirror.answer("PUT", f"{TASKS}/fence")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", f"{TASKS}/tasks"), ("PUT", f"{TASKS}/fence")], ids=["tasks", "fence"]
)
@pytest.mark.parametrize("signed", [False, True])
def test_another_service_of_the_host_sets_no_tasks(
    mirror: Mirror, method: str, path: str, *, signed: bool
) -> None:
    """Without a signature, or with one that is not the workers'."""
    signature = {"X-Connect-Authorization": "AAAA", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
    status = mirror.answer(method, path, "backup-lake", **(signature if signed else {}))
    assert status == (403 if signed else 400)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/connectors", "/connectors/MirrorSourceConnector/config", "/admin/loggers/root", TASKS]
)
def test_nothing_else_is_served(mirror: Mirror, method: str, path: str) -> None:
    assert mirror.answer(method, path, "backup-lake") in (404, 405)
