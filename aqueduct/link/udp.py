"""Datagrams, many at a time: segmentation and coalescing by the kernel (UDP_SEGMENT, UDP_GRO of udp(7)).

The sender's socket is never connected, and asks for no errors: what a host or a network answers to a
datagram (ICMP) never comes back to who sent it.
"""

import errno
import fcntl
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct.errors import Refused

# Not in Python's socket module; from Linux's headers.
UDP_SEGMENT, UDP_GRO = 103, 104
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_RXQ_OVFL, SO_MEMINFO = 32, 33, 40, 55
IP_MTU, IP_MTU_DISCOVER, IPV6_MTU, IPV6_MTU_DISCOVER, PMTUDISC_PROBE = 14, 10, 24, 23, 3
SIOCGIFMTU = 0x8921
IFNAMSIZ = 16

CARDS = Path("/sys/class/net")
LARGEST = 1 << 16  # what one receive may bring

_SEGMENT, _RECEIVED, _DROPPED = struct.Struct("=H"), struct.Struct("=i"), struct.Struct("=I")
_MEMORY = struct.Struct("=32xI")  # of SO_MEMINFO, the last of nine: datagrams that were dropped


@dataclass(frozen=True)
class Address:
    family: socket.AddressFamily
    host: str
    where: Any  # as socket has it

    @property
    def ip_version(self) -> int:
        return 6 if self.family == socket.AF_INET6 else 4

    def __str__(self) -> str:
        return f"{self.host}:{self.where[1]}"


