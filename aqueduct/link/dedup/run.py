"""Dedup makes clean topics of what crossed a link: each record once, and a ledger of what is missing.

The tasks share out the raw topics' partitions, each of which holds all of some source partitions; see
aqueduct.link.dedup.task for what one of them does.
"""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import OWN_TOPICS
from aqueduct.common.wording import count, some
from aqueduct.errors import Refused, labelled
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.admin.settings import setting
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.client_config import End
from aqueduct.link import silence
from aqueduct.link.dedup.share import Clean, DedupCounts, DedupShare
from aqueduct.link.dedup.task import check_there, dedup
from aqueduct.link.ledger import entry, gap_topic
from aqueduct.link.options import SILENCE_SECONDS
from aqueduct.work import sampling
from aqueduct.work.crossover import Verb
from aqueduct.work.progress import Size
from aqueduct.work.workers import Workers

CLIENT = "aqueduct-dedup"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DedupOrder:
    """The request for a dedup run."""

    end: End
    raw_topics: tuple[str, ...]
    gap_topic: str
    topics: Mapping[str, str] | None = None  # source topic -> clean topic; None: every one, by its own name
    grace_seconds: float = 30.0
    every_seconds: float | None = None  # None: until caught up, once
    silence_seconds: float = SILENCE_SECONDS  # without a word of a sender, after which that is told

    @property
    def group(self) -> str:
        return entry.group(self.gap_topic)


# Each is a partition of every raw topic.
BUCKETS: Size[DedupShare] = Size("partitions", lambda share: len(share.buckets))


def run(order: DedupOrder, workers: Workers, tell: Callable[[DedupCounts, float], None]) -> DedupCounts:
    """Dedup all that was there at the start; or, if it is to continue, until it is interrupted.

    `tell` is told what each round did, and its seconds.
    """
    absent: Collection[str] = ()
    gone: Collection[str] = ()
    again = False
    while True:
        try:
            share, waiting, silent = _plan(order, again=again)
        except Refused as error:
            if order.every_seconds is None or not again:
                raise
            log.warning("%s", error.labelled)  # nothing is lost: the position stays
            time.sleep(order.every_seconds)
            continue
        again = True
        work = sampling.reading(Verb.DEDUP, order.end, waiting, workers)
        tasks = workers.many(work) or 1
        buckets = share.buckets
        shares = [replace(share, buckets=some) for n in range(tasks) if (some := buckets[n::tasks])]
        began = time.monotonic()
        counts = DedupCounts(silent=silent)
        for share_counts in workers.runner(work)(
            dedup, shares, BUCKETS if order.every_seconds is None else None
        ):
            counts.add(share_counts)
        absent = report_absent(order, counts, absent)
        gone = report_gone(share, counts, gone)
        tell(counts, time.monotonic() - began)
        if order.every_seconds is None:
            _wait_for_the_ledger(order)
            return counts


def _wait_for_the_ledger(order: DedupOrder) -> None:
    """Return when who reads the ledger next sees all that this run has entered."""
    with connect(order.end, CLIENT) as client:
        offsets.settled(client, client.topics([order.gap_topic])[order.gap_topic].topic_partitions)


def report_gone(share: DedupShare, counts: DedupCounts, reported: Collection[str]) -> Collection[str]:
    """Return the clean topics that were deleted, and report them if some are new."""
    gone = frozenset(share.gone.values())
    if gone.difference(reported):
        warning = (
            f"The {share.end} no longer has the topic {some(sorted(gone))}. The ledger lists records that "
            "arrive for this topic as missing. Re-create the topic, and send the missing offsets again."
        )
        counts.silent += (labelled("topic-unknown", warning),)
    return gone


def report_absent(order: DedupOrder, counts: DedupCounts, reported: Collection[str]) -> Collection[str]:
    """Return the topics of `--topics` of which nothing has crossed, and report them if some are new.

    `reported`: those of the round before.
    """
    absent = frozenset(order.topics or ()).difference(counts.crossed)
    if absent.difference(reported):
        warning = (
            f"No record of {some(sorted(absent))} has arrived over the link: the ledger in "
            f"{order.gap_topic} has no entry of this topic. Check the names in --topics, and the topics of "
            "the sending end. The link does not send a topic that never had a record."
        )
        counts.silent += (labelled("link-topic-not-received", warning),)
    return absent


