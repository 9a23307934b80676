"""Reads all znodes of an ensemble as of one moment.

ZooKeeper answers for one znode at a time. So all znodes are read, and then their versions are checked. If no
version has changed, all of these znodes existed at once between both steps (the double collect of Afek et
al., Atomic snapshots of shared memory, 1993). Changed znodes are read again. If the zxid of the ensemble has
not changed since the first step, the second one is not needed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.protocol.serialization import Exists, GetChildren, GetData
from kazoo.protocol.states import ZnodeStat

from aqueduct.errors import Failed
from aqueduct.recovery.zookeeper.client import GetRights, ZooKeeperSession
from aqueduct.recovery.zookeeper.znodes import SYSTEM, Right, Znode
from aqueduct.work.progress import counted

ROUNDS = 10  # of reading changed znodes
PAUSE_SECONDS = 0.1  # after the second round; each further pause is longer by this
NAME_BYTES = 40  # of a child in an answer that lists children; names of Kafka are shorter
NO_ACCESS = "its ACL does not allow this client to read it or its children"
MASKED = "its ACL hides the password digests from clients that cannot change the ACL"
ODD_ACL = "its ACL has invalid characters"
KEPT_BELOW = (MASKED, ODD_ACL)  # the children of such a znode can be read


class Stamp(NamedTuple):
    """The versions of a znode's data, ACL and children."""

    data: int  # mzxid
    acl: int  # aversion
    children: int  # pzxid

    @classmethod
    def of(cls, stat: ZnodeStat) -> "Stamp":
        return cls(stat.mzxid, stat.aversion, stat.pzxid)


class Seen(NamedTuple):
    """The state of a path when it was read."""

    path: str
    znode: Znode | None = None
    stamp: Stamp | None = None  # None: there is no znode, or it cannot be read
    children: tuple[str, ...] = ()  # names
    left_out: str = ""  # why the znode is not kept; znodes below it may be
    ephemeral: bool = False


@dataclass
class Tree:
    """The znodes of an ensemble."""

    seen: dict[str, Seen] = field(default_factory=dict)
    zxid: int = 0  # the ensemble's last change when the last check of all znodes began
    moving: tuple[str, ...] = ()  # znodes that changed until the end: the tree is not of one moment

    def znodes(self) -> dict[str, Znode]:
        """Return the persistent znodes, by path."""
        return {path: seen.znode for path, seen in sorted(self.seen.items()) if seen.znode}

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Return paths of znodes that cannot be kept, with the reason."""
        return tuple(sorted((path, seen.left_out) for path, seen in self.seen.items() if seen.left_out))

    def ephemeral(self) -> tuple[str, ...]:
        return tuple(sorted(path for path, seen in self.seen.items() if seen.ephemeral))


def read(session: ZooKeeperSession) -> Tree:
    """Read all znodes except the ensemble's own below /zookeeper."""
    tree = Tree(zxid=session.now())
    _walk(tree, ["/"], session)
    moving: set[str] = set()
    for number in range(ROUNDS):
        zxid = session.now()
        if zxid == tree.zxid:
            return tree
        tree.zxid = zxid
        moving = _walk(tree, _changed(tree, session), session)
        if not moving:  # only sessions and their ephemeral znodes changed
            return tree
        time.sleep(PAUSE_SECONDS * number)
    tree.moving = tuple(sorted(moving))
    return tree


def _changed(tree: Tree, session: ZooKeeperSession) -> list[str]:
    """Return paths that changed since they were read."""
    seen = list(tree.seen.values())
    answers = session.answers(Exists(session.at(former.path), None) for former in seen)
    looked = zip(counted(seen, "znode"), answers, strict=True)
    return [
        former.path
        for former, stat in looked
        if not isinstance(stat, ZnodeStat) or former.left_out or Stamp.of(stat) != former.stamp
    ]


def _walk(tree: Tree, paths: Iterable[str], session: ZooKeeperSession) -> set[str]:
    """Read paths and their new children, and remove deleted znodes from the tree.

    Skips the ensemble's own znodes. Returns the paths of changed, new and deleted znodes.
    """
    own = "" if session.ensemble.chroot else SYSTEM
    changed: set[str] = set()
    level = list(paths)
    while level:
        below: list[str] = []
        for seen in _look(session, level):
            former = tree.seen.get(seen.path)
            gone = set(former.children if former else ()).difference(seen.children)
            changed.update(_forget(tree, [_join(seen.path, child) for child in gone]))
            if seen.stamp or seen.left_out:
                tree.seen[seen.path] = seen
                child_paths = (_join(seen.path, child) for child in seen.children)
                below += (path for path in child_paths if path not in tree.seen and path != own)
                if _kept(former) != _kept(seen):
                    changed.add(seen.path)
            else:
                changed.update(_forget(tree, [seen.path]))
        level = below
    return changed


