"""Listeners by a broker's properties, connections that are real ones, and lines of logs."""

import os
import socket
import struct
from collections import Counter
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.kafka import listeners
from aqueduct.kafka.listeners import BrokerListener

CLIENT = BrokerListener("CLIENT", "SSL", 9092)


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, [BrokerListener("PLAINTEXT", "PLAINTEXT", 9092)]),
        (
            {
                "listeners": "CLIENT://0.0.0.0:9092, controller://[::1]:9093",
                "listener.security.protocol.map": "CLIENT:SSL,CONTROLLER:SASL_SSL",
            },
            [CLIENT, BrokerListener("CONTROLLER", "SASL_SSL", 9093)],
        ),
        (
            {"listeners": "SSL://:1,CONTROLLER://:2"},
            [BrokerListener("SSL", "SSL", 1), BrokerListener("CONTROLLER", "PLAINTEXT", 2)],
        ),
    ],
)
def test_listeners_are_those_of_the_properties(
    properties: dict[str, str], found: list[BrokerListener]
) -> None:
    assert listeners.configured(properties) == found


@pytest.mark.parametrize(
    ("properties", "listener"),
    [
        ({"listeners": "CLIENT:9092"}, "CLIENT:9092"),
        (
            {"listeners": "A://:1", "listener.security.protocol.map": "B:SSL"},
            "listener A",
        ),
    ],
)
def test_what_kafka_would_refuse_is_refused(properties: dict[str, str], listener: str) -> None:
    with raises(Refused, "listener-config-invalid") as refused:
        listeners.configured(properties)
    assert listener in str(refused.value)


@pytest.mark.parametrize(
    ("family", "address", "seen"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::ffff:127.0.0.3", "127.0.0.3"),  # to a socket of Java's
    ],
)
def test_established_connections_are_counted(family: int, address: str, seen: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::" if family == socket.AF_INET6 else address, 0))
        server.listen()
        port = server.getsockname()[1]
        listener = BrokerListener("CLIENT", "SSL", port)

        def said() -> list[str]:
            tables = (Path(f"/proc/net/{name}") for name in ("tcp", "tcp6"))
            by_port = listeners.connections(each.read_text() for each in tables if each.exists())
            return list(listeners.connected([listener], by_port))

        assert said() == [f"Listener CLIENT (SSL, port {port}): 0 connections."]
        for _ in range(3):
            client = stack.enter_context(socket.socket(family))
            client.bind((address, 0))
            client.connect((address, port))
        assert said() == [f"Listener CLIENT (SSL, port {port}): 3 connections from {seen} (3)."]


def test_the_port_is_the_one_here() -> None:
    """On one machine alone, where each connection has two lines, that could be mixed up."""
    pairs = (("172.18.0.3", "10.0.0.5"), ("::1", "2001:db8::5"))
    tables = (f"  sl\n   0: {in_proc(here)}:2384 {in_proc(there)}:C350 01 0:0" for here, there in pairs)
    assert listeners.connections(tables) == {9092: Counter({"10.0.0.5": 1, "2001:db8::5": 1})}


def in_proc(address: str) -> str:
    """Write an address as the kernel prints it: as numbers of 32 bits of the host's own byte order."""
    packed = ip_address(address).packed
    return "".join(f"{number:08X}" for number in struct.unpack(f"={len(packed) // 4}I", packed))


def test_who_has_most_connections_comes_first() -> None:
    there = {9092: Counter({f"10.0.0.{n}": n for n in range(1, 8)})}
    [sentence] = listeners.connected([CLIENT], there)
    assert sentence == (
        "Listener CLIENT (SSL, port 9092): 28 connections from 10.0.0.7 (7), 10.0.0.6 (6), 10.0.0.5 (5), "
        "10.0.0.4 (4), 10.0.0.3 (3) and 2 more."
    )


def failed(address: str, why: str, port: int = 9092) -> str:
    channel = f"172.18.0.3:{port}-{address}:{os.getpid()}-3-1"
    return f"INFO [SocketServer listenerType=BROKER, nodeId=1] Failed authentication with /{address} (channelId={channel}) ({why}) (Selector)"  # noqa: E501


def test_only_repeated_client_failures_are_reported() -> None:
    line = failed("10.0.0.5", "SSL handshake failed")
    assert list(listeners.mismatches([CLIENT], [line] * (listeners.TIMES - 1))) == []
    often = [line] * 1234 + [failed("0:0:0:0:0:0:0:1", "SSL handshake failed")] * listeners.TIMES
    [sentence] = listeners.mismatches([CLIENT], often)
    assert "CLIENT (SSL, port 9092): 10.0.0.5 (1,234), 0:0:0:0:0:0:0:1 (5)." in sentence
    assert "security.protocol=SSL" in sentence


@pytest.mark.parametrize(
    "lines",
    [
        [failed("10.0.0.5", "SSL handshake failed", port=9999)],
        [failed("10.0.0.5", "Authentication failed: Invalid username or password")],  # it is told so
        [
            "WARN [SocketServer listenerType=BROKER, nodeId=1] Unexpected error from /10.0.0.5 "
            "(channelId=172.18.0.3:9092-10.0.0.5:50208-2-0); closing connection (Selector)",
            "INFO [ReplicaFetcher replicaId=1] Failed authentication with b/10.0.0.2 (channelId=2) "
            "(SSL handshake failed)",
        ],
        [
            "INFO [ReplicaFetcher replicaId=1] Failed authentication with b/10.0.0.2 (channelId=2) "
            "(SSL handshake failed)"
        ],
        [
            "WARN [SocketServer listenerType=BROKER, nodeId=1] Unexpected error from /10.0.0.5 "
            "(channelId=172.18.0.3:9092-10.0.0.5:50208-2-0); closing connection (Selector)",
            "java.lang.IllegalStateException: something else",
            "InvalidReceiveException: Invalid receive (size = 369295621 larger than 104857600)",
        ],
        [
            "WARN [SocketServer listenerType=BROKER, nodeId=1] Unexpected error from /10.0.0.5 "
            "(channelId=172.18.0.3:9092-10.0.0.5:50208-2-0); closing connection (Selector)",
            "InvalidReceiveException: Invalid receive (size = 1195725856 larger than 104857600)",  # "GET "
        ],
    ],
)
def test_lines_without_protocol_mismatch_give_no_finding(lines: list[str]) -> None:
    assert list(listeners.mismatches([CLIENT], lines * 100)) == []