def sentence(counts: DedupCounts, seconds: float) -> str:
    text = f"{count(counts.records, 'record')} in {count(counts.frames, 'frame')} within {seconds:.1f} s"
    text += f"; {count(counts.repeated, 'offset')} had arrived before" if counts.repeated else ""
    text += f"; {count(counts.malformed, 'raw record')} not readable" if counts.malformed else ""
    text += f"; {count(counts.quarantined, 'frame')} not written" if counts.quarantined else ""
    text += (
        (f"; {count(counts.unlisted, 'raw record')} neither written nor listed as missing")
        if counts.unlisted
        else ""
    )
    text += (
        f"; {count(counts.contradicted, 'announcement')} in contradiction to the ledger"
        if counts.contradicted
        else ""
    )
    text += f"; {count(counts.missing, 'offset')} missing" if counts.missing else ""
    text += f"; {count(counts.lost, 'offset')} permanently lost" if counts.lost else ""
    left_out = ", ".join(f"{topic} ({count(n, 'frame')})" for topic, n in sorted(counts.left_out.items()))
    text += f"; not selected by --topics: {left_out}" if left_out else ""
    return " ".join([f"{text}.", *counts.told, *counts.silent])


def _plan(order: DedupOrder, *, again: bool) -> tuple[DedupShare, list[Range], tuple[str, ...]]:
    """Return all buckets in one share, the raw offsets to read, and sentences on silent senders.

    Refused if a topic can't be used. `again`: a clean topic that was deleted does not stop the others.
    """
    with connect(order.end, CLIENT) as client:
        named = [*order.raw_topics, order.gap_topic, *(order.topics or {}).values()]
        topics = client.topics(named if order.topics else None)
        check_there(order.end, topics, order.raw_topics, order.gap_topic, () if again else named)
        raw = [partition for name in order.raw_topics for partition in topics[name].topic_partitions]
        starts, ends = offsets.log_starts(client, raw), offsets.ends(client, raw)
        read = groups.committed(client, [order.group])[order.group]
        silent = tuple(silence.silent(client, order.raw_topics, order.silence_seconds))
        own = {*order.raw_topics, order.gap_topic}
        if mixed := own & set((order.topics or {}).values()):
            raise Refused(
                "clean-topic-reserved",
                f"Topic {min(mixed)} cannot be a clean topic, because it is the raw topic or the gap topic "
                "of the link. Correct --topics.",
            )
        clean_by_source = order.topics or {name: name for name in topics if name not in own | OWN_TOPICS}
        gone = {source: name for source, name in clean_by_source.items() if name not in topics}
        existing = {source: name for source, name in clean_by_source.items() if name in topics}
        clean = _clean(client, order, existing, topics)
    share = DedupShare(
        end=order.end,
        group=order.group,
        run=secrets.token_hex(4),
        raw_topics={name: topics[name].id for name in order.raw_topics},
        gap_topic=order.gap_topic,
        buckets=tuple(range(len(topics[order.gap_topic].partitions))),
        partitions=len(topics[order.gap_topic].partitions),
        clean=clean,
        every_topic=order.topics is None,
        grace_seconds=order.grace_seconds,
        seconds=order.every_seconds,
        gone=gone,
    )
    begins = {partition: max(starts[partition], read.get(partition, (0, ""))[0]) for partition in raw}
    waiting = [
        Range(*partition, begins[partition], ends[partition])
        for partition in raw
        if begins[partition] < ends[partition]
    ]
    return share, waiting, silent


def _clean(
    client: Client, order: DedupOrder, clean_by_source: Mapping[str, str], topics: Mapping[str, Topic]
) -> dict[str, Clean]:
    gap_topic.check_kept(client, order.gap_topic)
    clean = sorted(set(clean_by_source.values()))
    sizes = setting(client, clean, "max.message.bytes")
    times = setting(client, clean, "message.timestamp.type")
    for name in clean:
        if times[name] != "CreateTime":
            raise Refused(
                "clean-topic-times-replaced",
                f"Topic {name} would replace the timestamps of all records. Set message.timestamp.type of "
                "this topic to CreateTime.",
            )
    return {
        source: Clean(name, len(topics[name].partitions), int(sizes[name]))
        for source, name in clean_by_source.items()
    }
