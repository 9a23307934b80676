"""The contents of a cluster besides its records: topics and their ends, groups, ACLs, quotas."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    SecurityDisabledError,
    TopicAuthorizationFailedError,
)

from aqueduct.common.wording import count, some
from aqueduct.errors import LeftOut, Skipped, labelled
from aqueduct.kafka import groups, offsets, share_groups
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import list_acls
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.admin.quotas import list_quotas
from aqueduct.kafka.admin.settings import own_settings, setting
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.kafka.groups import CommittedOffsets, ConsumerGroup
from aqueduct.kafka.quotas import Quota
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.plan import Source, epochs_to_ask
from aqueduct.store.manifest import GroupAhead, GroupOffset, Manifest, OpenTransaction, StoredGroup

CLIENT = "aqueduct-backup"


@dataclass(frozen=True)
class Surveyed:
    """The contents of a cluster."""

    cluster: str  # its id
    sources: tuple[Source, ...]
    groups: tuple[StoredGroup, ...]
    acls: tuple[Acl, ...]
    quotas: tuple[Quota, ...]
    open_transactions: tuple[OpenTransaction, ...]
    groups_ahead: tuple[GroupAhead, ...]
    left_out: LeftOut
    share_groups: tuple[StoredGroup, ...] = ()
    notes: tuple[str, ...] = ()  # sentences on options that have no effect


def look(order: BackupOrder, parent: Manifest | None) -> Surveyed:
    """Ask the cluster, also whether its logs are still those of the parent.

    Groups before the ends: no group is ahead of what is read, unless it read what is not stable yet.
    """
    with connect(order.end, CLIENT) as client:
        topics = client.topics()
        chosen = order.topics.choose(topics, again=order.again)
        settings = own_settings(client, chosen)
        policies = setting(client, chosen, "cleanup.policy")
        acls, quotas, left_out = _rights(client)
        unlisted = _unlisted(client)
        listed = groups.list_groups(client)
        chosen_groups = order.groups.choose(listed, again=order.again)
        left_out += gone(order, topics, chosen_groups)
        of_type = _by_type(listed, chosen_groups)
        unanswered: dict[str, KafkaError] = {}
        shared, unread = _share_positions(client, of_type.pop(share_groups.TYPE, ()), unanswered)
        of_others = [name for names in of_type.values() for name in names]
        committed = groups.committed(client, of_others, unanswered)
        notes = [order.topics.idle_exclusion(topics)]
        if absent := order.groups.absent(listed):
            message = (
                f"--exclude-groups: the cluster has no group {some(absent)}, so nothing is excluded by it."
            )
            notes.append(labelled("group-unknown", message))
        of_topic = {name: topics[name].topic_partitions for name in chosen}
        partitions = [partition for mine in of_topic.values() for partition in mine]
        ends = offsets.ends(client, partitions, "read_uncommitted")
        stable_ends = offsets.stable_ends(client, partitions)
        stable = {partition: end.offset for partition, end in stable_ends.items()}
        before = epochs_to_ask(parent, {name: str(topics[name].id) for name in chosen})
        epochs = {partition: epoch for partition, epoch in before.items() if partition in stable_ends}
        epoch_ends = offsets.ends_of_epochs(client, epochs)
        starts = offsets.log_starts(client, partitions)
        cluster = cluster_id(client)
    sources = []
    for name, mine in of_topic.items():
        sources.append(
            Source(
                name=name,
                topic_id=str(topics[name].id),
                # Of its partitions the least: more than that none can promise.
                replication_factor=min(len(partition.replicas) for partition in topics[name].partitions),
                compacted="compact" in policies[name].split(","),
                settings=settings[name],
                starts=tuple(starts[partition] for partition in mine),
                # What was deleted after the end was read isn't a record of this run.
                ends=tuple(max(stable[partition], starts[partition]) for partition in mine),
                epochs=tuple(stable_ends[partition].epoch for partition in mine),
                epoch_ends={
                    partition.partition: epoch_ends[partition]
                    for partition in mine
                    if partition in epoch_ends
                },
            )
        )
    return Surveyed(
        cluster=cluster,
        sources=tuple(sources),
        groups=_stored(listed, committed),
        share_groups=_stored(listed, shared),
        acls=acls,
        quotas=quotas,
        open_transactions=tuple(
            OpenTransaction(*partition, stable[partition], ends[partition])
            for partition in partitions
            if stable[partition] < ends[partition]
        ),
        groups_ahead=tuple(
            GroupAhead(name, *partition, offset, stable[partition])
            for name, of_group in (committed | shared).items()
            for partition, (offset, _) in of_group.items()
            if partition in stable and offset > stable[partition]
        ),
        left_out=left_out + unlisted + unread + _unanswered(unanswered) + _unknown(of_type, committed),
        notes=tuple(filter(None, notes)),
    )


def gone(order: BackupOrder, topics: Collection[str], chosen_groups: Sequence[str]) -> LeftOut:
    """List what the order asks for and the cluster does not have. A first run without any is refused."""
    reason = "the cluster has no such topic any more; what was backed up of it stays"
    skipped = [Skipped(f"topic {name}", reason, "topic-unknown") for name in order.topics.absent(topics)]
    skipped += order.topics.unmatched(topics)
    if order.groups.pattern and not chosen_groups:
        skipped.append(Skipped("groups", order.groups.no_match.rstrip("."), "pattern-matches-nothing"))
    else:
        skipped += order.groups.unmatched(chosen_groups)
    return tuple(skipped)


def _by_type(listed: Mapping[str, ConsumerGroup], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the groups by their type."""
    by_type: dict[str, list[str]] = {}
    for name in names:
        by_type.setdefault(listed[name].protocol, []).append(name)
    return by_type


