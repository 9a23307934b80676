"""Sends again what a bundle lists, in a session of its own beside the live stream."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aqueduct.diode.feed import FRAME_BYTES, last_session
from aqueduct.diode.filter import Filter
from aqueduct.diode.options import Resend
from aqueduct.diode.outlet import Outlet, begin_after
from aqueduct.errors import Refused
from aqueduct.io import kafka_admin
from aqueduct.io.kafka import client as kafka
from aqueduct.io.kafka import groups, offsets
from aqueduct.io.kafka.client import Client, Place
from aqueduct.io.kafka.fetch import read
from aqueduct.ledger import bundle
from aqueduct.ledger.bundle import Bundle
from aqueduct.link import frame
from aqueduct.link.frame import Frame
from aqueduct.link.key_frame import Kind
from aqueduct.link.position import Position
from aqueduct.ranges import Range


@dataclass(frozen=True)
class Outcome:
    offsets: int = 0  # that were sent, with those that hold no record
    records: int = 0
    gone: tuple[Range, ...] = ()  # that the source has no more, or that are over largestRecord


def run(settings: Resend, *, dry_run: bool, progress: Callable[[int, int], None]) -> Outcome:
    """All of it; `progress` is told the offsets that were sent and all that there are."""
    outlets = [Outlet(settings, target, Kind.RESEND) for target in settings.all_targets()]
    rules = Filter.of(settings)
    with kafka.connect(settings.end("source"), f"{settings.id}-resend") as client:
        wanted, gone = _there(client, settings, list(_asked(settings)))
        total = sum(map(len, wanted))
        progress(0, total)
        if dry_run:
            return Outcome(total, 0, tuple(gone))
        start = _start(client, settings, wanted)
        for outlet in outlets:
            outlet.begin(start)
            outlet.open()
        sent = records = 0
        throttle = _Throttle(settings.eps, outlets)
        for each in wanted:
            for found in _frames(client, settings, each):
                if isinstance(found, Range):
                    gone.append(found)
                    continue
                covering, count = found
                value = frame.pack(
                    rules.apply(covering), compress_above=settings.compress_when_length_exceeds
                )
                for outlet in outlets:
                    outlet.add([value])
                throttle.spent(count)
                sent += covering.stop - covering.start + 1
                records += count
                progress(sent, total)
        for outlet in outlets:
            outlet.end()
            outlet.close()
    return Outcome(sent, records, tuple(gone))


def _start(client: Client, settings: Resend, wanted: list[Range]) -> int:
    """When the session is told to begin, which is kept for the next one before anything is sent."""
    group = f"{settings.group}-resend"
    start = begin_after(last_session(client, group))
    for each in wanted[:1]:
        begun = Position(str(client.topic(each.topic).id), each.start, start)
        groups.commit(client, group, {(each.topic, each.partition): (each.start, begun.dumps())})
    return start


class _Throttle:
    def __init__(self, per_second: float | None, outlets: list[Outlet]) -> None:
        self._per_second = per_second
        self._outlets = outlets
        self._next_at = 0.0

    def spent(self, records: int) -> None:
        """Waits, with keys and keepalives sent meanwhile."""
        now = time.monotonic()
        if self._per_second:
            self._next_at = max(self._next_at, now) + records / self._per_second
        while True:
            for outlet in self._outlets:
                outlet.tick(now)
            left = self._next_at - now
            if left <= 0:
                return
            time.sleep(min(left, 0.05))
            now = time.monotonic()


def _asked(settings: Resend) -> Iterator[tuple[str, int, int, int | None]]:
    """Topic, partition of this cluster, first and last offset; None: up to the end."""
    if settings.partition is not None:
        first, last = settings.offset_from, settings.offset_to
        places = [(str(settings.topic), settings.partition, first, last)]
    else:
        listed = _listed(_bundle(settings.resend_file_name))
        places = [each for each in listed if settings.crosses(each[0])]
    start, count = settings.partition_start_value, settings.partition_stop_value
    for topic, partition, first, last in places:
        if start <= partition and (not count or partition < start + count):
            yield topic, partition - start, first, last


def _bundle(path: Path | None) -> Bundle:
    assert path  # noqa: S101  # options demand it where there is no partition
    try:
        return bundle.loads(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from None


def _listed(found: Bundle) -> Iterator[tuple[str, int, int, int | None]]:
    for each in found.results:
        if found.kind == "first" and each.gaps:
            yield each.topic, each.partition, each.gaps[0][0], None
        elif found.kind == "all":
            for first, last in each.gaps:
                yield each.topic, each.partition, first, last


def _there(
    client: Client, settings: Resend, asked: list[tuple[str, int, int, int | None]]
) -> tuple[list[Range], list[Range]]:
    """What of it the source still has, and what is gone. Refused where there is no such partition."""
    topics = client.topics(sorted({topic for topic, *_ in asked}))
    for topic, partition, *_ in asked:
        if topic not in topics or partition >= len(topics[topic].partitions):
            raise Refused(
                f"The {client.end} has no {topic}-{partition}: is the bundle of another cluster, or "
                "partitionStartValue another one than the upstream's?"
            )
    places: list[Place] = sorted({(topic, partition) for topic, partition, *_ in asked})
    with kafka_admin.connect(client.end.bootstrap_servers, client.end.client_config) as admin:
        policies = admin.effective(sorted(topics), "cleanup.policy") if topics else {}
    starts, ends = offsets.log_starts(client, places), offsets.ends(client, places)
    # Records are in no order of time: a window of time is that between the first records of its edges.
    since = offsets.since(client, places, settings.from_) if settings.from_ is not None else {}
    until = offsets.since(client, places, settings.to + 1) if settings.to is not None else {}
    wanted, gone = [], []
    for topic, partition, first, last in asked:
        place = topic, partition
        stop = ends[place] if last is None else min(last + 1, ends[place])
        if until.get(place, -1) >= 0:
            stop = min(stop, until[place])
        if place in since:
            first = max(first, since[place]) if since[place] >= 0 else stop
        start = first if policies[topic] == "compact" else max(first, starts[place])
        if first < min(start, stop):
            gone.append(Range(topic, partition, first, min(start, stop)))
        if start < stop:
            wanted.append(Range(topic, partition, start, stop))
    return wanted, gone


def _frames(client: Client, settings: Resend, wanted: Range) -> Iterator[tuple[Frame, int] | Range]:
    """Frames with their numbers of records; and what can't be sent."""
    topic_id = client.topic(wanted.topic).id
    if topic_id is None:
        raise Refused(f"The {client.end} is older than topic ids (Kafka 2.8): update its brokers.")
    position = wanted.start
    for piece in read(client, wanted, max_bytes=FRAME_BYTES, topic_id=topic_id):
        if piece.lost:
            yield Range(wanted.topic, wanted.partition, *piece.lost)
            position = piece.lost[1]
        if piece.next_offset == position:
            continue
        data = b"".join(batch.data for batch in piece.batches)
        if len(data) > max(settings.largest_record, FRAME_BYTES):  # so it is one batch
            yield Range(wanted.topic, wanted.partition, position, piece.next_offset)
        else:
            partition = wanted.partition + settings.partition_start_value
            last = piece.next_offset - 1
            found = Frame(wanted.topic, topic_id, partition, position, last, data)
            yield found, sum(batch.count for batch in piece.batches)
        position = piece.next_offset
