"""Reads committed records with librdkafka: from assigned partitions, without joining a group or committing.

librdkafka looks for a group's coordinator all the same, so a client that may describe no group is told so;
that is not an error here.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Failed
from aqueduct.kafka import addresses
from aqueduct.kafka.client_config import End

REACH_SECONDS = 1, 2, 4, 8  # how long to wait for an end's first answer, attempt by attempt
LEADER_SECONDS = 0.2  # how long to wait before asking again for what has no leader
OFFSETS_SECONDS = 15  # in which a partition must have a leader that tells its offsets
STALL_SECONDS = 60  # in which records must come: a broker may be restarted meanwhile
BATCH_RECORDS = 10_000
POLL_SECONDS = 0.05  # consume() waits so long for a batch to fill, also at a range's end

# Errors of one batch: librdkafka cannot decompress or parse it, and delivers nothing behind it.
UNREADABLE = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, KafkaError._NOT_IMPLEMENTED)

Errors = deque[KafkaError]
ConfluentClient = TypeVar("ConfluentClient")


def partitions(end: End) -> dict[str, int]:
    """Count partitions of each topic that the client may describe; Failed if the end can't be reached.

    0: the topic's metadata has an error, so its partitions are not known.
    """
    errors: Errors = deque(maxlen=100)
    admin = _client(AdminClient, end, _settings(end, errors))
    for seconds in REACH_SECONDS:
        try:
            topics = admin.list_topics(timeout=seconds).topics
            return {name: 0 if topic.error else len(topic.partitions) for name, topic in topics.items()}
        except KafkaException as error:
            failure = error
            admin.poll(0)  # this is where error_cb is called
            if any(
                kafka_error.code() in (KafkaError._SSL, KafkaError._AUTHENTICATION) for kafka_error in errors
            ):
                break  # trying again won't help
    raise Failed("cluster-unreachable", f"The {end} cannot be reached: {_reason(errors, failure)}")


def known_partitions(end: End, names: Iterable[str], counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the counts, asked for again until those of the named topics that exist are known.

    Failed if one is not known after OFFSETS_SECONDS.
    """
    chosen = sorted(names)
    deadline = time.monotonic() + OFFSETS_SECONDS
    while unknown := [name for name in chosen if counts.get(name) == 0]:
        if time.monotonic() > deadline:
            raise Failed(
                "topic-not-ready",
                f"The brokers of the {end} did not return the partitions of these topics: {some(unknown)}. "
                "Nothing was compared. Check that all brokers run, and run the command again.",
            )
        time.sleep(LEADER_SECONDS)
        counts = partitions(end)
    return counts


