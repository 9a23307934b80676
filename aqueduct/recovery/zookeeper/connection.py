"""A connection to a server of an ensemble: its session, its requests and answers, and its errors.

kazoo provides the formats of requests and answers. Its own client passes each answer between threads, which
takes ten times as long as reading the answer. Here one thread sends and reads.
"""

import socket
import ssl
import struct
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Any

from kazoo.exceptions import EXCEPTIONS, KazooException, NotReadOnlyCallError
from kazoo.protocol.serialization import (
    CloseInstance,
    Connect,
    int_int_struct,
    int_struct,
    reply_header_struct,
)

SECONDS = 5  # for a server to accept the connection and to answer
WORD_SECONDS = 2  # ... to answer a four-letter word; a server that expects TLS does not answer
SILENCE_SECONDS = 20  # after requests
SLOWEST = 64 << 10  # bytes a second, of an answer
SESSION_MILLISECONDS = 30_000
BUFFER_BYTES = 256 << 10
ANSWER_BYTES = 512 << 20  # at most

LENGTH = int_struct
REQUEST = struct.Struct("!iii")  # its bytes from the second field on, xid, type
ANSWER = struct.Struct("!iiqi")  # its bytes from the second field on, xid, the server's last zxid, error
HEADER = reply_header_struct  # xid, the server's last zxid, error
NOT_SERVING = "not currently serving requests"  # the answer to each four-letter word
NO_QUORUM = "Start more servers of the ensemble, and check their logs."


class ServerUnusable(Exception):
    """The reason why a server cannot be used, and the remedy: `refuses connections. Start the server.`"""

    def __init__(self, reason: str, remedy: str = "", *, passing: bool = True) -> None:
        super().__init__(f"{reason}. {remedy}" if remedy else reason)
        self.passing = passing  # whether a retry may help


class Connection:
    """A session that ends with its connection. Its methods raise OSError after that."""

    def __init__(self, server: str, context: ssl.SSLContext | None, zxid: int) -> None:
        """Start a session. ServerUnusable if the server starts none, or lacks the change `zxid`."""
        self.zxid = zxid  # the last change that the server had when it answered
        self._socket = _opened(server, context)
        self._file: Any = self._socket.makefile("rb", BUFFER_BYTES)
        self._asked = self._answered = 0  # the last xid
        try:
            hello = Connect(0, zxid, SESSION_MILLISECONDS, 0, bytes(16), read_only=True).serialize()
            self._socket.sendall(LENGTH.pack(len(hello)) + hello)
            given = self._read(*LENGTH.unpack(self._read(LENGTH.size)))
            # Without localSessionsEnabled, a read-only server answers with this error instead of a session.
            refused = len(given) == HEADER.size and HEADER.unpack(given)[2] == NotReadOnlyCallError.code
            session = None if refused else Connect.deserialize(given, 0)[0]
        except TimeoutError:
            self.drop()
            raise _silent() from None
        except (OSError, struct.error) as error:
            self.drop()  # with TLS 1.3 a certificate is rejected only now
            raise _alert(error) or _ended(server, context) from None
        if session is None or session.read_only:
            self.close() if session else self.drop()
            raise ServerUnusable("has no quorum and is read-only", NO_QUORUM)
        self._socket.settimeout(SILENCE_SECONDS)

    def send(self, requests: Iterable[Any]) -> None:
        frames = []
        for request in requests:
            self._asked = self._asked % 0x7FFFFFFF + 1
            body = request.serialize()
            frames.append(REQUEST.pack(len(body) + 8, self._asked, request.type))
            frames.append(body)
        self._socket.sendall(b"".join(frames))

    def answer(self, request: Any) -> Any:
        """Return the next answer, or the error of a rejected request."""
        length, xid, zxid, code = ANSWER.unpack(self._read(ANSWER.size))
        body = self._read(length - ANSWER.size + LENGTH.size)
        self._answered = self._answered % 0x7FFFFFFF + 1
        if xid != self._answered:
            raise ConnectionError("its answer does not belong to the request")
        if zxid > 0:
            self.zxid = zxid
        if code:
            return EXCEPTIONS[code]() if code in EXCEPTIONS else KazooException(f"error {code}")
        try:
            return request.deserialize(body, 0)
        except struct.error:
            raise ConnectionError("its answer is incomplete") from None

    def close(self) -> None:
        """End the session. The expiry of an open session would change the ensemble later."""
        with suppress(OSError):
            self._socket.settimeout(SECONDS)
            self._socket.sendall(int_int_struct.pack(8, 0) + LENGTH.pack(CloseInstance.type))
            deadline = time.monotonic() + SECONDS
            while self._socket.recv(BUFFER_BYTES) and time.monotonic() < deadline:
                pass
        self.drop()

    def drop(self) -> None:
        self._file.close()
        self._socket.close()

    def _read(self, size: int) -> bytes:
        if not 0 <= size <= ANSWER_BYTES:
            raise ConnectionError("its answer is not in the protocol of ZooKeeper")
        answer: bytes = self._file.read1(size)
        deadline = time.monotonic() + SILENCE_SECONDS + size / SLOWEST
        while len(answer) < size:
            if not (block := self._file.read1(size - len(answer))):
                raise ConnectionError("it closed the connection")
            answer += block
            if time.monotonic() > deadline:
                raise TimeoutError
        return answer


