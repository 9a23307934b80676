"""A stub of Confluent's schema registry, for faults that a real registry cannot be made to have.

These faults are wrong answers, statuses, and a proxy in front. test_land_avro.py uses a real registry.
"""

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Registry:
    """The schemas of a registry, and the requests that it received."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)  # answers by id
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)  # answers by path
    user: str | None = None  # name:password
    types: Any = ("JSON", "PROTOBUF", "AVRO")
    status: list[int] = field(default_factory=list)  # instead of the next answers, but for 200
    asked: list[str] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)  # of Apicurio's next answers whether it is, but for 200
    unread: dict[int, dict[str, Any]] = field(default_factory=dict)  # schemas that it knows once it is
    denied: set[str] = field(default_factory=set)  # paths that it does not serve, also if it has them
    url: str = ""
    connections: int = 0
    closed: int = 0  # of these
    idle_seconds: float = 60.0  # after an answer; it then closes the connection

    def add(self, id_: int, schema: Any, **more: Any) -> None:
        self.schemas[id_] = {"schema": json.dumps(schema), **more}

    def answer(self, path: str, login: str | None) -> tuple[int, Any]:
        path = path.removeprefix("/apis/ccompat/v7")
        self.asked.append(path)
        if path == "/health/ready":
            if self.ready:
                return self.ready.pop(0), {}
            self.schemas |= self.unread
            return 200, {}
        if self.status and (status := self.status.pop(0)) != 200:
            return status, {}
        if self.user and (login is None or b64decode(login.removeprefix("Basic ")).decode() != self.user):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if path in self.denied:
            return 404, {"message": "Not Found"}
        if path == "/schemas/types":
            return 200, self.types
        id_ = path.removeprefix("/schemas/ids/")
        found = self.schemas.get(int(id_)) if id_.isdigit() else self.subjects.get(path)
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve a registry over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 60  # of a first request: a busy client sends it some time after it has connected

        def setup(self) -> None:
            registry.connections += 1
            super().setup()

        def finish(self) -> None:
            super().finish()
            registry.closed += 1

        def do_GET(self) -> None:
            status, content = registry.answer(self.path, self.headers.get("Authorization"))
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            self.connection.settimeout(registry.idle_seconds)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        registry.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            http.shutdown()
            thread.join()
