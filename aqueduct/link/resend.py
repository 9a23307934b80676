"""Sends again what a bundle lists, in a session of its own beside the live stream."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Refused
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.admin.settings import setting
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.fetch import read
from aqueduct.link.feed import last_session
from aqueduct.link.filter import Filter
from aqueduct.link.framing import FRAME_BYTES, TooLarge, frame_spans
from aqueduct.link.ledger import bundle
from aqueduct.link.ledger.bundle import Bundle, MissingOffsets
from aqueduct.link.options import Resend
from aqueduct.link.outlet import Outlet, begin_after
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Frame
from aqueduct.link.wire.key_frame import Kind
from aqueduct.link.wire.position import SenderPosition


@dataclass(frozen=True, kw_only=True)
class Resent:
    offsets: int = 0  # that were sent, with those that hold no record
    records: int = 0  # that were sent
    withheld: int = 0  # records, by the filter
    gone: tuple[Range, ...] = ()  # that the source has no more, or that are over largestRecord
    beyond: tuple[Range, ...] = ()  # the last stable offset
    others: tuple[MissingOffsets, ...] = ()  # that the bundle lists, and that do not cross here
    misfits: tuple[str, ...] = ()  # sentences: what is of no topic that the source has now


def run(settings: Resend, *, dry_run: bool, progress: Callable[[int, int], None]) -> Resent:
    """Send the requested offsets again. Call `progress` with the number of sent offsets and the total.

    Refused if the bundle lists offsets, and none of them can be sent over this link.
    """
    outlets = [Outlet(settings, target, Kind.RESEND) for target in settings.all_targets()]
    rules = Filter.of(settings)
    with connect(settings.end("source"), f"{settings.id}-resend") as client:
        asked, others = asked_for(settings)
        asked, misfits = fitting(asked, client.topics(sorted({request.topic for request in asked})))
        if not asked and (misfits or others):
            reason = misfits[0] if misfits else f"This link does not send {_named(others)}."
            raise Refused(
                "bundle-mismatch",
                f"No offset of the bundle can be sent from the {client.end}: {reason} Check that the bundle "
                "belongs to this link and cluster, and that it is not too old. Check topics and "
                "partitionStartValue.",
            )
        held, gone, beyond = _there(client, settings, asked)
        total = sum(map(len, held))
        progress(0, total)
        if dry_run:
            return Resent(
                offsets=total,
                records=0,
                withheld=0,
                gone=tuple(gone),
                beyond=tuple(beyond),
                others=tuple(others),
                misfits=misfits,
            )
        start = _start(client, settings, held)
        for outlet in outlets:
            outlet.begin(start)
            outlet.open()
        sent = records = 0
        throttle = _Throttle(settings.eps, outlets)
        for part in held:
            for frame_or_gap in _frames(client, settings, part):
                if isinstance(frame_or_gap, Range):
                    gone.append(frame_or_gap)
                    continue
                covering, count = frame_or_gap
                value = frame.pack(
                    rules.apply(covering), compress_above=settings.compress_when_length_exceeds
                )
                for outlet in outlets:
                    outlet.add([value])
                throttle.spent(count)
                sent += covering.last - covering.first + 1
                records += count
                progress(sent, total)
        for outlet in outlets:
            outlet.end()
            outlet.close()
    records -= rules.withheld
    return Resent(
        offsets=sent,
        records=records,
        withheld=rules.withheld,
        gone=tuple(gone),
        beyond=tuple(beyond),
        others=tuple(others),
        misfits=misfits,
    )


def _named(partitions: Iterable[MissingOffsets]) -> str:
    return some(TopicPartition(missing.topic, missing.partition) for missing in partitions)


def _start(client: Client, settings: Resend, held: list[Range]) -> int:
    """Return the session's start, which is kept for the next one before anything is sent."""
    group = f"{settings.group}-resend"
    start = begin_after(last_session(client, group))
    for first in held[:1]:
        begun = SenderPosition(topic_id=str(client.topic(first.topic).id), from_=first.start, session=start)
        groups.commit(client, group, {first.topic_partition: (first.start, begun.dumps())})
    return start


