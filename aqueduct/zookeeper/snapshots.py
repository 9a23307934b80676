"""Snapshots of an ensemble in a store: each an object of its own, whole or not there.

Lines of JSON, compressed with zstd: the first one tells what the snapshot is, the last one has the SHA-256 of
all before it, and each between is a znode, parents before children.
"""

import base64
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import takewhile, zip_longest
from typing import Any

import zstandard

from aqueduct.errors import Failed, Refused
from aqueduct.store.objects import EditableObjects, Exists, MissingObject, Objects
from aqueduct.zookeeper.znodes import IN_NO_PATH, Right, Znode, is_path, parent

FORMAT = 1
STORE = "zookeeper.json"
FOLDER = "znodes"
LEVEL = 3  # of zstd
UNPACKED_BYTES = 512 << 20  # at most: an ensemble has all of it in memory
HEAD_BYTES = 1 << 20  # of an object, in which its first line is, unless that names very many paths
NUMBERS = range(1, 10**20)
CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
CONNECT = re.compile(r"[!-~]{1,4096}")
PERMISSIONS = range(32)
LARGEST = 2**63 - 1
LAST_MILLISECOND = 253_402_300_799_999  # of the year 9999
HALF_A_LETTER = re.compile("[\ud800-\udfff]")  # of UTF-16; in an ACL all whole ones may be
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
    def whole(self) -> bool:
        """Whether it has all that can be kept of the ensemble, as it was at one moment."""
        return not self.left_out and not self.moving

    @property
    def bytes(self) -> int:
        return sum(len(each.data or b"") for each in self.znodes.values())


def path(number: int) -> str:
    return f"{FOLDER}/{number:020}.jsonl.zst"


def encode(snapshot: ZnodeSnapshot) -> bytes:
    """Return a snapshot as an object has it."""
    about = {name: value for name, value in asdict(replace(snapshot, znodes={})).items() if name != "znodes"}
    whole = bytearray(_packed({"format": FORMAT, **about}))
    for znode in snapshot.znodes.values():
        whole += _line(znode)
    whole += _packed({"sha256": hashlib.sha256(whole).hexdigest()})
    return zstandard.ZstdCompressor(level=LEVEL).compress(whole)


def decode(packed: bytes | memoryview) -> ZnodeSnapshot:
    """Return an object's snapshot; Refused if it is newer.

    ValueError, KeyError or TypeError if it isn't one: nothing is believed that a backup would not write.
    """
    about, znodes = _unpacked(packed)
    return replace(about, znodes={each.path: each for each in znodes})


def check(packed: bytes, snapshot: ZnodeSnapshot) -> None:
    """Check that an object reads as this snapshot, znode by znode; errors as those of `decode`."""
    about, znodes = _unpacked(packed)
    same = (one == other for one, other in zip_longest(znodes, snapshot.znodes.values()))
    if about != replace(snapshot, znodes={}) or not all(same):
        raise ValueError("it reads otherwise than it was written")


def _unpacked(packed: bytes | memoryview) -> tuple[ZnodeSnapshot, Iterator[Znode]]:
    """Return a snapshot without its znodes, and these."""
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 <= size <= UNPACKED_BYTES:
            raise ValueError("its size can't be right")
        whole = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    end = whole.rfind(b"\n", 0, -1) + 1
    if _loaded(whole[end:])["sha256"] != hashlib.sha256(memoryview(whole)[:end]).hexdigest():
        raise ValueError("it is not what was kept")
    lines = io.BytesIO(whole)
    head = _loaded(next(lines))
    if _whole(head["format"]) > FORMAT:
        raise Refused("The snapshot is of a newer version of Aqueduct: take that one.")
    return _about(head), _tree(takewhile(lambda _: lines.tell() <= end, lines))


def _about(head: dict[str, Any]) -> ZnodeSnapshot:
    """Return what a snapshot's first line tells."""
    cluster = head["cluster"]
    if cluster is not None and not CLUSTER_ID.fullmatch(cluster):
        raise ValueError("its cluster can't be one")
    if not CONNECT.fullmatch(head["connect"]):
        raise ValueError("it tells no ensemble")
    return ZnodeSnapshot(
        _whole(head["number"]),
        _whole(head["created"], LAST_MILLISECOND),
        head["connect"],
        cluster,
        _whole(head["zxid"]),
        {},
        _paths(head["ephemeral"]),
        tuple((_path(each), _text(why)) for each, why in head["left_out"]),
        _paths(head["counters"]),
        _paths(head["moving"]),
    )