def _opened(server: str, context: ssl.SSLContext | None) -> socket.socket:
    """Open a connection. ServerUnusable if this fails."""
    try:
        plain = socket.create_connection(_address(server), SECONDS)
    except socket.gaierror as error:
        raise ServerUnusable(
            f"has a host name that this host cannot resolve ({error.strerror})",
            "Correct the name or the DNS settings of this host.",
            passing=error.errno == socket.EAI_AGAIN,
        ) from None
    except ConnectionRefusedError:
        raise ServerUnusable("refuses connections", "Start the server, or correct the port.") from None
    except TimeoutError:
        raise _silent() from None
    except OSError as error:
        raise ServerUnusable(
            f"cannot be reached ({error.strerror})", "Check the network between this host and the server."
        ) from None
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not context:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=_address(server)[0])
    except OSError as error:
        plain.close()
        raise _handshake(server, error) from None


def _handshake(server: str, error: OSError) -> ServerUnusable:
    """Return the error of a failed TLS handshake."""
    if isinstance(error, TimeoutError):
        return _silent()
    if isinstance(error, ssl.SSLCertVerificationError):
        return ServerUnusable(
            f"has a certificate that this client does not trust ({error.verify_message.rstrip('.')})",
            "Correct the CA in --command-config or the host name in --connect, or renew the certificate.",
            passing=False,
        )
    if alert := _alert(error):
        return alert
    if _four_letter_answer(server, None):
        remedy = "Pass its secureClientPort, or remove the TLS settings from --command-config."
        return ServerUnusable("does not use TLS on this port", remedy, passing=False)
    return ServerUnusable(f"ended the TLS handshake ({error.strerror or error})", "Check its log.")


def _silent() -> ServerUnusable:
    return ServerUnusable(
        f"does not answer within {SECONDS} s", "Check its host, its process and the firewalls."
    )


def _alert(error: Exception) -> ServerUnusable | None:
    """Return the error of a TLS alert from a server; None for another error."""
    if not isinstance(error, ssl.SSLError) or "ALERT" not in (error.reason or ""):
        return None
    reason = error.reason.replace("_", " ").lower()
    return ServerUnusable(
        f"rejects the certificate of this client ({reason})",
        "Pass a certificate in --command-config whose CA the server trusts.",
        passing=False,
    )


def _ended(server: str, context: ssl.SSLContext | None) -> ServerUnusable:
    """Return why a server closed the connection without a session."""
    reply = _four_letter_answer(server, context)
    if NOT_SERVING in reply:
        return ServerUnusable("has no quorum", NO_QUORUM)
    if not reply and not context and _speaks_tls(server):
        remedy = "Pass its clientPort, or the client properties with --command-config."
        return ServerUnusable("uses TLS on this port", remedy, passing=False)
    certificate = (
        ", and that one of its authProviders accepts the certificate of this client" if context else ""
    )
    return ServerUnusable("closed the connection", f"Check its log{certificate}.")


def _four_letter_answer(server: str, context: ssl.SSLContext | None) -> str:
    """Return a server's answer to a four-letter word; empty if it does not answer."""
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection(_address(server), WORD_SECONDS))
            if context:
                tls = context.wrap_socket(connection, server_hostname=_address(server)[0])
                connection = stack.enter_context(tls)
            connection.sendall(b"srvr")
            return connection.recv(4096).decode(errors="replace")
    except OSError:
        return ""


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _speaks_tls(server: str) -> bool:
    try:
        from aqueduct.connect.tls import listener
    except ImportError:  # on hosts with only the packages that brokers need
        return False
    listening = listener(server)
    return listening is not None and listening.tls
