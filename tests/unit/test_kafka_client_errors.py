"""Messages about a cluster that can't be reached."""

import logging

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.kafka.client_errors import reaching


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
            logging.getLogger("kafka.net.manager").error("Connection failed: %s", KafkaConnectionError(each))
        raise KafkaTimeoutError("Unable to bootstrap")

    with raises(Failed, "cluster-unreachable", "kafka:9092", "1 s", told), reaching("kafka:9092", 1):
        connect()
