"""Keeps an ensemble's znodes in a store."""

import json
import time
from contextlib import suppress

from aqueduct.store.backends import open_editable, open_store
from aqueduct.zookeeper import snapshots
from aqueduct.zookeeper.client import Ensemble, connected
from aqueduct.zookeeper.reading import Tree, read
from aqueduct.zookeeper.snapshots import ZnodeSnapshot, ZnodeSnapshots
from aqueduct.zookeeper.znodes import CLUSTER, Znode, counters


def backup(ensemble: Ensemble, store: str, most: int | None = None) -> tuple[ZnodeSnapshot, list[int]]:
    """Add a snapshot; return it, and the older ones that went, as no more than `most` are kept.

    Refused if the ensemble or the store can't be used, Failed if one of them went away: then nothing is kept.
    """
    objects = open_editable(store) if most else open_store(store)
    kept = ZnodeSnapshots.open(objects, make=True)
    with connected(ensemble) as client:
        tree = read(ensemble, client)
    snapshot = kept.add(snapshot_of(ensemble, tree))
    return snapshot, snapshots.keep(open_editable(store), most) if most else []


def snapshot_of(ensemble: Ensemble, tree: Tree) -> ZnodeSnapshot:
    """Return what is kept of a tree; it has no number yet."""
    znodes = tree.znodes()
    return ZnodeSnapshot(
        0,
        time.time_ns() // 1_000_000,
        ensemble.connect,
        cluster_of(znodes.get(CLUSTER)),
        tree.zxid,
        znodes,
        tree.ephemeral(),
        tree.left_out(),
        counters(tree.seen),
        tree.moving,
    )


def cluster_of(znode: Znode | None) -> str | None:
    """Return the id of Kafka's cluster from where it keeps it."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads((znode.data if znode else None) or b"")["id"])
    return None
