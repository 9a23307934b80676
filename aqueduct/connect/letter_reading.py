"""Counts dead-letter records by their origin and cause, and shows some of them. It changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import NamedTuple

import numpy as np
from kafka.errors import TopicAuthorizationFailedError

from aqueduct.common.offset_ranges import Range
from aqueduct.connect.dead_letters import Choice, Origin
from aqueduct.connect.letter_origins import (
    LONGEST,
    LetterCount,
    LetterCounts,
    LetterOrigin,
    Letters,
    are_replayed,
    read_letters,
)
from aqueduct.connect.replay import read_ledger
from aqueduct.connect.replay_ledger import ReplayLedger
from aqueduct.errors import Failed, Refused, Skipped
from aqueduct.kafka import offsets
from aqueduct.kafka.batches.batch import Batch
from aqueduct.kafka.batches.bodies import headers, key_and_value
from aqueduct.kafka.batches.varints import Mask, Numbers
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.fetch import read

SUFFIX = "-dlq"  # of dead-letter topics, as the role connect names them
UNREADABLE = "dead-letters-unreadable"
LEDGER_UNKNOWN = "dead-letter-ledger-unknown"


@dataclass(frozen=True, kw_only=True)
class LetterQuery:
    topics: tuple[str, ...] = ()  # dead-letter topics; empty: all whose names end with SUFFIX
    ledger: str
    choice: Choice
    origin_topic: str | None = None
    newest: int | None = None  # offsets of each partition that are read; None: all
    most_shown: int = 0  # letters
    most_bytes: int = 1_000  # of a shown key, value or header


class CutBytes(NamedTuple):
    """The beginning of a field of a record, and the size of the whole field."""

    content: bytes | None  # None: it is null
    size: int


@dataclass(frozen=True, kw_only=True)
class ShownLetter:
    topic: str  # of dead-letter records
    partition: int
    offset: int
    timestamp: int
    is_replayed: bool | None  # None: it is not known
    key: CutBytes
    value: CutBytes
    headers: tuple[tuple[bytes, CutBytes], ...]


@dataclass(kw_only=True)
class LetterCensus:
    """What was found of dead-letter records."""

    topics: list[str] = field(default_factory=list)
    counts: list[LetterCount] = field(default_factory=list)
    letters: list[ShownLetter] = field(default_factory=list)  # the newest ones first
    unread_by_topic: dict[str, int] = field(default_factory=dict)  # older offsets than `newest` chose
    unknown: list[Skipped] = field(default_factory=list)
    # Chosen connectors, error classes and topics of origin that no letter has.
    absent: set[str] = field(default_factory=set)
    has_letters: bool = False  # chosen or not

    @property
    def unread(self) -> int:
        """Return how many older offsets were not read."""
        return sum(self.unread_by_topic.values())


def read_census(client: Client, query: LetterQuery) -> LetterCensus:
    """Count the letters that are chosen, and keep some of the newest ones.

    A topic without dead-letter records has no counts.
    """
    census = LetterCensus(absent={*query.choice.names, *filter(None, [query.origin_topic])})
    for topic in _topics(client, query, census):
        census.topics.append(topic.name)
        try:
            _Census(client, query, topic, census).read()
        except TopicAuthorizationFailedError:
            census.unknown.append(Skipped(topic.name, "the client may not read the topic", UNREADABLE))
        except Failed as error:
            census.unknown.append(Skipped(topic.name, str(error).rstrip("."), error.id or UNREADABLE))
    return census


def _topics(client: Client, query: LetterQuery, census: LetterCensus) -> Iterator[Topic]:
    if not query.topics:
        every = client.topics()
        yield from (every[name] for name in sorted(every) if name.endswith(SUFFIX))
    for name in dict.fromkeys(query.topics):  # one by one: the client may not describe each
        try:
            topic = client.topics([name]).get(name)
        except TopicAuthorizationFailedError:
            census.unknown.append(Skipped(name, "the client may not describe the topic", UNREADABLE))
            continue
        if topic:
            yield topic
        else:
            census.unknown.append(
                Skipped(name, f"the {client.end} has no topic with this name", "topic-unknown")
            )


class _Census:
    """The letters of one topic."""

    def __init__(self, client: Client, query: LetterQuery, topic: Topic, census: LetterCensus) -> None:
        self._client = client
        self._query = query
        self._topic = topic
        self._census = census
        self._counts = LetterCounts()
        self._unreadable = 0
        self._ledger = self._read_ledger()

    def read(self) -> None:
        for range_ in self._ranges():
            spans = [] if self._ledger is None else self._ledger.spans(range_.partition)
            for piece in read(self._client, range_, topic_id=self._topic.id):
                for letters in read_letters(piece.batches, self._set_aside):
                    self._add(range_.partition, letters, are_replayed(spans, letters.places.offsets))
        listed = self._counts.listed(self._topic.name, with_replayed=self._ledger is not None)
        self._census.counts += [counted for counted in listed if self._takes(counted.origin)]
        self._census.has_letters |= bool(self._counts.origins)
        for origin in self._counts.origins:
            self._census.absent -= {*self._query.choice.named_by(_whole(origin)), origin.topic}
        if self._unreadable:
            why = (
                f"{self._unreadable:,} records are in batches that cannot be read, or that are too large "
                "after decompression"
            )
            self._census.unknown.append(Skipped(self._topic.name, why, UNREADABLE))

    def _read_ledger(self) -> ReplayLedger | None:
        try:
            return read_ledger(self._client, self._query.ledger, self._topic)
        except TopicAuthorizationFailedError:
            why = (
                f"the client may not read {self._query.ledger}, so it is unknown which records were sent back"
            )
        except (Failed, Refused) as error:
            why = str(error).rstrip(".")
        self._census.unknown.append(Skipped(self._topic.name, why, LEDGER_UNKNOWN))
        return None

    def _ranges(self) -> Iterator[Range]:
        partitions = self._topic.topic_partitions
        starts, ends = offsets.log_starts(self._client, partitions), offsets.ends(self._client, partitions)
        for partition in partitions:
            start, end = starts[partition], ends[partition]
            if self._query.newest is not None:
                start = max(start, end - self._query.newest)
            unread = self._census.unread_by_topic
            unread[self._topic.name] = unread.get(self._topic.name, 0) + start - starts[partition]
            if start < end:
                yield Range(*partition, start, end)

    def _set_aside(self, batch: Batch, _: Exception) -> None:
        self._unreadable += batch.count

    def _add(self, partition: int, letters: Letters, replayed: Mask) -> None:
        first, last = self._query.choice.first_time, self._query.choice.last_time
        times = letters.places.times
        in_time = np.ones(len(times), np.bool_)
        if first is not None:
            in_time &= times >= first
        if last is not None:
            in_time &= times <= last
        codes = self._counts.codes(letters)
        self._counts.add(codes[in_time], times[in_time], replayed[in_time])
        if self._query.most_shown:
            chosen = self._counts.chosen(self._takes)[codes] & in_time
            self._show(partition, letters, replayed, np.flatnonzero(chosen)[-self._query.most_shown :])

    def _show(self, partition: int, letters: Letters, replayed: Mask, index: Numbers) -> None:
        places = letters.places
        for number in index.tolist():
            body = places.data[places.begins[number] : places.ends[number]]
            key, value = key_and_value(body)
            pairs = [] if letters.headers.too_many[number] else headers(body)
            letter = ShownLetter(
                topic=self._topic.name,
                partition=partition,
                offset=int(places.offsets[number]),
                timestamp=int(places.times[number]),
                is_replayed=None if self._ledger is None else bool(replayed[number]),
                key=self._cut(key),
                value=self._cut(value),
                headers=tuple((name[:LONGEST], self._cut(content)) for name, content in pairs),
            )
            self._census.letters.append(letter)
        self._census.letters = nlargest(self._query.most_shown, self._census.letters, key=_age)

    def _cut(self, content: bytes | None) -> CutBytes:
        return CutBytes(content and content[: self._query.most_bytes], len(content or b""))

    def _takes(self, origin: LetterOrigin) -> bool:
        choice = replace(self._query.choice, first_time=None, last_time=None)  # which is of single letters
        return choice.takes(_whole(origin), 0) and self._query.origin_topic in (None, origin.topic)


def _whole(origin: LetterOrigin) -> Origin:
    return Origin(origin.topic, 0, 0, origin.connector, origin.error_class)


def _age(letter: ShownLetter) -> tuple[int, int, int]:
    return letter.timestamp, letter.partition, letter.offset
