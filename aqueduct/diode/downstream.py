"""The receiving end: from datagrams to the raw topic, one Kafka record per frame.

Two threads: one receives and never waits for Kafka, the other writes. What waits between them is bounded;
what does not fit is dropped, counted, and so a gap in the ledger.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from kafka.record import MemoryRecords

from aqueduct.diode import files
from aqueduct.diode.feed import FRAME_BYTES
from aqueduct.diode.options import Downstream
from aqueduct.errors import Failed, Refused
from aqueduct.io.udp import Receiver as Socket
from aqueduct.io.udp import resolve
from aqueduct.ledger.arrivals import bucket
from aqueduct.link import frame, state
from aqueduct.link.frame import Frame
from aqueduct.link.keys import ReceiverKey, SenderPublicKey
from aqueduct.link.receiver import Limits, Receiver, Record

FRAME_OVERHEAD = 1000  # bytes, of a header and a topic's name
QUEUE_BYTES = 256 << 20  # that wait for Kafka
RECEIVE_SECONDS = 0.2
TICK_SECONDS = 1.0
CONNECT_SECONDS = 30

log = logging.getLogger(__name__)


@dataclass
class Figures:
    """Of one process, for its metrics."""

    receiver: Receiver
    socket: Socket
    received_bytes: int = 0  # of values; each of these two has one thread that changes it
    settled_bytes: int = 0  # of values, written or refused
    dropped: int = 0  # values, because too much waited for Kafka
    written: int = 0
    refused: int = 0  # values that Kafka did not take

    @property
    def waiting_bytes(self) -> int:
        """That wait for Kafka."""
        return self.received_bytes - self.settled_bytes


def run(settings: Downstream, stopping: Event, publish: Callable[[Figures], None]) -> None:
    """Until `stopping`; then what was received is written, and what must not be taken twice is kept."""
    receiver_keys = [files.load(ReceiverKey, path) for path in settings.private_key_files]
    sender_keys = [files.load(SenderPublicKey, path) for path in settings.sender_public_key_file]
    memory = settings.state_dir / f"link-{settings.link}.json"
    receiver = Receiver(
        receiver_keys,
        sender_keys,
        settings.link,
        Limits(largest=max(settings.largest_record, FRAME_BYTES) + FRAME_OVERHEAD),
        _load(memory, settings.link),
    )
    producer = Producer(_producer(settings))
    partitions = _partitions(settings, settings.raw_topic)
    if settings.raw_topic is None:
        log.warning("mode=record: records arrive at least once, in no order, and without a ledger")
    address = resolve(settings.target_ip, settings.target_port)
    socket = Socket(address, settings.nic, settings.receive_buffer)
    if socket.buffer_bytes < settings.receive_buffer:
        log.warning(
            "the receive buffer is %d bytes, not %d: raise net.core.rmem_max, or datagrams will be dropped",
            socket.buffer_bytes, settings.receive_buffer,
        )  # fmt: skip
    figures = Figures(receiver, socket)
    publish(figures)
    log.info("listening at %s as link %d", address, settings.link)
    _Loop(settings, figures, producer, partitions, memory).run(stopping)
    socket.close()


class _Loop:
    def __init__(
        self,
        settings: Downstream,
        figures: Figures,
        producer: Producer,
        partitions: int,
        memory: Path,
    ) -> None:
        self._figures = figures
        self._receiver = figures.receiver
        self._producer = producer
        self._raw_topic = settings.raw_topic
        self._partitions = partitions
        self._memory = memory
        self._queue: queue.SimpleQueue[Record | threading.Event | None] = queue.SimpleQueue()
        self._fault: Exception | None = None
        self._last_error = ""

    def run(self, stopping: Event) -> None:
        writer = threading.Thread(target=self._write, name="write")
        writer.start()
        saved: tuple[Event, bytes] | None = None
        try:
            tick_at = time.monotonic() + TICK_SECONDS
            while not stopping.is_set() and self._fault is None:
                data, size = self._figures.socket.receive(RECEIVE_SECONDS)
                now = time.monotonic()
                if size:
                    self._take(self._receiver.receive(data, now, size))
                if now >= tick_at:
                    tick_at = now + TICK_SECONDS
                    self._receiver.tick(now)
                    saved = self._save(saved)
        finally:
            self._queue.put(None)
            writer.join()
        if self._fault:
            raise self._fault
        files.write(self._memory, self._receiver.state().dumps())

    def _take(self, records: list[Record]) -> None:
        for record in records:
            if self._figures.waiting_bytes + len(record.value) > QUEUE_BYTES:
                self._figures.dropped += 1
            else:
                self._figures.received_bytes += len(record.value)
                self._queue.put(record)

    def _save(self, saved: tuple[Event, bytes] | None) -> tuple[Event, bytes] | None:
        """The state of a while ago, once all that it says had arrived is in Kafka; and the next one."""
        if saved is not None:
            if not saved[0].is_set():
                return saved
            files.write(self._memory, saved[1])
        written = Event()
        content = self._receiver.state().dumps()
        self._queue.put(written)
        return written, content

    # The other thread

    def _write(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                if isinstance(item, Event):
                    self._flush()
                    item.set()
                else:
                    self._produce(item)
            self._flush()
        except Exception as error:
            self._fault = error

    def _produce(self, record: Record) -> None:
        if self._raw_topic is None:
            self._produce_records(record)
            return
        key = frame.read_key(record.key)
        partition = bucket(key.topic, key.partition, self._partitions)
        self._send(self._raw_topic, record.value, record.key, partition, len(record.value))

    def _produce_records(self, record: Record) -> None:
        """mode=record: into the plain topics, as another producer would."""
        found = frame.unpack(record.value)
        rows = list(_records(found)) if isinstance(found, Frame) else []
        for row in rows:
            size = len(record.value) // len(rows)
            self._send(found.topic, row.value, row.key, found.partition, size, row.timestamp, row.headers)
        self._figures.settled_bytes += len(record.value) - len(record.value) // max(1, len(rows)) * len(rows)

    def _send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        size: int,
        timestamp: int = 0,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """`size` is what is settled by it. A timestamp of 0 is librdkafka's word for now."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._figures.settled_bytes += size
            if error is None:
                self._figures.written += 1
            else:
                self._refused(topic, error)

        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, delivered, timestamp=timestamp, headers=headers or []
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def _flush(self) -> None:
        while self._producer.flush(1):
            pass

    def _refused(self, topic: str, error: KafkaError) -> None:
        self._figures.refused += 1
        if str(error) != self._last_error:
            self._last_error = str(error)
            log.error("topic %s does not take what arrives: %s", topic, error)


