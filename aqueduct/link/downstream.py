"""The receiving end: from datagrams to the raw topic, one Kafka record per frame.

Two threads: one receives and never waits for Kafka, the other writes. What waits between them is bounded;
what does not fit is dropped, counted, and so a gap in the ledger.
"""

import logging
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from kafka.errors import TopicAuthorizationFailedError

from aqueduct.common.keys import ReceiverKey, SenderPublicKey, load
from aqueduct.common.lock import held
from aqueduct.common.topic_names import matches
from aqueduct.common.wording import count
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import addresses
from aqueduct.kafka.admin.settings import setting_if_there
from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.batches.bodies import Header, headers, key_and_value
from aqueduct.kafka.batches.records import records
from aqueduct.kafka.client import Client, Stopped, connect
from aqueduct.link import fd_store, files
from aqueduct.link.dropped_datagrams import Strangers
from aqueduct.link.framing import FRAME_BYTES
from aqueduct.link.ledger.arrivals import bucket
from aqueduct.link.log_throttle import Seldom
from aqueduct.link.options import Downstream
from aqueduct.link.udp import ReceivingSocket, check_card, listens, resolve
from aqueduct.link.wire import frame, state
from aqueduct.link.wire.frame import Frame, FrameKey
from aqueduct.link.wire.receiver import RawRecord, Receiver, ReceiverLimits

FRAME_OVERHEAD = 1000  # bytes, of a header and a topic's name, and of the raw topic's record around them
BATCH_BYTES = 1_000_000  # that the raw topic takes at once
QUEUE_BYTES = 256 << 20  # that wait for Kafka
RECEIVE_SECONDS = 0.2
TICK_SECONDS = 1.0
MOST_NAME = 249  # letters of a topic's name
STOP_SECONDS = 5  # without a word of Kafka; an election takes less
SOCKET, UNFINISHED = "socket", "unfinished"  # what is kept for the next process

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class DownstreamFigures:
    """The figures of one process, for its metrics."""

    receiver: Receiver
    socket: ReceivingSocket
    received_bytes: int = 0  # of values; each of these two has one thread that changes it
    settled_bytes: int = 0  # of values, written or refused
    dropped: int = 0  # values, because too much waited for Kafka
    written: int = 0
    refused: int = 0  # values that Kafka did not take
    foreign: int = 0  # values of topics that do not cross this link

    @property
    def waiting_bytes(self) -> int:
        """Return the received bytes that wait for Kafka."""
        return self.received_bytes - self.settled_bytes


def run(settings: Downstream, stopping: Event, publish: Callable[[DownstreamFigures], None]) -> None:
    """Receive until `stopping`.

    Then what was received is written, and what must not be taken twice is kept.
    """
    receiver_keys = [load(ReceiverKey, path) for path in settings.private_key_files]
    sender_keys = [load(SenderPublicKey, path) for path in settings.sender_public_key_file]
    if not settings.state_dir.is_dir():
        raise Refused(
            "link-state-folder-missing", f"The folder of stateDir {settings.state_dir} does not exist."
        )
    if settings.mac:
        check_card(settings.mac, settings.nic)
    lock = settings.state_dir / f"link-{settings.link}.lock"
    with held(
        lock,
        f"Another receiving end of link {settings.link} runs with stateDir {settings.state_dir}, so records "
        "could be accepted twice. Stop the other receiving end, or set a separate stateDir for each.",
    ):
        _run(settings, receiver_keys, sender_keys, stopping, publish)


def _run(
    settings: Downstream,
    receiver_keys: list[ReceiverKey],
    sender_keys: list[SenderPublicKey],
    stopping: Event,
    publish: Callable[[DownstreamFigures], None],
) -> None:
    memory = settings.state_dir / f"link-{settings.link}.json"
    receiver = Receiver(
        receiver_keys,
        sender_keys,
        settings.link,
        ReceiverLimits(largest=_needed(settings)),
        _load(memory, settings.link),
    )
    try:
        with connect(settings.end("target"), settings.id, stopping) as client:
            partitions = _partitions(client, settings.raw_topic)
            limit = _limit(client, settings)
    except Stopped as error:
        log.warning("%s No data were received.", error)
        return
    producer = Producer(_producer(settings, limit))
    if settings.raw_topic is None:
        log.warning(
            "mode=record: records arrive at least once and in any order, and no ledger lists missing records"
        )
    kept = fd_store.take()
    endpoint = _endpoint(settings, kept.get(SOCKET))
    figures = DownstreamFigures(receiver=receiver, socket=endpoint)
    publish(figures)
    log.info("listening on %s:%d as link %d", settings.target_ip, settings.target_port, settings.link)
    receiving = _Receiving(settings, figures, producer, partitions, memory)
    if UNFINISHED in kept:
        receiving.resume(kept[UNFINISHED])
    receiving.run(stopping)
    endpoint.close()


