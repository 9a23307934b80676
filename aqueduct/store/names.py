"""Names of the objects in a store.

    store.json
    snapshots/<number, 10 digits>.json.zst
    topics/<topic>/<partition>/<first offset, 20 digits>.<run id>.log[.zst]
    topics/<topic>/<partition>/<first offset, 20 digits>.<run id>.index
    topics/<topic>/g<number>/<partition>/...                  a generation of a compacted topic
    keys/<id>.<number>.json                                   a wrapped key of what is encrypted

A segment or index that is encrypted ends with .enc. A manifest's name stays: its creation is the commit.

Kafka's topic names are of letters, digits, `.`, `_` and `-`, never `.` or `..`, and of 249 at most: each is a
folder's name as it is. Data lies below `topics/`, so that a topic may be called `snapshots`.
"""

import re

STORE = "store.json"
SNAPSHOTS = "snapshots"
TOPICS = "topics"
KEYS = "keys"
ENCRYPTED = ".enc"

_SNAPSHOT = re.compile(rf"{SNAPSHOTS}/([0-9]{{10}})\.json\.zst")
_KEY = re.compile(rf"{KEYS}/([0-9a-f]{{32}})\.([1-9][0-9]{{0,8}})\.json")


def snapshot(number: int) -> str:
    return f"{SNAPSHOTS}/{number:010d}.json.zst"


def snapshot_number(path: str) -> int | None:
    """Parse a snapshot's number from an object's path; None: it isn't a manifest."""
    match = _SNAPSHOT.fullmatch(path)
    return int(match[1]) if match else None


def key(name: str, number: int) -> str:
    """Return the object that wraps a key; a higher number is newer."""
    return f"{KEYS}/{name}.{number}.json"


def key_number(path: str) -> tuple[str, int] | None:
    """Parse a key's id and number from an object's path; None: it is none's."""
    match = _KEY.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def segment(
    topic: str, partition: int, first_offset: int, run: str, *, generation: int | None, compressed: bool
) -> str:
    """Return the object that holds batches from that offset on; `generation`: of a compacted topic."""
    suffix = ".log.zst" if compressed else ".log"
    return _stem(topic, partition, first_offset, run, generation) + suffix


def index(topic: str, partition: int, first_offset: int, run: str, *, generation: int | None) -> str:
    """Return the object that describes a segment's batches."""
    return _stem(topic, partition, first_offset, run, generation) + ".index"


def _stem(topic: str, partition: int, first_offset: int, run: str, generation: int | None) -> str:
    folder = topic if generation is None else f"{topic}/g{generation}"
    return f"{TOPICS}/{folder}/{partition}/{first_offset:020d}.{run}"
