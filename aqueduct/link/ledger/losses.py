"""When each missing or lost range of a ledger was noticed, by the values that the gap topic still has."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from aqueduct.common.offset_sets import Span, Spans, add, without
from aqueduct.common.topic_names import TopicPartition
from aqueduct.link.ledger.entry import LedgerPartition

MISSING = "missing"  # it may yet be sent again
LOST = "lost"  # for good

_FIRST, _LAST = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, kw_only=True)
class LostRange:
    """Offsets of a source partition, both ends inclusive, that did not arrive."""

    partition: TopicPartition
    topic_id: str
    kind: str
    first: int
    last: int
    noticed: int  # milliseconds since 1970
    is_latest: bool  # it may have been noticed before: compaction removed older values


Identity = tuple[str, int, str]  # topic, partition, topic id


@dataclass
class _Noticed:
    """What the ledger has ever listed of a lineage, and when it did so first."""

    spans: Spans = field(default_factory=list)
    pieces: list[tuple[Span, int, bool]] = field(default_factory=list)


class LossHistory:
    """The values of a gap topic, in the order of its log."""

    def __init__(self) -> None:
        self._noticed: dict[tuple[Identity, str], _Noticed] = {}
        self._of_head: dict[str, tuple[Identity, bool]] = {}  # by key; whether it was its first value

    def add(self, key: str, value: str) -> None:
        """Add a value that the ledger's own reader has accepted, or an older one of its key."""
        content = _content(value)
        if "part" not in content:
            topic_id = str(content.get("topic_id", ""))
            identity = str(content.get("topic", "")), int(content.get("partition", -1)), topic_id
            is_latest = key not in self._of_head
            self._of_head[key] = identity, is_latest
        elif (head := key.rpartition("/")[0]) in self._of_head:  # its parts come after it
            identity, is_latest = self._of_head[head]
        else:
            return
        for kind, name in ((MISSING, "gaps"), (LOST, "lost")):
            noticed = self._noticed.setdefault((identity, kind), _Noticed())
            spans = [(int(first), int(last)) for first, last in content.get(name, ())]
            for span in sorted(spans):
                for piece in without([span], _touching(noticed.spans, span)):
                    noticed.pieces.append((piece, int(content.get("updated", 0)), is_latest))
            for span in spans:
                add(noticed.spans, *span)

    def newest(self, ledger: Mapping[TopicPartition, LedgerPartition], most: int) -> list[LostRange]:
        """Return ranges that are missing or lost now, the newest ones first."""
        ranges = [
            LostRange(
                partition=partition,
                topic_id=topic_id,
                kind=LOST if topic_id in entry.retired else kind,
                first=first,
                last=last,
                noticed=noticed,
                is_latest=is_latest,
            )
            for partition, entry in ledger.items()
            for topic_id, kind, spans in _listed(entry)
            for (first, last), noticed, is_latest in self._pieces((*partition, topic_id), kind, spans)
        ]
        return sorted(ranges, key=lambda lost: (-lost.noticed, lost.partition, lost.first))[:most]

    def _pieces(self, identity: Identity, kind: str, spans: Spans) -> Iterator[tuple[Span, int, bool]]:
        noticed = self._noticed.get((identity, kind), _Noticed())
        for piece, time, is_latest in noticed.pieces:
            for span in _common(piece, spans):
                yield span, time, is_latest


def _listed(entry: LedgerPartition) -> Iterator[tuple[str, str, Spans]]:
    """Yield the topic id, the kind and the ranges of each lineage."""
    for lineage in [*([entry.current] if entry.current else []), *entry.retired.values()]:
        yield lineage.topic_id, MISSING, lineage.gaps
        yield lineage.topic_id, LOST, lineage.lost


def _common(piece: Span, spans: Spans) -> Spans:
    first, last = piece
    return [(max(first, low), min(last, high)) for low, high in _touching(spans, piece)]


def _touching(spans: Spans, piece: Span) -> Spans:
    """Return the spans that have offsets of a piece, found by bisection: there may be many of both."""
    first, last = piece
    return spans[bisect_left(spans, first, key=_LAST) : bisect_right(spans, last, key=_FIRST)]


def _content(value: str) -> dict[str, Any]:
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
