"""Writes a snapshot's znodes back to an ensemble: what is missing there, and by name what is other there."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError, NodeExistsError, NoNodeError

from aqueduct.errors import AqueductError, Refused
from aqueduct.kafka.requests import in_lists
from aqueduct.zookeeper.backup import cluster_of
from aqueduct.zookeeper.client import ANSWER_SECONDS, Ensemble, EnsembleAway, acl_of, ask, connected
from aqueduct.zookeeper.reading import Tree, read
from aqueduct.zookeeper.snapshots import ZnodeSnapshot
from aqueduct.zookeeper.znodes import CLUSTER, TreeDifference, Znode, ancestors, by_depth, compare

# What is under way at once. A znode of more bytes goes alone: it may be over jute.maxbuffer (default 1 MiB).
WINDOW_BYTES, WINDOW = 512 << 10, 500


@dataclass(frozen=True)
class ZnodeOrder:
    """What is restored, and where to."""

    snapshot: ZnodeSnapshot
    ensemble: Ensemble
    prefix: str = ""  # the chroot below which it is written, which is made if it is not there
    overwrite: Sequence[str] = ()  # znodes that are written although others are there
    dry_run: bool = False

    @property
    def target(self) -> Ensemble:
        """The ensemble as it is from the prefix on."""
        return Ensemble(self.ensemble.connect.rstrip("/") + self.prefix, self.ensemble.client_config)


@dataclass
class Restored:
    """What a restore found and did, by path."""

    there: int = 0  # that were as in the snapshot
    created: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)  # as they are there, and what is other
    failed: list[tuple[str, str]] = field(default_factory=list)  # could not be written, and why
    missing: list[str] = field(default_factory=list)  # that would be made (of a dry run)
    stopped: AqueductError | None = None  # what ended it before it was done


def restore(order: ZnodeOrder) -> Restored:
    """Restore. Refused, with nothing written, if the snapshot can't be meant for this ensemble.

    It goes on where an earlier one has stopped: what is there as it should be is done.
    """
    unknown = [path for path in order.overwrite if path not in order.snapshot.znodes]
    if unknown:
        raise Refused(f"--overwrite {unknown[0]}: the snapshot has no znode of that path.")
    done = Restored()
    if order.prefix and not _has(order.ensemble, order.prefix):
        if order.dry_run:
            done.missing = by_depth(order.snapshot.znodes)
            return done
        _make(order.ensemble, order.prefix)
    with connected(order.target) as client:
        there = read(order.target, client)
        _check_cluster(order, there)
        found = compare(order.snapshot.znodes, there.znodes())
        done.there = len(order.snapshot.znodes) - len(found.missing) - len(found.changed)
        chosen = {path for path, _ in found.changed}.intersection(order.overwrite)
        if order.dry_run:
            done.missing, done.overwritten = by_depth(found.missing), sorted(chosen)
            done.left = [each for each in found.changed if each[0] not in chosen]
            return done
        try:
            _create(order, client, found.missing, done)
            _overwrite(order, client, chosen, done)
            _look_again(order, client, done)
        except AqueductError as error:
            done.stopped = error
    return done


def difference(snapshot: ZnodeSnapshot, ensemble: Ensemble) -> TreeDifference:
    """Compare an ensemble with a snapshot."""
    with connected(ensemble) as client:
        return compare(snapshot.znodes, read(ensemble, client).znodes())


def _has(ensemble: Ensemble, path: str) -> bool:
    with connected(ensemble) as client:
        return bool(ask(ensemble, lambda: client.exists(path)))


def _make(ensemble: Ensemble, path: str) -> None:
    with connected(ensemble) as client:
        ask(ensemble, lambda: client.ensure_path(path))


def _check_cluster(order: ZnodeOrder, there: Tree) -> None:
    found, own = cluster_of(there.znodes().get(CLUSTER)), order.snapshot.cluster
    if found and own and found != own:
        raise Refused(
            f"{order.target} is of Kafka's cluster {found}, and snapshot {order.snapshot.number} of {own}: "
            "nothing was written. Take that ensemble, or another --prefix."
        )


def _create(order: ZnodeOrder, client: KazooClient, missing: Iterable[str], done: Restored) -> None:
    """Make what is missing, a level after another: parents are there before their children."""
    dead: set[str] = set()  # that could not be made, so nothing below them can

    def make(each: Znode) -> list[Any]:
        return [client.create_async(each.path, each.data or b"", acl_of(each.acl))]

    for level in _levels(missing):
        znodes = []
        for path in level:
            if above := dead.intersection(ancestors(path)):
                done.failed.append((path, f"{min(above)} could not be made"))
            else:
                znodes.append(order.snapshot.znodes[path])
        created = _written(order, client, znodes, make)
        for each, error in created:
            if error is None:
                done.created.append(each.path)
            elif isinstance(error, NodeExistsError):
                pass  # somebody else was faster: it is looked at in the end
            else:
                done.failed.append((each.path, _why(error, each)))
                dead.add(each.path)


def _overwrite(order: ZnodeOrder, client: KazooClient, paths: Iterable[str], done: Restored) -> None:
    def write(each: Znode) -> list[Any]:
        content = client.set_async(each.path, each.data or b"")
        return [content, client.set_acls_async(each.path, acl_of(each.acl))]

    written = _written(order, client, [order.snapshot.znodes[path] for path in sorted(paths)], write)
    for each, error in written:
        if error is None:
            done.overwritten.append(each.path)
        else:
            done.failed.append((each.path, _why(error, each)))


def _look_again(order: ZnodeOrder, client: KazooClient, done: Restored) -> None:
    """Compare what is there in the end: only that was restored which reads as the snapshot does."""
    found = compare(order.snapshot.znodes, read(order.target, client).znodes())
    failed = {path for path, _ in done.failed}
    own = {*done.created, *done.overwritten}
    done.left = [each for each in found.changed if each[0] not in failed | own]
    done.failed += [
        (path, f"its {what} is other than written") for path, what in found.changed if path in own
    ]
    done.failed += [(path, "it is not there") for path in found.missing if path not in failed]


def _levels(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield paths by their depth, the root's first."""
    level: list[str] = []
    for path in by_depth(paths):
        if level and _depth(level[0]) != _depth(path):
            yield level
            level = []
        level.append(path)
    if level:
        yield level


def _depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def _written(
    order: ZnodeOrder, client: KazooClient, znodes: Iterable[Znode], write: Callable[[Znode], list[Any]]
) -> Iterator[tuple[Znode, KazooException | None]]:
    """Write znodes, many at once; yield each, and why it could not be written."""
    for some in in_lists(znodes, WINDOW_BYTES, lambda each: len(each.data or b""), most=WINDOW):
        asked = [write(each) for each in some]
        alone = len(some) == 1 and len(some[0].data or b"") > WINDOW_BYTES
        for each, answers in zip(some, asked, strict=True):
            error: KazooException | None = None
            for one in answers:
                try:
                    ask(order.target, lambda one=one: one.get(timeout=ANSWER_SECONDS))  # type: ignore[misc]
                except EnsembleAway:
                    if not alone:
                        raise
                    error = ConnectionLoss()
                except KazooException as other:
                    error = other
            yield each, error


def _why(error: KazooException, znode: Znode) -> str:
    if isinstance(error, NoAuthError):
        return "an ACL does not let this client write it: use the certificate of a broker"
    if isinstance(error, ConnectionLoss):
        size = len(znode.data or b"")
        return f"a server cuts the connection at its {size:,} bytes: raise jute.maxbuffer above that on each"
    if isinstance(error, NoNodeError):
        return "its parent has gone"
    return str(error) or type(error).__name__
