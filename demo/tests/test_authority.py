"""The authority is replaced while flights stream: none is lost, none doubled, and old keys are refused."""

import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from demo.__main__ import AIRPORTS, LAB
from demo.flights import Flight, flights
from demo.lab import to_the_end

pytestmark = pytest.mark.long

STEPS = ("introduce", "switch", "retire")
SINCE, NUMBER = 2_000, "number"  # records of one client, after which another takes the key that is there then
SECONDS = 900


class Writer(threading.Thread):
    """Writes flights of one airport to a site without an end, each with a number of its own."""

    def __init__(self, site: str) -> None:
        super().__init__(daemon=True)
        self.site, self.acknowledged, self._numbers = site, set[str](), count()
        self.failures: list[object] = []
        self.stop = threading.Event()

    def run(self) -> None:
        try:
            some = (flight for _ in count() for flight in flights(AIRPORTS[self.site]))
            while not self.stop.is_set():
                self.write(some)
        except BaseException as error:
            self.failures.append(error)

    def write(self, some: Iterator[Flight]) -> None:
        client = {**LAB.client(LAB.brokers[self.site], "flights"), "log_level": 0}  # brokers restart
        producer = Producer({**client, "enable.idempotence": True, "message.timeout.ms": SECONDS * 1000})
        for _, flight in zip(range(SINCE), some, strict=False):
            number = f"{self.site}-{next(self._numbers)}"

            def delivered(error: object, _: object, number: str = number) -> None:
                self.failures.append(error) if error else self.acknowledged.add(number)

            producer.produce(
                "flights", flight.value, flight.key, timestamp=flight.timestamp,
                headers=[*flight.headers, (NUMBER, number.encode())], on_delivery=delivered,
            )  # fmt: skip
            producer.poll(0)
            time.sleep(0.005)
        assert producer.flush(SECONDS) == 0


@contextmanager
def streaming() -> Iterator[list[Writer]]:
    writers = [Writer(site) for site in AIRPORTS]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.stop.set()
    for writer in writers:
        writer.join(SECONDS)
        assert (writer.is_alive(), writer.failures) == (False, [])


def numbers(host: str, site: str) -> Counter[str]:
    """Count each number of a site's writer in a broker's flights."""
    with LAB.reading(host, "flights") as (consumer, places):
        headers = (dict(message.headers() or ()) for message in to_the_end(consumer, places))
        found = Counter(bytes(each[NUMBER] or b"").decode() for each in headers if NUMBER in each)  # type: ignore[arg-type]
    return Counter({number: times for number, times in found.items() if number.startswith(f"{site}-")})


def is_let_in(host: str, ca: Path, clients: Path, seconds: float = 60) -> bool:
    own = str(clients / "flights.pem")
    settings = {"ssl.ca.location": str(ca), "ssl.certificate.location": own, "ssl.key.location": own}
    try:
        return bool(
            AdminClient({**LAB.client(host), **settings, "log_level": 0}).list_topics(timeout=seconds).brokers
        )
    except KafkaException:
        return False


def test_flights_arrive_once_and_old_keys_are_refused(said: str, tmp_path: Path) -> None:
    assert said
    shutil.copytree(LAB.pki / "clients", tmp_path / "clients")
    with streaming() as writers:
        for step in STEPS:
            command = ["ansible-playbook", "playbooks/authority.yml", "--extra-vars", f"step={step}"]
            done = subprocess.run(command, capture_output=True, text=True)
            failed = done.stdout.find("[ERROR]")
            assert done.returncode == 0, done.stdout[max(0, failed - 1000) : failed + 5000]
            print(f"{step}: taken", flush=True)
    for writer in writers:
        once = Counter(writer.acknowledged)
        print(f"{writer.site}: {len(once):,} flights while the authority was replaced")
        assert len(once) > SINCE
        assert numbers(LAB.brokers[writer.site], writer.site) == once
        for lake in {flow.target for flow in LAB.mirrors if flow.source == writer.site}:
            deadline = time.monotonic() + SECONDS
            while (there := numbers(LAB.brokers[lake], writer.site)).keys() < once.keys():
                assert time.monotonic() < deadline, f"{len(there):,} of {len(once):,} in {lake}"
                time.sleep(5)
            assert there == once, lake
    for host in LAB.brokers.values():
        assert is_let_in(host, LAB.pki / "ca/ca.pem", LAB.pki / "clients")
        assert not is_let_in(host, LAB.pki / "ca/ca.pem", tmp_path / "clients", 8), f"{host} takes an old key"
