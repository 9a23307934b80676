"""Commits a run: its snapshot in the store, then its position in the cluster."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

from kafka.errors import KafkaError

from aqueduct import DISTRIBUTION
from aqueduct.common import timestamps
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed, LeftOut, Skipped
from aqueduct.kafka import groups
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.plan import Added, active_instance
from aqueduct.snapshots.backup.selection import POSITION_GROUP
from aqueduct.snapshots.backup.survey import CLIENT, Surveyed
from aqueduct.store.catalog import Catalog
from aqueduct.store.encryption import DataKey
from aqueduct.store.expiry import Expiry, with_expiry
from aqueduct.store.manifest import NOT_READ, Chain, Manifest
from aqueduct.store.objects import Exists
from aqueduct.store.snapshots import Snapshot

DAY = 86_400_000  # milliseconds


def snapshot(
    catalog: Catalog,
    chain: Chain,
    order: BackupOrder,
    surveyed: Surveyed,
    added: Added,
    *,
    run: str,
    started: int,
    encrypting: DataKey | None = None,
    rules: Expiry | None = None,
    revise: Callable[[Snapshot], Snapshot] | None = None,
) -> Manifest:
    """Create the manifest of the cluster and of the read records; Failed if another run committed first.

    `started` is milliseconds since 1970.
    """
    increment = Manifest(
        chain=chain,
        store=catalog.id,
        run=run,
        created=timestamps.now(),
        started=started,
        ended=timestamps.now(),
        cluster=surveyed.cluster,
        version=version(DISTRIBUTION),
        options=order.options,
        starts=added.starts,
        positions=added.positions,
        topics=added.topics,
        segments=with_expiry(added.segments, rules.days, started) if rules else added.segments,
        gaps=added.gaps,
        groups=surveyed.groups,
        share_groups=surveyed.share_groups,
        acls=surveyed.acls,
        quotas=surveyed.quotas,
        open_transactions=surveyed.open_transactions,
        groups_ahead=surveyed.groups_ahead,
        epochs=added.epochs,
        generation_ends=added.generation_ends,
        lifecycle=rules.days if rules else {},
    )
    try:
        catalog.commit(increment, order.signing_key, encrypting, revise)
    except Exists:
        raise Failed(
            "snapshot-number-taken",
            f"Another run committed snapshot {increment.number} of {order.store} first, so this one "
            "committed nothing. Run the command again, and let only one backup at a time write to a store.",
        ) from None
    return increment


def position(end: End, store_id: str, manifest: Manifest, parent: Manifest | None) -> LeftOut:
    """Commit the position as the offsets of a group, so that Kafka's own tools show the lag.

    Only changed offsets are committed: each commit is a record of __consumer_offsets. Once a day all of them
    are, because the offsets of a group without members expire (offsets.retention.minutes, 7 days by default).
    """
    group = POSITION_GROUP + store_id
    active = {(topic.name, active_instance(topic).number) for topic in manifest.topics}
    positions = {
        TopicPartition(topic, partition): (offset, f"snapshot {manifest.number}")
        for (topic, instance), offsets in manifest.positions.items()
        if (topic, instance) in active
        for partition, offset in enumerate(offsets)
        if offset != NOT_READ
    }
    try:
        with connect(end, CLIENT) as client:
            existing = client.topics({topic for topic, _ in positions})
            commits = {tp: commit for tp, commit in positions.items() if tp.topic in existing}
            if parent and parent.created // DAY == manifest.created // DAY:
                committed = groups.committed(client, [group])[group]
                commits = {
                    tp: commit
                    for tp, commit in commits.items()
                    if tp not in committed or committed[tp][0] != commit[0]
                }
            groups.commit(client, group, commits)
    except (Failed, KafkaError) as error:
        failed = Skipped.because_of(f"group {group}", error)
        return (replace(failed, why=f"the position could not be committed: {failed.why}"),)
    return ()
