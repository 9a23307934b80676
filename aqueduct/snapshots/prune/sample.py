"""A sample of the segments that remaining snapshots use, which prune opens before it removes anything.

Prune compares sizes of objects, and anyone who may create objects can upload random bytes of any size. So
segments of the newest snapshot are read first, of topics that lose data: these replace what would go.
"""

import math
import random
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from itertools import zip_longest
from typing import NamedTuple

from aqueduct.common import timestamps
from aqueduct.errors import Failed
from aqueduct.snapshots.backup import verify
from aqueduct.snapshots.backup.faults import Fault
from aqueduct.snapshots.prune.outcome import OpenedSample
from aqueduct.store import segments
from aqueduct.store.expiry import expired
from aqueduct.store.keyring import Keyring, Locked
from aqueduct.store.manifest import Segment

SAMPLE_BYTES = 2 << 30  # stored; the last segment may exceed it
SAMPLE_SEGMENTS = 1_000
TOPIC_SEGMENTS = 10  # of a topic, of the newest snapshot, and as many of all others


class _Drawn(NamedTuple):
    rank: float
    segment: Segment


class SegmentSample:
    """A random sample of the segments of each topic: larger ones are drawn more often.

    Which are drawn, nobody can know before. A segment that several manifests name has no better chance.
    """

    def __init__(self) -> None:
        self._salt = secrets.token_hex(16)
        self._drawn: dict[str, list[_Drawn]] = {}

    def add(self, added: Iterable[Segment]) -> None:
        for segment in added:
            if not segment.records:  # it has no object
                continue
            drawn = self._drawn.setdefault(segment.topic, [])
            candidate = _Drawn(self._rank(segment), segment)
            if len(drawn) == TOPIC_SEGMENTS and candidate.rank <= drawn[0].rank:
                continue
            if candidate in drawn:
                continue
            if len(drawn) < TOPIC_SEGMENTS:
                heappush(drawn, candidate)
            else:
                heapreplace(drawn, candidate)

    def of(self, topics: Collection[str], *, others: bool = False) -> Iterator[Segment]:
        """Yield one segment of each of these topics in any order, or of all others, then a second of each."""
        rows = [
            [drawn.segment for drawn in sorted(of_topic, reverse=True)]
            for topic, of_topic in self._drawn.items()
            if (topic in topics) != others
        ]
        random.SystemRandom().shuffle(rows)
        for of_rank in zip_longest(*rows):
            yield from filter(None, of_rank)

    def _rank(self, segment: Segment) -> float:
        """Draw by weight (Efraimidis and Spirakis): the highest of log(u) / weight are the sample."""
        uniform = ((hash((self._salt, segment)) & ((1 << 61) - 1)) + 1) / (1 << 61)
        return math.log(uniform) / max(1, segment.stored_bytes + segment.index_bytes)


@dataclass(frozen=True)
class Samples:
    """The samples of what stays."""

    newest: SegmentSample = field(default_factory=SegmentSample)  # of the newest snapshot
    others: SegmentSample = field(default_factory=SegmentSample)

    def chosen(self, losing: Collection[str], most_bytes: int) -> list[Segment]:
        """Return segments in the order of their use: of topics that lose data first, up to the limits."""
        chosen: dict[Segment, None] = {}
        size = 0
        for some, others in (
            (self.newest, False),
            (self.others, False),
            (self.newest, True),
            (self.others, True),
        ):
            for segment in some.of(losing, others=others):
                if size >= most_bytes or len(chosen) >= SAMPLE_SEGMENTS:
                    return list(chosen)
                if segment not in chosen:
                    chosen[segment] = None
                    size += segment.stored_bytes + segment.index_bytes
        return list(chosen)


def open_sample(url: str, keys: Keyring, chosen: Sequence[Segment]) -> OpenedSample:
    """Read these segments and their indexes, and compare them with their manifests and with each other.

    Digests alone prove nothing against the signer of a manifest, so each batch is read, too.
    """
    lost = {fault.segment: fault for fault in _lend(url, keys, chosen)}
    readable = tuple(segment for segment in chosen if segment not in lost)
    now = timestamps.now()
    faults = [
        fault
        for fault in verify.check(verify.VerifyShare(store=url, segments=readable, whole=True))
        if not (fault.id == "object-missing" and expired(fault.segment, now))  # a lifecycle rule removed it
    ]
    return OpenedSample(
        segments=len(chosen),
        bytes=sum(segment.stored_bytes + segment.index_bytes for segment in chosen),
        digests_only=sum(not segments.readable(segment) for segment in readable),
        faults=(*lost.values(), *faults),
    )


def _lend(url: str, keys: Keyring, chosen: Iterable[Segment]) -> Iterator[Fault]:
    """Lend this process the keys of these segments; yield those whose keys are lost or damaged."""
    of_run: dict[str, list[Segment]] = {}
    for segment in chosen:
        if segment.encrypted:
            of_run.setdefault(segment.run, []).append(segment)
    for some in of_run.values():
        try:
            segments.lend(keys, some, url)
        except Locked:
            continue  # their digests are compared
        except Failed as error:
            for segment in some:
                yield Fault(segment, segment.path, str(error), error.id)
