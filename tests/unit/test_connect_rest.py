"""Requests to REST; these servers answer what they are told, tests/broker/test_connect.py has a real one."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct.connect import connectors
from aqueduct.connect import rest as connect
from aqueduct.connect.apply import await_declared
from aqueduct.connect.connectors import WantedConnector
from aqueduct.connect.rest import Connect
from aqueduct.errors import Failed, Refused
from aqueduct.kafka.client_config import ClientConfig

Answer = tuple[int, Any]  # status; JSON, or text that is none

NOT_READY = 404, "<html>Not Found</html>"
REBALANCE = 409, {"error_code": 409, "message": "Cannot complete request because of a conflicting operation"}
TIMED_OUT = 500, {"error_code": 500, "message": "Request timed out. The worker is currently polling"}
NO_LEADER = 500, {"error_code": 500, "message": "IO Error trying to forward REST request: refused"}
WRONG = 500, {"error_code": 500, "message": "java.lang.NullPointerException."}


class Server:
    def __init__(self, *answers: Answer, seconds: float = 0) -> None:
        """Serve these answers in order, and then always the last one; each after `seconds`."""
        self.asked: list[tuple[str, str, Any]] = []
        self.seconds = seconds
        self._answers = list(answers)

    def next(self) -> Answer:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@contextmanager
def serving(server: Server) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.asked.append((self.command, self.path, json.loads(body) if body else None))
            time.sleep(server.seconds)
            status, content = server.next()
            text = "" if content is None else content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()
            thread.join()


Serve = Callable[[Server], str]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setattr(connect, "POLL_SECONDS", 0.01)
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(serving(server))


def asking(*urls: str, seconds: float = 30) -> Connect:
    found = Connect(urls, ClientConfig())
    found.within(seconds)
    return found


def test_what_passes_is_borne_with(serve: Serve) -> None:
    server = Server(NOT_READY, REBALANCE, TIMED_OUT, NO_LEADER, (503, "away"), (200, {}))
    assert asking(serve(server)).connectors() == {}
    assert len(server.asked) == 6
    assert {path for _, path, _ in server.asked} == {"/connectors?expand=info&expand=status"}


def test_what_does_not_pass_is_told_at_once(serve: Serve) -> None:
    server = Server(WRONG)
    with raises(Failed, "connect-request-rejected", "GET", "/connectors", "NullPointerException"):
        asking(serve(server)).connectors()
    assert len(server.asked) == 1


def test_the_time_is_up(serve: Serve) -> None:
    url = serve(Server(NOT_READY))
    with raises(Failed, "connect-unreachable") as failed:
        asking(url, "http://127.0.0.1:1", seconds=0.1).connectors()
    assert f"{url} answers 404" in str(failed.value)
    assert "http://127.0.0.1:1 " in str(failed.value)


def test_workers_are_tried_in_turn(serve: Serve) -> None:
    away, there = Server(NOT_READY), Server((200, [{"class": "a.B"}]))
    assert asking("http://127.0.0.1:1", serve(away), serve(there), seconds=0).plugins() == ["a.B"]


def test_who_answered_is_asked_first_from_then_on(serve: Serve) -> None:
    """A host that is gone costs its CONNECT_SECONDS once, not with each question."""
    away, there = Server(NOT_READY), Server((200, []))
    connect = asking(serve(away), serve(there))
    assert [connect.plugins() for _ in range(3)] == [[], [], []]
    assert (len(away.asked), len(there.asked)) == (1, 3)


def test_connect_timeout_does_not_limit_response_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CONNECT_SECONDS", 0.2)
    assert asking(serve(Server((200, []), seconds=0.5)), seconds=0).plugins() == []


def test_worker_that_accepts_no_connection_is_skipped(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as gone, ExitStack() as stack:
        address = gone.getsockname()
        full = [stack.enter_context(socket.socket()) for _ in range(2)]  # nobody accepts: no room for more
        for each in full:
            each.setblocking(False)
            each.connect_ex(address)
        url = f"http://127.0.0.1:{address[1]}"
        with raises(Failed, "connect-unreachable") as failed:
            asking(url, seconds=0).plugins()
        assert "timed out" in str(failed.value)
        assert asking(url, serve(Server((200, []))), seconds=0).plugins() == []


def test_a_proxy_of_the_environment_is_not_asked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert asking(serve(Server((200, []))), seconds=0).plugins() == []


def test_worker_that_stops_during_handshake_is_unreachable() -> None:
    """It may start again, unlike one whose certificate is not accepted."""
    with socket.create_server(("127.0.0.1", 0)) as stopping:

        def hang_up() -> None:
            connection, _ = stopping.accept()
            with connection:
                connection.recv(65536)  # what is unread would reset the connection

        thread = Thread(target=hang_up)
        thread.start()
        with raises(Failed, "connect-unreachable", "TLS"):
            asking(f"https://127.0.0.1:{stopping.getsockname()[1]}", seconds=0).plugins()
        thread.join()


def test_connector_is_configured_after_unanswered_creation(serve: Serve) -> None:
    server = Server(TIMED_OUT, (409, {"message": "Connector a/b already exists"}), (200, {}))
    asking(serve(server)).create("a/b", {"k": "v"}, "PAUSED")
    body = {"name": "a/b", "config": {"k": "v"}, "initial_state": "PAUSED"}
    assert server.asked == [
        ("POST", "/connectors", body),
        ("POST", "/connectors", body),
        ("PUT", "/connectors/a%2Fb/config", {"k": "v"}),
    ]


def test_what_is_gone_is_deleted(serve: Serve) -> None:
    server = Server(NO_LEADER, (404, {"message": "Connector a not found"}))
    asking(serve(server)).delete("a")
    assert len(server.asked) == 2


@pytest.mark.parametrize("url", ["", "host:8083", "ftp://host", "https://", "https:///x"])
def test_what_is_no_url(url: str) -> None:
    with raises(Refused, "connect-url-invalid") as caught:
        Connect([url], ClientConfig())
    assert repr(url) in str(caught.value)


# Waiting


def state(*states: str) -> Answer:
    tasks = [
        {"id": n, "state": each, "worker_id": "h:1", "trace": "java.X: no"}
        for n, each in enumerate(states[1:])
    ]
    status = {"connector": {"state": states[0], "worker_id": "h:1"}, "tasks": tasks}
    return 200, {"a": {"info": {"config": {"name": "a"}}, "status": status}}


def wait(serve: Serve, *answers: Answer, touched: bool = True, seconds: float = 30) -> Server:
    server = Server(*answers)
    declared = WantedConnector("a", "running", None)
    await_declared(asking(serve(server), seconds=seconds), [declared], {"a"} if touched else set(), 0.05)
    return server


def test_a_state_must_hold_to_be_believed(serve: Serve) -> None:
    early = [state("RUNNING", "RUNNING"), state("RUNNING", "FAILED"), (200, {}), state("RUNNING")]
    server = wait(serve, *early, state("RUNNING", "RUNNING"))
    assert len(server.asked) > len(early) + 1
    assert len(wait(serve, state("RUNNING", "RUNNING"), touched=False).asked) == 1


def test_task_that_stays_failed_is_reported_with_trace(serve: Serve) -> None:
    with raises(Failed, "connector-not-running") as failed:
        wait(serve, state("RUNNING", "RUNNING"), state("RUNNING", "FAILED"))
    assert str(failed.value) == "Connector a: task 0 FAILED on h:1: java.X: no"


def test_what_never_comes_up_is_named(serve: Serve) -> None:
    with raises(Failed, "connector-not-running") as failed:
        wait(serve, state("RUNNING", "UNASSIGNED"), seconds=0.1)
    assert "connector a task 0 is UNASSIGNED" in str(failed.value)
    assert connectors.STATES["running"] == "RUNNING"
