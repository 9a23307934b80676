"""Figures for Prometheus on localhost, for hosts that do not have its client library.

In its text format, version 0.0.4 (Prometheus' documentation, "Exposition formats").
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Literal

from aqueduct.errors import Refused

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Figure:
    """Of letters, digits and `_`; a counter's name ends in `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str  # one line without a backslash
    value: float


def text(figures: Iterable[Figure]) -> str:
    return "".join(
        f"# HELP {each.name} {each.help}\n# TYPE {each.name} {each.kind}\n{each.name} {each.value}\n"
        for each in figures
    )


def serve(port: int, figures: Callable[[], Iterable[Figure]]) -> ThreadingHTTPServer:
    """Until the process ends, or it is told to. Refused if the port is taken."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = text(figures()).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Answer)
    except OSError as error:
        raise Refused(f"Port {port} of localhost can't be listened at: {error.strerror}.") from None
    Thread(target=server.serve_forever, name="figures", daemon=True).start()
    return server