def _unlisted(client: Client) -> LeftOut:
    """List the groups that no broker lists, by the partitions of `__consumer_offsets` that have no leader."""
    try:
        leaderless = groups.unlisted(client)
    except TopicAuthorizationFailedError:
        reason = f"the client may not describe {GROUPS}, so it does not see whether brokers list all groups"
        return (Skipped("groups without a coordinator", reason, "groups-unlisted"),)
    return tuple(
        Skipped(
            f"groups of {partition}",
            "it has no leader, so no broker lists them. Start its brokers (`aqueduct doctor cluster` lists "
            "them), and back up again",
            "groups-unlisted",
        )
        for partition in leaderless
    )


def _unanswered(errors: Mapping[str, KafkaError]) -> LeftOut:
    return tuple(
        Skipped(
            f"group {name}",
            f"its coordinator does not tell its offsets ({str(error).rstrip('.')})",
            "group-coordinator-unavailable",
        )
        for name, error in sorted(errors.items())
    )


def _share_positions(
    client: Client, names: Sequence[str], unanswered: dict[str, KafkaError]
) -> tuple[dict[str, CommittedOffsets], LeftOut]:
    """Return the next offset that each share group has not completed; and what could not be read of them."""
    described = share_groups.start_offsets(client, names, unanswered)
    left_out: LeftOut = ()
    try:
        positions = share_groups.positions(client, described)
    except share_groups.StateUnreadable as error:
        reason = f"{error}; after a restore their consumers receive again what they had acknowledged since"
        subject = f"acknowledgements of {count(len(names), 'share group')}"
        left_out = (Skipped(subject, reason, "share-group-state-unreadable"),)
        positions = {
            name: {partition: share.start for partition, share in of.items()}
            for name, of in described.items()
        }
    return {
        name: {partition: (offset, "") for partition, offset in of.items()} for name, of in positions.items()
    }, left_out


def _unknown(of_type: Mapping[str, Sequence[str]], committed: Mapping[str, CommittedOffsets]) -> LeftOut:
    """List the groups whose type may have more than committed offsets."""
    return tuple(
        Skipped(
            f"group {name}",
            f"its type, {kind}, is not supported: "
            f"{'only its committed offsets were' if committed.get(name) else 'nothing of it was'} backed up",
            "group-type-unsupported",
        )
        for kind, names in of_type.items()
        if kind not in groups.COMMITTING_TYPES
        for name in names
    )


def _stored(
    listed: Mapping[str, ConsumerGroup], positions: Mapping[str, CommittedOffsets]
) -> tuple[StoredGroup, ...]:
    return tuple(
        StoredGroup(
            name,
            listed[name].protocol,
            tuple(GroupOffset(*partition, *offset) for partition, offset in sorted(of_group.items())),
        )
        for name, of_group in positions.items()
        if of_group
    )


def _rights(client: Client) -> tuple[tuple[Acl, ...], tuple[Quota, ...], LeftOut]:
    acls: tuple[Acl, ...] = ()
    quotas: tuple[Quota, ...] = ()
    left_out: list[Skipped] = []
    try:
        acls = tuple(sorted(list_acls(client)))
    except SecurityDisabledError:
        pass  # a cluster without an authorizer has none
    except ClusterAuthorizationFailedError:
        left_out.append(Skipped("ACLs", "the client may not describe the cluster", "cluster-describe-denied"))
    try:
        quotas = list_quotas(client)
    except ClusterAuthorizationFailedError:
        left_out.append(
            Skipped(
                "quotas", "the client may not describe the cluster's configuration", "cluster-describe-denied"
            )
        )
    return acls, quotas, tuple(left_out)
