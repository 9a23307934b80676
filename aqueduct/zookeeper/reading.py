"""Reads every znode of an ensemble as it was at one moment.

ZooKeeper answers for one znode at a time. So all are read, and then looked at once more: a znode whose
versions are as before was so all the time between, so if none has changed, all were there at once, between
both (the double collect of Afek et al., Atomic snapshots of shared memory, 1993). What has changed is read
again. Where nothing at all was written in between (the ensemble's zxid), one reading is enough.
"""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from aqueduct.errors import AqueductError, Failed
from aqueduct.kafka.requests import in_lists
from aqueduct.zookeeper.client import CONNECT_SECONDS, Ensemble, ask, reached, rights_of, start, stop
from aqueduct.zookeeper.znodes import SYSTEM, Znode

AT_ONCE = 500  # znodes that are asked for before the first one has answered
MANY = 4000  # on one level, above which two processes read: a request takes 0.1 ms of Python's time
PROCESSES = 2
ROUNDS = 10  # of reading what has changed
PAUSE_SECONDS = 0.1  # after the first of them; after each other one as much more
NO_ACCESS = "its ACL lets this client not read it"


class Stamp(NamedTuple):
    """What changes with a znode: its data, its ACL, its children."""

    data: int  # mzxid
    acl: int  # aversion
    children: int  # pzxid


class Seen(NamedTuple):
    """What was seen at a path: a persistent znode, or what else there is."""

    path: str
    znode: Znode | None = None
    stamp: Stamp | None = None  # None: nothing is there, or it can't be read
    children: tuple[str, ...] = ()  # names
    left_out: str = ""  # why a znode that is there is not kept
    ephemeral: bool = False


Look = Callable[[list[str]], Iterable[Seen]]


@dataclass
class Tree:
    """The znodes of an ensemble."""

    seen: dict[str, Seen] = field(default_factory=dict)
    zxid: int = 0  # the ensemble's last change when the last look at all of them began
    moving: tuple[str, ...] = ()  # those that changed to the end: with them, it is not of one moment

    def znodes(self) -> dict[str, Znode]:
        """Return the persistent ones, by path."""
        return {path: each.znode for path, each in sorted(self.seen.items()) if each.znode}

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Return znodes that should be kept and are not, and why."""
        return tuple((path, each.left_out) for path, each in sorted(self.seen.items()) if each.left_out)

    def ephemeral(self) -> tuple[str, ...]:
        return tuple(path for path, each in sorted(self.seen.items()) if each.ephemeral)


def read(ensemble: Ensemble, client: KazooClient) -> Tree:
    """Return all znodes but the ensemble's own."""
    with ExitStack() as stack:
        look: Look = lambda paths: _look(ensemble, client, paths)  # noqa: E731
        own = "" if ensemble.chroot else SYSTEM
        tree = Tree(zxid=_zxid(ensemble, client))
        if not _walk(tree, ["/"], look, own, most=MANY):
            # Their sessions change the ensemble's zxid, so everything is read after they have begun.
            with suppress(AqueductError, BrokenProcessPool):  # else this process does it all
                look = stack.enter_context(_processes(ensemble))
            tree = Tree(zxid=_zxid(ensemble, client))
            _walk(tree, ["/"], look, own)
        for number in range(ROUNDS):
            zxid = _zxid(ensemble, client)
            if zxid == tree.zxid:
                return tree
            tree.zxid = zxid
            before = tree.znodes()
            changed = [each.path for each in look(list(tree.seen)) if not _same(tree.seen[each.path], each)]
            _walk(tree, changed, look, own)
            after = tree.znodes()
            moving = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
            if not moving:  # but sessions came and went, with what is theirs
                return tree
            time.sleep(PAUSE_SECONDS * number)
        tree.moving = tuple(sorted(moving))
        return tree


def _same(one: Seen, other: Seen) -> bool:
    return (one.stamp, one.left_out, one.ephemeral) == (other.stamp, other.left_out, other.ephemeral)


def _zxid(ensemble: Ensemble, client: KazooClient) -> int:
    """Return the ensemble's last change, after the server that is asked has come up to it."""
    ask(ensemble, lambda: client.sync_async("/"))
    ask(ensemble, lambda: client.exists_async("/"))
    return int(client.last_zxid)


def _walk(tree: Tree, paths: Iterable[str], look: Look, own: str, most: int | None = None) -> bool:
    """Read these and all below them that is new but the ensemble's own; let go what is not there any more.

    False if a level has more than `most`.
    """
    level = list(paths)
    while level:
        if most is not None and len(level) > most:
            return False
        if len(level) > MANY:
            print(f"Reading {len(level):,} znodes.", file=sys.stderr, flush=True)
        below: list[str] = []
        for each in look(level):
            former = tree.seen.get(each.path)
            gone = set(former.children if former else ()).difference(each.children)
            _forget(tree, [_join(each.path, child) for child in gone])
            if each.stamp or each.left_out:
                tree.seen[each.path] = each
                there = (_join(each.path, child) for child in each.children)
                below += (path for path in there if path not in tree.seen and path != own)
            else:
                _forget(tree, [each.path])
        level = below
    return True


