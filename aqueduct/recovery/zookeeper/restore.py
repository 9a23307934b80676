"""Writes a snapshot's znodes back to an ensemble: what is missing there, and by name what is other there."""

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

# What is under way at once. A znode of more bytes goes alone: it may be over jute.maxbuffer (default 1 MiB).
WINDOW_BYTES, WINDOW = 512 << 10, AT_ONCE // 2  # of two requests each
ANY_VERSION, NO_VERSION = -1, -(2**31)

WHY: dict[type[KazooException], str] = {
    NoNodeError: "the znode above it is not there",
    NoChildrenForEphemeralsError: "its parent is ephemeral there",
    InvalidACLError: "the ensemble knows no scheme of its ACL (authProvider.x509 in its zoo.cfg, for x509)",
    BadArgumentsError: "the ensemble takes no such znode",
}


@dataclass(frozen=True, kw_only=True)
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


@dataclass(kw_only=True)
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
        raise Refused("znode-unknown", f"--overwrite {unknown[0]}: the snapshot has no znode of that path.")
    if (order.target.chroot + "/").startswith(f"{SYSTEM}/"):
        raise Refused(
            "znode-prefix-reserved", f"{order.target}: {SYSTEM} is the ensemble's own. Take another --prefix."
        )
    restored = Restored()
    if order.prefix:
        with connected(order.ensemble) as session:
            if order.dry_run and not session.has(order.prefix):
                restored.missing = by_depth(order.snapshot.znodes)
                return restored
            if not order.dry_run:
                session.make(order.prefix)
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
            # The id last: a broker that waits for its cluster (`aqueduct doctor broker`) finds all of it.
            _create(order, session, (path for path in diff.missing if path != CLUSTER), restored)
            _overwrite(order, session, chosen, restored)
            _create(order, session, {CLUSTER}.intersection(diff.missing), restored)
            _look_again(order, session, restored)
        except AqueductError as error:
            restored.stopped = error
    return restored


def _compared(order: ZnodeOrder, live_tree: Tree) -> tuple[TreeDifference, list[tuple[str, str]]]:
    """Compare, apart from paths at which there is what can't be compared: return them, and what it is."""
    taken = dict(live_tree.left_out()) | dict.fromkeys(live_tree.ephemeral(), "there is an ephemeral one")
    diff = compare(order.snapshot.znodes, live_tree.znodes())
    mine = [(path, taken[path]) for path in diff.missing if path in taken]
    return replace(diff, missing=tuple(path for path in diff.missing if path not in taken)), mine


def data(target: Ensemble, paths: Sequence[str]) -> dict[str, bytes | None]:
    """Return the data of these znodes, of those that are there and may be read."""
    with connected(target) as session:
        answers = session.answers(GetData(session.at(path), None) for path in paths)
        answered = zip(counted(paths, "znode"), answers, strict=True)
        return {path: answer[0] for path, answer in answered if not isinstance(answer, KazooException)}


def difference(snapshot: ZnodeSnapshot, ensemble: Ensemble) -> TreeDifference:
    """Compare an ensemble with a snapshot; what one of both lacks, for it could not be read, is named."""
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
            f"{order.target} is of Kafka's cluster {cluster}, and snapshot {order.snapshot.number} of {own}: "
            "nothing was written. Take that ensemble, or another --prefix.",
        )


def _create(order: ZnodeOrder, session: ZooKeeperSession, missing: Iterable[str], restored: Restored) -> None:
    """Make what is missing, a level after another: parents are there before their children."""
    dead: set[str] = set()  # that could not be made, so nothing below them can

    def make(znode: Znode) -> list[Any]:
        return [Create(session.at(znode.path), znode.data, acl_of(znode.acl), 0)]

    for level in _levels(missing):
        znodes = []
        for path in level:
            if above := dead.intersection(ancestors(path)):
                restored.failed.append((path, f"{min(above)} could not be made"))
            else:
                znodes.append(order.snapshot.znodes[path])
        for znode, error in _written(session, znodes, make):
            if error is None:
                restored.created.append(znode.path)
            elif isinstance(error, NodeExistsError):
                pass  # somebody else was faster: it is looked at in the end
            else:
                restored.failed.append((znode.path, _why(error, znode)))
                dead.add(znode.path)