def _tree(lines: Iterable[bytes]) -> Iterator[Znode]:
    """Yield the znodes of lines, parents first; ValueError if they are no tree."""
    there: set[str] = set()
    for znode in map(_znode, lines):
        sound = parent(znode.path) in there if there else znode.path == "/"
        if not sound or znode.path in there:
            raise ValueError("its znodes are no tree")
        there.add(znode.path)
        yield znode
    if not there:
        raise ValueError("it has no znodes")


def _packed(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _whole(number: object, most: int = LARGEST) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise ValueError(f"{number!r:.40} is no number that it can have")
    return number


def _text(text: object, not_in: re.Pattern[str] = IN_NO_PATH) -> str:
    if not isinstance(text, str) or not_in.search(text):
        raise ValueError("it has letters that it can't have")
    return text


def _path(text: object) -> str:
    if not is_path(path := _text(text)):
        raise ValueError(f"{path!r:.60} is no znode's path")
    return path


def _paths(found: object) -> tuple[str, ...]:
    if not isinstance(found, list):
        raise ValueError("it has no list of paths where one should be")
    return tuple(map(_path, found))


def _line(znode: Znode) -> bytes:
    data = None if znode.data is None else base64.b64encode(znode.data).decode()
    return _packed({**znode._asdict(), "data": data})


def _znode(line: bytes) -> Znode:
    of = _loaded(line)
    data = None if of["data"] is None else base64.b64decode(of["data"], validate=True)
    return Znode(_path(of["path"]), data, tuple(_right(*each) for each in of["acl"]), _version(of["version"]))


def _right(permissions: object, scheme: object, identity: object) -> Right:
    texts = _text(scheme, HALF_A_LETTER), _text(identity, HALF_A_LETTER)
    return Right(_whole(permissions, PERMISSIONS[-1]), *texts)


def _version(number: object) -> int:
    """Return a version, which is negative after 2^31 changes."""
    if not isinstance(number, int) or not -(2**31) <= number < 2**31:
        raise ValueError(f"{number!r:.40} is no version")
    return number


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
            snapshot = decode(self._objects.read(path(chosen), at_most=UNPACKED_BYTES))
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

    def add(self, snapshot: ZnodeSnapshot) -> ZnodeSnapshot:
        """Keep a snapshot under the next number; Refused if those before are of another cluster."""
        self._check_cluster(snapshot)
        number = max(self.numbers(), default=0)
        while True:
            number += 1
            if number not in NUMBERS:
                raise Failed(
                    f"{self._objects.url} has a snapshot {number - 1}, which no backup wrote: remove it."
                )
            numbered = replace(snapshot, number=number)
            packed = encode(numbered)
            try:
                check(packed, numbered)
            except (ValueError, KeyError, TypeError) as error:
                raise Failed(
                    f"{snapshot.connect} can't be kept so that it can be read again: {error}."
                ) from None
            with suppress(Exists):  # another run took it
                self._objects.create(path(number), packed)
                return numbered

    def _check_cluster(self, snapshot: ZnodeSnapshot) -> None:
        for number in reversed(self.numbers()):
            if self._tells(number, snapshot.cluster):
                if snapshot.cluster:
                    return
                continue
            with suppress(Failed):
                before = self.read(number).cluster
                if before == snapshot.cluster:
                    return
                if before:
                    found = (
                        f"that of {snapshot.cluster}"
                        if snapshot.cluster
                        else "no cluster's, as when it was lost"
                    )
                    raise Refused(
                        f"{self._objects.url} keeps the ensemble of cluster {before}, and {snapshot.connect} "
                        f"is {found}: nothing was kept. Restore it first, or name a folder of its own."
                    )

    def _tells(self, number: int, cluster: str | None) -> bool:
        """Tell whether a snapshot's first line names this cluster: it alone is read, so nothing is proved."""
        start = next(self._objects.stream(path(number), HEAD_BYTES), b"")
        try:
            unpacked = zstandard.ZstdDecompressor().stream_reader(start).read(HEAD_BYTES)
            head = json.loads(unpacked.partition(b"\n")[0])
            return bool(head["format"] == FORMAT and head["cluster"] == cluster)
        except (zstandard.ZstdError, ValueError, KeyError, TypeError, RecursionError):
            return False


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