class _Throttle:
    def __init__(self, per_second: float | None, outlets: list[Outlet]) -> None:
        self._per_second = per_second
        self._outlets = outlets
        self._next_at = 0.0

    def spent(self, records: int) -> None:
        """Wait, and send keys and keepalives meanwhile."""
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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Offsets of a partition, by its number in this cluster."""

    topic: str
    partition: int
    first: int
    last: int  # up to here they must be there
    onwards: bool = False  # and whatever comes after it
    topic_id: str | None = None  # under which they are missing; None: of the topic as it is now


def asked_for(settings: Resend) -> tuple[list[Asked], list[MissingOffsets]]:
    """Return what is asked for; and what the bundle lists, but another link or cluster has to send."""
    if settings.partition is not None:
        partition = settings.partition - settings.partition_start_value
        first, last = settings.offset_from or 0, settings.offset_to
        if last is None:  # from 0 on: all that there is, be it nothing
            return [
                Asked(
                    topic=str(settings.topic),
                    partition=partition,
                    first=first,
                    last=first or -1,
                    onwards=True,
                )
            ], []
        return [Asked(topic=str(settings.topic), partition=partition, first=first, last=last)], []
    resend_bundle = _bundle(settings.resend_file_name)
    asked, others = [], []
    for missing in resend_bundle.results:
        if not missing.gaps:
            continue
        if not (settings.crosses(missing.topic) and settings.covers(missing.partition)):
            others.append(missing)
            continue
        partition = missing.partition - settings.partition_start_value
        onwards = resend_bundle.kind == "first"
        for first, last in missing.gaps[:1] if onwards else missing.gaps:
            asked.append(
                Asked(
                    topic=missing.topic,
                    partition=partition,
                    first=first,
                    last=last,
                    onwards=onwards,
                    topic_id=missing.topic_id,
                )
            )
    return asked, others


def fitting(asked: Iterable[Asked], topics: Mapping[str, Topic]) -> tuple[list[Asked], tuple[str, ...]]:
    """Return what belongs to these topics, and sentences on the rest.

    The rest's offsets would be those of other records.
    """
    fits: list[Asked] = []
    misfits: dict[TopicPartition, str] = {}
    for request in asked:
        topic = topics.get(request.topic)
        partition = TopicPartition(request.topic, request.partition)
        if topic is None or not 0 <= request.partition < len(topic.partitions):
            misfits[partition] = f"{partition} does not exist."
        elif request.topic_id not in (None, str(topic.id)):
            misfits[partition] = (
                f"{partition} belongs to a re-created topic: the missing records have the topic ID "
                f"{request.topic_id}, but the present topic has the topic ID {topic.id}."
            )
        else:
            fits.append(request)
    return fits, tuple(misfits.values())


def _bundle(path: Path | None) -> Bundle:
    assert path  # noqa: S101  # options demand it where there is no partition
    try:
        return bundle.loads(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            "bundle-unreadable", f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None


def _there(
    client: Client, settings: Resend, asked: list[Asked]
) -> tuple[list[Range], list[Range], list[Range]]:
    """Return what the source still has, what is gone, and what is beyond its last stable offset."""
    topics = {request.topic for request in asked}
    partitions = sorted({TopicPartition(request.topic, request.partition) for request in asked})
    policies = setting(client, topics, "cleanup.policy") if topics else {}
    starts, ends = offsets.log_starts(client, partitions), offsets.ends(client, partitions)
    # Records are in no order of time: a window of time is that between the first records of its edges.
    since = offsets.since(client, partitions, settings.from_) if settings.from_ is not None else {}
    until = offsets.since(client, partitions, settings.to + 1) if settings.to is not None else {}
    held: list[Range] = []
    gone: list[Range] = []
    beyond: list[Range] = []
    for request in asked:
        partition = TopicPartition(request.topic, request.partition)
        # What compaction took has newer values: it is not lost.
        start = 0 if policies[request.topic] == "compact" else starts[partition]
        parts = divided(request, start, ends[partition], since.get(partition), until.get(partition, -1))
        for part, of_all in zip(parts, (held, gone, beyond), strict=True):
            if part.start < part.stop:
                of_all.append(part)
    return held, gone, beyond


def divided(
    asked: Asked, start: int, end: int, since: int | None = None, until: int = -1
) -> tuple[Range, Range, Range]:
    """Return what a log from `start` to `end` has of it, lost and never had; each may be empty.

    `since` and `until`: the offsets of a window of time; -1: there is no record so late, None: any time.
    """
    stop = end if asked.onwards else min(asked.last + 1, end)
    if until >= 0:
        stop = min(stop, until)
    first = asked.first
    if since is not None:
        first = max(first, since) if since >= 0 else stop
    first_held = max(first, start)
    never = max(asked.first, end) if until < 0 else asked.last + 1  # else the window closes before the end
    return (
        Range(asked.topic, asked.partition, first_held, stop),
        Range(asked.topic, asked.partition, first, min(first_held, stop)),
        Range(asked.topic, asked.partition, never, asked.last + 1),
    )


def _frames(client: Client, settings: Resend, held: Range) -> Iterator[tuple[Frame, int] | Range]:
    """Yield frames with their numbers of records; and ranges that can't be sent."""
    topic_id = client.topic(held.topic).id
    if topic_id is None:
        raise Refused(
            "topic-ids-unsupported",
            f"The {client.end} does not support topic IDs. Upgrade its brokers to Kafka 2.8 or later.",
        )
    position = held.start
    partition = held.partition + settings.partition_start_value
    for piece in read(client, held, max_bytes=FRAME_BYTES, topic_id=topic_id):
        if piece.lost:
            yield Range(held.topic, held.partition, *piece.lost)
            position = piece.lost[1]
        for span in frame_spans(piece.batches, position, piece.next_offset, settings.largest_record):
            if isinstance(span, TooLarge):
                yield Range(held.topic, held.partition, span.start, span.stop)
            else:
                covering = Frame(
                    topic=held.topic,
                    topic_id=topic_id,
                    partition=partition,
                    first=span.start,
                    last=span.stop - 1,
                    batches=span.data,
                )
                yield covering, span.count
        position = piece.next_offset