def _endpoint(settings: Downstream, kept: int | None) -> ReceivingSocket:
    """Return the socket, which then waits for the next process when this one ends."""
    address = resolve(settings.target_ip, settings.target_port)
    waited = None if kept is None else socket.socket(fileno=kept)
    if waited and not listens(waited, address, settings.nic):
        waited.close()
        fd_store.forget(SOCKET)
        waited = None
    endpoint = ReceivingSocket(address, settings.nic, settings.receive_buffer, waited)
    if not waited:
        fd_store.keep(SOCKET, endpoint.fileno())
    if endpoint.buffer_bytes < settings.receive_buffer:
        log.warning(
            "the receive buffer is %d bytes, not %d: raise net.core.rmem_max, or datagrams will be dropped",
            endpoint.buffer_bytes, settings.receive_buffer,
        )  # fmt: skip
    return endpoint


class _Row(NamedTuple):
    """One record, as a producer takes it."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class _Receiving:
    def __init__(
        self,
        settings: Downstream,
        figures: DownstreamFigures,
        producer: Producer,
        partitions: int,
        memory: Path,
    ) -> None:
        self._figures = figures
        self._receiver = figures.receiver
        self._producer = producer
        self._raw_topic = settings.raw_topic
        self._topics = settings.topics
        self._needed = _needed(settings)
        self._partitions = partitions
        self._memory = memory
        self._queue: queue.SimpleQueue[RawRecord | threading.Event | None] = queue.SimpleQueue()
        self._fault: Exception | None = None
        self._ending = Event()
        self._seldom = Seldom()
        self._strangers = Strangers()

    def run(self, stopping: Event) -> None:
        writer = threading.Thread(target=self._write, name="write")
        writer.start()
        saved: tuple[Event, bytes] | None = None
        try:
            tick_at = time.monotonic() + TICK_SECONDS
            while not stopping.is_set() and self._fault is None:
                datagrams, size = self._figures.socket.receive(RECEIVE_SECONDS)
                now = time.monotonic()
                if size:
                    self._take(self._receiver.receive(datagrams, now, size))
                if now >= tick_at:
                    tick_at = now + TICK_SECONDS
                    self._receiver.tick(now)
                    for sentence in self._strangers.sentences(self._receiver.counters, now):
                        log.warning(sentence)
                    saved = self._save(saved)
        finally:
            self._ending.set()
            self._queue.put(None)
            writer.join()
        if self._fault:
            raise self._fault
        files.write(self._memory, self._receiver.state().dumps())
        self._leave_unfinished()

    def resume(self, kept: int) -> None:
        """Take what the process before had not finished when it was stopped, once."""
        with os.fdopen(kept, "rb") as file:
            file.seek(0)
            content = memoryview(file.read())
        fd_store.forget(UNFINISHED)
        try:
            self._take(self._receiver.resume(state.loads_unfinished(content), time.monotonic()))
        except (ValueError, struct.error):
            log.warning(
                "the unfinished data of the previous process cannot be read, so their records are "
                "missing until they are sent again"
            )

    def _leave_unfinished(self) -> None:
        with os.fdopen(os.memfd_create(UNFINISHED), "wb") as file:  # it is in the clear: never on a disk
            for unfinished in self._receiver.unfinished():
                file.writelines(unfinished.dumps())
            file.flush()
            fd_store.keep(UNFINISHED, file.fileno())

    def _take(self, records: list[RawRecord]) -> None:
        for record in records:
            if self._figures.waiting_bytes + len(record.value) > QUEUE_BYTES:
                self._figures.dropped += 1
            else:
                self._figures.received_bytes += len(record.value)
                self._queue.put(record)

    def _save(self, saved: tuple[Event, bytes] | None) -> tuple[Event, bytes] | None:
        """Save the earlier state, once all that it says had arrived is in Kafka; return the next one."""
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
            while (queued := self._queue.get()) is not None:
                if isinstance(queued, Event):
                    self._flush()
                    queued.set()
                else:
                    self._produce(queued)
            self._flush()
        except Exception as error:
            self._fault = error

    def _produce(self, record: RawRecord) -> None:
        key = frame.read_key(record.key)
        if self._topics and not matches(self._topics, key.topic):
            self._leave_out(record, key.topic)
            return
        if self._raw_topic is None:
            self._produce_records(record)
            return
        partition = bucket(key.topic, key.partition, self._partitions)
        self._send(self._raw_topic, record.value, key=record.key, partition=partition, size=len(record.value))

    def _leave_out(self, record: RawRecord, topic: str) -> None:
        """Write nothing of a topic that does not cross: its sender has been changed, or is in wrong hands."""
        self._figures.foreign += 1
        self._figures.settled_bytes += len(record.value)
        if times := self._seldom.due(("foreign", topic), 1, time.monotonic()):
            log.error(
                "the link received records of topic %s, which is not a topic of this link; these records "
                "are not written (%d times since the last report). Check that both ends have the same "
                "topics, and whether the private key of the sender is compromised",
                topic[:MOST_NAME], times,
            )  # fmt: skip

    def _produce_records(self, record: RawRecord) -> None:
        """Produce into the plain topics, as another producer would (mode=record)."""
        key, left = frame.read_key(record.key), len(record.value)
        first = key.first
        try:
            unpacked = frame.unpack(record.value)
            batches = unpacked.batches if isinstance(unpacked, Frame) else b""
            for batch in frame.batches_of(unpacked) if isinstance(unpacked, Frame) else ():
                rows = self._read(batch, key)
                size = len(record.value) * len(batch) // len(batches) // max(1, len(rows))
                for row in rows:
                    self._send(
                        key.topic,
                        row.value,
                        key=row.key,
                        partition=key.partition,
                        size=size,
                        timestamp=row.timestamp,
                        headers=row.headers,
                    )
                left -= size * len(rows)
                first = batch.last_offset + 1
        except (frame.Malformed, Damaged) as error:
            self._refuse_unread(key, first, key.last, error)
        self._figures.settled_bytes += left

    def _read(self, batch: Batch, key: FrameKey) -> list[_Row]:
        """Read a batch whose producer may be anybody; none of it where it can't be, or inflates too much."""
        try:
            return [
                _Row(record.timestamp, *key_and_value(record.body), _named(headers(record.body)))
                for record in records(batch)
            ]
        except (Damaged, IndexError, ValueError) as error:
            self._refuse_unread(key, batch.base_offset, batch.last_offset, error)
            return []

    def _refuse_unread(self, key: FrameKey, first: int, last: int, error: Exception) -> None:
        self._figures.refused += 1
        if times := self._seldom.due(("unread", key.topic, key.partition), 1, time.monotonic()):
            log.error(
                "%s-%d: offsets %d to %d are not written, because they cannot be read: %s (%d times since "
                "the last report). Find out which client produces these records, and whether the private "
                "key of the sender is compromised",
                key.topic, key.partition, first, last, error, times,
            )  # fmt: skip

    def _send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int,
        size: int,
        timestamp: int = 0,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """Send a record; `size`: the bytes that this settles. A timestamp of 0 means now for librdkafka."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._figures.settled_bytes += size
            if error is None:
                self._figures.written += 1
            else:
                self._refused(message, error)

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
        before = silent = 0
        while left := self._producer.flush(1):
            silent = silent + 1 if left == before and self._ending.is_set() else 0
            before = left
            if silent >= STOP_SECONDS:
                self._producer.purge()
                raise Failed(
                    "raw-records-not-written",
                    f"Kafka accepts no records: {count(left, 'record')} that had arrived were not written. "
                    "The ledger lists their offsets as missing. Send the missing offsets again with "
                    "aqueduct diode resend.",
                )

    def _refused(self, message: Message, error: KafkaError) -> None:
        self._figures.refused += 1
        topic, partition = str(message.topic()), message.partition()
        key = frame.read_key(message.key() or b"") if self._raw_topic else None
        topic_partition = (key.topic, key.partition) if key else (topic, partition)
        times = self._seldom.due((topic_partition, error.code()), 1, time.monotonic())
        if not times:
            return
        if key is None:
            log.error(
                "%s-%s rejected records that arrived: %s (%d times since the last report)",
                topic, partition, error.str(), times,
            )  # fmt: skip
            return
        too_large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        log.error(
            "%s-%d: offsets %d to %d are not in raw topic %s, and the ledger lists them as missing: %s (%d "
            "times since the last report). To correct this: %s. Then send the missing offsets again",
            key.topic, key.partition, key.first, key.last, topic, error.str(), times,
            _raise_limit(topic, self._needed) if too_large else "correct the cause in this message",
        )  # fmt: skip


def _named(raw_headers: Iterable[Header]) -> list[tuple[str, str | bytes | None]]:
    """Name headers as librdkafka takes them; UnicodeDecodeError where a name is no text."""
    return [(name.decode(), value) for name, value in raw_headers]


def _needed(settings: Downstream) -> int:
    """Return the max.message.bytes of a raw topic that takes whatever may cross."""
    largest: int = settings.largest_record
    return max(largest, FRAME_BYTES) + FRAME_OVERHEAD


def _raise_limit(topic: str, limit: int) -> str:
    return f"kafka-configs --alter --topic {topic} --add-config max.message.bytes={limit}"


def _limit(client: Client, settings: Downstream) -> int | None:
    """Return the raw topic's max.message.bytes; None: there is no raw topic, or this isn't told.

    Refused if not even usual frames fit, as no resend could ever fill their gaps.
    """
    topic = settings.raw_topic
    if topic is None:
        return None
    needed = _needed(settings)
    try:
        limit = int(setting_if_there(client, [topic], "max.message.bytes")[topic])
    except TopicAuthorizationFailedError:
        log.warning(
            "max.message.bytes of raw topic %s cannot be checked, and must be at least %d: grant "
            "DescribeConfigs on this topic",
            topic, needed,
        )  # fmt: skip
        return None
    if limit < FRAME_BYTES + FRAME_OVERHEAD:
        raise Refused(
            "raw-topic-limit-small",
            f"Raw topic {topic} has max.message.bytes={limit}, but the frames of the link have up to "
            f"{FRAME_BYTES + FRAME_OVERHEAD} bytes. Run {_raise_limit(topic, needed)}",
        )
    if limit < needed:
        log.warning(
            "raw topic %s has max.message.bytes=%d, but largestRecord %d needs %d. Larger frames are not "
            "written, and the ledger lists their offsets as missing. If the source has such records, run %s",
            topic, limit, settings.largest_record, needed, _raise_limit(topic, needed),
        )  # fmt: skip
    return limit


def _producer(settings: Downstream, limit: int | None) -> dict[str, Any]:
    return {
        **settings.end("target").client_config.librdkafka(),
        "bootstrap.servers": settings.bootstrap_server,
        "client.id": settings.id,
        "enable.idempotence": True,
        # Kafka may be away for a long time: what waits is bounded by us, and nothing is given up.
        "message.timeout.ms": 0,
        "linger.ms": 5,
        "batch.size": min(BATCH_BYTES, limit or BATCH_BYTES),  # Kafka refuses a larger one with all in it
        "message.max.bytes": settings.largest_record + (1 << 20),
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": QUEUE_BYTES >> 9,
        **addresses.librdkafka_errors(others=log),
    }


def _partitions(client: Client, topic: str | None) -> int:
    """Return the raw topic's number of partitions, 0 without one. Refused if the topic doesn't exist."""
    if topic is None:
        return 0
    topics = client.topics([topic])
    if topic not in topics:
        raise Refused("topic-unknown", f"The {client.end} has no raw topic {topic}. Create the topic first.")
    return len(topics[topic].partitions)


def _load(memory: Path, link: int) -> state.ReceiverState | None:
    try:
        return state.loads(memory.read_bytes(), str(memory), link)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused("link-state-unreadable", f"{memory} cannot be read: {error.strerror}.") from None
