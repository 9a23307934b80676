"""Clients at work while a cluster is changed under them: an idempotent producer, and a group that commits."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Producer

PAUSE_SECONDS = 0.002  # between records


class Traffic(threading.Thread):
    """Writes numbered records to partitions by turns, and reads them in a group, until it is stopped."""

    def __init__(
        self, client: Mapping[str, object], topic: str, group: str, partitions: int, first: int = 0
    ) -> None:
        """`first` is the number of records that the topic has already, which the group reads, too."""
        super().__init__(daemon=True)
        self.topic, self.sent = topic, {number: list[bytes]() for number in range(partitions)}
        self.faults: list[str] = []
        self.read: dict[int, dict[int, bytes]] = defaultdict(dict)  # by partition and offset
        self._many = first
        self._over = threading.Event()
        self._producer = Producer(
            {
                **client,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
                "queue.buffering.max.messages": 1_000_000,  # of all minutes in which no broker accepts them
            }
        )
        self._consumer = Consumer(
            {**client, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )

    def run(self) -> None:
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        number, partitions = 0, len(self.sent)
        while not self._over.wait(PAUSE_SECONDS):
            partition, value = number % partitions, f"traffic-{number}".encode()
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self.sent[partition].append(value)
            self._producer.poll(0)
            number += 1
        if left := self._producer.flush(300):
            self.faults.append(f"{left} records were not delivered")
        reading.join(600)
        if reading.is_alive():
            self.faults.append("the group did not read all records within 600 s")

    def finish(self) -> None:
        """Return when all that was written was acknowledged and read."""
        self._over.set()
        self.join(1200)
        assert not self.is_alive(), "the traffic does not end"
        assert not self.faults, self.faults[:3]

    def _delivered(self, error: object, _: object) -> None:
        if error:
            self.faults.append(str(error))

    def _read(self) -> None:
        self._consumer.subscribe([self.topic])
        while not self._over.is_set() or sum(map(len, self.read.values())) < self._many + self._written():
            messages = [each for each in self._consumer.consume(500, 0.2) if not each.error()]
            for each in messages:
                read, offset = self.read[each.partition()], each.offset()
                if read.setdefault(offset, each.value()) != each.value():
                    self.faults.append(f"{each.partition()}@{offset} was another record before")
            try:
                if messages:
                    self._consumer.commit(asynchronous=False)
            except KafkaException as error:  # it is read again where that was not done
                print(f"A commit failed: {error}")
        self._consumer.close()

    def _written(self) -> int:
        return sum(map(len, self.sent.values()))

    def values(self) -> dict[int, Sequence[bytes]]:
        """Return what the group read, by partition, in the order of offsets."""
        return {partition: [read[at] for at in sorted(read)] for partition, read in self.read.items()}
