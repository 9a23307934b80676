"""Znodes of a snapshot, and the difference between two trees of znodes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

SYSTEM = "/zookeeper"  # the ensemble's own: quotas and its configuration
CLUSTER = "/cluster/id"  # where Kafka keeps the id of its cluster
# Characters that a server rejects in a path (PathUtils.java), and control characters.
IN_NO_PATH = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
SEQUENTIAL = re.compile(r".*\d{10}$", re.DOTALL)


class Right(NamedTuple):
    """An entry of a znode's ACL."""

    permissions: int
    scheme: str
    id: str  # with scheme `digest`, it has a password hash, so it is never shown


class Znode(NamedTuple):
    """A persistent znode."""

    path: str
    data: bytes | None  # null and empty differ: clients get the written one
    acl: tuple[Right, ...]
    version: int  # of its data; starts at 0 after a restore

    @property
    def content(self) -> tuple[bytes, frozenset[Right]]:
        """The compared parts. The order of an ACL does not matter, and null data equal empty data."""
        return self.data or b"", frozenset(self.acl)


@dataclass(frozen=True, kw_only=True)
class TreeDifference:
    """The difference between a snapshot and an ensemble, by path."""

    missing: tuple[str, ...]  # in the ensemble
    changed: tuple[tuple[str, str], ...]  # path, and the parts that differ
    added: tuple[str, ...]  # to the ensemble
    unread: tuple[tuple[str, str], ...] = ()  # paths that cannot be compared, and why

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
    """Return the parts of a znode that differ from the stored one; empty if none differs."""
    (stored_data, stored_acl), (live_data, live_acl) = stored.content, live.content
    return " and ".join(
        part
        for part, differs in (("data", stored_data != live_data), ("ACL", stored_acl != live_acl))
        if differs
    )


def is_path(text: str) -> bool:
    """Return whether this is a valid path of a znode."""
    steps = text[1:].split("/")
    sound = all(step and step not in (".", "..") for step in steps)
    return text == "/" or (text.startswith("/") and sound and not IN_NO_PATH.search(text))


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of the znodes above a path, the root first."""
    steps = path.split("/")[1:]
    yield from ("/" + "/".join(steps[:number]) for number in range(len(steps)))


def depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def by_depth(paths: Iterable[str]) -> list[str]:
    """Return paths with parents before children."""
    return sorted(paths, key=lambda path: (depth(path), path))


def counters(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the parents of sequential znodes. After a restore, their counters start at 0."""
    return tuple(sorted({parent(path) for path in paths if SEQUENTIAL.fullmatch(path)}))
