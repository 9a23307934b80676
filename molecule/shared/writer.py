"""A client that never stops writing, whatever is done to its broker."""

import random
import threading
import time
from collections.abc import Iterable

from lab import Lab

from demo.flights import Flight


class Writer(threading.Thread):
    """Writes records with seeded pauses until it is stopped; counts what the broker acknowledged."""

    def __init__(
        self,
        lab: Lab,
        host: str,
        topic: str,
        principal: str,
        records: Iterable[Flight],
        chance: random.Random,
        *,
        pause: tuple[float, float] = (0.02, 0.15),  # of seconds, after 100 records
        **settings: object,
    ) -> None:
        super().__init__(name=f"{host} {topic}", daemon=True)
        self.host, self.topic = host, topic
        self.acknowledged = 0
        self.failures: list[str] = []
        self._producer = lab.producer(host, principal, **settings)
        self._records, self._chance, self._pause = records, chance, pause
        self._stop_asked = threading.Event()

    def run(self) -> None:
        def delivered(error: object, _: object) -> None:
            if error:
                self.failures.append(str(error))
            else:
                self.acknowledged += 1

        for number, flight in enumerate(self._records):
            if self._stop_asked.is_set():
                break
            self._producer.produce(
                self.topic,
                flight.value,
                flight.key,
                timestamp=flight.timestamp,
                headers=list(flight.headers),
                on_delivery=delivered,
            )
            self._producer.poll(0)
            if number % 100 == 0:
                time.sleep(self._chance.uniform(*self._pause))
        self._producer.flush()

    def stop(self) -> None:
        self._stop_asked.set()
        self.join(timeout=600)

    def finish(self) -> int:
        self.stop()
        assert not self.is_alive(), f"the producer to {self.name} did not finish within 600 s"
        assert not self.failures, f"{len(self.failures)} records to {self.name} failed: {self.failures[0]}"
        return self.acknowledged
