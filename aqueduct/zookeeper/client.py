"""The client of an ensemble: kazoo, whose errors become sentences."""

import logging
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, Id

from aqueduct.errors import Failed, Refused
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.zookeeper.znodes import Right

SILENT = logging.getLogger(__name__)  # what it says of lost connections becomes a sentence of ours
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
CONNECT_SECONDS = 15
SESSION_SECONDS = 10  # a server that takes a connection and does not answer is left after a part of it
ANSWER_SECONDS = 30


@dataclass(frozen=True)
class Ensemble:
    """An ensemble, as Kafka's `zookeeper.connect` names it, and how a client reaches it."""

    connect: str  # host:port,host:port/chroot
    client_config: ClientConfig

    @property
    def servers(self) -> str:
        return self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The znode that is `/` to this client; empty: the ensemble's own."""
        _, slash, path = self.connect.partition("/")
        return slash + path

    def __str__(self) -> str:
        return f"ZooKeeper at {self.connect}"


class EnsembleAway(Failed):
    """An ensemble that answered, and does not any more."""


@contextmanager
def connected(ensemble: Ensemble) -> Iterator[KazooClient]:
    """Yield a client that has a session; Refused if there is no ensemble that serves, or no such chroot."""
    client = start(ensemble)
    try:
        if ensemble.chroot and not ask(ensemble, lambda: client.exists_async("/")):
            raise Refused(
                f"{ensemble} has no znode {ensemble.chroot}: see zookeeper.connect of the brokers, or, for a "
                "restore that makes it, give it as --prefix."
            )
        yield client
    finally:
        stop(client)


def start(ensemble: Ensemble) -> KazooClient:
    """Return a client that has a session; Refused if it gets none."""
    _check_names(ensemble)
    config = ensemble.client_config
    client = KazooClient(
        hosts=ensemble.servers + ensemble.chroot,
        timeout=SESSION_SECONDS,
        read_only=True,  # so that one without a quorum answers, and can be told from none
        use_ssl=config.tls,
        ca=config.ca,
        certfile=config.certificate,
        keyfile=config.key,
        keyfile_password=config.key_password,
        check_hostname=config.tls and config.verify_host,
        logger=SILENT,
    )
    try:
        with warnings.catch_warnings():  # of a chroot that is not there: see `connected`
            warnings.simplefilter("ignore", UserWarning)
            client.start(CONNECT_SECONDS)
    except NoAuthError:
        stop(client)
        raise Refused(f"{ensemble} lets this client not see {ensemble.chroot}: use a broker's.") from None
    except (KazooTimeoutError, KazooException, OSError) as error:
        stop(client)
        how = "with TLS" if config.tls else "without TLS"
        raise Refused(
            f"{ensemble} gave no session in {CONNECT_SECONDS} s, asked {how} ({_what(error)}): see that a "
            "quorum of its servers runs, that the port is for that, and that they trust the certificate."
        ) from None
    if client.client_state == KeeperState.CONNECTED_RO:
        stop(client)
        raise Refused(f"{ensemble} only reads: it has no quorum. Start more of its servers, and try again.")
    return client


def _check_names(ensemble: Ensemble) -> None:
    """Refuse an ensemble none of whose servers has a name that is known."""
    why: object = None
    for server in ensemble.servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            socket.getaddrinfo(host.strip("[]"), port)
            return
        except OSError as error:
            why = error.strerror
    raise Refused(f"{ensemble}: no name of its servers is known here ({why}).")


def stop(client: KazooClient) -> None:
    client.stop()
    client.close()


def reached(ensemble: Ensemble, question: Callable[[], Any]) -> Any:
    """Return the answer to one of kazoo's asynchronous questions, or its refusal.

    EnsembleAway if none comes: a question that waits by itself would wait for ever for a server that froze.
    """
    try:
        return question().get(timeout=ANSWER_SECONDS)
    except (ConnectionLoss, SessionExpiredError, KazooTimeoutError) as error:
        raise EnsembleAway(
            f"{ensemble} answers no more ({_what(error)}): see its servers' logs, and run this again."
        ) from None


def ask(ensemble: Ensemble, question: Callable[[], Any]) -> Any:
    """Return the answer to a question, as `reached`; Failed if the ensemble refuses."""
    try:
        return reached(ensemble, question)
    except NoAuthError:
        raise Failed(f"An ACL of {ensemble} does not let this client do that: use a broker's.") from None
    except KazooException as error:
        raise Failed(f"{ensemble} refused: {_what(error)}.") from None


def _what(error: Exception) -> str:
    return str(error) or type(error).__name__


def acl_of(rights: tuple[Right, ...]) -> list[ACL]:
    """Return an ACL as kazoo has it."""
    return [ACL(each.permissions, Id(each.scheme, each.id)) for each in rights]


def rights_of(acl: list[ACL]) -> tuple[Right, ...]:
    """Return an ACL of kazoo's."""
    return tuple(Right(each.perms, each.id.scheme, each.id.id) for each in acl)
