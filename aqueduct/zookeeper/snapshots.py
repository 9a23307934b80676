"""Snapshots of an ensemble in a store: each an object of its own, whole or not there.

Lines of JSON, compressed with zstd: the first one tells what the snapshot is, the last one has the SHA-256 of
all before it, and each between is a znode, parents before children.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import zstandard

from aqueduct.errors import Failed, Refused
from aqueduct.store.objects import EditableObjects, Exists, MissingObject, Objects
from aqueduct.zookeeper.znodes import Right, Znode

FORMAT = 1
STORE = "zookeeper.json"
FOLDER = "znodes"
LEVEL = 3  # of zstd
UNPACKED_BYTES, UNPACKED_FACTOR = (
    100 << 20,
    1000,
)  # the more of both is the most that is believed of an object
NAME = re.compile(rf"{FOLDER}/(\d{{20}})\.jsonl\.zst")


@dataclass(frozen=True)
class ZnodeSnapshot:
    """What was kept of an ensemble."""

    number: int
    created: int  # milliseconds since 1970
    connect: str  # by which it was reached
    cluster: str | None  # the id of Kafka's cluster, if it is one's
    zxid: int  # the ensemble's last change that it has
    znodes: Mapping[str, Znode]  # by path, sorted by it
    ephemeral: Sequence[str] = ()  # paths that belong to sessions, which end with them
    left_out: Sequence[tuple[str, str]] = ()  # paths that are missing here, and why
    counters: Sequence[str] = ()  # paths whose children the ensemble numbers
    moving: Sequence[str] = ()  # paths that changed while they were read: with them it is not of one moment

    @property
    def bytes(self) -> int:
        return sum(len(each.data or b"") for each in self.znodes.values())


def path(number: int) -> str:
    return f"{FOLDER}/{number:020}.jsonl.zst"


def encode(snapshot: ZnodeSnapshot) -> bytes:
    """Return a snapshot as an object has it."""
    about = {name: value for name, value in asdict(replace(snapshot, znodes={})).items() if name != "znodes"}
    head = json.dumps({"format": FORMAT, **about}, ensure_ascii=False)
    lines = (head, *map(_line, snapshot.znodes.values()))
    whole = "".join(f"{line}\n" for line in lines).encode()
    whole += json.dumps({"sha256": hashlib.sha256(whole).hexdigest()}).encode() + b"\n"
    return zstandard.ZstdCompressor(level=LEVEL).compress(whole)


def decode(packed: bytes | memoryview) -> ZnodeSnapshot:
    """Return an object's snapshot; Refused if it is newer.

    ValueError, KeyError or TypeError if it isn't one.
    """
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 <= size <= max(UNPACKED_BYTES, len(packed) * UNPACKED_FACTOR):
            raise ValueError("its size can't be right")
        whole = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    first, *lines, last = whole.splitlines(keepends=True)
    if json.loads(last)["sha256"] != hashlib.sha256(whole[: -len(last)]).hexdigest():
        raise ValueError("it is not what was kept")
    head = json.loads(first)
    if head.pop("format") > FORMAT:
        raise Refused("The snapshot is of a newer version of Aqueduct: take that one.")
    znodes = {each.path: each for each in map(_znode, lines)}
    head["left_out"] = tuple((each, why) for each, why in head["left_out"])
    return ZnodeSnapshot(**head, znodes=znodes)


def _line(znode: Znode) -> str:
    data = None if znode.data is None else base64.b64encode(znode.data).decode()
    return json.dumps({**znode._asdict(), "data": data}, ensure_ascii=False, separators=(",", ":"))


def _znode(line: bytes) -> Znode:
    of = json.loads(line)
    data = None if of["data"] is None else base64.b64decode(of["data"], validate=True)
    rights = tuple(Right(int(permissions), str(scheme), str(id_)) for permissions, scheme, id_ in of["acl"])
    if not re.fullmatch(r"/|(/[^/\0]+)+", of["path"]):
        raise ValueError(f"{of['path']!r} is no znode's path")
    return Znode(of["path"], data, rights, int(of["version"]))


class ZnodeSnapshots:
    """The snapshots of one ensemble in a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    @classmethod
    def open(cls, objects: Objects, *, make: bool = False) -> "ZnodeSnapshots":
        """Open what a store has of an ensemble; Refused if that is nothing, unless it is to be made."""
        told = json.dumps({"format": FORMAT}).encode()
        if make:
            with suppress(Exists):
                objects.create(STORE, told)
        try:
            newer = json.loads(bytes(objects.read(STORE, at_most=4096)))["format"] > FORMAT
        except MissingObject:
            raise Refused(f"There is no backup of ZooKeeper in {objects.url}: {STORE} is missing.") from None
        except (ValueError, KeyError, TypeError):
            raise Failed(f"{objects.url}/{STORE} is damaged: bring it back from a copy.") from None
        if newer:
            raise Refused(f"{objects.url} is of a newer version of Aqueduct: take that one.")
        return cls(objects)

    def numbers(self) -> list[int]:
        """Return the number of every snapshot, ascending."""
        return sorted(
            int(match[1]) for each in self._objects.list(FOLDER) if (match := NAME.fullmatch(each.path))
        )

    def read(self, number: int | None = None) -> ZnodeSnapshot:
        """Return a snapshot, or the newest; Refused without one, Failed if it is damaged."""
        numbers = self.numbers()
        if not numbers:
            raise Refused(f"There is no snapshot in {self._objects.url} yet.")
        if number is not None and number not in numbers:
            raise Refused(
                f"There is no snapshot {number} in {self._objects.url}; the newest is {numbers[-1]}."
            )
        chosen = number or numbers[-1]
        try:
            snapshot = decode(self._objects.read(path(chosen)))
        except (ValueError, KeyError, TypeError) as error:
            older = [each for each in numbers if each < chosen]
            other = f", or take an older one: --snapshot {older[-1]}" if older else ""
            raise Failed(
                f"{self._objects.url}/{path(chosen)} is damaged ({error}): bring it back from a copy{other}."
            ) from None
        if snapshot.number != chosen:
            raise Failed(f"{self._objects.url}/{path(chosen)} is damaged: it is snapshot {snapshot.number}.")
        return snapshot

    def all(self) -> Iterator[ZnodeSnapshot | Failed]:
        """Yield every snapshot, or why it can't be used."""
        for number in self.numbers():
            try:
                yield self.read(number)
            except Failed as error:
                yield error

    def newest_whole(self) -> ZnodeSnapshot | None:
        for number in reversed(self.numbers()):
            with suppress(Failed):
                return self.read(number)
        return None

    def add(self, snapshot: ZnodeSnapshot) -> ZnodeSnapshot:
        """Keep a snapshot under the next number; Refused if those before are of another cluster."""
        before = self.newest_whole()
        if before and before.cluster and snapshot.cluster and before.cluster != snapshot.cluster:
            raise Refused(
                f"{self._objects.url} keeps the ensemble of cluster {before.cluster}, and {snapshot.connect} "
                f"is that of {snapshot.cluster}: name a folder of its own."
            )
        number = max(self.numbers(), default=0)
        while True:
            number += 1
            numbered = replace(snapshot, number=number)
            with suppress(Exists):  # another run took it
                self._objects.create(path(number), encode(numbered))
                return numbered


def keep(objects: EditableObjects, many: int) -> list[int]:
    """Remove all snapshots but the newest ones, the oldest first; return which."""
    gone = ZnodeSnapshots(objects).numbers()[:-many]
    for number in gone:
        objects.remove(path(number))
    return gone


def told(snapshot: ZnodeSnapshot) -> dict[str, Any]:
    """Return what a report says of a snapshot. Nothing of a znode but its path."""
    return {
        "snapshot": snapshot.number,
        "cluster": snapshot.cluster,
        "zxid": f"{snapshot.zxid:#x}",
        "znodes": len(snapshot.znodes),
        "bytes": snapshot.bytes,
        "ephemeral": list(snapshot.ephemeral),
        "counters": list(snapshot.counters),
        "left_out": [{"what": what, "why": why} for what, why in snapshot.left_out],
        "moving": list(snapshot.moving),
    }
