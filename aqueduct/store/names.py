"""Names of the objects in a store.

    store.json
    snapshots/<number, 10 digits>.json.zst
    topics/<topic>/<partition>/<first offset, 20 digits>.<run id>.log[.zst]
    topics/<topic>/<partition>/<first offset, 20 digits>.<run id>.index
    topics/<topic>/g<number>/<partition>/...                  a generation of a compacted topic
    keys/<id>.<number>.json                                   a wrapped key of what is encrypted
    leases/<snapshot, 10 digits>-<restore id>-<8 hex digits>.json    a restore reads that snapshot

A segment or index that is encrypted ends with .enc. A manifest's name stays: its creation is the commit.

Kafka's topic names are of letters, digits, `.`, `_` and `-`, never `.` or `..`, and of 249 at most: each is a
folder's name as it is. Data lies below `topics/`, so that a topic may be called `snapshots`.
"""

import re
from typing import NamedTuple

STORE = "store.json"
SNAPSHOTS = "snapshots"
TOPICS = "topics"
KEYS = "keys"
LEASES = "leases"
ENCRYPTED = ".enc"
LAST_KEY = 999_999_999  # the number of a key's object, at most

_SNAPSHOT = re.compile(rf"{SNAPSHOTS}/([0-9]{{10}})\.json\.zst")
_KEY = re.compile(rf"{KEYS}/([0-9a-f]{{32}})\.([1-9][0-9]{{0,8}})\.json")
_LEASE = re.compile(rf"{LEASES}/([0-9]{{10}})-([A-Za-z0-9_-]{{1,100}})-([0-9a-f]{{8}})\.json")
_OF_SEGMENT = re.compile(
    rf"({TOPICS}/([A-Za-z0-9._-]{{1,249}})/(?:g[0-9]+/)?[0-9]+/[0-9]{{20}}\.[A-Za-z0-9_-]{{1,64}})"
    r"\.(?:log|log\.zst|index)(?:\.enc)?"
)


class LeaseName(NamedTuple):
    snapshot: int
    restore: str  # its id


class SegmentName(NamedTuple):
    """The parts of the path of a segment or of its index."""

    stem: str  # the common beginning of both paths
    topic: str

    @property
    def generation(self) -> str:
        """The folder of a generation of a compacted topic; empty for other topics."""
        folder = self.stem.removeprefix(f"{TOPICS}/{self.topic}/").partition("/")[0]
        return folder if folder.startswith("g") else ""


def snapshot(number: int) -> str:
    return f"{SNAPSHOTS}/{number:010d}.json.zst"


def snapshot_number(path: str) -> int | None:
    """Parse a snapshot's number from an object's path; None if it is not a manifest."""
    match = _SNAPSHOT.fullmatch(path)
    return int(match[1]) if match else None


def key(name: str, number: int) -> str:
    """Return the object that wraps a key; a higher number is newer."""
    return f"{KEYS}/{name}.{number}.json"


def key_number(path: str) -> tuple[str, int] | None:
    """Parse a key's id and number from an object's path; None if it is not a key."""
    match = _KEY.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def lease(snapshot: int, restore: str, token: str) -> str:
    """Return the path of a restore's lease of a snapshot. Each renewal has a new token."""
    return f"{LEASES}/{snapshot:010d}-{restore}-{token}.json"


def lease_of(path: str) -> LeaseName | None:
    """Parse a lease's snapshot and restore from an object's path; None if it is not a lease."""
    match = _LEASE.fullmatch(path)
    return LeaseName(int(match[1]), match[2]) if match else None


def segment(
    topic: str, partition: int, first_offset: int, run: str, *, generation: int | None, compressed: bool
) -> str:
    """Return the object that holds batches from that offset on; `generation`: of a compacted topic."""
    suffix = ".log.zst" if compressed else ".log"
    return stem(topic, partition, first_offset, run, generation) + suffix


def index(topic: str, partition: int, first_offset: int, run: str, *, generation: int | None) -> str:
    """Return the object that describes a segment's batches."""
    return stem(topic, partition, first_offset, run, generation) + ".index"


def segment_of(path: str) -> SegmentName | None:
    """Parse the path of a segment or an index; None for another path."""
    match = _OF_SEGMENT.fullmatch(path)
    return SegmentName(match[1], match[2]) if match else None


def stem(topic: str, partition: int, first_offset: int, run: str, generation: int | None) -> str:
    """Return the beginning that a segment's path and its index's have in common."""
    folder = topic if generation is None else f"{topic}/g{generation}"
    return f"{TOPICS}/{folder}/{partition}/{first_offset:020d}.{run}"