def _forget(tree: Tree, paths: list[str]) -> None:
    """Let go of znodes, and of what was below them."""
    while paths:
        path = paths.pop()
        if former := tree.seen.pop(path, None):
            paths += (_join(path, child) for child in former.children)


def _join(path: str, child: str) -> str:
    return f"{'' if path == '/' else path}/{child}"


def _look(ensemble: Ensemble, client: KazooClient, paths: Iterable[str]) -> Iterator[Seen]:
    """Look at znodes, many at once."""
    for some in in_lists(paths, AT_ONCE):
        try:
            yield from _look_at(ensemble, client, some)
        except KazooException as error:
            raise Failed(f"{ensemble} refused to be read: {error or type(error).__name__}.") from None


def _look_at(ensemble: Ensemble, client: KazooClient, paths: Sequence[str]) -> list[Seen]:
    asked = [(client.get_async(path), client.get_acls_async(path)) for path in paths]
    found = [_seen(ensemble, path, *both) for path, both in zip(paths, asked, strict=True)]
    children = [client.get_children_async(each.path) if many else None for each, many in found]
    return [
        _with_children(ensemble, each, of) if of else each
        for (each, _), of in zip(found, children, strict=True)
    ]


def _seen(ensemble: Ensemble, path: str, data: Any, acl: Any) -> tuple[Seen, int]:
    """Return what there is at a path, and how many children it has."""
    try:
        content, stat = reached(ensemble, lambda: data)
        rights = rights_of(reached(ensemble, lambda: acl)[0])
    except NoNodeError:
        return Seen(path), 0
    except NoAuthError:
        return Seen(path, left_out=NO_ACCESS), 0
    except UnicodeDecodeError:  # kazoo's, of what Java wrote as two halves of a character
        return Seen(path, left_out="its ACL has letters that can't be read"), 0
    stamp = Stamp(stat.mzxid, stat.aversion, stat.pzxid)
    if stat.ephemeralOwner:
        return Seen(path, stamp=stamp, ephemeral=True), 0
    return Seen(path, Znode(path, content, rights, stat.version), stamp), stat.numChildren


def _with_children(ensemble: Ensemble, seen: Seen, asked: Any) -> Seen:
    try:
        return seen._replace(children=tuple(reached(ensemble, lambda: asked)))
    except NoNodeError:  # it has gone meanwhile
        return Seen(seen.path)
    except NoAuthError:
        return Seen(seen.path, left_out=NO_ACCESS)


@contextmanager
def _processes(ensemble: Ensemble) -> Iterator[Look]:
    """Yield what looks in other processes, after each of them has a session."""
    context = multiprocessing.get_context("spawn")  # the client has threads, which a fork would lose
    together = context.Barrier(PROCESSES)
    pool = ProcessPoolExecutor(PROCESSES, context, _begin, (ensemble, together))
    try:
        for begun in [pool.submit(_meet) for _ in range(PROCESSES)]:
            begun.result()
        yield partial(_look_by, ensemble, pool)
    except BaseException:
        for each in list(pool._processes.values()):  # they may wait for a server; 3.14: terminate_workers
            each.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _look_by(ensemble: Ensemble, pool: ProcessPoolExecutor, paths: list[str]) -> Iterator[Seen]:
    try:
        for some in pool.map(_look_there, in_lists(paths, AT_ONCE)):
            yield from some
    except BrokenProcessPool:
        raise Failed(
            f"A process that read {ensemble} was killed: see that this host has memory, and run this again."
        ) from None


_here: list[Any] = []  # of such a process: the ensemble, its client, and where the processes meet


def _begin(ensemble: Ensemble, together: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        client = start(ensemble)
    except AqueductError as error:
        _here.extend((ensemble, error, together))
        return
    Finalize(None, stop, (client,), exitpriority=1)
    _here.extend((ensemble, client, together))


def _end_with_parent() -> None:
    """End when the process that began this one has ended, however that was."""
    parent = multiprocessing.parent_process()
    if parent:
        connection.wait([parent.sentinel])
        os._exit(1)


def _meet() -> None:
    _here[2].wait(CONNECT_SECONDS * 2)
    if isinstance(_here[1], AqueductError):
        raise _here[1]


def _look_there(paths: list[str]) -> list[Seen]:
    ensemble, client, _ = _here
    ask(
        ensemble, lambda: client.sync_async("/")
    )  # its server may be behind the one that was asked for the zxid
    return list(_look(ensemble, client, paths))