def _records(found: Frame) -> Iterator[Any]:
    """By kafka-python's decoder."""
    batches = MemoryRecords(found.batches)
    while (batch := batches.next_batch()) is not None:
        yield from batch


def _producer(settings: Downstream) -> dict[str, str | int | bool]:
    return {
        **settings.end("target").client_config.librdkafka(),
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": settings.id,
        "enable.idempotence": True,
        # Kafka may be away for a long time: what waits is bounded by us, and nothing is given up.
        "message.timeout.ms": 0,
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "message.max.bytes": settings.largest_record + (1 << 20),
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": QUEUE_BYTES >> 9,
        "log_level": 4,
    }


def _partitions(settings: Downstream, topic: str | None) -> int:
    """Of the raw topic, if there is to be one. Refused if it is not there."""
    admin = AdminClient(
        {
            **settings.end("target").client_config.librdkafka(),
            "bootstrap.servers": settings.bootstrap_servers,
            "log_level": 0,
        }
    )
    try:
        topics = admin.list_topics(topic, CONNECT_SECONDS).topics
    except KafkaException as error:
        raise Failed(
            f"No Kafka broker to be reached at {settings.bootstrap_servers} ({error.args[0].str()})."
        ) from None
    if topic is None:
        return 0
    found = topics[topic]
    if found.error:
        raise Refused(f"Raw topic {topic} can't be used: {found.error.str()}; create it first.")
    return len(found.partitions)


def _load(memory: Path, link: int) -> state.State | None:
    try:
        return state.loads(memory.read_bytes(), str(memory), link)
    except FileNotFoundError:
        if not memory.parent.is_dir():
            raise Refused(f"stateDir {memory.parent} is not there.") from None
        return None
    except OSError as error:
        raise Refused(f"{memory} can't be read: {error.strerror}.") from None
