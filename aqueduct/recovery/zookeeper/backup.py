"""Backs up an ensemble's znodes to a store."""

from aqueduct.common import timestamps
from aqueduct.recovery.zookeeper.client import Ensemble, connected
from aqueduct.recovery.zookeeper.reading import Tree, read
from aqueduct.recovery.zookeeper.snapshots import ZnodeSnapshot, ZnodeSnapshots
from aqueduct.recovery.zookeeper.znodes import CLUSTER, Znode, counters
from aqueduct.store.backends import open_editable
from aqueduct.store.numbered_snapshots import CLUSTER_ID, Kept, keep_snapshot, parsed
from aqueduct.store.signing import EVERYBODY, SigningKey, Trust


def backup(
    ensemble: Ensemble,
    store: str,
    most: int | None = None,
    trust: Trust = EVERYBODY,
    key: SigningKey | None = None,
) -> Kept[ZnodeSnapshot]:
    """Store a snapshot of an ensemble, and remove the oldest ones beyond `most`.

    Refused if the ensemble or the store cannot be used, Failed if a connection breaks. Then nothing is kept.
    """
    objects = open_editable(store, private=True)
    with connected(ensemble) as session:
        snapshot = snapshot_of(ensemble, read(session))
    return keep_snapshot(ZnodeSnapshots, objects, snapshot, most, trust, key)


def snapshot_of(ensemble: Ensemble, tree: Tree) -> ZnodeSnapshot:
    """Return a snapshot of a tree, without a number."""
    znodes = tree.znodes()
    return ZnodeSnapshot(
        number=0,
        created=timestamps.now(),
        connect=ensemble.connect,
        cluster=cluster_of(znodes.get(CLUSTER)),
        zxid=tree.zxid,
        znodes=znodes,
        ephemeral=tree.ephemeral(),
        left_out=tree.left_out(),
        counters=counters(tree.seen),
        moving=tree.moving,
    )


def cluster_of(znode: Znode | None) -> str | None:
    """Return the cluster id in the znode /cluster/id; None if it has no valid id."""
    try:
        cluster_id = parsed((znode.data if znode else None) or b"")["id"]
    except (ValueError, KeyError, TypeError):
        return None
    return cluster_id if isinstance(cluster_id, str) and CLUSTER_ID.fullmatch(cluster_id) else None
