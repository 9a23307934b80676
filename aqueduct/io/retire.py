"""Takes a topic that its source has no more out of the ledger."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aqueduct.batches.bodies import key_and_value
from aqueduct.batches.records import records
from aqueduct.client_config import End
from aqueduct.errors import Refused
from aqueduct.io import dedup, gap_topic
from aqueduct.io.kafka import client as kafka
from aqueduct.io.kafka import groups, offsets
from aqueduct.io.kafka.client import Client
from aqueduct.io.kafka.fetch import read
from aqueduct.ledger import entry
from aqueduct.ledger.arrivals import bucket
from aqueduct.ledger.entry import Partition
from aqueduct.ledger.spans import size
from aqueduct.link import frame
from aqueduct.ranges import Range
from aqueduct.wording import count


@dataclass(frozen=True)
class Retired:
    partitions: int
    missing: int  # offsets in gaps, which nobody is asked for any more
    lost: int  # offsets


def retire(
    end: End, group: str, raw_topics: tuple[str, ...], ledger: str, topic: str, *, with_gaps: bool
) -> Retired:
    """All that the ledger says of a source's topic. A dedup that runs is fenced, and must begin anew.

    Refused where the topic has no entry, where frames of it wait for dedup, which would be written again
    where they were before, and where offsets are missing, unless `with_gaps`.
    """
    with kafka.connect(end, f"{group}-retire") as client:
        found = client.topics([*raw_topics, ledger])
        dedup.check_there(end, found, raw_topics, ledger)
        partitions = len(found[ledger].partitions)
        producers = {number: dedup.producer_of(client, group, number) for number in range(partitions)}
        for producer in producers.values():
            producer.begin()  # what was committed is there to be read, and nobody else commits from here on
        gone = {place: each for place, each in gap_topic.whole(client, ledger).items() if place[0] == topic}
        if not gone:
            raise Refused(f"The ledger in {ledger} has no entry of topic {topic}.")
        if waiting := sum(_waiting(client, group, raw_topics, producers, topic)):
            raise Refused(
                f"{count(waiting, 'frame')} of topic {topic} in the raw topics are not in the clean topic "
                "yet: let dedup finish, and retire the topic then."
            )
        outcome = _outcome(gone.values())
        if outcome.missing and not with_gaps:
            raise Refused(
                f"{count(outcome.missing, 'offset')} of topic {topic} are missing: send them again, or "
                "retire it --with-gaps if its source has them no more."
            )
        for number, producer in producers.items():
            keys = [
                key
                for place, each in gone.items()
                if bucket(*place, partitions) == number
                for key in entry.records(each, 0)
            ]
            for batch in dedup.entries(dict.fromkeys(keys), int(time.time() * 1000)):
                producer.send(ledger, number, batch)
            producer.commit()
    return outcome


def _outcome(gone: Iterable[Partition]) -> Retired:
    listed = list(gone)
    lineages = [each.current for each in listed if each.current]
    lineages += [old for each in listed for old in each.retired.values()]
    return Retired(
        len(listed), sum(size(each.gaps) for each in lineages), sum(size(each.lost) for each in lineages)
    )


def _waiting(
    client: Client, group: str, raw_topics: Iterable[str], numbers: Iterable[int], topic: str
) -> Iterator[int]:
    """Frames of a topic that dedup has not read yet; announcements make no records."""
    places = [(raw, number) for raw in raw_topics for number in numbers]
    starts, ends = offsets.log_starts(client, places), offsets.ends(client, places)
    committed = groups.progress(client, group, places)
    for place in places:
        start = max(starts[place], committed.get(place, (0, ""))[0])
        for piece in read(client, Range(*place, start, max(start, ends[place]))):
            for record in (each for batch in piece.batches for each in records(batch)):
                try:
                    key = frame.read_key(key_and_value(record.body)[0] or b"")
                except (frame.Malformed, IndexError, ValueError):
                    continue  # dedup counts it
                yield key.topic == topic and not key.announced
