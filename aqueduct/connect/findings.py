"""Findings about a worker's configuration, and facts from outside its file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from aqueduct.connect.key_stores import Contents
from aqueduct.connect.worker import Store
from aqueduct.errors import labelled


@dataclass(frozen=True)
class WorkerFinding:
    """A finding; `id` is declared in `aqueduct.messages`."""

    severity: Literal["fault", "warning"]
    id: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.severity}: {labelled(self.id, self.sentence)}"


@dataclass(frozen=True)
class Listener:
    """The answer of a broker's listener."""

    tls: bool
    client_certificate: bool = False  # it demands one


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts from outside the files; what is missing here was not looked at, and is not judged."""

    now: datetime
    stores: Mapping[Store, Contents | str] = field(default_factory=dict)  # or why Java can't use it
    listeners: Mapping[str, Listener] = field(default_factory=dict)  # by bootstrap.servers
    folders: Mapping[str, str] = field(default_factory=dict)  # of plugin.path: what is wrong with them


def store_findings(file: str, user: str, store: Store, facts: Facts) -> Iterator[WorkerFinding]:
    contents = facts.stores.get(store)
    subject = f"the {store.role} store {store.location or '(PEM in the file)'} of {user}"
    if contents is None:
        return
    if isinstance(contents, str):
        yield WorkerFinding("fault", "connect-store-unreadable", f"{file}: {subject} {contents}.")
        return
    if store.role == "key" and not contents.private_key:
        yield WorkerFinding(
            "fault",
            "connect-key-missing",
            f"{file}: {subject} contains no private key; add the key and the certificate of the client.",
        )
        return
    if not contents.certificates:
        remedy = "create the store with keytool, because Java finds no certificates in stores of openssl"
        yield WorkerFinding(
            "fault",
            "connect-certificate-missing",
            f"{file}: {subject} contains no certificate that Java can find; {remedy}.",
        )
        return
    own = contents.certificates[:1] if store.role == "key" else contents.certificates
    if all(certificate.not_after < facts.now for certificate in own):
        last = max(own, key=lambda certificate: certificate.not_after)
        yield WorkerFinding(
            "fault",
            "connect-certificate-expired",
            f"{file}: the certificate of {last.subject} in {subject} expired at "
            f"{last.not_after:%Y-%m-%d %H:%M} UTC; renew the certificate and restart the worker.",
        )
    elif all(certificate.not_before > facts.now for certificate in own):
        yield WorkerFinding(
            "fault",
            "connect-certificate-premature",
            f"{file}: the certificate of {own[0].subject} in {subject} is not valid before "
            f"{own[0].not_before:%Y-%m-%d %H:%M} UTC; set the clock of this host, or re-issue the "
            "certificate.",
        )
