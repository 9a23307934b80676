"""Restores a snapshot's znodes to an ensemble: missing ones, and listed ones that differ."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from typing import Any

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.serialization import Create, GetData, SetACL, SetData

from aqueduct.errors import AqueductError, Refused
from aqueduct.kafka.requests import in_lists
from aqueduct.recovery.zookeeper.backup import cluster_of
from aqueduct.recovery.zookeeper.client import AT_ONCE, Ensemble, ZooKeeperSession, acl_of, connected
from aqueduct.recovery.zookeeper.reading import Tree, read
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot
from aqueduct.recovery.zookeeper.znodes import (
    CLUSTER,
    SYSTEM,
    TreeDifference,
    Znode,
    ancestors,
    by_depth,
    compare,
    depth,
)
from aqueduct.work.progress import counted

# Requests in flight. A larger znode is written alone: it may exceed jute.maxbuffer (default 1 MiB).
WINDOW_BYTES, WINDOW = 512 << 10, AT_ONCE // 2  # of two requests each
ANY_VERSION, NO_VERSION = -1, -(2**31)

WHY: dict[type[KazooException], str] = {
    NoNodeError: "its parent does not exist",
    NoChildrenForEphemeralsError: "its parent is ephemeral in the ensemble",
    InvalidACLError: "the ensemble does not support the scheme of its ACL (x509: authProvider.x509)",
    BadArgumentsError: "the ensemble does not accept this path",
}


@dataclass(frozen=True, kw_only=True)
class ZnodeOrder:
    """The snapshot and the target of a restore."""

    snapshot: ZnodeSnapshot
    ensemble: Ensemble
    prefix: str = ""  # the chroot of the restored znodes; created if it does not exist
    overwrite: Sequence[str] = ()  # paths of znodes that replace other ones
    dry_run: bool = False

    @property
    def target(self) -> Ensemble:
        """The ensemble with the prefix as chroot."""
        return Ensemble(self.ensemble.connect.rstrip("/") + self.prefix, self.ensemble.client_config)


@dataclass(kw_only=True)
class Restored:
    """The outcome of a restore, by path."""

    there: int = 0  # znodes that were equal to the snapshot
    created: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(
        default_factory=list
    )  # unchanged znodes that differ, and the difference
    failed: list[tuple[str, str]] = field(default_factory=list)  # znodes that could not be written, and why
    missing: list[str] = field(default_factory=list)  # znodes that would be created (only a dry run)
    stopped: AqueductError | None = None  # the error that ended the restore


def restore(order: ZnodeOrder) -> Restored:
    """Restore. Refused, with nothing written, if the snapshot is of another cluster than the ensemble.

    After an interrupted restore, a second one continues: it skips znodes that are equal to the snapshot.
    """
    unknown = [path for path in order.overwrite if path not in order.snapshot.znodes]
    if unknown:
        raise Refused(
            "znode-unknown",
            f"The snapshot has no znode {unknown[0]}. Correct the path of --overwrite. Nothing was written.",
        )
    if (order.target.chroot + "/").startswith(f"{SYSTEM}/"):
        raise Refused(
            "znode-prefix-reserved",
            f"Cannot restore to {order.target}, because {SYSTEM} belongs to the ensemble. Pass another "
            "--prefix.",
        )
    restored = Restored()
    if order.prefix:
        with connected(order.ensemble) as session:
            if order.dry_run and not session.has(order.prefix):
                restored.missing = by_depth(order.snapshot.znodes)
                return restored
            if not order.dry_run:
                session.create(order.prefix)
    with connected(order.target) as session:
        live_tree = read(session)
        _check_cluster(order, live_tree)
        diff, taken = _compared(order, live_tree)
        restored.left = taken
        restored.there = len(order.snapshot.znodes) - len(diff.missing) - len(diff.changed) - len(taken)
        chosen = {path: parts for path, parts in diff.changed if path in order.overwrite}
        if order.dry_run:
            restored.missing, restored.overwritten = by_depth(diff.missing), sorted(chosen)
            restored.left += [_other(change) for change in diff.changed if change[0] not in chosen]
            return restored
        try:
            # The cluster id is last: a broker that waits for it (`aqueduct doctor broker`) finds all znodes.
            _create(order, session, (path for path in diff.missing if path != CLUSTER), restored)
            _overwrite(order, session, chosen, restored)
            _create(order, session, {CLUSTER}.intersection(diff.missing), restored)
            _verify(order, session, restored)
        except AqueductError as error:
            restored.stopped = error
    return restored


def _compared(order: ZnodeOrder, live_tree: Tree) -> tuple[TreeDifference, list[tuple[str, str]]]:
    """Compare. Return the difference, and the missing paths that cannot be created, with the reason."""
    taken = dict(live_tree.left_out()) | dict.fromkeys(
        live_tree.ephemeral(), "the ensemble has an ephemeral znode there"
    )
    diff = compare(order.snapshot.znodes, live_tree.znodes())
    mine = [(path, taken[path]) for path in diff.missing if path in taken]
    return replace(diff, missing=tuple(path for path in diff.missing if path not in taken)), mine


def data(target: Ensemble, paths: Sequence[str]) -> dict[str, bytes | None]:
    """Return the data of those znodes that exist and can be read."""
    with connected(target) as session:
        answers = session.answers(GetData(session.at(path), None) for path in paths)
        answered = zip(counted(paths, "znode"), answers, strict=True)
        return {path: answer[0] for path, answer in answered if not isinstance(answer, KazooException)}


def difference(snapshot: ZnodeSnapshot, ensemble: Ensemble) -> TreeDifference:
    """Compare an ensemble with a snapshot. Paths that one of both could not read are listed separately."""
    with connected(ensemble) as session:
        live_tree = read(session)
    unread = dict(snapshot.left_out) | dict(live_tree.left_out())
    unread |= dict.fromkeys((*snapshot.moving, *live_tree.moving), "it changed while it was read")
    diff = compare(snapshot.znodes, live_tree.znodes())
    return TreeDifference(
        missing=tuple(path for path in diff.missing if path not in unread),
        changed=diff.changed,
        added=tuple(path for path in diff.added if path not in unread),
        unread=tuple(sorted(unread.items())),
    )


def _check_cluster(order: ZnodeOrder, live_tree: Tree) -> None:
    cluster, own = cluster_of(live_tree.znodes().get(CLUSTER)), order.snapshot.cluster
    if cluster and own and cluster != own:
        raise Refused(
            "cluster-mismatch",
            f"{order.target} has Kafka cluster {cluster}, but snapshot {order.snapshot.number} has cluster "
            f"{own}. "
            f"Pass the ensemble of cluster {own}, or another --prefix. Nothing was written.",
        )


def _create(order: ZnodeOrder, session: ZooKeeperSession, missing: Iterable[str], restored: Restored) -> None:
    """Create missing znodes, parents before children."""
    dead: set[str] = set()  # paths that could not be created

    def make(znode: Znode) -> list[Any]:
        return [Create(session.at(znode.path), znode.data, acl_of(znode.acl), 0)]

    for level in _levels(missing):
        znodes = []
        for path in level:
            if above := dead.intersection(ancestors(path)):
                restored.failed.append((path, f"{min(above)} could not be created"))
            else:
                znodes.append(order.snapshot.znodes[path])
        for znode, error in _written(session, znodes, make):
            if error is None:
                restored.created.append(znode.path)
            elif isinstance(error, NodeExistsError):
                pass  # another client created it: it is compared at the end
            else:
                restored.failed.append((znode.path, _why(error, znode)))
                dead.add(znode.path)


def _overwrite(
    order: ZnodeOrder, session: ZooKeeperSession, chosen: Mapping[str, str], restored: Restored
) -> None:
    """Write the parts of these znodes that differ.

    A transaction cannot contain an ACL, and data and ACL need different permissions. A server checks
    permissions before versions. So both requests are tried first with a version that no znode has.
    """
    for path in sorted(chosen):
        znode, full_path = order.snapshot.znodes[path], session.at(path)
        both = {
            "data": partial(SetData, full_path, znode.data),
            "ACL": partial(SetACL, full_path, acl_of(znode.acl)),
        }
        other = {part: write for part, write in both.items() if part in chosen[path]}
        tried = {part: _tried(session, znode, write(NO_VERSION)) for part, write in other.items()}
        if refused := {part: e for part, e in tried.items() if e and not isinstance(e, BadVersionError)}:
            part, error = next(iter(refused.items()))
            restored.failed.append(
                (path, f"its {part} cannot be written, so nothing was written: {_why(error, znode)}")
            )
            continue
        half = ""
        try:
            for part, write in other.items():
                if error := _tried(session, znode, write(ANY_VERSION)):
                    restored.failed.append(
                        (path, f"{half}its {part} cannot be written: {_why(error, znode)}")
                    )
                    break
                half = f"its {part} was overwritten, but "
            else:
                restored.overwritten.append(path)
        except AqueductError:
            restored.failed.append((path, f"{half}the result of its {part} is unknown: the connection broke"))
            raise


def _tried(session: ZooKeeperSession, znode: Znode, request: Any) -> KazooException | None:
    """Request a change of a znode, again if the answer was lost. Return the error."""
    [(_, error)] = _written(session, [znode], lambda _: [request])
    return error


def _verify(order: ZnodeOrder, session: ZooKeeperSession, restored: Restored) -> None:
    """Compare the ensemble with the snapshot after the restore, and correct the outcome."""
    diff, taken = _compared(order, read(session))
    failed = {path for path, _ in restored.failed}
    own = {*restored.created, *restored.overwritten}
    restored.left = [_other(change) for change in diff.changed if change[0] not in failed | own]
    restored.left += [obstacle for obstacle in taken if obstacle[0] not in failed | own]
    restored.failed += [
        (path, f"it differs from the written znode in {parts}") for path, parts in diff.changed if path in own
    ]
    restored.failed += [(path, f"it cannot be compared: {reason}") for path, reason in taken if path in own]
    restored.failed += [(path, "it does not exist") for path in diff.missing if path not in failed]


def _other(changed: tuple[str, str]) -> tuple[str, str]:
    path, parts = changed
    return path, f"it differs in {parts}"


def _levels(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield the paths of each depth, the root first."""
    for _, level in groupby(by_depth(paths), depth):
        yield list(level)


