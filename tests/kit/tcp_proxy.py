"""A TCP proxy that delays some requests and drops some answers."""

import socket
import threading
from contextlib import suppress
from types import TracebackType


class TcpProxy:
    """Passes data between a client on this machine and a server."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.holds: bytes | None = None  # requests with this wait for release()
        self.loses: bytes | None = None  # the answer to the next request with this
        self.lost = 0
        self._released = threading.Event()

    def __enter__(self) -> "TcpProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.release()
        self._listening.close()

    def release(self) -> None:
        self._released.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                losing = threading.Event()
                for pass_on in (self._ask, self._answer):
                    threading.Thread(target=pass_on, args=(client, server, losing), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                if self.loses and self.loses in data:
                    self.loses = None
                    losing.set()
                if self.holds and self.holds in data:
                    self._released.wait()
                server.sendall(data)
        if not losing.is_set():
            server.close()

    def _answer(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                if losing.is_set():
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
