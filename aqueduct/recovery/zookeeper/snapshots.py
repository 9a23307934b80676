"""Snapshots of an ensemble in a store. Each is one object.

The first line describes the snapshot, and the last line has the digest. Each line between them is a znode in
JSON, parents before children.
"""

import base64
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Any

from aqueduct.common.wording import count
from aqueduct.errors import AqueductError, Skipped, left_out_entries
from aqueduct.recovery.zookeeper.znodes import IN_NO_PATH, Right, Znode, is_path, parent
from aqueduct.store.numbered_snapshots import (
    CLUSTER_ID,
    LAST_MILLISECOND,
    NumberedSnapshots,
    check_format,
    first_line,
    line,
    natural_number,
    parse_line,
    seal,
    unsealed,
)
from aqueduct.store.objects import Data

FORMAT = 2  # 1 skipped znodes below a skipped one, and wrote null for empty data
CONNECT = re.compile(r"[!-~]{1,4096}")
PERMISSIONS = range(32)
HALF_A_LETTER = re.compile("[\ud800-\udfff]")  # a lone surrogate; an ACL may have other characters


@dataclass(frozen=True, kw_only=True)
class ZnodeSnapshot:
    """The stored znodes of an ensemble."""

    number: int
    created: int  # milliseconds since 1970
    connect: str  # the connection string of the backup
    cluster: str | None  # the Kafka cluster id; None: the ensemble had none
    zxid: int  # the last change of the ensemble in this snapshot
    znodes: Mapping[str, Znode]  # by path, sorted by it
    ephemeral: Sequence[str] = ()  # paths that end with their sessions
    left_out: Sequence[tuple[str, str]] = ()  # paths that were not kept, and why
    counters: Sequence[str] = ()  # paths with sequential children
    moving: Sequence[str] = ()  # paths that changed while they were read: the snapshot is not of one moment

    @property
    def complete(self) -> bool:
        """Whether it has all znodes of the ensemble, as of one moment."""
        return not self.left_out and not self.moving

    @property
    def bytes(self) -> int:
        return sum(len(znode.data or b"") for znode in self.znodes.values())


def encode(snapshot: ZnodeSnapshot) -> bytes:
    """Return a snapshot as the content of an object."""
    about = {name: value for name, value in asdict(replace(snapshot, znodes={})).items() if name != "znodes"}
    content = bytearray(line({"format": FORMAT, **about}))
    for znode in snapshot.znodes.values():
        content += _line(znode)
    return seal(content)


def decode(packed: Data) -> ZnodeSnapshot:
    """Parse an object's snapshot. Refused if its format is newer.

    ValueError, KeyError or TypeError if it is not a snapshot as a backup writes it.
    """
    about, znodes = _unpacked(packed)
    return replace(about, znodes={znode.path: znode for znode in znodes})


def check(packed: bytes, snapshot: ZnodeSnapshot) -> None:
    """Check that an object contains this snapshot; errors as in `decode`."""
    about, znodes = _unpacked(packed)
    same = (one == other for one, other in zip_longest(znodes, snapshot.znodes.values()))
    if about != replace(snapshot, znodes={}) or not all(same):
        raise ValueError("it differs from the written snapshot when it is read again")


def _unpacked(packed: Data) -> tuple[ZnodeSnapshot, Iterator[Znode]]:
    """Return a snapshot without znodes, and its znodes."""
    content = unsealed(packed)
    start = first_line(content)
    head = parse_line(start)
    check_format(head, FORMAT)
    about = _about(head)
    above = {path for path, _ in about.left_out} if head["format"] > 1 else set()
    return about, _tree(io.BytesIO(content[len(start) :]), above, null=head["format"] > 1)


def _about(head: dict[str, Any]) -> ZnodeSnapshot:
    """Parse a snapshot's first line."""
    cluster = head["cluster"]
    if cluster is not None and not CLUSTER_ID.fullmatch(cluster):
        raise ValueError("its cluster id is invalid")
    if not CONNECT.fullmatch(head["connect"]):
        raise ValueError("its connection string is invalid")
    return ZnodeSnapshot(
        number=natural_number(head["number"]),
        created=natural_number(head["created"], LAST_MILLISECOND),
        connect=head["connect"],
        cluster=cluster,
        zxid=natural_number(head["zxid"]),
        znodes={},
        ephemeral=_paths(head["ephemeral"]),
        left_out=tuple((_path(path), _text(reason)) for path, reason in head["left_out"]),
        counters=_paths(head["counters"]),
        moving=_paths(head["moving"]),
    )


