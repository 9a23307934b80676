"""A survey of the cluster, without its records: topics and log ends, groups, ACLs, quotas."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    SecurityDisabledError,
)

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import LeftOut, Skipped, labelled
from aqueduct.kafka import groups, offsets, share_groups
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import list_acls
from aqueduct.kafka.admin.cluster import cluster_id
from aqueduct.kafka.admin.quotas import list_quotas
from aqueduct.kafka.admin.settings import own_settings, setting
from aqueduct.kafka.client import Client, Topic, connect
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.kafka.groups import CommittedOffsets, ConsumerGroup, ListedGroups
from aqueduct.kafka.offsets import StableEnd
from aqueduct.kafka.quotas import Quota
from aqueduct.snapshots.backup.order import BackupOrder
from aqueduct.snapshots.backup.plan import Source, epochs_to_ask
from aqueduct.store.manifest import GroupAhead, GroupOffset, Manifest, OpenTransaction, StoredGroup

CLIENT = "aqueduct-backup"


@dataclass(frozen=True, kw_only=True)
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
    notes: tuple[str, ...] = ()  # sentences about options that have no effect


@dataclass(frozen=True, kw_only=True)
class _Topics:
    """The topics that the order selects, with their state in the cluster."""

    all: Mapping[str, Topic]
    chosen: Sequence[str]
    settings: Mapping[str, Mapping[str, str]]
    policies: Mapping[str, str]  # cleanup.policy

    @property
    def partitions(self) -> list[TopicPartition]:
        return [partition for name in self.chosen for partition in self.all[name].topic_partitions]


@dataclass(frozen=True, kw_only=True)
class _Groups:
    """The groups that the order selects, with their offsets."""

    listed: Mapping[str, ConsumerGroup]
    chosen: Sequence[str]
    committed: Mapping[str, CommittedOffsets]
    shared: Mapping[str, CommittedOffsets]  # of share groups
    left_out: LeftOut


@dataclass(frozen=True, kw_only=True)
class _Logs:
    """The start and end offsets of logs."""

    starts: Mapping[TopicPartition, int]
    stable_ends: Mapping[TopicPartition, StableEnd]
    ends: Mapping[TopicPartition, int]
    epoch_ends: Mapping[TopicPartition, int]  # of the epochs under which the parent was read


def look(order: BackupOrder, parent: Manifest | None) -> Surveyed:
    """Survey the cluster, and find out whether its logs are still those of the parent.

    Group offsets are read before the log ends. So no group is ahead of the records that are read, unless it
    reads uncommitted records.
    """
    with connect(order.end, CLIENT) as client:
        topics = _topics(client, order)
        acls, quotas, denied = _rights(client)
        chosen_groups = _groups(client, order)
        absent = gone(order, topics.all, chosen_groups.chosen)
        logs = _logs(client, topics, parent)
        cluster = cluster_id(client)
    return Surveyed(
        cluster=cluster,
        sources=tuple(_source(topics, name, logs) for name in topics.chosen),
        groups=_stored(chosen_groups.listed, chosen_groups.committed),
        share_groups=_stored(chosen_groups.listed, chosen_groups.shared),
        acls=acls,
        quotas=quotas,
        open_transactions=_open_transactions(topics, logs),
        groups_ahead=_ahead(chosen_groups, logs),
        left_out=denied + absent + chosen_groups.left_out,
        notes=_idle_options(order, topics, chosen_groups),
    )


def _topics(client: Client, order: BackupOrder) -> _Topics:
    topics = client.topics()
    chosen = order.topics.choose(topics, again=order.again)
    return _Topics(
        all=topics,
        chosen=chosen,
        settings=own_settings(client, chosen),
        policies=setting(client, chosen, "cleanup.policy"),
    )


def _groups(client: Client, order: BackupOrder) -> _Groups:
    listing = groups.list_groups(client)
    listed = listing.by_name
    chosen = order.groups.choose(listed, again=order.again)
    of_type = _by_type(listed, chosen)
    unanswered: dict[str, KafkaError] = {}
    shared, unread = _share_positions(client, of_type.pop(share_groups.TYPE, ()), unanswered)
    of_others = [name for names in of_type.values() for name in names]
    committed = groups.committed(client, of_others, unanswered)
    return _Groups(
        listed=listed,
        chosen=chosen,
        committed=committed,
        shared=shared,
        left_out=_unlisted(listing) + unread + _unanswered(unanswered) + _unknown(of_type, committed),
    )


def _logs(client: Client, topics: _Topics, parent: Manifest | None) -> _Logs:
    """Read the log starts last, to know what was deleted after the ends were read."""
    partitions = topics.partitions
    ends = offsets.ends(client, partitions, "read_uncommitted")
    stable_ends = offsets.stable_ends(client, partitions)
    before = epochs_to_ask(parent, {name: str(topics.all[name].id) for name in topics.chosen})
    epochs = {partition: epoch for partition, epoch in before.items() if partition in stable_ends}
    epoch_ends = offsets.ends_of_epochs(client, epochs)
    starts = offsets.log_starts(client, partitions)
    return _Logs(starts=starts, stable_ends=stable_ends, ends=ends, epoch_ends=epoch_ends)


def _source(topics: _Topics, name: str, logs: _Logs) -> Source:
    topic = topics.all[name]
    partitions = topic.topic_partitions
    return Source(
        name=name,
        topic_id=str(topic.id),
        # The lowest of its partitions, because all of them must have that many.
        replication_factor=min(len(partition.replicas) for partition in topic.partitions),
        compacted="compact" in topics.policies[name].split(","),
        settings=topics.settings[name],
        starts=tuple(logs.starts[partition] for partition in partitions),
        # Records deleted after the end was read do not belong to this run.
        ends=tuple(
            max(logs.stable_ends[partition].offset, logs.starts[partition]) for partition in partitions
        ),
        epochs=tuple(logs.stable_ends[partition].epoch for partition in partitions),
        epoch_ends={
            partition.partition: logs.epoch_ends[partition]
            for partition in partitions
            if partition in logs.epoch_ends
        },
    )


def _open_transactions(topics: _Topics, logs: _Logs) -> tuple[OpenTransaction, ...]:
    return tuple(
        OpenTransaction(*partition, logs.stable_ends[partition].offset, logs.ends[partition])
        for partition in topics.partitions
        if logs.stable_ends[partition].offset < logs.ends[partition]
    )


def _ahead(chosen_groups: _Groups, logs: _Logs) -> tuple[GroupAhead, ...]:
    """List the groups that have read beyond the last stable offset."""
    return tuple(
        GroupAhead(name, *partition, offset, logs.stable_ends[partition].offset)
        for name, of_group in {**chosen_groups.committed, **chosen_groups.shared}.items()
        for partition, (offset, _) in of_group.items()
        if partition in logs.stable_ends and offset > logs.stable_ends[partition].offset
    )


def _idle_options(order: BackupOrder, topics: _Topics, chosen_groups: _Groups) -> tuple[str, ...]:
    """Return sentences about options that have no effect."""
    notes = [order.topics.idle_exclusion(topics.all)]
    if absent := order.groups.absent(chosen_groups.listed):
        message = f"--exclude-groups: the cluster has no group {some(absent)}, so this name has no effect."
        notes.append(labelled("group-unknown", message))
    return tuple(filter(None, notes))


def gone(order: BackupOrder, topics: Collection[str], chosen_groups: Sequence[str]) -> LeftOut:
    """List the selected items that the cluster no longer has. A first run without any of them is refused."""
    reason = "the topic no longer exists in the cluster; its backed-up records stay in the store"
    skipped = [Skipped(f"topic {name}", reason, "topic-unknown") for name in order.topics.absent(topics)]
    skipped += order.topics.unmatched(topics)
    if order.groups.pattern and not chosen_groups:
        skipped.append(Skipped("groups", order.groups.no_match.rstrip("."), "pattern-matches-nothing"))
    else:
        skipped += order.groups.unmatched(chosen_groups)
    return tuple(skipped)


def _by_type(listed: Mapping[str, ConsumerGroup], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the groups by their types."""
    by_type: dict[str, list[str]] = {}
    for name in names:
        by_type.setdefault(listed[name].protocol, []).append(name)
    return by_type