def _kept(seen: Seen | None) -> tuple[Znode, tuple[int, ...]] | None:
    """Return the kept znode of a path, and its versions."""
    return (seen.znode, seen.stamp[:2]) if seen and seen.znode and seen.stamp else None


def _forget(tree: Tree, paths: list[str]) -> Iterator[str]:
    """Remove znodes and their children from the tree. Yield the paths of kept ones."""
    while paths:
        path = paths.pop()
        if former := tree.seen.pop(path, None):
            paths += (_join(path, child) for child in former.children)
            if former.znode:
                yield path


def _join(path: str, child: str) -> str:
    return f"{'' if path == '/' else path}/{child}"


def _look(session: ZooKeeperSession, paths: Sequence[str]) -> list[Seen]:
    """Read paths.

    The stamp is read before data and children: if these change in between, the next check finds an old stamp.
    """
    answers = _answers(session, map(GetRights, map(session.at, paths)))
    states = [_state(*answered) for answered in zip(counted(paths, "znode"), answers, strict=True)]
    all_seen = [seen for seen, _ in states]
    sizes = {number: stat.dataLength for number, (seen, stat) in enumerate(states) if stat and seen.znode}
    _fill(session, all_seen, sizes, GetData, _with_data)
    sizes = {
        number: stat.numChildren * NAME_BYTES
        for number, (_, stat) in enumerate(states)
        if stat and stat.numChildren and (all_seen[number].znode or all_seen[number].left_out in KEPT_BELOW)
    }
    _fill(session, all_seen, sizes, GetChildren, _with_children)
    return all_seen


def _fill(
    session: ZooKeeperSession,
    all_seen: list[Seen],
    sizes: Mapping[int, int],
    kind: Callable[[str, None], Any],
    with_answer: Callable[[Seen, Any], Seen],
) -> None:
    """Add answers to requests of a kind to `all_seen`; `sizes`: their bytes, by index in `all_seen`."""
    requests = (kind(session.at(all_seen[number].path), None) for number in sizes)
    for number, answer in zip(sizes, _answers(session, requests, sizes.values()), strict=True):
        if isinstance(answer, NoNodeError):  # it was deleted meanwhile
            all_seen[number] = Seen(all_seen[number].path)
        elif isinstance(answer, NoAuthError):
            all_seen[number] = Seen(all_seen[number].path, left_out=NO_ACCESS)
        else:
            all_seen[number] = with_answer(all_seen[number], answer)


def _with_data(seen: Seen, answer: tuple[bytes, ZnodeStat]) -> Seen:
    node_data, stat = answer
    return seen._replace(znode=seen.znode and seen.znode._replace(data=node_data, version=stat.version))


def _with_children(seen: Seen, answer: list[str]) -> Seen:
    return seen._replace(children=tuple(answer))


def _answers(
    session: ZooKeeperSession, requests: Iterable[Any], sizes: Iterable[int] = repeat(0)
) -> Iterator[Any]:
    """Yield answers, and errors of single znodes. Failed for another error."""
    for answer in session.answers(requests, sizes=sizes):
        if isinstance(answer, KazooException) and not isinstance(answer, (NoNodeError, NoAuthError)):
            raise Failed(
                "zookeeper-request-failed",
                f"{session.ensemble} rejected a read request: {str(answer) or type(answer).__name__}. Check "
                "the logs of its servers.",
            )
        yield answer


def _state(path: str, answer: Any) -> tuple[Seen, ZnodeStat | None]:
    """Return a path without data and children, and its state if these are to be read."""
    if isinstance(answer, NoNodeError):
        return Seen(path), None
    if isinstance(answer, NoAuthError):
        return Seen(path, left_out=NO_ACCESS), None
    rights, stat = answer
    if stat.ephemeralOwner:
        return Seen(path, stamp=Stamp.of(stat), ephemeral=True), None
    if rights is None:
        return Seen(path, left_out=ODD_ACL), stat
    if any(map(_masked, rights)):
        return Seen(path, left_out=MASKED), stat
    return Seen(path, Znode(path, None, rights, stat.version), Stamp.of(stat)), stat


def _masked(right: Right) -> bool:
    """Return whether the password digest is hidden from clients without admin right (CVE-2019-0201)."""
    return right.scheme == "digest" and right.id.endswith(":x")
