"""A server that sends a byte at a time holds no client: no read of the socket lacks an answer."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from kafka.errors import KafkaConnectionError

from aqueduct.common.deadlines import within
from aqueduct.kafka import transport
from aqueduct.recovery.zookeeper import connection

SIZE = 60


@pytest.fixture
def slow() -> Iterator[socket.socket]:
    """Return an end of a connection whose other end sends a byte each tenth of a second."""

    def send() -> None:
        with suppress(OSError):
            for _ in range(SIZE):
                time.sleep(0.1)
                other.sendall(b"x")

    own, other = socket.socketpair()
    with own, other:
        own.settimeout(5)
        threading.Thread(target=send, daemon=True).start()
        yield own


def test_an_answer_is_complete_in_time_or_none(slow: socket.socket) -> None:
    with pytest.raises(TimeoutError):
        within(0.5, lambda: slow.makefile("rb").read(SIZE))
    assert within(60, lambda: 7) == 7


def test_errors_of_a_question_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_a_slow_broker_is_left(slow: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SILENCE_SECONDS", 0.5)
    connected = object.__new__(transport._Transport)
    connected._sock = slow
    with pytest.raises(KafkaConnectionError):
        connected._receive(memoryview(bytearray(SIZE)))


def test_a_slow_server_of_zookeeper_is_left(slow: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.5)
    connected = object.__new__(connection.Connection)
    connected._file = slow.makefile("rb")
    with pytest.raises(TimeoutError):
        connected._read(SIZE)


def test_an_answer_in_parts_is_read(monkeypatch: pytest.MonkeyPatch, slow: socket.socket) -> None:
    connected = object.__new__(connection.Connection)
    connected._file = slow.makefile("rb")
    assert connected._read(3) == b"xxx"
    assert connected._read(0) == b""
    received = bytearray(3)
    broker = object.__new__(transport._Transport)
    broker._sock = slow
    broker._receive(memoryview(received))
    assert received == b"xxx"
