"""Key and trust stores as Java sees them, and whether a broker's listener speaks TLS."""

import os
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from aqueduct.connect.findings import Listener
from aqueduct.connect.key_stores import Contents, Unusable, certificates, pem_contents
from aqueduct.connect.worker import Store

CONNECT_SECONDS = 5  # for the connection to one broker
ANSWER_SECONDS = 30  # for an answer of a broker that accepts connections: it may just have been started
KEYTOOL_SECONDS = 120  # a Java that starts on a busy host takes many
LIGHT_JAVA = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")  # it ends before compiling would pay

# ApiVersions, version 0, without a client id: what every broker answers, if it lets the client in at all.
_HELLO = struct.pack(">ihhih", 10, 18, 0, 0, -1)
_LENGTH = struct.Struct(">i")


def contents(store: Store) -> Contents | str | None:
    """Read a store, or say why Java can't use it; None where that can't be told here."""
    if not store.known_password:
        return None
    try:
        if store.location is None:
            return pem_contents((store.pem or "").encode(), store.role, store.password)
        pem = Path(store.location).read_bytes()
        if store.type == "PEM":
            return pem_contents(pem, store.role, store.password)
        return _java_contents(store)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except Unusable as error:
        return str(error)


def _java_contents(store: Store) -> Contents | None:
    """Read a JKS or PKCS12 file by Java's own keytool; None on a host that has none, or is too slow."""
    keytool = shutil.which("keytool")
    if keytool is None:
        return None
    command = [keytool, *LIGHT_JAVA, "-J-Duser.language=en", "-list", "-rfc"]
    command += ["-keystore", str(store.location), "-storetype", store.type]
    environment = dict(os.environ)
    if store.password is not None:
        command += ["-storepass:env", "STORE_PASSWORD"]  # a command line is everybody's to read
        environment["STORE_PASSWORD"] = store.password
    try:
        completed = subprocess.run(  # noqa: S603
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=KEYTOOL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    if completed.returncode:
        output = completed.stdout.decode(errors="replace").strip().splitlines()
        raise Unusable(f"cannot be opened with its password ({output[-1].removeprefix('keytool error: ')})")
    # Nobody trusts the certificates that stand with a key, and those that are trusted are no client's own.
    entry_type = b"Entry type: PrivateKeyEntry" if store.role == "key" else b"Entry type: trustedCertEntry"
    entries = [entry for entry in completed.stdout.split(b"Alias name: ")[1:] if entry_type in entry]
    return Contents(certificates(b"".join(entries)), store.role == "key" and bool(entries))


def listener(bootstrap_servers: str) -> Listener | None:
    """Return what the first broker that answers shows; None if none does."""
    return next(filter(None, map(_probe, _addresses(bootstrap_servers))), None)


def _addresses(bootstrap_servers: str) -> Iterable[tuple[str, int]]:
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().removeprefix("[").rpartition(":")
        if port.isdigit():
            yield host.rstrip("]"), int(port)


def _probe(address: tuple[str, int]) -> Listener | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # who answers is not the question
    try:
        plain = socket.create_connection(address, CONNECT_SECONDS)
    except OSError:
        return None
    with plain:
        plain.settimeout(ANSWER_SECONDS)
        try:
            tls = context.wrap_socket(plain, server_hostname=address[0])
        except TimeoutError:
            return None
        except ssl.SSLEOFError:
            return Listener(tls=False)
        except ssl.SSLError as error:
            # An alert is an answer in TLS; anything else is what another protocol answers.
            alert = "ALERT" in (error.reason or "")
            return Listener(tls=alert, client_certificate=alert)
        except OSError:  # reset, as a broker does that takes a ClientHello for a request of 369 MB
            return Listener(tls=False)
        with tls:
            return Listener(tls=True, client_certificate=not _answers(tls))


def _answers(tls: ssl.SSLSocket) -> bool:
    """Tell whether the broker serves a client without a certificate: with TLS 1.3 it refuses it only now."""
    try:
        tls.sendall(_HELLO)
        return len(tls.recv(_LENGTH.size)) > 0
    except TimeoutError:
        return True
    except OSError:
        return False
