"""Znodes as they are kept, and what differs between two trees of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

SYSTEM = "/zookeeper"  # the ensemble's own: quotas and its configuration
CLUSTER = "/cluster/id"  # where Kafka keeps the id of its cluster
# What a server takes no path of (PathUtils.java), and what would write lines of its own where it is shown.
IN_NO_PATH = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
SEQUENTIAL = re.compile(r".*\d{10}$", re.DOTALL)


class Right(NamedTuple):
    """An entry of a znode's ACL."""

    permissions: int
    scheme: str
    id: str  # of `digest` it holds a password's hash, so it is shown nowhere


class Znode(NamedTuple):
    """A persistent znode."""

    path: str
    data: bytes | None  # null is not empty: clients are given what was written
    acl: tuple[Right, ...]
    version: int  # of its data; an ensemble counts anew after a restore

    @property
    def content(self) -> tuple[bytes, frozenset[Right]]:
        """What is compared. The order of an ACL means nothing, and null and empty data are taken for one."""
        return self.data or b"", frozenset(self.acl)


@dataclass(frozen=True, kw_only=True)
class TreeDifference:
    """What differs between a snapshot and an ensemble, by path."""

    missing: tuple[str, ...]  # in the ensemble
    changed: tuple[tuple[str, str], ...]  # path, and what of it
    added: tuple[str, ...]  # to the ensemble
    unread: tuple[tuple[str, str], ...] = ()  # paths that can't be compared, and why

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.added or self.unread)


def compare(stored: Mapping[str, Znode], live: Mapping[str, Znode]) -> TreeDifference:
    """Compare a snapshot with an ensemble."""
    changed = (
        (path, parts)
        for path, znode in stored.items()
        if path in live and (parts := changes(znode, live[path]))
    )
    return TreeDifference(
        missing=tuple(path for path in stored if path not in live),
        changed=tuple(changed),
        added=tuple(path for path in live if path not in stored),
    )


def changes(stored: Znode, live: Znode) -> str:
    """Say what of a znode is not as it was stored; empty if nothing."""
    (stored_data, stored_acl), (live_data, live_acl) = stored.content, live.content
    return " and ".join(
        part
        for part, differs in (("data", stored_data != live_data), ("ACL", stored_acl != live_acl))
        if differs
    )


def is_path(text: str) -> bool:
    """Tell whether a znode can have this path."""
    steps = text[1:].split("/")
    sound = all(step and step not in (".", "..") for step in steps)
    return text == "/" or (text.startswith("/") and sound and not IN_NO_PATH.search(text))


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def ancestors(path: str) -> Iterator[str]:
    """Yield the znodes above one, the root first."""
    steps = path.split("/")[1:]
    yield from ("/" + "/".join(steps[:number]) for number in range(len(steps)))


def depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def by_depth(paths: Iterable[str]) -> list[str]:
    """Return paths with parents before children."""
    return sorted(paths, key=lambda path: (depth(path), path))


def counters(paths: Iterable[str]) -> tuple[str, ...]:
    """Return znodes whose children an ensemble numbers: a restored one counts from nought again."""
    return tuple(sorted({parent(path) for path in paths if SEQUENTIAL.fullmatch(path)}))
