"""One connection to a server of an ensemble: a session, its requests and answers, and why there is none.

kazoo has the requests, and what an answer means. Its own client hands each answer from thread to thread,
which takes ten times as long as to read it; here one thread asks, and reads.
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

SECONDS = 5  # for a server to take the connection and to answer
WORD_SECONDS = 2  # ... to say a word; one that waits for TLS says none
SILENCE_SECONDS = 20  # after requests
SLOWEST = 64 << 10  # bytes a second, of an answer
SESSION_MILLISECONDS = 30_000
BUFFER_BYTES = 256 << 10
ANSWER_BYTES = 512 << 20  # at most

LENGTH = int_struct
REQUEST = struct.Struct("!iii")  # its bytes from the second field on, xid, type
ANSWER = struct.Struct("!iiqi")  # its bytes from the second field on, xid, the server's last zxid, error
HEADER = reply_header_struct  # xid, the server's last zxid, error
NOT_SERVING = "not currently serving requests"  # what ZooKeeper says to any four-letter word
NO_QUORUM = "start more of the ensemble's servers, and see their logs"


class ServerUnusable(Exception):
    """Why a server can't be used, and what to do: `refuses connections: start it`."""

    def __init__(self, reason: str, remedy: str = "", *, passing: bool = True) -> None:
        super().__init__(f"{reason}: {remedy}" if remedy else reason)
        self.passing = passing  # whether it may be over in a moment


class Connection:
    """A session that lasts as long as the connection. OSError once that is lost."""

    def __init__(self, server: str, context: ssl.SSLContext | None, zxid: int) -> None:
        """ServerUnusable if the server gives no session, or has not seen that change yet."""
        self.zxid = zxid  # the last change that the server had when it answered
        self._socket = _opened(server, context)
        self._file: Any = self._socket.makefile("rb", BUFFER_BYTES)
        self._asked = self._answered = 0  # the last xid
        try:
            hello = Connect(0, zxid, SESSION_MILLISECONDS, 0, bytes(16), read_only=True).serialize()
            self._socket.sendall(LENGTH.pack(len(hello)) + hello)
            given = self._read(*LENGTH.unpack(self._read(LENGTH.size)))
            # Without localSessionsEnabled, a server that only reads answers that in place of a session.
            refused = len(given) == HEADER.size and HEADER.unpack(given)[2] == NotReadOnlyCallError.code
            session = None if refused else Connect.deserialize(given, 0)[0]
        except TimeoutError:
            self.drop()
            raise _silent() from None
        except (OSError, struct.error) as error:
            self.drop()  # with TLS 1.3 a certificate is refused only now
            raise _alert(error) or _ended(server, context) from None
        if session is None or session.read_only:
            self.close() if session else self.drop()
            raise ServerUnusable("is in no quorum and only reads", NO_QUORUM)
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
        """Return the answer to the first request that has none yet, or why it was refused."""
        length, xid, zxid, code = ANSWER.unpack(self._read(ANSWER.size))
        body = self._read(length - ANSWER.size + LENGTH.size)
        self._answered = self._answered % 0x7FFFFFFF + 1
        if xid != self._answered:
            raise ConnectionError("it answered something else than it was asked")
        if zxid > 0:
            self.zxid = zxid
        if code:
            return EXCEPTIONS[code]() if code in EXCEPTIONS else KazooException(f"error {code}")
        try:
            return request.deserialize(body, 0)
        except struct.error:
            raise ConnectionError("it answered less than it was asked") from None

    def close(self) -> None:
        """End the session, for one that is only left would change the ensemble later."""
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
            raise ConnectionError("it answered what ZooKeeper does not")
        answer: bytes = self._file.read1(size)
        deadline = time.monotonic() + SILENCE_SECONDS + size / SLOWEST
        while len(answer) < size:
            if not (block := self._file.read1(size - len(answer))):
                raise ConnectionError("it ended the connection")
            answer += block
            if time.monotonic() > deadline:
                raise TimeoutError
        return answer


def _opened(server: str, context: ssl.SSLContext | None) -> socket.socket:
    """Return a connection; ServerUnusable if there is none."""
    try:
        plain = socket.create_connection(_address(server), SECONDS)
    except socket.gaierror as error:
        raise ServerUnusable(
            f"has a name that is not known here ({error.strerror})",
            "correct it, or this host's DNS",
            passing=error.errno == socket.EAI_AGAIN,
        ) from None
    except ConnectionRefusedError:
        raise ServerUnusable("refuses connections", "start it, or correct the port") from None
    except TimeoutError:
        raise _silent() from None
    except OSError as error:
        raise ServerUnusable(f"can't be reached ({error.strerror})", "see the network in between") from None
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not context:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=_address(server)[0])
    except OSError as error:
        plain.close()
        raise _handshake(server, error) from None


def _handshake(server: str, error: OSError) -> ServerUnusable:
    """Return why TLS did not begin."""
    if isinstance(error, TimeoutError):
        return _silent()
    if isinstance(error, ssl.SSLCertVerificationError):
        return ServerUnusable(
            f"shows a certificate that is not trusted here ({error.verify_message.rstrip('.')})",
            "correct the CA of --command-config or the name in --connect, or renew the certificate",
            passing=False,
        )
    if alert := _alert(error):
        return alert
    if _said(server, None):
        remedy = "name its secureClientPort, or leave TLS out of --command-config"
        return ServerUnusable("speaks no TLS on that port", remedy, passing=False)
    return ServerUnusable(f"ended the TLS handshake ({error.strerror or error})", "see its log")


def _silent() -> ServerUnusable:
    return ServerUnusable(
        f"does not answer within {SECONDS} s", "see that its host and its process run, and firewalls"
    )


def _alert(error: Exception) -> ServerUnusable | None:
    """Return what a server says by TLS; None if it is something else."""
    if not isinstance(error, ssl.SSLError) or "ALERT" not in (error.reason or ""):
        return None
    reason = error.reason.replace("_", " ").lower()
    return ServerUnusable(
        f"refuses this client for its certificate ({reason})",
        "give one in --command-config whose CA it trusts",
        passing=False,
    )


def _ended(server: str, context: ssl.SSLContext | None) -> ServerUnusable:
    """Return why a server ended the connection instead of giving a session."""
    reply = _said(server, context)
    if NOT_SERVING in reply:
        return ServerUnusable("is in no quorum", NO_QUORUM)
    if not reply and not context and _speaks_tls(server):
        remedy = "name its clientPort, or give a client's properties as --command-config"
        return ServerUnusable("speaks TLS on that port", remedy, passing=False)
    certificate = ", and that an authProvider of it takes this client's certificate" if context else ""
    return ServerUnusable("ended the connection", f"see its log{certificate}")


def _said(server: str, context: ssl.SSLContext | None) -> str:
    """Return what a server says to a four-letter word; nothing if it has none to say."""
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
    except ImportError:  # on hosts that have no more than brokers need
        return False
    listening = listener(server)
    return listening is not None and listening.tls