def _written(
    session: ZooKeeperSession, znodes: Collection[Znode], requests: Callable[[Znode], list[Any]]
) -> Iterator[tuple[Znode, KazooException | None]]:
    """Write znodes, many at once. Yield each with its error, None if it was written."""
    watched = counted(znodes, "znode")
    for some in in_lists(watched, WINDOW_BYTES, lambda znode: len(znode.data or b""), most=WINDOW):
        asked = [requests(znode) for znode in some]
        answers = session.answers(chain.from_iterable(asked), once=True)
        for znode, own in zip(some, asked, strict=True):
            error = _refusal(islice(answers, len(own)))
            if isinstance(error, ConnectionLoss):  # one of these may be too large: write it alone
                error = _refusal(session.answers(own, once=True))
                if isinstance(error, NodeExistsError):
                    error = None  # it was written, but the answer was lost
            yield znode, error


def _refusal(answers: Iterable[Any]) -> KazooException | None:
    """Return the error of the last rejected request; None if none was rejected."""
    refused = [answer for answer in answers if isinstance(answer, KazooException)]
    return refused[-1] if refused else None


def _why(error: KazooException, znode: Znode) -> str:
    if isinstance(error, NoAuthError):
        return "an ACL denies this client to write it; use the certificate of a broker"
    if isinstance(error, ConnectionLoss):
        size = len(znode.data or b"")
        return f"a server closes the connection at its {size:,} bytes; raise jute.maxbuffer on each server"
    return WHY.get(type(error), str(error) or type(error).__name__)
