"""Removes what is missing of a topic that its source no longer has from the ledger."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from aqueduct.common import timestamps
from aqueduct.common.offset_ranges import Range
from aqueduct.common.offset_sets import size
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import Refused
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.batches.bodies import key_and_value
from aqueduct.kafka.batches.records import readable
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.fetch import read
from aqueduct.link.dedup import task as dedup
from aqueduct.link.ledger import entry, gap_topic
from aqueduct.link.ledger.arrivals import bucket
from aqueduct.link.ledger.entry import LedgerPartition
from aqueduct.link.wire import frame

LIVES_SECONDS = 150  # a topic that lives is announced each minute


@dataclass(frozen=True)
class Retired:
    partitions: int
    missing: int  # offsets in gaps, which nobody is asked for any more
    lost: int  # offsets


def retire(
    end: End, group: str, raw_topics: tuple[str, ...], ledger: str, topic: str, *, with_gaps: bool
) -> Retired:
    """Retire a source's topic from the ledger. A dedup that runs is fenced, and must start again.

    A small entry stays for each id that the topic had: what had crossed is not taken for new if the raw
    topics are read again. Refused if there is nothing to retire, if its source still has the topic or frames
    of it wait for dedup, and if offsets are missing, unless `with_gaps`.
    """
    with connect(end, f"{group}-retire") as client:
        topics = client.topics([*raw_topics, ledger])
        dedup.check_there(end, topics, raw_topics, ledger)
        partitions = len(topics[ledger].partitions)
        producers = {number: dedup.producer_of(client, group, number) for number in range(partitions)}
        for producer in producers.values():
            producer.begin()  # what was committed is there to be read, and nobody else commits from here on
        whole = gap_topic.whole(client, ledger)
        gone = {
            key: ledger_partition
            for key, ledger_partition in whole.items()
            if key.topic == topic and not ledger_partition.closed
        }
        if not gone:
            raise Refused("ledger-topic-unknown", f"The ledger in {ledger} has no entry of topic {topic}.")
        raw = [TopicPartition(name, number) for name in raw_topics for number in producers]
        if any(key.topic == topic and key.announced for key in _keys(client, _lately(client, raw))):
            raise Refused(
                "retired-topic-announced",
                f"The sending end has announced topic {topic} in the last {LIVES_SECONDS} s, so the source "
                "still has the topic, and the ledger would list it again. Delete the topic at the source, "
                "or remove the topic from the link. Then run the command again.",
            )
        unread = _unread(client, group, raw)
        # Announcements make no records.
        if waiting := sum(key.topic == topic and not key.announced for key in _keys(client, unread)):
            raise Refused(
                "retired-topic-unread",
                f"{count(waiting, 'frame')} of topic {topic} in the raw topics are not in the clean topic "
                "yet. Wait until dedup has written the frames. Then run the command again.",
            )
        outcome = _outcome(gone.values())
        if outcome.missing and not with_gaps:
            raise Refused(
                "retired-topic-incomplete",
                f"{count(outcome.missing, 'offset')} of topic {topic} are missing. Send these offsets again "
                "with aqueduct diode resend. If the source no longer has the records, pass --with-gaps.",
            )
        for number, producer in producers.items():
            now = timestamps.now()
            changes: entry.LedgerRecords = {}
            for topic_partition, ledger_partition in gone.items():
                if bucket(*topic_partition, partitions) == number:
                    changes |= entry.records(
                        ledger_partition.close(), now, before=entry.records(ledger_partition, now)
                    )
            for batch in dedup.entries(changes, now):
                producer.send(ledger, number, batch)
            producer.commit()
    return outcome


def _outcome(gone: Iterable[LedgerPartition]) -> Retired:
    listed = list(gone)
    lineages = [ledger_partition.current for ledger_partition in listed if ledger_partition.current]
    lineages += [old for ledger_partition in listed for old in ledger_partition.retired.values()]
    return Retired(
        len(listed),
        sum(size(lineage.gaps) for lineage in lineages),
        sum(size(lineage.lost) for lineage in lineages),
    )


def _lately(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offsets at which the latest arrivals begin."""
    since = offsets.since(client, partitions, timestamps.now() - LIVES_SECONDS * 1000)
    return {partition: offset for partition, offset in since.items() if offset >= 0}


def _unread(client: Client, group: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offsets at which what dedup hasn't read begins."""
    starts = offsets.log_starts(client, partitions)
    committed = groups.progress(client, group, partitions)
    return {
        partition: max(starts[partition], committed.get(partition, (0, ""))[0]) for partition in partitions
    }


def _keys(client: Client, starts: Mapping[TopicPartition, int]) -> Iterator[frame.FrameKey]:
    """Yield the keys of the frames and announcements from these offsets on."""
    ends = offsets.ends(client, starts)
    for partition, start in starts.items():
        for piece in read(client, Range(*partition, start, max(start, ends[partition]))):
            for record in readable(piece.batches, lambda *_: None):  # dedup counts what can't be read
                with suppress(frame.Malformed, IndexError, ValueError):  # dedup counts it
                    yield frame.read_key(key_and_value(record.body)[0] or b"")
