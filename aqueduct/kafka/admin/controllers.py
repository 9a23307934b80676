"""Controllers, asked at their own addresses: brokers that are led out of ZooKeeper can't tell of them."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError, NotLeaderForPartitionError, for_code
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.parser import KafkaProtocol

from aqueduct.common.deadlines import within
from aqueduct.kafka.admin.cluster import METADATA_LOG, as_quorum
from aqueduct.kafka.admin.features import versions_request
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.cluster import NO_QUORUM, Quorum
from aqueduct.kafka.tls import tls_context

SECONDS = 5  # for a controller to take the connection, and to answer
READ_BYTES = 1 << 16

# From version 1 on it says when each had all of the log.
_DESCRIBE = DescribeQuorumRequest(topics=METADATA_LOG, version=1)


@dataclass(frozen=True)
class Controllers:
    """What controllers say together, by their addresses."""

    migrating: Mapping[
        str, bool
    ]  # whether each is set to migrate from ZooKeeper (KIP-866), of those that answer
    silent: Mapping[str, str]  # why others don't answer
    quorum: Quorum  # as its leader tells it


def look(addresses: Sequence[str], config: ClientConfig) -> Controllers:
    """Ask each controller, once."""
    migrating, silent, quorum = {}, {}, NO_QUORUM
    for address in addresses:
        try:
            versions, state = _ask(address, config, versions_request(3), _DESCRIBE)
            for code in (versions.error_code, state.error_code):
                if code:
                    raise for_code(code)()
        except (OSError, KafkaError) as error:
            silent[address] = str(error) or type(error).__name__
            continue
        migrating[address] = versions.zk_migration_ready
        [partition] = state.topics[0].partitions
        if not partition.error_code:
            quorum = as_quorum(partition)
        elif for_code(partition.error_code) is not NotLeaderForPartitionError:
            silent[address] = for_code(partition.error_code).__name__
    return Controllers(migrating, silent, quorum)


def without_zookeeper(brokers: Sequence[str], config: ClientConfig) -> list[str]:
    """Return the addresses of those brokers that run without ZooKeeper.

    They alone know DescribeQuorum. To follow the quorum's log is no sign: who migrates does, too.
    """
    addresses = []
    for address in brokers:
        try:
            [versions] = _ask(address, config, versions_request(3))
        except (OSError, KafkaError):
            continue
        if any(api.api_key == DescribeQuorumRequest.API_KEY for api in versions.api_keys):
            addresses.append(address)
    return addresses


def _ask(address: str, config: ClientConfig, *requests: Any) -> list[Any]:
    """Return a server's responses. kafka-python's client asks for Metadata, which controllers refuse."""
    responses: list[Any] = within(2 * SECONDS, lambda: _responses(address, config, requests))
    return responses


def _responses(address: str, config: ClientConfig, requests: Sequence[Any]) -> list[Any]:
    host, _, port = address.rpartition(":")
    protocol = KafkaProtocol(client_id="aqueduct")
    responses: list[Any] = []
    with socket.create_connection((host.strip("[]"), int(port)), SECONDS) as plain:
        context = tls_context(config) if config.tls else None
        with context.wrap_socket(plain, server_hostname=host) if context else plain as connection:
            for request in requests:
                protocol.send_request(request)
            connection.sendall(protocol.send_bytes())
            while len(responses) < len(requests):
                if not (received := connection.recv(READ_BYTES)):
                    raise ConnectionError("the controller closed the connection")
                responses += [response for _, response in protocol.receive_bytes(received)]
    return responses