def _overwrite(
    order: ZnodeOrder, session: ZooKeeperSession, chosen: Mapping[str, str], restored: Restored
) -> None:
    """Write what of these is other.

    No transaction takes an ACL, and data and ACL are each written by a right of its own. A server looks at
    rights before versions: so both are tried with a version that no znode has, and written only then.
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
                (path, f"its {part} can't be written, so nothing of it was: {_why(error, znode)}")
            )
            continue
        half = ""
        try:
            for part, write in other.items():
                if error := _tried(session, znode, write(ANY_VERSION)):
                    restored.failed.append((path, f"{half}its {part} can't be written: {_why(error, znode)}"))
                    break
                half = f"its {part} were overwritten, and "
            else:
                restored.overwritten.append(path)
        except AqueductError:
            restored.failed.append((path, f"{half}its {part} may be, for the ensemble went away meanwhile"))
            raise


def _tried(session: ZooKeeperSession, znode: Znode, request: Any) -> KazooException | None:
    """Ask for a change of a znode, again if its answer was lost; return why it was refused."""
    [(_, error)] = _written(session, [znode], lambda _: [request])
    return error


def _look_again(order: ZnodeOrder, session: ZooKeeperSession, restored: Restored) -> None:
    """Compare what is there in the end: only that was restored which reads as the snapshot does."""
    diff, taken = _compared(order, read(session))
    failed = {path for path, _ in restored.failed}
    own = {*restored.created, *restored.overwritten}
    restored.left = [_other(change) for change in diff.changed if change[0] not in failed | own]
    restored.left += [obstacle for obstacle in taken if obstacle[0] not in failed | own]
    restored.failed += [
        (path, f"its {parts} is other than written") for path, parts in diff.changed if path in own
    ]
    restored.failed += [(path, f"it can't be compared: {reason}") for path, reason in taken if path in own]
    restored.failed += [(path, "it is not there") for path in diff.missing if path not in failed]


def _other(changed: tuple[str, str]) -> tuple[str, str]:
    path, parts = changed
    return path, f"its {parts} is other"


def _levels(paths: Iterable[str]) -> Iterator[list[str]]:
    """Yield paths by their depth, the root's first."""
    for _, level in groupby(by_depth(paths), depth):
        yield list(level)


def _written(
    session: ZooKeeperSession, znodes: Collection[Znode], requests: Callable[[Znode], list[Any]]
) -> Iterator[tuple[Znode, KazooException | None]]:
    """Write znodes, many at once; yield each, and why it could not be written."""
    watched = counted(znodes, "znode")
    for some in in_lists(watched, WINDOW_BYTES, lambda znode: len(znode.data or b""), most=WINDOW):
        asked = [requests(znode) for znode in some]
        answers = session.answers(chain.from_iterable(asked), once=True)
        for znode, own in zip(some, asked, strict=True):
            error = _refusal(islice(answers, len(own)))
            if isinstance(error, ConnectionLoss):  # one of these may be too large: each by itself, then
                error = _refusal(session.answers(own, once=True))
                if isinstance(error, NodeExistsError):
                    error = None  # it was written, and the answer was lost
            yield znode, error


def _refusal(answers: Iterable[Any]) -> KazooException | None:
    """Return why a request was refused, the last one of several; None if none was."""
    refused = [answer for answer in answers if isinstance(answer, KazooException)]
    return refused[-1] if refused else None


def _why(error: KazooException, znode: Znode) -> str:
    if isinstance(error, NoAuthError):
        return "an ACL does not let this client write it: use the certificate of a broker"
    if isinstance(error, ConnectionLoss):
        size = len(znode.data or b"")
        return f"a server cuts the connection at its {size:,} bytes: raise jute.maxbuffer above that on each"
    return WHY.get(type(error), str(error) or type(error).__name__)
