"""ZooKeeper servers that are started by their units, as in roles/zookeeper."""

import socket
import ssl
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kit import clients, plugin_modules

from aqueduct.estate.zookeeper import Server
from aqueduct.kafka import client_config
from servers.pki import Authority
from servers.process import Process


def start(ensemble: str, properties: Path) -> KazooClient:
    """Return a kazoo client with a session, with the identity in these properties."""
    config = client_config.load(properties)
    client = KazooClient(
        hosts=ensemble,
        use_ssl=True,
        ca=config.ca,
        certfile=config.certificate,
        keyfile=config.key,
        keyfile_password=config.key_password,
    )
    with warnings.catch_warnings():  # of a chroot that is not there yet
        warnings.simplefilter("ignore", UserWarning)
        client.start(120)
    return client


def stop(client: KazooClient) -> None:
    client.stop()
    client.close()


def data_of(client: KazooClient, path: str) -> bytes:
    """Return a znode's data, when the client has a server again, and this server has all changes."""
    found: list[bytes] = []

    def answer() -> bool:
        with suppress(ConnectionLoss, SessionExpiredError):
            client.sync(path)
            found.append(client.get(path)[0])
        return bool(found)

    clients.wait_for(f"the data of {path}", answer)
    return found[0]


def ready(
    servers: Mapping[Server, Process], authority: Authority, own: Server, **more: object
) -> dict[str, Any]:
    """Return the result of the module zookeeper_ready."""
    return module(
        "zookeeper_ready",
        own=own.address,
        servers=[server.address for server in servers],
        certificate=str(authority.issue("asking")),
        ca=str(authority.certificate),
        **more,
    )


def module(name: str, **arguments: object) -> dict[str, Any]:
    """Run a module of the collection, and return its result."""
    return plugin_modules.run(name, arguments)


def await_refusal(port: int, key: Path | None) -> None:
    """Wait until a port rejects a client with this key. On a busy machine, a rejection may take seconds."""
    clients.wait_for(f"{port} to reject a client", lambda: not let_in(port, key))


def let_in(port: int, key: Path | None) -> bool:
    """Return whether a port keeps the connection of a client with this key after the TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if key:
        context.load_cert_chain(key)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            context.wrap_socket(plain) as there,
        ):
            there.settimeout(3)  # after 5 s ZooKeeper closes an election connection that does not go on
            there.sendall(b"srvr")
            return there.recv(1) != b""
    except TimeoutError:
        return True  # it waits for more
    except OSError:
        return False
