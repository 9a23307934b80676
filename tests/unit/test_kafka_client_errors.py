"""Messages about a cluster that can't be reached."""

import logging
from threading import Thread

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.kafka.addresses import AddressUnreachableError
from aqueduct.kafka.client_errors import TellingFailure, reaching


def fail(error: Exception) -> None:
    """Write what kafka-python writes about a connection."""
    logging.getLogger("kafka.net.manager").error("Connection failed: %s", error)


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        (["Handshake failed: wrong CA", "Connection timed out"], "Handshake failed: wrong CA"),
        (["Connection timed out", "Handshake failed: wrong CA"], "Handshake failed: wrong CA"),
        (["Connection refused", "Handshake failed: wrong CA"], "Handshake failed: wrong CA"),
        (["Connection timed out"], "the connection timed out"),
    ],
)
def test_timed_out_attempt_does_not_hide_real_error(attempts: list[str], told: str) -> None:
    def connect() -> None:
        for each in attempts:
            fail(KafkaConnectionError(each))
        raise KafkaTimeoutError("Unable to bootstrap")

    with raises(Failed, "cluster-unreachable", "kafka:9092", "1 s", told), reaching("kafka:9092", 1):
        connect()


@pytest.mark.parametrize(("thread", "counts"), [("kafka-io-mirror", True), ("task-1", False)])
def test_reason_is_not_that_of_another_client(thread: str, counts: bool) -> None:
    """Clients of other clusters write to the same log. Some clients of kafka-python have their own thread."""
    own, other = (
        KafkaConnectionError("Connection refused"),
        KafkaConnectionError("Handshake failed: wrong CA"),
    )
    with TellingFailure() as failure:
        fail(own)
        connecting = Thread(target=fail, args=(other,), name=thread)
        connecting.start()
        connecting.join()
    assert failure.error is (other if counts else own)


def test_reason_is_not_that_of_another_broker() -> None:
    with TellingFailure(2) as failure:
        fail(own := AddressUnreachableError(2, "two:9092", "the connection timed out"))
        fail(AddressUnreachableError(1, "one:9092", "the connection was refused"))
    assert failure.error is own
