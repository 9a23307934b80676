"""Both sides of the link, as the tests see and break them."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from lab import Lab, Record, wait_until

from demo.flights import Flight

SOURCE, TARGET = "pro1-kafka-1", "enclave-kafka-1"
UPSTREAM, DOWNSTREAM = "pro1-diode-1", "enclave-diode-1"
TOPIC, GAPS = "flights", "diode-gaps-pro1"
CARD, ADDRESS = "eth1", "10.77.5.12"
CLOSED_PORT = 9


@dataclass(frozen=True)
class Crossing:
    lab: Lab

    def write(self, some: Iterable[Flight]) -> None:
        producer = self.lab.producer(SOURCE, "flights")
        for number, flight in enumerate(some):
            producer.produce(
                *(TOPIC, flight.value, flight.key, number % 4),
                timestamp=flight.timestamp,
                headers=list(flight.headers),
            )
            if number % 1000 == 0:  # so that there are many batches, of which some may be lost
                producer.flush(60)
        assert producer.flush(60) == 0

    def sent(self) -> dict[int, list[Record]]:
        return self.lab.read(SOURCE, TOPIC)

    def arrived(self) -> dict[int, list[Record]]:
        return self.lab.read(TARGET, TOPIC)

    def wait_until_equal(self) -> None:
        sent = self.sent()
        wait_until("what was sent in the enclave", lambda: count(self.arrived()) >= count(sent))

    def ledger(self) -> dict[str, Any]:
        """The newest entry of each partition, as a reader of the gap topic sees it."""
        found = {}
        for records in self.lab.read(TARGET, GAPS).values():
            for record in records:
                assert record.key is not None
                found[record.key.decode()] = json.loads(record.value or b"{}")
        return found

    def missing(self) -> int:
        """Offsets that the ledger lists."""
        return sum(last - first + 1 for entry in self.ledger().values() for first, last in entry["gaps"])

    def packets_out(self) -> int:
        """That left the enclave's host by the link's network card since it was made."""
        return int(self.lab.run(DOWNSTREAM, "cat", f"/sys/class/net/{CARD}/statistics/tx_packets").stdout)

    def packets_in(self) -> int:
        return int(self.lab.run(DOWNSTREAM, "cat", f"/sys/class/net/{CARD}/statistics/rx_packets").stdout)

    def knock(self) -> None:
        """What makes a host answer: a datagram to a port where nobody listens."""
        program = (
            f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'?', ('{ADDRESS}', {CLOSED_PORT}))"
        )
        self.lab.run(UPSTREAM, "python3", "-c", program)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """What is sent meanwhile does not arrive."""
        table = ("table", "inet", "cut")
        self.lab.run(DOWNSTREAM, "nft", "add", *table)
        hook = "{ type filter hook input priority 0; }"
        self.lab.run(DOWNSTREAM, "nft", "add", "chain", *table[1:], "input", hook)
        self.lab.run(DOWNSTREAM, "nft", "add", "rule", *table[1:], "input", "iifname", CARD, "drop")
        try:
            yield
        finally:
            self.lab.run(DOWNSTREAM, "nft", "delete", *table)

    def started(self, host: str, unit: str) -> str:
        """When its process was."""
        show = ("systemctl", "show", "--property=ExecMainStartTimestampMonotonic", unit)
        return self.lab.run(host, *show).stdout

    def lag(self) -> int:
        """Offsets at the source that the sending end has not committed as sent."""
        consumer = Consumer({**self.lab.client(SOURCE), "group.id": "aqueduct-diode-enclave-pro1"})
        try:
            places = [TopicPartition(TOPIC, number) for number in range(4)]
            ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
            return sum(
                end - place.offset for end, place in zip(ends, consumer.committed(places, 30), strict=True)
            )
        finally:
            consumer.close()


def count(topic: dict[int, list[Record]]) -> int:
    return sum(map(len, topic.values()))
