"""kafka-python's connections, with a fast way through for large responses and requests.

kafka-python reads a socket 4 KiB at a time and copies what it has read six times: 2.7 CPU seconds per GB that
is fetched. Here a response is read whole, into the buffer that it is decoded from: 0.5 CPU seconds. What
kafka-python has still to send over TLS it copies again for each record of TLS, 16 KiB; here it does not.
"""

import ssl
import struct
import time
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.inet import create_connection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.frame import KafkaBytes

from aqueduct.kafka.addresses import AddressManager

SILENCE_SECONDS = 30  # in the middle of a response: the connection is given up
SLOWEST = 16 << 10  # bytes a second, of a response

_LENGTH = struct.Struct(">i")


class Manager(AddressManager):
    """The maker of connections that read and write the fast way."""

    async def _transport(self, node: Any, timeout_at: float | None) -> "_Transport":
        options, proxy = self.config["socket_options"], self.config["proxy_url"]
        sock = await create_connection(
            self._net, node.host, node.port, options, proxy_url=proxy, timeout_at=timeout_at
        )
        kind = _TlsTransport if self.ssl_enabled else _Transport
        settings = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
        transport = kind(self._net, sock, host=node.host, **(settings if self.ssl_enabled else {}))
        try:
            await transport.handshake()
        except Exception as error:
            raise KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport


class _Response(KafkaBytes):  # type: ignore[misc]
    """A response's bytes; the decoder gets views of them."""

    def read(self, nbytes: int | None = None) -> memoryview:
        start = self.tell()
        self.seek(len(self) if nbytes is None else min(start + nbytes, len(self)))
        return memoryview(self)[start : self.tell()]


class _Transport(KafkaTCPTransport):  # type: ignore[misc]
    _length = b""  # of the next response: as much as has come of its four bytes

    def write(self, data: bytes) -> None:
        super().write(memoryview(data))  # slices of it aren't copies

    async def _read_from_sock(self) -> None:
        parser = self._protocol.parser
        parser.receive_bytes = lambda response: [parser._process_response(response)]
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            try:
                while self._read and not self._closed and (response := self._next_response()) is not None:
                    self._protocol.data_received(response)
            except KafkaError as error:
                self.abort(error)
            except Exception as error:  # also what the decoder makes of wrong bytes
                self.abort(KafkaConnectionError(str(error)))

    def _next_response(self) -> _Response | None:
        """Return the next response; None if its beginning hasn't come. For its rest this waits."""
        try:
            received = self._sock.recv(_LENGTH.size - len(self._length))
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        if not received:
            raise KafkaConnectionError("the broker closed the connection")
        self._length += received
        if len(self._length) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(self._length)
        self._length = b""
        self._protocol.parser._validate_frame_size(length)
        response = _Response(length)
        self._receive(memoryview(response))
        return response

    def _receive(self, rest: memoryview) -> None:
        self._sock.settimeout(SILENCE_SECONDS)
        deadline = time.monotonic() + SILENCE_SECONDS + len(rest) / SLOWEST
        while rest:
            if time.monotonic() > deadline:
                raise KafkaConnectionError("the broker sent a response too slowly")
            received = self._sock.recv_into(rest)
            if not received:
                raise KafkaConnectionError("the broker closed the connection in the middle of a response")
            rest = rest[received:]
        self._sock.setblocking(False)


class _TlsTransport(_Transport, KafkaSSLTransport):  # type: ignore[misc]
    pass
