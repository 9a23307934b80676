"""A worker's unit waits for a master that leads."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from aqueduct.work import leader


@contextmanager
def page(*states: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a master's page that tells one state after the other, and what it has told."""
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/json/"
            told.append(states[min(len(told), len(states) - 1)])
            self.send_response(200 if told[-1] else 500)
            self.end_headers()
            self.wfile.write(json.dumps({"status": told[-1]}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", told
    finally:
        server.shutdown()
        server.server_close()


def test_a_master_that_recovers_does_not_lead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leader, "SECONDS", 0.01)
    with page("", "RECOVERING", "COMPLETING_RECOVERY", "ALIVE") as (one, told), page("STANDBY") as (other, _):
        leader.main([other, one])
    assert told == ["", "RECOVERING", "COMPLETING_RECOVERY", "ALIVE"]
    assert capsys.readouterr().out == f"Waiting for an active master: {other}, {one}\n"


def test_one_of_several_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    with page("ALIVE") as (one, _):
        leader.main(["http://127.0.0.1:1", one])
    assert capsys.readouterr().out == ""
