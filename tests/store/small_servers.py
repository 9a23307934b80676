"""Small servers between a client and an object store, or in its place."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit


class Proxy(ThreadingTCPServer):
    """An HTTP proxy that knows CONNECT, and counts."""

    daemon_threads = True
    connects = 0

    class _Handler(StreamRequestHandler):
        def handle(self) -> None:
            method, target, _ = self.rfile.readline().decode().split()
            while self.rfile.readline().strip():
                pass
            assert method == "CONNECT"
            assert isinstance(self.server, Proxy)
            self.server.connects += 1
            host, port = target.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as beyond:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                back = Thread(target=_pour, args=(beyond, self.connection), daemon=True)
                back.start()
                _pour(self.connection, beyond)
                back.join()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self._Handler)


def _pour(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Script(ThreadingHTTPServer):
    """A server that answers requests as it is told, then as a store of conditional writes in memory.

    An answer is a status and a body, or None: do what is asked, then close the connection without a word.
    """

    daemon_threads = True

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(body)

        def do_GET(self) -> None:
            self._answer(None)

        def _answer(self, body: bytes | None) -> None:
            script = self.server
            assert isinstance(script, Script)
            script.requests.append(f"{self.command} {self.path}")
            planned = script.answers.pop(0) if script.answers else (200, None)
            if planned and planned[1] is not None:
                return self._say(planned[0], planned[1].encode())
            answer = self._store(script, body)
            if planned is None:
                self.close_connection = True
                return None
            return self._say(*answer)

        def _store(self, script: "Script", body: bytes | None) -> tuple[int, bytes]:
            if body is None:
                found = script.objects.get(self.path)
                return (404, b"<Error><Code>NoSuchKey</Code></Error>") if found is None else (200, found)
            if self.path in script.objects:
                return 412, b"<Error><Code>PreconditionFailed</Code></Error>"
            script.objects[self.path] = body
            return 200, b""

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"0"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    def __init__(self, *answers: tuple[int, str] | None) -> None:
        super().__init__(("127.0.0.1", 0), self._Handler)
        self.answers = list(answers)
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class OneAnswer(ThreadingHTTPServer):
    """A server that gives one answer to every request, as a web console or a wrong proxy does."""

    daemon_threads = True

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            server = self.server
            assert isinstance(server, OneAnswer)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append(f"{self.command} {self.path}")
            server.headers.append(self.headers)
            self.send_response(server.answer.status)
            for name, value in server.answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(server.answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(server.answer.body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), self._Handler)
        self.answer = answer
        self.requests: list[str] = []
        self.headers: list[Message] = []


class WithoutConditionalWrites(ThreadingHTTPServer):
    """An S3 server with the bucket `store`, which answers 501 to each PUT request, as old servers do."""

    daemon_threads = True

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server = self.server
            assert isinstance(server, WithoutConditionalWrites)
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if "list-type" in query:
                prefix = query.get("prefix", [""])[0]
                keys = sorted(key for key in server.objects if key.startswith(prefix))
                entries = "".join(map(self._entry, keys))
                self._say(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
            elif (content := server.objects.get(url.path.removeprefix("/store/"))) is not None:
                self._say(200, content)
            else:
                self._say(404, b"<Error><Code>NoSuchKey</Code></Error>")

        do_HEAD = do_GET

        def do_PUT(self) -> None:
            server = self.server
            assert isinstance(server, WithoutConditionalWrites)
            self.rfile.read(int(self.headers["Content-Length"]))
            server.writes.append(self.path)
            self._say(501, b"<Error><Code>NotImplemented</Code></Error>")

        def _entry(self, key: str) -> str:
            server = self.server
            assert isinstance(server, WithoutConditionalWrites)
            fields = {"Key": key, "Size": len(server.objects[key])}
            fields |= {"LastModified": "2026-01-01T00:00:00.000Z", "ETag": "0", "StorageClass": "STANDARD"}
            text = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
            return f"<Contents>{text}</Contents>"

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"0"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        """`objects`: the content of each object, by its key."""
        super().__init__(("127.0.0.1", 0), self._Handler)
        self.objects = objects
        self.writes: list[str] = []


class Greeter(ThreadingTCPServer):
    """A server that does not speak HTTP: it sends a line, as SSH and mail servers do."""

    daemon_threads = True

    class _Handler(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            self.rfile.readline()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self._Handler)


@contextmanager
def serving(server: ThreadingTCPServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
