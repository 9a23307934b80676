"""An address that does not answer is an error of each kind of client of librdkafka."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaTimeoutError
from kit.clients import wait_for
from kit.identifiers import raises
from kit.silent_address import silent_address

from aqueduct.errors import Failed
from aqueduct.kafka import addresses, client_config
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.client_errors import answering

POLLED: list[tuple[type[Any], Callable[[Any], Any]]] = [
    (AdminClient, lambda client: client.poll(0.1)),
    (Producer, lambda client: client.poll(0.1)),
    (Consumer, lambda client: client.poll(0.1)),
    (Consumer, lambda client: client.consume(10, 0.1)),
]


@pytest.mark.parametrize(("kind", "poll"), POLLED)
def test_address_that_does_not_answer_is_an_error(
    kind: type[Any], poll: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_config, "CONNECTION_SETUP_MILLISECONDS", 1_000)
    errors: list[KafkaError] = []
    with silent_address() as address:
        settings = ClientConfig().librdkafka() | addresses.librdkafka_errors(errors.append)
        settings |= {"bootstrap.servers": address} | ({"group.id": "g"} if kind is Consumer else {})
        client = kind(settings)

        def is_reported() -> bool:
            poll(client)
            return any(error.str().startswith(f"{address}/bootstrap: ") for error in errors)

        wait_for("the address", is_reported)
        if kind is Consumer:
            client.close()


def test_setup_timeout_of_a_broker_is_understood() -> None:
    errors: list[KafkaError] = []
    logger = addresses.librdkafka_errors(errors.append)["logger"]
    line = "127.0.0.1:9092/2: Connection setup timed out in state CONNECT (after 10006ms in state CONNECT)"
    logger.log(
        logging.WARNING, "%s [%s] %s", "FAIL", "rdkafka#consumer-1", f"[thrd:127.0.0.1:9092/2]: {line}"
    )
    logger.log(logging.WARNING, "%s [%s] %s", "REQTMOUT", "rdkafka#consumer-1", "[thrd:main]: 1 timed out")
    [error] = errors
    assert addresses.unreachable(error.str()) == (2, "127.0.0.1:9092", "the connection timed out")


def test_other_lines_of_the_log_are_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[KafkaError] = []
    logger = addresses.librdkafka_errors(errors.append, logging.getLogger("link"))["logger"]
    logger.log(logging.WARNING, "%s [%s] %s", "FAIL", "rdkafka#producer-1", "a:9092/2: Disconnected")
    assert [(entry.levelno, entry.name) for entry in caplog.records] == [(logging.WARNING, "link")]
    assert errors == []


def test_timeout_names_addresses_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_reported", {})
    addresses.report(2, "nobody.invalid:9092", "the connection timed out")
    timeout = KafkaTimeoutError("Failed to get offsets by timestamps in 30000 ms.")
    facts = ("one:9092", "30000 ms", "nobody.invalid:9092")
    with raises(Failed, "cluster-request-failed", *facts), answering("one:9092"):
        raise timeout