def _tree(lines: Iterable[bytes], above: Set[str], *, null: bool) -> Iterator[Znode]:
    """Parse lines into znodes, parents first. ValueError if they are not a tree.

    `above`: skipped paths, whose children may be in the lines. `null`: whether data may be null.
    """
    paths: set[str] = set()
    for znode in map(_znode, lines):
        over = parent(znode.path)
        sound = znode.path == "/" or over in paths or over in above
        if not sound or znode.path in paths or znode.path in above:
            raise ValueError("its znodes are not a tree")
        paths.add(znode.path)
        yield znode if null or znode.data is not None else znode._replace(data=b"")
    if not paths:
        raise ValueError("it has no znodes")


def _text(text: object, not_in: re.Pattern[str] = IN_NO_PATH) -> str:
    if not isinstance(text, str) or not_in.search(text):
        raise ValueError("it has invalid characters")
    return text


def _path(text: object) -> str:
    if not is_path(path := _text(text)):
        raise ValueError(f"{path!r:.60} is not a valid path of a znode")
    return path


def _paths(paths: object) -> tuple[str, ...]:
    if not isinstance(paths, list):
        raise ValueError("a list of paths is missing")
    return tuple(map(_path, paths))


def _line(znode: Znode) -> bytes:
    encoded = None if znode.data is None else base64.b64encode(znode.data).decode()
    return line({**znode._asdict(), "data": encoded})


def _znode(text: bytes) -> Znode:
    of = parse_line(text)
    decoded = None if of["data"] is None else base64.b64decode(of["data"], validate=True)
    return Znode(
        _path(of["path"]), decoded, tuple(_right(*right) for right in of["acl"]), _version(of["version"])
    )


def _right(permissions: object, scheme: object, identity: object) -> Right:
    texts = _text(scheme, HALF_A_LETTER), _text(identity, HALF_A_LETTER)
    return Right(natural_number(permissions, PERMISSIONS[-1]), *texts)


def _version(number: object) -> int:
    """Return a version, which is negative after 2^31 changes."""
    if not isinstance(number, int) or not -(2**31) <= number < 2**31:
        raise ValueError(f"{number!r:.40} is not a valid version")
    return number


class ZnodeSnapshots(NumberedSnapshots[ZnodeSnapshot]):
    """The snapshots of one ensemble in a store."""

    FORMAT, STORE, FOLDER, SUFFIX, OF = FORMAT, "zookeeper.json", "znodes", ".jsonl.zst", "ZooKeeper"

    encode = staticmethod(encode)
    decode = staticmethod(decode)
    check = staticmethod(check)

    @staticmethod
    def source(snapshot: ZnodeSnapshot) -> str:
        return snapshot.connect

    def loss_warning(self, snapshot: ZnodeSnapshot, number: int) -> str:
        """Return a phrase if the snapshot has less than half of the znodes of an earlier one; else empty."""
        with suppress(
            ValueError, KeyError, TypeError, AqueductError
        ):  # the earlier one is damaged, or was removed
            content = unsealed(self._manifest(number))
            before = bytes(content).count(b"\n") - 1
            if 2 * len(snapshot.znodes) < before:
                return (
                    f"snapshot {number} has {count(before, 'znode')}, but this snapshot has "
                    f"{len(snapshot.znodes):,}"
                )
        return ""

    def refusal(self, snapshot: ZnodeSnapshot, before: str) -> str:
        cluster = f"has cluster {snapshot.cluster}" if snapshot.cluster else "has no cluster id"
        remedy = (
            "Pass another folder of the store."
            if snapshot.cluster
            else ("If its znodes were lost, restore them first. Else pass another folder of the store.")
        )
        return (
            f"{self._objects.url} has snapshots of cluster {before}, but the ensemble {snapshot.connect} "
            f"{cluster}. Nothing was kept. {remedy}"
        )


def report_fields(snapshot: ZnodeSnapshot) -> dict[str, Any]:
    """Return the fields of a snapshot for reports. Of a znode, they have only the path."""
    return {
        "snapshot": snapshot.number,
        "cluster": snapshot.cluster,
        "zxid": f"{snapshot.zxid:#x}",
        "znodes": len(snapshot.znodes),
        "bytes": snapshot.bytes,
        "ephemeral": list(snapshot.ephemeral),
        "counters": list(snapshot.counters),
        "left_out": left_out_entries(
            Skipped(path, reason, "znode-not-kept") for path, reason in snapshot.left_out
        ),
        "moving": list(snapshot.moving),
    }