def _unlisted(listing: ListedGroups) -> LeftOut:
    """List the groups that no broker lists, as partitions of `__consumer_offsets`."""
    if not listing.checked:
        reason = f"the client may not describe {GROUPS}, so it cannot check whether brokers list all groups"
        return (Skipped("groups without a coordinator", reason, "groups-unlisted"),)
    return tuple(
        Skipped(
            f"groups of {partition}",
            f"{why}, so no broker lists its groups. Start the brokers that `aqueduct doctor cluster` lists, "
            "and back up again",
            "groups-unlisted",
        )
        for partition, why in listing.unlisted.items()
    )


def _unanswered(errors: Mapping[str, KafkaError]) -> LeftOut:
    return tuple(
        Skipped(
            f"group {name}",
            f"its coordinator did not return its offsets ({str(error).rstrip('.')})",
            "group-coordinator-unavailable",
        )
        for name, error in sorted(errors.items())
    )


def _share_positions(
    client: Client, names: Sequence[str], unanswered: dict[str, KafkaError]
) -> tuple[dict[str, CommittedOffsets], LeftOut]:
    """Return the first unacknowledged offset of each share group, and the items that could not be read."""
    described = share_groups.start_offsets(client, names, unanswered)
    left_out: LeftOut = ()
    try:
        positions = share_groups.positions(client, described)
    except share_groups.StateUnreadable as error:
        reason = f"{error}; after a restore, their consumers receive acknowledged records again"
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
    """List the groups whose type may store more than committed offsets."""
    return tuple(
        Skipped(
            f"group {name}",
            f"its type, {kind}, is not supported: "
            f"{'only its committed offsets were' if committed.get(name) else 'no data of it was'} backed up",
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
        pass  # a cluster without an authorizer has no ACLs
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
