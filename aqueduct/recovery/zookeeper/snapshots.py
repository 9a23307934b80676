"""Snapshots of an ensemble in a store: each an object of its own, whole or not there.

Between its first line, which tells what it is, and its last, the digest, each line of JSON is a znode,
parents before children.
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
    loaded,
    opened,
    seal,
    whole,
)
from aqueduct.store.objects import Data

FORMAT = 2  # 1 had no znode below one that was left out, and null for empty data, too
CONNECT = re.compile(r"[!-~]{1,4096}")
PERMISSIONS = range(32)
HALF_A_LETTER = re.compile("[\ud800-\udfff]")  # of UTF-16; in an ACL all whole ones may be


@dataclass(frozen=True, kw_only=True)
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
        return sum(len(znode.data or b"") for znode in self.znodes.values())


def encode(snapshot: ZnodeSnapshot) -> bytes:
    """Return a snapshot as an object has it."""
    about = {name: value for name, value in asdict(replace(snapshot, znodes={})).items() if name != "znodes"}
    content = bytearray(line({"format": FORMAT, **about}))
    for znode in snapshot.znodes.values():
        content += _line(znode)
    return seal(content)


def decode(packed: Data) -> ZnodeSnapshot:
    """Return an object's snapshot; Refused if it is newer.

    ValueError, KeyError or TypeError if it isn't one: nothing is believed that a backup would not write.
    """
    about, znodes = _unpacked(packed)
    return replace(about, znodes={znode.path: znode for znode in znodes})


def check(packed: bytes, snapshot: ZnodeSnapshot) -> None:
    """Check that an object reads as this snapshot, znode by znode; errors as those of `decode`."""
    about, znodes = _unpacked(packed)
    same = (one == other for one, other in zip_longest(znodes, snapshot.znodes.values()))
    if about != replace(snapshot, znodes={}) or not all(same):
        raise ValueError("it reads otherwise than it was written")


def _unpacked(packed: Data) -> tuple[ZnodeSnapshot, Iterator[Znode]]:
    """Return a snapshot without its znodes, and these."""
    content = opened(packed)
    start = first_line(content)
    head = loaded(start)
    check_format(head, FORMAT)
    about = _about(head)
    above = {path for path, _ in about.left_out} if head["format"] > 1 else set()
    return about, _tree(io.BytesIO(content[len(start) :]), above, null=head["format"] > 1)


def _about(head: dict[str, Any]) -> ZnodeSnapshot:
    """Return what a snapshot's first line tells."""
    cluster = head["cluster"]
    if cluster is not None and not CLUSTER_ID.fullmatch(cluster):
        raise ValueError("its cluster can't be one")
    if not CONNECT.fullmatch(head["connect"]):
        raise ValueError("it tells no ensemble")
    return ZnodeSnapshot(
        number=whole(head["number"]),
        created=whole(head["created"], LAST_MILLISECOND),
        connect=head["connect"],
        cluster=cluster,
        zxid=whole(head["zxid"]),
        znodes={},
        ephemeral=_paths(head["ephemeral"]),
        left_out=tuple((_path(path), _text(reason)) for path, reason in head["left_out"]),
        counters=_paths(head["counters"]),
        moving=_paths(head["moving"]),
    )


def _tree(lines: Iterable[bytes], above: Set[str], *, null: bool) -> Iterator[Znode]:
    """Yield the znodes of lines, parents first; ValueError if they are no tree.

    `above` are paths that were left out, below which there may be some; `null`: whether data may be none.
    """
    paths: set[str] = set()
    for znode in map(_znode, lines):
        over = parent(znode.path)
        sound = znode.path == "/" or over in paths or over in above
        if not sound or znode.path in paths or znode.path in above:
            raise ValueError("its znodes are no tree")
        paths.add(znode.path)
        yield znode if null or znode.data is not None else znode._replace(data=b"")
    if not paths:
        raise ValueError("it has no znodes")


def _text(text: object, not_in: re.Pattern[str] = IN_NO_PATH) -> str:
    if not isinstance(text, str) or not_in.search(text):
        raise ValueError("it has letters that it can't have")
    return text


def _path(text: object) -> str:
    if not is_path(path := _text(text)):
        raise ValueError(f"{path!r:.60} is no znode's path")
    return path


def _paths(paths: object) -> tuple[str, ...]:
    if not isinstance(paths, list):
        raise ValueError("it has no list of paths where one should be")
    return tuple(map(_path, paths))


def _line(znode: Znode) -> bytes:
    encoded = None if znode.data is None else base64.b64encode(znode.data).decode()
    return line({**znode._asdict(), "data": encoded})


def _znode(text: bytes) -> Znode:
    of = loaded(text)
    decoded = None if of["data"] is None else base64.b64decode(of["data"], validate=True)
    return Znode(
        _path(of["path"]), decoded, tuple(_right(*right) for right in of["acl"]), _version(of["version"])
    )


def _right(permissions: object, scheme: object, identity: object) -> Right:
    texts = _text(scheme, HALF_A_LETTER), _text(identity, HALF_A_LETTER)
    return Right(whole(permissions, PERMISSIONS[-1]), *texts)


def _version(number: object) -> int:
    """Return a version, which is negative after 2^31 changes."""
    if not isinstance(number, int) or not -(2**31) <= number < 2**31:
        raise ValueError(f"{number!r:.40} is no version")
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

    def less(self, snapshot: ZnodeSnapshot, number: int) -> str:
        """Say that it has less than half of the znodes of an earlier one."""
        with suppress(ValueError, KeyError, TypeError, AqueductError):  # that one is damaged, or gone
            content = opened(self._manifest(number))
            before = bytes(content).count(b"\n") - 1
            if 2 * len(snapshot.znodes) < before:
                return (
                    f"snapshot {number} has {count(before, 'znode')}, and this one {len(snapshot.znodes):,}"
                )
        return ""

    def refusal(self, snapshot: ZnodeSnapshot, before: str) -> str:
        of = f"that of {snapshot.cluster}" if snapshot.cluster else "no cluster's, as when it was lost"
        return (
            f"{self._objects.url} keeps the ensemble of cluster {before}, and {snapshot.connect} is {of}: "
            "nothing was kept. Restore it first, or name a folder of its own."
        )


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
        "left_out": left_out_entries(
            Skipped(path, reason, "znode-not-kept") for path, reason in snapshot.left_out
        ),
        "moving": list(snapshot.moving),
    }
