"""The addresses that brokers advertise, and what a user reads if one of them cannot be reached.

A client connects to a bootstrap server, and then to the addresses that this one reports. Where the second
step fails, the bootstrap servers are not the reason: the sentences here identify the broker and its address.
"""

import logging
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from aqueduct.errors import labelled

REMEDY = (
    "Make sure that this host can resolve and reach this address, or correct advertised.listeners of the "
    "broker. A firewall or a TLS setting can also be the cause."
)
# After which a client gives up that has reached no advertised address of the cluster, in this process.
UNREACHED_SECONDS = 5
CONNECT_MILLISECONDS = 5_000  # of the first attempt, and of each later one twice as long

# What kafka-python and librdkafka say, and what a user reads.
_REASONS = (
    (r"DNS Resolution failure|DNS lookup failed|Failed to resolve", "the host name cannot be resolved"),
    (r"ECONNREFUSED|Connection refused", "the connection was refused"),
    (r"EHOSTUNREACH|ENETUNREACH|No route to host|Network is unreachable", "there is no route to the host"),
    (r"timed out|ETIMEDOUT|\btimeout\b|TimeoutError", "the connection timed out"),
)
# librdkafka writes SCHEME://HOST:PORT/ID for an advertised address, and .../bootstrap for one of the user.
_LIBRDKAFKA = re.compile(r"(?:\w+://)?(?P<address>\S+:\d+)/(?P<broker>\d+): (?P<reason>.*)", re.DOTALL)
# A line of librdkafka's log: `error_cb` does not get the connections that timed out.
_SETUP_TIMEOUT = re.compile(r"\S+/\w+: Connection setup timed out.*", re.DOTALL)
_LIBRDKAFKA_WARNINGS = 4  # level of its log

_reached: set[str] = set()  # addresses, by this process
_reported: dict[tuple[int, str], str] = {}  # reasons, by broker and address, until it is reached again


class AddressUnreachableError(KafkaConnectionError):  # type: ignore[misc]
    """A broker that cannot be reached at its advertised address now: another attempt may succeed."""

    def __init__(self, broker: int, address: str, reason: str) -> None:
        self.broker = broker
        self.reason = reason
        super().__init__(sentence(broker, address, reason))

    def __str__(self) -> str:
        return str(self.args[0])


class NoAddressReachableError(KafkaError):  # type: ignore[misc]
    """No broker can be reached at its advertised address, and this process never reached one."""

    def __str__(self) -> str:
        return str(self.args[0])


class AddressManager(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's maker of connections, whose errors identify the broker and its advertised address."""

    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        # A setting of this class alone: kafka-python's own consumer and producer refuse it.
        super().__init__(net, **{"socket_connection_setup_timeout_ms": CONNECT_MILLISECONDS, **configs})
        self._failed: dict[int, str] = {}  # by broker: the sentence
        self._tried = 0.0  # when an advertised address was tried first, by the monotonic clock

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        if self.cluster.is_bootstrap(node.node_id):
            return await self._transport(node, timeout_at)
        address = f"{node.host}:{node.port}"
        self._tried = self._tried or time.monotonic()
        try:
            transport = await self._transport(node, timeout_at)
        except (KafkaError, OSError) as error:
            raise self._unreachable(node.node_id, address, reason(str(error))) from error
        _reached.add(address)
        _reported.pop((node.node_id, address), None)
        self._failed.pop(node.node_id, None)
        return transport

    async def _transport(self, node: Any, timeout_at: float | None) -> Any:
        return await super()._build_transport(node, timeout_at)

    def _unreachable(self, broker: int, address: str, reason: str) -> KafkaError:
        error = AddressUnreachableError(broker, address, reason)
        report(broker, address, reason)
        self._failed[broker] = str(error)
        brokers = {node.node_id: f"{node.host}:{node.port}" for node in self.cluster.brokers()}
        if (
            brokers.keys() <= self._failed.keys()
            and _reached.isdisjoint(brokers.values())
            and time.monotonic() > self._tried + UNREACHED_SECONDS
        ):
            whys = " ".join(self._failed[node_id] + "." for node_id in sorted(brokers))
            return NoAddressReachableError(f"{whys} {REMEDY}")
        return error


def client(**configs: Any) -> KafkaNetClient:
    """Return a client for `kafka_client` of kafka-python's consumer, producer and admin client."""
    net = NetworkSelector(**configs)
    return KafkaNetClient(net, AddressManager(net, **configs))


def reason(text: str) -> str:
    """Return why a connection failed, by the words of a client's library."""
    for pattern, words in _REASONS:
        if re.search(pattern, text):
            return words
    return re.sub(r"^\w+Error: | \(after .*", "", text).rstrip(".")


def sentence(broker: int, address: str, reason: str) -> str:
    """Return a sentence without its full stop."""
    return f"Broker {broker} cannot be reached at its advertised address {address}: {reason}"


def report(broker: int, address: str, reason: str) -> None:
    """Print that an advertised address cannot be reached, once until it was reached again."""
    if (broker, address) not in _reported:
        _reported[broker, address] = reason
        message = labelled("broker-address-unreachable", f"{sentence(broker, address, reason)}. {REMEDY}")
        print(f"aqueduct: {message} Retrying.", file=sys.stderr, flush=True)


def unreached() -> str:
    """Return what a user reads of the advertised addresses that cannot be reached now; empty: of none."""
    sentences = " ".join(f"{sentence(*endpoint, reason)}." for endpoint, reason in sorted(_reported.items()))
    return sentences and f"{sentences} {REMEDY}"


def report_librdkafka(error: Any) -> None:
    """Print an error of librdkafka if it is about an advertised address, as `report`; for `error_cb`."""
    if failure := unreachable(error.str()):
        report(*failure)


class _SetupTimeouts(logging.Handler):
    """Pass librdkafka's connection timeouts to a callback as errors, and its other lines to a log."""

    def __init__(self, callback: Callable[[Any], None], others: logging.Logger | None) -> None:
        super().__init__()
        self._callback, self._others = callback, others

    def emit(self, record: logging.LogRecord) -> None:
        from confluent_kafka import KafkaError as LibrdkafkaError  # hosts without its clients lack it

        text = record.getMessage()
        if timeout := _SETUP_TIMEOUT.search(text):
            self._callback(LibrdkafkaError(LibrdkafkaError._TRANSPORT, timeout[0]))
        elif self._others:
            self._others.log(record.levelno, "%s", text)


def librdkafka_errors(
    callback: Callable[[Any], None] = report_librdkafka, others: logging.Logger | None = None
) -> dict[str, Any]:
    """Return settings of a client of librdkafka that passes its errors to `callback`.

    They include the connections that get no answer in time, which librdkafka only logs. `others`: receives
    the other lines of its log, from warnings up; None: they are dropped. Both are called by the client's
    poll().
    """
    logger = logging.Logger("librdkafka")
    logger.addHandler(_SetupTimeouts(callback, others))
    return {"error_cb": callback, "log_level": _LIBRDKAFKA_WARNINGS, "logger": logger}


def unreachable(text: str) -> tuple[int, str, str] | None:
    """Return the broker, the address and the reason, if an error of librdkafka is about those."""
    match = _LIBRDKAFKA.match(text)
    if not match or not any(re.search(pattern, match["reason"]) for pattern, _ in _REASONS):
        return None
    return int(match["broker"]), match["address"], reason(match["reason"])