def ranges(end: End, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Range]:
    """Return the offsets of each partition now: from its log start to its last stable offset."""
    errors: Errors = deque(maxlen=100)
    admin = _client(AdminClient, end, _settings(end, errors))
    topic_partitions = list(asked)
    starts = _offsets(admin, end, errors, topic_partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    stops = _offsets(admin, end, errors, topic_partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    return {tp: Range(*tp, starts[tp], max(starts[tp], stops[tp])) for tp in topic_partitions}


@dataclass(frozen=True, kw_only=True)
class UnreadableBatch:
    """The reason why the rest of a range cannot be read, as a clause."""

    reason: str


def read(end: End, parts: Sequence[Range]) -> Iterator[tuple[Range, list[Message] | UnreadableBatch]]:
    """Yield the records of ranges of different partitions: each range's in order, the ranges interleaved.

    A range is over at the first record beyond it, or at the log's end: its last offsets may be transaction
    markers or aborted records, which never come. Offsets that retention has deleted are passed over. A range
    with a batch that librdkafka cannot read ends with UnreadableBatch. Failed if the end does not answer.
    """
    errors: Errors = deque(maxlen=100)
    consumer = _client(Consumer, end, _settings(end, errors) | _READ)
    unread = {part.topic_partition: part for part in parts}
    positions = {part.topic_partition: part.start for part in parts}

    def give_up(partition: TopicPartition, reason: str) -> tuple[Range, UnreadableBatch]:
        consumer.incremental_unassign([confluent_kafka.TopicPartition(*partition)])
        where = f"the {end} has a batch at offset {positions[partition]} or later that librdkafka cannot read"
        return unread.pop(partition), UnreadableBatch(reason=f"{where}: {reason}")

    try:
        consumer.assign(
            [confluent_kafka.TopicPartition(part.topic, part.partition, part.start) for part in parts]
        )
        heard = time.monotonic()
        while unread:
            messages = consumer.consume(BATCH_RECORDS, POLL_SECONDS)
            if not messages and time.monotonic() > heard + STALL_SECONDS:
                _check_answering(end, unread, errors)
                silence = f"no records for {STALL_SECONDS} s"
                for partition in sorted(unread):
                    yield give_up(partition, silence)
            for partition, error in _unreadable(messages):
                if partition in unread:
                    yield give_up(partition, error)
            # Plain tuples: this is once per record.
            for key, run in groupby(_checked(messages, end), key=lambda m: (m.topic(), m.partition())):
                if (partition := TopicPartition(*key)) in unread:
                    whole, fetched = unread[partition], list(run)
                    records = _within(fetched, whole.stop)
                    if records:
                        positions[partition] = (records[-1].offset() or 0) + 1
                    if len(records) < len(fetched):
                        del unread[partition]
                        consumer.incremental_unassign([confluent_kafka.TopicPartition(*partition)])
                    yield whole, records
            if messages:
                heard = time.monotonic()  # after whoever reads this has taken their time
    finally:
        consumer.close()


_READ = {
    "group.id": "aqueduct",  # demanded by the client
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,  # the log's end is told only when a fetch there has waited so long
    "fetch.queue.backoff.ms": 10,  # a full queue stops fetching so long; by default 1 s, and six times slower
    "fetch.message.max.bytes": 4 << 20,  # for a long link, where every fetch costs a round trip
    "queued.min.messages": 20_000,  # what is fetched beyond a range is lost work
    "max.poll.interval.ms": 86_400_000,  # the faster of two streams waits for the other
}


def _client(
    kind: Callable[[dict[str, Any]], ConfluentClient], end: End, settings: dict[str, Any]
) -> ConfluentClient:
    """Return a client of librdkafka, which reads certificates and keys when it is made."""
    try:
        return kind(settings)
    except KafkaException as error:
        raise Failed(
            "client-config-invalid",
            f"The client settings of the {end} cannot be used: {error.args[0].str()}. Check the PEM files "
            "in these settings.",
        ) from None


def _settings(end: End, errors: Errors) -> dict[str, Any]:
    def noted(error: KafkaError) -> None:
        addresses.report_librdkafka(error)
        errors.append(error)

    return {
        "client.id": "aqueduct-reconcile",
        **end.client_config.librdkafka(),
        "bootstrap.servers": end.bootstrap_servers,
        **addresses.librdkafka_errors(noted),
    }


def _offsets(
    admin: AdminClient, end: End, errors: Errors, asked: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    """Return offsets; ask again for partitions without a leader at the moment.

    librdkafka remembers that a partition has none until its metadata is renewed (by default 15 minutes).
    """
    offsets: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + OFFSETS_SECONDS
    while unknown := [tp for tp in asked if tp not in offsets]:
        futures = admin.list_offsets(
            {confluent_kafka.TopicPartition(*tp): spec for tp in unknown},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=OFFSETS_SECONDS,
        )
        for requested, future in futures.items():
            partition = TopicPartition(requested.topic, requested.partition)
            while not future.done():
                admin.poll(POLL_SECONDS)  # this is where error_cb is called
            error = None
            try:
                if (offset := future.result().offset) >= 0:
                    offsets[partition] = offset
                    continue
            except KafkaException as raised:
                error = raised
            # librdkafka gives a negative offset, and no error, if the leader did not answer in time.
            passes = error is None or _passes(error.args[0])
            if not passes or time.monotonic() > deadline:
                admin.poll(0)  # errors that came with the answer are not in the list yet
                lacking = f"the offsets of {partition}"
                raise Failed(
                    "cluster-request-failed",
                    f"The {end} did not return {lacking}: {_reason(errors, error)}",
                ) from None
        if len(offsets) < len(asked):
            time.sleep(LEADER_SECONDS)
            _renew_metadata(admin)
    return offsets


def _passes(error: KafkaError) -> bool:
    """Return whether asking again may help; librdkafka says _NOENT if none of those asked has a leader."""
    return error.retriable() or error.code() == KafkaError._NOENT


def _renew_metadata(admin: AdminClient) -> None:
    with suppress(KafkaException):  # whoever asks next says what is wrong, and until when to try
        admin.list_topics(timeout=OFFSETS_SECONDS)


def _check_answering(end: End, partitions: Iterable[TopicPartition], errors: Errors) -> None:
    """Failed if the end does not answer: then its silence says nothing about a batch."""
    first = next(iter(partitions))
    try:
        ranges(end, partitions)
    except Failed:
        silence = f"returned no records of {first} for {STALL_SECONDS} s"
        raise Failed("cluster-not-responding", f"The {end} {silence}: {_reason(errors)}") from None


def _unreadable(messages: Iterable[Message]) -> Iterator[tuple[TopicPartition, str]]:
    """Yield the partitions of which librdkafka cannot read a batch, with its words."""
    for message in filter(Message.error, messages):
        error = message.error()
        if error and error.code() in UNREADABLE and message.topic() is not None:
            yield TopicPartition(str(message.topic()), int(message.partition() or 0)), error.str()


def _within(messages: list[Message], stop: int) -> list[Message]:
    """Take messages up to the first that is beyond the range or says that the log ends there."""
    last = messages[-1]
    if not last.error() and (last.offset() or 0) < stop:
        return messages
    return list(takewhile(lambda message: not message.error() and (message.offset() or 0) < stop, messages))


def _checked(messages: list[Message], end: End) -> list[Message]:
    """Return records, and the news that a partition is at its end; Failed at any other error."""
    errors = [error for message in filter(Message.error, messages) if (error := message.error())]
    for error in errors:
        if error.code() not in (
            KafkaError._PARTITION_EOF,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            *UNREADABLE,
        ):
            raise Failed("cluster-request-failed", f"The {end} cannot be read: {error.str()}.")
    if any(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED for error in errors):
        return [message for message in messages if message.topic() is not None]
    return messages


def _reason(errors: Iterable[KafkaError], exception: KafkaException | None = None) -> str:
    """Return librdkafka's words for what went wrong last, without its names of threads and states."""
    messages = [error.str() for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
    text = (
        messages[-1]
        if messages
        else exception.args[0].str()
        if exception
        else ("the client reported no error")
    )
    if unreachable := addresses.unreachable(text):
        return f"{addresses.sentence(*unreachable)}. {addresses.REMEDY}"
    return re.sub(r"^\S+/(bootstrap|\d+): | \(after .*|\.$", "", text) + "."
