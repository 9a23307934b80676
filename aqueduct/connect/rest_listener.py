"""The access to a worker's REST listener."""

from collections.abc import Iterator

from aqueduct.connect import worker as of_worker
from aqueduct.connect.findings import Facts, WorkerFinding, store_findings
from aqueduct.connect.worker import Properties, Worker

LOOPBACK = ("localhost", "127.", "[::1]")


def _listeners(worker: Worker) -> list[tuple[str, str]]:
    """List REST's listeners, each with its setting's name; without any, Connect opens http://:8083."""
    return [
        (name, listener.strip())
        for name, default in (("listeners", "http://:8083"), ("admin.listeners", ""))
        for listener in worker.properties.get(name, default).split(",")
        if listener.strip()
    ]


def https(worker: Worker) -> bool:
    return any(listener.lower().startswith("https://") for _, listener in _listeners(worker))


def rest_findings(worker: Worker, facts: Facts) -> Iterator[WorkerFinding]:
    for name, listener in _listeners(worker):
        if not listener.lower().startswith("https://"):
            address = listener.partition("://")[2]
            here = address.startswith(LOOPBACK)
            yield WorkerFinding(
                "warning" if here else "fault",
                "connect-rest-without-tls",
                f"{worker.file}: the REST API is available at {listener} without TLS, so every client that "
                f"reaches this address can change every connector; set {name}=https://{address} and "
                f"{name}.https.ssl.*.",
            )
        elif not listener[len("https://") :].startswith(LOOPBACK):
            yield WorkerFinding(
                "warning",
                "connect-rest-exposed",
                f"{worker.file}: the REST API at {listener} accepts every certificate of the authorities in "
                "its trust store, because Connect does not check principals; let the REST listener listen "
                "on 127.0.0.1, behind a proxy that checks the subject of the certificate.",
            )
    if not https(worker):
        return
    tls = worker.rest_tls()
    if tls.get("ssl.client.auth", "none").lower() != "required":
        yield WorkerFinding(
            "fault",
            "connect-rest-unauthenticated",
            f"{worker.file}: the REST API accepts every client, because ssl.client.auth is "
            f"{tls.get('ssl.client.auth', 'none')}; set listeners.https.ssl.client.auth=required.",
        )
    yield from _rest_stores(worker, tls, facts)


def _rest_stores(worker: Worker, tls: Properties, facts: Facts) -> Iterator[WorkerFinding]:
    for role, store in (("key", of_worker.key_store(tls)), ("trust", of_worker.trust_store(tls))):
        setting = f"listeners.https.ssl.{role}store.location"
        if store is None:
            yield WorkerFinding(
                "fault",
                "connect-rest-store-missing",
                f"{worker.file}: the REST listener has no {role} store; set {setting} to a PKCS12 or JKS "
                "file.",
            )
        elif store.type == "PEM" or store.location is None:
            yield WorkerFinding(
                "fault",
                "connect-rest-store-unusable",
                f"{worker.file}: the REST listener cannot use a PEM {role} store; only the Kafka clients of "
                f"Connect can; set {setting} to a PKCS12 or JKS file.",
            )
        else:
            yield from store_findings(worker.file, "REST", store, facts)
