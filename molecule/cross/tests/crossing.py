"""Both sides of the link, as the tests see and break them."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from lab import Lab, Record, wait_until

from demo.flights import Flight
from demo.offsets import watermarks

SOURCE, TARGET = "pro1-kafka-1", "enclave-kafka-1"
UPSTREAM, DOWNSTREAM = "pro1-diode-1", "enclave-diode-1"
MASTER, WORKERS = "enclave-spark-1", ("enclave-spark-2", "enclave-spark-3")
TOPIC, GAPS = "flights", "diode-gaps-pro1"
Listed = dict[int, set[int]]  # offsets by partition
Entries = dict[int, dict[str, Any]]  # of the ledger, by partition
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
                producer.flush(300)
        assert producer.flush(300) == 0

    def sent(self) -> dict[int, list[Record]]:
        return self.lab.read(SOURCE, TOPIC)

    def arrived(self) -> dict[int, list[Record]]:
        return self.lab.read(TARGET, TOPIC)

    def wait_until_equal(self) -> None:
        sent = self.sent()
        wait_until("what was sent in the enclave", lambda: count(self.arrived()) >= count(sent))

    def ledgers(self) -> dict[str, Entries]:
        """The newest entry of each partition, by topic, as a reader of the gap topic sees it."""
        newest: dict[str, Entries] = defaultdict(dict)
        for records in self.lab.read(TARGET, GAPS).values():
            for record in records:
                entry = json.loads(record.value or b"{}")
                assert entry.get("parts") == 0, "a tombstone, or more gaps than this reader knows"
                if not entry["retired"]:
                    newest[entry["topic"]][entry["partition"]] = entry
        return newest

    def wait_until_no_gaps(self) -> None:
        """Wait until the ledger has all partitions of the flights, and lists nothing of them as missing."""

        def complete() -> bool:
            gaps = [entry["gaps"] for entry in self.ledgers()[TOPIC].values()]
            assert gaps == [[]] * 4, gaps
            return True

        wait_until("a ledger without gaps", complete)

    def packets_out(self) -> int:
        """That left the enclave's host by the link's network card since it was made."""
        return self._counted("tx_packets")

    def packets_in(self) -> int:
        """Many datagrams may be one packet, as the kernel has it."""
        return self._counted("rx_packets")

    def bytes_in(self) -> int:
        return self._counted("rx_bytes")

    def _counted(self, what: str) -> int:
        return int(self.lab.run(DOWNSTREAM, "cat", f"/sys/class/net/{CARD}/statistics/{what}").stdout)

    def figures(self, host: str, second: bool = False) -> dict[str, float]:
        """What an end of a link says of itself, by the figures' names."""
        return self._figures(host, (9810 if host == UPSTREAM else 9830) + second, "aqueduct_diode_")

    def dedup_figures(self) -> dict[str, float]:
        return self._figures(DOWNSTREAM, 9850, "aqueduct_dedup_")

    def _figures(self, host: str, port: int, prefix: str) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for line in self.lab.metrics(host, port).splitlines():
            if line.startswith(prefix):
                name, value = line.split()
                found[name.removeprefix(prefix).partition("{")[0]] += float(value)
        return found

    def knock(self) -> None:
        """What makes a host answer: a datagram to a port where nobody listens."""
        program = (
            f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'?', ('{ADDRESS}', {CLOSED_PORT}))"
        )
        self.lab.run(UPSTREAM, "python3", "-c", program)

    def started(self, host: str, unit: str) -> str:
        """When its process was."""
        show = ("systemctl", "show", "--property=ExecMainStartTimestampMonotonic", unit)
        return self.lab.run(host, *show).stdout

    def behind(self, topics: Iterable[str], second: bool = False) -> int:
        """Offsets at the source that the sending end has not committed as sent. Failed where it has committed
        nothing yet."""
        group = f"aqueduct-diode-enclave-{'second' if second else 'pro1'}"
        consumer = Consumer({**self.lab.client(SOURCE), "group.id": group})
        try:
            known = consumer.list_topics(timeout=60).topics
            places = [TopicPartition(topic, number) for topic in topics for number in known[topic].partitions]
            ends = [watermarks(consumer, place)[1] for place in places]
            reached = [place.offset for place in consumer.committed(places, 60)]
            assert min(reached) >= 0, "some are not followed yet"
            return sum(end - offset for end, offset in zip(ends, reached, strict=True))
        finally:
            consumer.close()

    def wait_until_sent(self, *topics: str, second: bool = False) -> None:
        wait_until("everything as sent", lambda: self.behind(topics, second) == 0)


def count(topic: dict[int, list[Record]]) -> int:
    return sum(map(len, topic.values()))