def resolve(host: str, port: int) -> Address:
    """Resolve a name, or an address of either family. Refused if it can't be found."""
    try:
        [(family, _, _, _, where), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise Refused(
            "link-address-unusable", f"targetIP {host!r} cannot be resolved: {error.strerror or error}."
        ) from None
    return Address(family, host, where)


def mtu(address: Address, nic: str | None) -> int:
    """Return the MTU of the network card, or of the one that leads to the address; nothing is sent."""
    with socket.socket(address.family, socket.SOCK_DGRAM) as probe:
        try:
            if nic:
                asked = struct.pack("16si12x", nic.encode(), 0)
                return int(struct.unpack("16xi12x", fcntl.ioctl(probe, SIOCGIFMTU, asked))[0])
            probe.connect(address.where)
            if address.family == socket.AF_INET:
                return probe.getsockopt(socket.IPPROTO_IP, IP_MTU)
            return probe.getsockopt(socket.IPPROTO_IPV6, IPV6_MTU)
        except OSError as error:
            where = f"nic {nic!r}" if nic else f"the route to {address}"
            raise Refused(
                "link-mtu-unknown", f"The MTU of {where} cannot be read: {error.strerror}. Set mtu."
            ) from None


def check_card(mac: str, nic: str | None) -> None:
    """Refuse to listen where no card takes what is sent to the address; `nic`: this one must have it.

    Every card takes what is sent to a group (the first octet's lowest bit), such as a broadcast.
    """
    if int(mac[:2], 16) & 1:
        return
    macs = {card.name: (card / "address").read_text().strip() for card in CARDS.iterdir() if card.is_dir()}
    if nic and nic not in macs:
        raise Refused(
            "network-card-unusable",
            f"nic {nic!r} cannot be used: this host has no network interface with this name.",
        )
    if mac in ([macs[nic]] if nic else macs.values()):
        return
    has = (
        f"The network interface {nic} has the MAC address {macs[nic]}"
        if nic
        else ("No network interface of this host has this MAC address")
    )
    raise Refused(
        "link-mac-mismatch",
        f"{has}, but the sender of the link sends to the MAC address {mac}, so this host would receive no "
        "datagrams. Set this MAC address for the network interface in the network settings of the host, or "
        "set mac of the link to the MAC address of the network interface. Then deploy both ends.",
    )


class SendingSocket:
    """The socket that sends to one address."""

    def __init__(self, address: Address, nic: str | None = None, buffer_bytes: int = 4 << 20) -> None:
        self._address = address
        self._socket = socket.socket(address.family, socket.SOCK_DGRAM)
        _bind_to_nic(self._socket, nic)
        _set_buffer(self._socket, SO_SNDBUFFORCE, socket.SO_SNDBUF, buffer_bytes)
        if address.family == socket.AF_INET:
            self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
        else:
            self._socket.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)
        self._segments = True
        self.refused = 0  # datagrams that the kernel would not take, for want of a route or by a firewall

    def send(self, pieces: Sequence[bytes], size: int) -> None:
        """Send datagrams of `size` bytes, the last one maybe shorter, in pieces one after the other.

        Waits where the socket's buffer is full. What is refused is counted.
        """
        length = sum(map(len, pieces))
        several = length > size
        control = [(socket.IPPROTO_UDP, UDP_SEGMENT, _SEGMENT.pack(size))] if several else []
        try:
            if several and not self._segments:
                self._one_by_one(b"".join(pieces), size)
            else:
                self._socket.sendmsg(pieces, control, 0, self._address.where)
        except OSError as error:
            if error.errno == errno.ENOBUFS:  # the card's queue is full
                time.sleep(0.001)
                self.send(pieces, size)
            elif several and self._segments and error.errno in (errno.EINVAL, errno.EIO, errno.EMSGSIZE):
                self._segments = False  # a kernel or a card that can't
                self.send(pieces, size)
            elif error.errno == errno.EMSGSIZE:
                raise Refused(
                    "datagram-size-unsuitable",
                    f"A datagram of {min(size, length)} bytes is too large for the network to "
                    f"{self._address}. Reduce payloadSize or mtu.",
                ) from None
            else:
                self.refused += -(-length // size)

    def _one_by_one(self, datagrams: bytes, size: int) -> None:
        for start in range(0, len(datagrams), size):
            self._socket.sendmsg([datagrams[start : start + size]], (), 0, self._address.where)

    def close(self) -> None:
        self._socket.close()


class ReceivingSocket:
    """The socket that receives at one address, for one thread."""

    def __init__(
        self,
        address: Address,
        nic: str | None = None,
        buffer_bytes: int = 32 << 20,
        kept: socket.socket | None = None,
    ) -> None:
        """Refused if the address is not this host's, or taken; `kept`: a socket that `listens` there."""
        self._socket = kept or _bound(address, nic)
        _set_buffer(self._socket, SO_RCVBUFFORCE, socket.SO_RCVBUF, buffer_bytes)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        with suppress(OSError):  # an old kernel: one datagram at a time
            self._socket.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        self.address = self._socket.getsockname()
        # Linux tells twice what it was asked for, and no more than it gave.
        self.buffer_bytes = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        # Datagrams, by the kernel, when the buffer was full; it may count too few.
        (self.dropped,) = _MEMORY.unpack(self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _MEMORY.size))
        self._buffer = bytearray(LARGEST)
        self._view = memoryview(self._buffer)

    def receive(self, seconds: float) -> tuple[memoryview, int]:
        """Return the next datagrams one after the other, and the size of each; the last one may be smaller.

        Valid until the next call; a size of 0: nothing came in time.
        """
        self._socket.settimeout(seconds)
        try:
            length, control, _, _ = self._socket.recvmsg_into([self._buffer], 128)
        except TimeoutError:
            return self._view[:0], 0
        size = max(1, length)  # one that is empty has come, too
        for level, kind, payload in control:
            if (level, kind) == (socket.IPPROTO_UDP, UDP_GRO):
                (size,) = _RECEIVED.unpack_from(payload)
            elif (level, kind) == (socket.SOL_SOCKET, SO_RXQ_OVFL):
                (self.dropped,) = _DROPPED.unpack_from(payload)
        return self._view[:length], size

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def listens(endpoint: socket.socket, address: Address, nic: str | None) -> bool:
    """Tell whether a socket receives what comes to the address by that card, or by any.

    It does not where its card is gone, even if there is another one of that name (ENODEV, in socket(7)).
    """
    try:
        bound = endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, IFNAMSIZ)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        return False
    device = bound.rstrip(b"\0").decode()
    where = endpoint.family, endpoint.getsockname()[:2], device
    return where == (address.family, address.where[:2], nic or "")


def _bound(address: Address, nic: str | None) -> socket.socket:
    endpoint = socket.socket(address.family, socket.SOCK_DGRAM)
    _bind_to_nic(endpoint, nic)
    try:
        endpoint.bind(address.where)
    except OSError as error:
        endpoint.close()
        raise Refused("link-address-unusable", f"Cannot listen on {address}: {error.strerror}.") from None
    return endpoint


def _bind_to_nic(endpoint: socket.socket, nic: str | None) -> None:
    if nic:
        try:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, nic.encode() + b"\0")
        except OSError as error:
            endpoint.close()
            raise Refused("network-card-unusable", f"nic {nic!r} cannot be used: {error.strerror}.") from None


def _set_buffer(endpoint: socket.socket, force: int, ask: int, size: int) -> None:
    """Set a socket's buffer to `size` bytes.

    Beyond the system's limit if the process may (CAP_NET_ADMIN), else as much of it as it gives.
    """
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, force, size)
    except PermissionError:
        endpoint.setsockopt(socket.SOL_SOCKET, ask, size)
