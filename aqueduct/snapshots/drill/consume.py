"""Consumes one record as an application does: in a restored group, from its committed offset."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Message

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka import addresses
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import store_reader
from aqueduct.mirror.reconcile.digest import RecordColumns
from aqueduct.mirror.reconcile.stored import StoredEnd
from aqueduct.snapshots.drill.outcome import Consumed
from aqueduct.snapshots.restore.outcome import RestoreOutcome

GROUP = "aqueduct-drill"  # of a consumer that reads from the beginning
SECONDS = 60  # maximum wait for a record, most of it for the group to form


def consume(scratch: End, store: StoredEnd, restored: RestoreOutcome) -> Consumed | None:
    """Consume a record. None if no restored topic has records."""
    for group, partition, offset in _readers(store, restored):
        expected = _next(store, partition, offset)
        if expected is not None:
            given = _consume(scratch, group or GROUP, partition)
            return Consumed(
                group=group or GROUP,
                of_snapshot=bool(group),
                topic=partition.topic,
                partition=partition.partition,
                stored_offset=int(expected.offsets[0]),
                offset=given.offset() if given else None,
                right=given is not None and _same(given, expected),
            )
    return None


def _readers(store: StoredEnd, restored: RestoreOutcome) -> Iterator[tuple[str, TopicPartition, int]]:
    """Yield groups of the snapshot with a partition and the offset in the store, the most likely ones first.

    Then yield each restored partition that has records, without a group.
    """
    # A consumer cannot join a share group.
    moves = (move for move in restored.moves if not move.share)
    for move in sorted(moves, key=lambda move: (bool(move.note), move.group, move.topic_partition)):
        yield move.group, move.topic_partition, move.old
    for partition in sorted(restored.written):
        yield "", partition, store.partitions[partition][0].start


def _next(store: StoredEnd, partition: TopicPartition, offset: int) -> RecordColumns | None:
    """Return the first record in the store at or after this offset."""
    covered, segments = store.partitions[partition]
    for segment in segments:
        start = max(offset, segment.start)
        if segment.last_offset is not None and start <= segment.last_offset:
            offset_range = Range(*partition, start, covered.stop)
            for _, records in store_reader.read(store.only([offset_range]), [offset_range]):
                if len(records.offsets):
                    one = slice(0, 1)
                    return RecordColumns(
                        contents=records.contents[one],
                        times=records.times[one],
                        offsets=records.offsets[one],
                        append_times=0,
                    )
    return None


def _consume(scratch: End, group: str, partition: TopicPartition) -> Message | None:
    """Return the first record of a partition that the group receives, and commit its offset."""
    consumer = Consumer(
        {
            "client.id": "aqueduct-drill",
            **scratch.client_config.librdkafka(),
            "bootstrap.servers": scratch.bootstrap_servers,
            **addresses.librdkafka_errors(),
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.subscribe([partition.topic])
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None or message.error() or message.partition() != partition.partition:
                continue
            consumer.commit(message=message, asynchronous=False)
            return message
        return None
    except KafkaException as error:
        reason = error.args[0].str()
        raise Failed(
            "drill-group-not-consuming",
            f"Group {group} cannot consume {partition} of the scratch cluster: {reason}. Check the logs of "
            "its brokers.",
        ) from None
    finally:
        consumer.close()


def _same(given: Message, expected: RecordColumns) -> bool:
    actual = RecordColumns.of([given])
    timed = not actual.append_times
    return bool(actual.fingerprints(timed)[0] == expected.fingerprints(timed)[0])
