"""A sample of the segments that remaining snapshots use, which a prune checks before it removes anything.

A prune compares only the sizes of objects, and anyone who can create objects can upload random bytes of any
size. So the sample begins with segments of the newest snapshot, of topics that lose data.
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

SAMPLE_BYTES = 2 << 30  # as stored; the last segment may exceed it
SAMPLE_SEGMENTS = 1_000
TOPIC_SEGMENTS = 10  # of each topic in the newest snapshot, and as many of all other segments


class _Drawn(NamedTuple):
    rank: float
    segment: Segment


class SegmentSample:
    """A random sample of the segments of each topic. Larger segments are drawn more often.

    The selection is unpredictable. A segment that several manifests list has no better chance.
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
        """Yield one segment of each of these topics, or of all others, then a second one of each."""
        rows = [
            [drawn.segment for drawn in sorted(of_topic, reverse=True)]
            for topic, of_topic in self._drawn.items()
            if (topic in topics) != others
        ]
        random.SystemRandom().shuffle(rows)
        for of_rank in zip_longest(*rows):
            yield from filter(None, of_rank)

    def _rank(self, segment: Segment) -> float:
        """Return a random rank, weighted by size (Efraimidis and Spirakis): log(u) / weight."""
        uniform = ((hash((self._salt, segment)) & ((1 << 61) - 1)) + 1) / (1 << 61)
        return math.log(uniform) / max(1, segment.stored_bytes + segment.index_bytes)


@dataclass(frozen=True)
class Samples:
    """The samples of the remaining snapshots."""

    newest: SegmentSample = field(default_factory=SegmentSample)  # of the newest snapshot
    others: SegmentSample = field(default_factory=SegmentSample)

    def chosen(self, losing: Collection[str], most_bytes: int) -> list[Segment]:
        """Return segments in the order of the check, up to the limits. Topics that lose data are first."""
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

    Each batch is read, too, because the signer of a manifest could list digests of invalid segments.
    """
    lost = {fault.segment: fault for fault in _lend(url, keys, chosen)}
    readable = tuple(segment for segment in chosen if segment not in lost)
    now = timestamps.now()
    faults = [
        fault
        for fault in verify.check(verify.VerifyShare(store=url, segments=readable, whole=True))
        if not (fault.id == "object-missing" and expired(fault.segment, now))  # deleted by a lifecycle rule
    ]
    return OpenedSample(
        segments=len(chosen),
        bytes=sum(segment.stored_bytes + segment.index_bytes for segment in chosen),
        digests_only=sum(not segments.readable(segment) for segment in readable),
        faults=(*lost.values(), *faults),
    )


def _lend(url: str, keys: Keyring, chosen: Iterable[Segment]) -> Iterator[Fault]:
    """Pass the keys of these segments to this process; yield segments whose keys are lost or damaged."""
    of_run: dict[str, list[Segment]] = {}
    for segment in chosen:
        if segment.encrypted:
            of_run.setdefault(segment.run, []).append(segment)
    for some in of_run.values():
        try:
            segments.lend(keys, some, url)
        except Locked:
            continue  # only their digests are compared
        except Failed as error:
            for segment in some:
                yield Fault(segment, segment.path, str(error), error.id)
