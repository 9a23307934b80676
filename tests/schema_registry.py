"""A registry that says what Confluent's does, over HTTP and TLS: a stub, for PyPI has no real one."""

import json
import ssl
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from servers.pki import Authority


@dataclass
class Registry:
    """A registry's schemas, and what was asked of it."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)  # answers by id
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)  # answers by path
    user: str | None = None  # name:password
    types: Any = ("JSON", "PROTOBUF", "AVRO")
    status: list[int] = field(default_factory=list)  # instead of the next answers, but for 200
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, id_: int, schema: Any, **more: Any) -> None:
        self.schemas[id_] = {"schema": json.dumps(schema), **more}

    def answer(self, path: str, login: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        if self.status and (status := self.status.pop(0)) != 200:
            return status, {}
        if self.user and (login is None or b64decode(login.removeprefix("Basic ")).decode() != self.user):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if path == "/schemas/types":
            return 200, self.types
        id_ = path.removeprefix("/schemas/ids/")
        found = self.schemas.get(int(id_)) if id_.isdigit() else self.subjects.get(path)
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})


@contextmanager
def serving(registry: Registry, authority: Authority | None = None) -> Iterator[Registry]:
    """Serve a registry; with an authority by TLS, and only those whom it signed."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = registry.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        registry.url = f"http://127.0.0.1:{http.server_address[1]}"
        if authority:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
            context.load_cert_chain(authority.issue("registry"))
            context.verify_mode = ssl.CERT_REQUIRED
            http.socket = context.wrap_socket(http.socket, server_side=True)
            registry.url = f"https://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            http.shutdown()
            thread.join()
