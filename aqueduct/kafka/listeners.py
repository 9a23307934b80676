"""A broker's listeners: who is connected to which, and whose protocol is another one.

Pure: the caller reads. What a broker logs was seen with Kafka 3.9.2 and 4.3.1. Its channel tells by which
port a client came; "SSL handshake failed" does not tell why. A client that speaks SASL to a listener without
it is answered, and nothing is logged.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from aqueduct.common.wording import count, some
from aqueduct.errors import Refused
from aqueduct.kafka.client_config import PROTOCOLS

ESTABLISHED = "01"
# A client that was told no comes again within 10 s (librdkafka), or 1 s (Java): a probe or a scan does not.
TIMES = 5  # in what was given of the log

_LISTENER = re.compile(r"\s*([\w.-]+)://.*:(\d+)\s*")
# A channel of a listener, unlike one to another broker, has both addresses in its name.
_FAILED = re.compile(
    r"(?:Failed authentication with|Unexpected error from) [^\s/]*+/([^\s/]++) \(channelId=\S*?:(\d+)-"
)
_SIZE = re.compile(r"Invalid receive \(size = (\d+) ")
_TLS = 0x1603  # how a ClientHello begins (RFC 8446, 5.1): Kafka takes it for the upper half of a size
_NO_TLS, _NO_LOGIN, _NEEDLESS_TLS = range(3)

ByAddress = Counter[str]


@dataclass(frozen=True)
class BrokerListener:
    name: str
    protocol: str  # one of PROTOCOLS
    port: int

    def __str__(self) -> str:
        return f"{self.name} ({self.protocol}, port {self.port})"


def configured(properties: Mapping[str, str]) -> list[BrokerListener]:
    """Return a broker's listeners, with Kafka's defaults; Refused where Kafka would refuse them."""
    pairs = (pair.rpartition(":") for pair in properties.get("listener.security.protocol.map", "").split(","))
    protocols = {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs if name}
    listeners = []
    for spec in properties.get("listeners", "PLAINTEXT://:9092").split(","):
        if not (parts := _LISTENER.fullmatch(spec)):
            raise Refused(
                "listener-config-invalid",
                f"Cannot read listeners: {spec.strip()!r} is not NAME://host:port.",
            )
        name = parts[1].upper()
        # Without a map a name is its protocol, and one of controllers that is none is PLAINTEXT (KIP-631).
        default = name if name in PROTOCOLS else "PLAINTEXT"
        protocol = protocols.get(name, "" if protocols else default)
        if protocol not in PROTOCOLS:
            raise Refused(
                "listener-config-invalid",
                f"listener.security.protocol.map has no protocol for the listener {name}.",
            )
        listeners.append(BrokerListener(name, protocol, int(parts[2])))
    return listeners


def connections(tables: Iterable[str]) -> dict[int, ByAddress]:
    """Count established connections by the port here and the address there.

    Tables are those of /proc/net/tcp and tcp6 (proc_pid_net(5)). Java listens to both by one IPv6 socket,
    which has IPv4 addresses as mapped ones.
    """
    clients_by_port: dict[int, ByAddress] = defaultdict(Counter)
    for table in tables:
        for line in table.splitlines()[1:]:
            _, local, remote, state, *_ = line.split()
            if state == ESTABLISHED:
                clients_by_port[int(local.partition(":")[2], 16)][_address(remote.partition(":")[0])] += 1
    return clients_by_port


def _address(text: str) -> str:
    """Decode an address: words of the host's own byte order, which hold the network's."""
    words = (int(text[index : index + 8], 16).to_bytes(4, sys.byteorder) for index in range(0, len(text), 8))
    address = ip_address(b"".join(words))
    return str((address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address)


def connected(listeners: Iterable[BrokerListener], by_port: Mapping[int, ByAddress]) -> Iterator[str]:
    """Tell of each listener who is connected; two with one port (KIP-797) have the same."""
    for listener in listeners:
        clients = by_port.get(listener.port, Counter())
        whence = f" from {_with_times(clients)}" if clients else ""
        yield f"Listener {listener}: {count(clients.total(), 'connection')}{whence}."


def mismatches(listeners: Iterable[BrokerListener], log: Iterable[str]) -> Iterator[str]:
    """Find clients of another protocol than their listener's, by lines of its broker's log."""
    failed: dict[tuple[int, int], ByAddress] = defaultdict(Counter)
    before = None
    for line in log:
        start = _FAILED.search(line)
        of, before = start or before, None
        if start and "; closing connection" in line:
            before = start  # why is in the next line, which begins with the exception
            continue
        kind = _kind(line)
        if of and kind is not None and (start or kind != _NO_TLS):
            failed[int(of[2]), kind][of[1]] += 1
    for listener in listeners:
        for kind in (_NO_TLS, _NO_LOGIN, _NEEDLESS_TLS):
            clients = failed[listener.port, kind].items()
            if still := Counter({address: times for address, times in clients if times >= TIMES}):
                yield _sentence(listener, kind, _with_times(still))


def _kind(line: str) -> int | None:
    if "(SSL handshake failed)" in line:
        return _NO_TLS
    if "Unexpected Kafka request" in line and "during SASL handshake" in line:
        return _NO_LOGIN
    if (size := _SIZE.search(line)) and int(size[1]) >> 16 == _TLS:
        return _NEEDLESS_TLS
    return None


def _sentence(listener: BrokerListener, kind: int, clients: str) -> str:
    remedy = f"In these clients, set security.protocol={listener.protocol}"
    if kind == _NO_TLS:
        return (
            f"The log shows repeated failed TLS handshakes at the listener {listener}: {clients}. These "
            "clients use plaintext, have no trusted certificate, or do not trust the broker's certificate. "
            f"{remedy}, a client certificate with its key, and the CA certificate of the brokers."
        )
    if kind == _NO_LOGIN:
        return (
            f"The log shows repeated connections without a SASL login at the listener {listener}: {clients}. "
            f"{remedy} and a sasl.mechanism."
        )
    return (
        f"The log shows repeated TLS connections to the listener {listener}, which does not use TLS: "
        f"{clients}. {remedy}, or use the port of a listener with TLS."
    )


def _with_times(clients: ByAddress) -> str:
    ordered = sorted(clients.items(), key=lambda client: (-client[1], client[0]))
    return some(f"{address} ({times:,})" for address, times in ordered)
