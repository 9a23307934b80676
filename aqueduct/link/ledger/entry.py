"""The gap topic's records: keys and JSON values of one source partition.

Under `topic/partition` is the current lineage, under `topic/partition/ID` one of a topic id that came before
it. A lineage of more than PER_RECORD spans continues in records of the key and `/1`, `/2`, ..., written in
the same transaction; a part that is no longer needed becomes a tombstone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from aqueduct.common.offset_sets import Span, Spans, spans_of
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.link.ledger.lineage import Lineage, begin

PER_RECORD = 10_000  # spans; about 300 KB

LedgerRecords = dict[str, str | None]  # key -> value, None a tombstone


def group(gap_topic: str) -> str:
    """Return the group that dedup commits its position in the raw topics as."""
    return f"aqueduct-dedup-{gap_topic}"


@dataclass(kw_only=True)
class LedgerPartition:
    """One source partition, by the topic ids that it had."""

    topic: str
    partition: int
    current: Lineage | None = None
    retired: dict[str, Lineage] = field(default_factory=dict)
    updated: int = field(default=0, compare=False)  # milliseconds since 1970

    @property
    def missing(self) -> Spans:
        """Return the missing offsets that may yet be sent again."""
        return self.current.gaps if self.current else []

    @property
    def lost(self) -> dict[str, Spans]:
        """Return the offsets lost for good, by topic id: deleted unread, or of a recreated topic."""
        lost = {self.current.topic_id: self.current.lost} if self.current else {}
        lost |= {topic_id: spans_of([*old.gaps, *old.lost]) for topic_id, old in self.retired.items()}
        return {topic_id: spans for topic_id, spans in lost.items() if spans}

    def knows(self, topic_id: str) -> bool:
        return topic_id in self.retired or bool(self.current and self.current.topic_id == topic_id)

    @property
    def closed(self) -> bool:
        """Tell whether this is what `close` leaves."""
        return self.current is None and not any(old.gaps or old.lost for old in self.retired.values())

    def close(self) -> "LedgerPartition":
        """Return the entry with nothing missing or lost: nothing that came, or was asked for, is new."""
        lineages = [*([self.current] if self.current else []), *self.retired.values()]
        closed = {
            lineage.topic_id: Lineage(topic_id=lineage.topic_id, first=lineage.first, next=lineage.next)
            for lineage in lineages
        }
        return LedgerPartition(topic=self.topic, partition=self.partition, current=None, retired=closed)

    def lineage(self, topic_id: str, first: int) -> Lineage:
        """Return the lineage of an id; one never seen is a recreated topic's, and becomes the current one."""
        if self.current and self.current.topic_id == topic_id:
            return self.current
        if retired := self.retired.get(topic_id):
            return retired
        if self.current:
            self.retired[self.current.topic_id] = self.current
        self.current = begin(topic_id, first)
        return self.current


def records(partition: LedgerPartition, updated: int, before: Iterable[str] = ()) -> LedgerRecords:
    """Return the ledger's records of a partition; `updated` in milliseconds since 1970.

    `before`: the keys that it had, so that those without use become tombstones.
    """
    ledger_records: LedgerRecords = dict.fromkeys(before)
    stem = f"{partition.topic}/{partition.partition}"
    if partition.current:
        ledger_records |= _records(partition, stem, partition.current, updated, retired=False)
    for topic_id, lineage in partition.retired.items():
        ledger_records |= _records(partition, f"{stem}/{topic_id}", lineage, updated, retired=True)
    return ledger_records


def _records(
    partition: LedgerPartition, key: str, lineage: Lineage, updated: int, *, retired: bool
) -> Iterator[tuple[str, str]]:
    spans = iter([*(("gaps", span) for span in lineage.gaps), *(("lost", span) for span in lineage.lost)])
    parts = max(0, -(-(len(lineage.gaps) + len(lineage.lost)) // PER_RECORD) - 1)
    head = {
        "topic": partition.topic,
        "partition": partition.partition,
        "topic_id": lineage.topic_id,
        "first": lineage.first,
        "next": lineage.next,
        "retired": retired,
        "parts": parts,
        "updated": updated,
    }
    yield key, json.dumps(head | _part(spans))
    for part in range(1, parts + 1):
        yield f"{key}/{part}", json.dumps({"part": part, "updated": updated} | _part(spans))


def _part(spans: Iterator[tuple[str, Span]]) -> dict[str, Spans]:
    part: dict[str, Spans] = {"gaps": [], "lost": []}
    for kind, span in islice(spans, PER_RECORD):
        part[kind].append(span)
    return part


def partitions(value_by_key: Mapping[str, str]) -> dict[TopicPartition, LedgerPartition]:
    """Return the ledger: the newest value of every key in the gap topic, tombstones left out.

    Failed at what isn't an entry: then the topic is used for something else, or was damaged.
    """
    ledger: dict[TopicPartition, LedgerPartition] = {}
    for key, value in value_by_key.items():
        if "part" in (head := _parsed(key, value)):
            continue
        try:
            topic_partition = TopicPartition(str(head["topic"]), int(head["partition"]))
            bodies = [head, *(_parsed(part, value_by_key[part]) for part in _parts(key, int(head["parts"])))]
            lineage = Lineage(
                topic_id=str(head["topic_id"]),
                first=int(head["first"]),
                next=int(head["next"]),
                gaps=[(first, last) for body in bodies for first, last in body["gaps"]],
                lost=[(first, last) for body in bodies for first, last in body["lost"]],
            )
            retired, updated = bool(head["retired"]), int(head["updated"])
        except (KeyError, TypeError, ValueError) as error:
            raise Failed(
                "ledger-entry-invalid", f"{_which(key)} is incomplete: {error!r} is missing or wrong."
            ) from None
        partition = ledger.setdefault(
            topic_partition, LedgerPartition(topic=topic_partition.topic, partition=topic_partition.partition)
        )
        partition.updated = max(partition.updated, updated)
        if retired:
            partition.retired[lineage.topic_id] = lineage
        else:
            partition.current = lineage
    return ledger


def _parts(key: str, count: int) -> Iterator[str]:
    return (f"{key}/{part}" for part in range(1, count + 1))


def _parsed(key: str, value: str) -> dict[str, Any]:
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        content = None
    if type(content) is not dict:
        raise Failed(
            "ledger-entry-invalid",
            f"{_which(key)} is not a JSON object of a ledger. Check the name of the gap topic.",
        )
    return content


def _which(key: str) -> str:
    return f"The ledger entry {key!r}"
