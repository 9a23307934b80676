"""Real sockets on the loopback interface."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.identifiers import printed, raises

from aqueduct.cli import main
from aqueduct.errors import Refused
from aqueduct.link import udp
from aqueduct.link.udp import ReceivingSocket, SendingSocket, resolve
from aqueduct.link.wire.datagram import MOST_IN_SEND, payload_of


@pytest.fixture(params=["127.0.0.1", "::1"])
def receiver(request: pytest.FixtureRequest) -> Iterator[ReceivingSocket]:
    """Yield a receiver, or fail on a machine without IPv6: there nothing is proven of links over it."""
    receiver = ReceivingSocket(resolve(request.param, 0))
    yield receiver
    receiver.close()


@pytest.fixture
def sender(receiver: ReceivingSocket) -> Iterator[SendingSocket]:
    sender = SendingSocket(resolve(*receiver.address[:2]))
    yield sender
    sender.close()


def received(receiver: ReceivingSocket, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        data, size = receiver.receive(2)
        assert data, f"{len(found)} of {count} came"
        found += [bytes(data[at : at + size]) for at in range(0, len(data), size)]
    return found


def test_datagrams_of_one_send_arrive_one_by_one(sender: SendingSocket, receiver: ReceivingSocket) -> None:
    sent = [os.urandom(1400) for _ in range(MOST_IN_SEND)]
    sender.send([piece for each in sent for piece in (each[:28], each[28:])], 1400)
    sender.send([b"al", b"one"], 1400)
    assert received(receiver, len(sent) + 1) == [*sent, b"alone"]
    assert (sender.refused, receiver.dropped) == (0, 0)
    assert receiver.receive(0.01)[1] == 0


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 1472), count=st.integers(1, MOST_IN_SEND), last=st.integers(0, 1471))
def test_any_size(size: int, count: int, last: int) -> None:
    receiver = ReceivingSocket(resolve("127.0.0.1", 0))
    sender = SendingSocket(resolve(*receiver.address))
    sent = [bytes([number]) * size for number in range(count)] + [b"z" * last] * (0 < last < size)
    sender.send(sent, size)
    assert received(receiver, len(sent)) == sent
    sender.close()
    receiver.close()


def test_a_kernel_without_segmentation(
    sender: SendingSocket, receiver: ReceivingSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(udp, "UDP_SEGMENT", 9999)
    sent = [b"a" * 100, b"b" * 100, b"c" * 7]
    sender.send(sent, 100)
    assert received(receiver, 3) == sent


def test_sending_to_closed_port_raises_no_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = resolve("127.0.0.1", free.getsockname()[1])
    sender = SendingSocket(address)
    for _ in range(3):  # a connected socket would raise at the second
        sender.send([b"x"], 1)
    sender.close()


def test_what_the_kernel_dropped_is_counted() -> None:
    receiver = ReceivingSocket(resolve("127.0.0.1", 0), buffer_bytes=4096)
    sender = SendingSocket(resolve(*receiver.address))
    for _ in range(100):
        sender.send([bytes(1400)], 1400)
    arrived = 0
    while size := receiver.receive(0.1)[1]:
        arrived += size == 1400
    sender.send([b"one more tells the count"], 1400)
    assert receiver.receive(2)[1] == 24
    assert arrived < 100
    assert receiver.dropped == 100 - arrived
    sender.close()
    receiver.close()


def test_datagram_above_mtu_is_refused_without_fragmentation() -> None:
    address = resolve("127.0.0.1", 9)
    sender = SendingSocket(address)
    size = payload_of(min(udp.mtu(address, None), 65535), address.ip_version)
    assert udp.mtu(address, "lo") >= size
    sender.send([bytes(size)], size)
    with raises(Refused, "datagram-size-unsuitable", f"{size + 1} bytes"):
        sender.send([bytes(size + 1)], size + 1)
    assert sender.refused == 0
    sender.close()


LOOPBACK, OTHER = "00:00:00:00:00:00", "02:00:00:00:5e:01"


@pytest.mark.parametrize(
    ("mac", "nic", "id_", "facts"),
    [
        (OTHER, "lo", "link-mac-mismatch", f"lo {LOOPBACK} {OTHER}"),
        (OTHER, None, "link-mac-mismatch", OTHER),
        (LOOPBACK, "nonic0", "network-card-unusable", "'nonic0'"),
    ],
)
def test_receiving_end_refuses_wrong_mac_or_card(
    mac: str, nic: str | None, id_: str, facts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("receiver", "sender"):
        assert main(["diode", "keygen", "--kind", kind, "--out", str(tmp_path), "--name", kind]) == 0
    options = {
        "bootstrapServers": "127.0.0.1:9",
        "rawTopic": "raw",
        "privateKeyFiles": tmp_path / "receiver.key",
        "senderPublicKeyFile": tmp_path / "sender.pub",
        "stateDir": tmp_path,
        "mac": mac.upper(),
    } | ({"nic": nic} if nic else {})
    assert main(["diode", "downstream", *(f"--{name}={value}" for name, value in options.items())]) == 2
    assert printed(said := capsys.readouterr().err) == [id_]
    assert [fact for fact in facts.split() if fact not in said] == []


def test_card_accepts_own_broadcast_and_multicast_addresses() -> None:
    udp.check_card(LOOPBACK, "lo")
    udp.check_card(LOOPBACK, None)
    udp.check_card("ff:ff:ff:ff:ff:ff", "lo")
    udp.check_card("01:00:5e:00:00:01", None)


@pytest.mark.parametrize(
    ("attempt", "id_", "fact"),
    [
        (lambda: resolve("no.such.host.invalid", 1), "link-address-unusable", "'no.such.host.invalid'"),
        (lambda: SendingSocket(resolve("127.0.0.1", 1), "nonic0"), "network-card-unusable", "'nonic0'"),
        (lambda: udp.mtu(resolve("127.0.0.1", 1), "nonic0"), "link-mtu-unknown", "'nonic0'"),
        (lambda: ReceivingSocket(resolve("192.0.2.1", 0)), "link-address-unusable", "192.0.2.1:0"),
    ],
)
def test_bad_addresses(attempt: object, id_: str, fact: str) -> None:
    with raises(Refused, id_) as refused:
        attempt()  # type: ignore[operator]
    assert fact in str(refused.value)


def test_kept_socket_holds_datagrams_sent_during_restart(
    receiver: ReceivingSocket, sender: SendingSocket
) -> None:
    address = resolve(*receiver.address[:2])
    kept = socket.socket(fileno=os.dup(receiver.fileno()))
    receiver.close()
    sender.send([b"meanwhile"], 9)
    assert udp.listens(kept, address, None)
    again = ReceivingSocket(address, kept=kept)
    assert again.address[:2] == address.where[:2]
    assert received(again, 1) == [b"meanwhile"]
    assert not udp.listens(kept, address, "lo")
    assert not udp.listens(kept, resolve(address.host, address.where[1] ^ 1), None)
    again.close()


class OfACardThatIsGone(socket.socket):
    """A socket as Linux has it after its card was taken away: to do that takes rights."""

    def getsockopt(self, level: int, name: int, *size: int) -> int | bytes:  # type: ignore[override]
        if name == socket.SO_BINDTODEVICE:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return super().getsockopt(level, name, *size)


def test_kept_socket_of_removed_card_is_not_reused() -> None:
    with OfACardThatIsGone(socket.AF_INET, socket.SOCK_DGRAM) as kept:
        kept.bind(("127.0.0.1", 0))
        address = resolve(*kept.getsockname())
        assert not udp.listens(kept, address, "lo")
        assert not udp.listens(kept, address, None)


def test_a_kept_socket_tells_what_was_dropped_before() -> None:
    receiver = ReceivingSocket(resolve("127.0.0.1", 0), buffer_bytes=4096)
    sender = SendingSocket(resolve(*receiver.address))
    for _ in range(100):
        sender.send([b"x" * 1000], 1000)
    kept = socket.socket(fileno=os.dup(receiver.fileno()))
    assert ReceivingSocket(resolve(*receiver.address), kept=kept).dropped > 50
    assert receiver.dropped == 0  # it has not received since
    sender.close()
    receiver.close()
