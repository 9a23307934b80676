"""Sentences for what goes wrong between kafka-python and a cluster."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from kafka.errors import KafkaError, KafkaTimeoutError

from aqueduct.errors import Failed
from aqueduct.kafka import addresses
from aqueduct.kafka.addresses import AddressUnreachableError, NoAddressReachableError

# Otherwise Python prints what kafka-python warns of, such as each lost connection, beside our sentence.
logging.getLogger("kafka").addHandler(logging.NullHandler())

# An attempt that the time limit cut off, as kafka-python says it; one before it may have told why.
CUT_OFF = "Connection timed out"

# The names of kafka-python's own threads.
OWN_THREAD = "kafka-io-"

# How every client of ours reconnects.
RECONNECT: dict[str, Any] = {
    "reconnect_backoff_max_ms": 1000,  # a broker that is being started is found soon
    "metadata_max_age_ms": 1000,  # and so are its address and the others'
}


@contextmanager
def reaching(bootstrap_servers: str, timeout_seconds: float) -> Iterator[None]:
    """Make what keeps a client from its first answer a sentence, Failed."""
    with TellingFailure() as failure:
        try:
            yield
        except (KafkaError, OSError, ValueError) as error:
            raise Failed(
                "cluster-unreachable",
                f"No Kafka broker can be reached at {bootstrap_servers} within {timeout_seconds:g} s "
                f"({addresses.reason(str(failure.error or error))}). Check that the broker runs, and that "
                "the TLS settings of the client match the listener.",
            ) from error


@contextmanager
def answering(bootstrap_servers: str) -> Iterator[None]:
    """Make a KafkaError of this cluster a sentence, Failed."""
    try:
        yield
    except NoAddressReachableError as error:
        raise Failed("broker-address-unreachable", str(error)) from error
    except KafkaError as error:
        message = f"The cluster at {bootstrap_servers} rejected a request or did not answer: {error}"
        # kafka-python's timeouts do not say which broker did not answer.
        causes = [message.rstrip(".") + "."]
        if isinstance(error, KafkaTimeoutError) and (unreached := addresses.unreached()):
            causes.append(unreached)
        raise Failed("cluster-request-failed", " ".join(causes)) from error


class TellingFailure(logging.Handler):
    """The reason why connecting failed: kafka-python logs that, and raises only a timeout.

    All clients of the process write to the same log. A client connects in the thread that uses it, or, as
    kafka-python's consumer and admin client, in a thread of its own.
    """

    error: Exception | None = None

    def __init__(self, broker: int | None = None) -> None:
        """`broker`: the only one of which errors count; None: all."""
        super().__init__()
        self._broker = broker
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread and not str(record.threadName).startswith(OWN_THREAD):
            return
        for argument in record.args or ():
            if not isinstance(argument, Exception) or isinstance(argument, KafkaTimeoutError):
                continue
            if isinstance(argument, AddressUnreachableError) and self._broker not in (None, argument.broker):
                continue
            if self.error is None or CUT_OFF not in str(argument):
                self.error = argument

    def __enter__(self) -> Self:
        logging.getLogger("kafka.net.manager").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("kafka.net.manager").removeHandler(self)
