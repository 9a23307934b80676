"""The topics of a restore: checks them, creates them, and sets them up so that records stay unchanged."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from aqueduct.common.offset_ranges import Range
from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count, some
from aqueduct.errors import AqueductError, Failed, Refused
from aqueduct.kafka import fetch, groups, offsets, topics
from aqueduct.kafka.admin.cluster import describe_cluster
from aqueduct.kafka.admin.settings import all_settings, default_replication_factor, own_settings, setting
from aqueduct.kafka.admin.topics import apply_topics, await_settings, await_topics, refused_settings
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.topics import DeclaredTopic
from aqueduct.snapshots.restore import progress, settings
from aqueduct.snapshots.restore.outcome import DroppedSetting, Warned, Written
from aqueduct.snapshots.restore.plan import RestorePlan
from aqueduct.snapshots.restore.progress import RestoreOrigin, RestoreProgress, TopicState

PEEK_BYTES = 64 << 10

States = Mapping[str, TopicState]  # by topic
Plans = Mapping[str, list[TopicState]]  # by restore


# The state that restores store


def plans(client: Client) -> dict[str, list[TopicState]]:
    """Return each restore that the target stores, with the states of its topics."""
    ids = {name: progress.id_of_plan_group(name) for name in groups.list_groups(client).by_name}
    states_by_restore: dict[str, list[TopicState]] = {}
    for name, offsets_ in groups.committed(client, (name for name, of in ids.items() if of)).items():
        states = (progress.loads(TopicState, metadata) for _, metadata in offsets_.values())
        states_by_restore[ids[name] or ""] = [state for state in states if state]
    return states_by_restore


def check_all_known(client: Client) -> None:
    """Raise Failed if `plans` may lack a restore: its records would count as those of other clients."""
    # A client that may not describe the topic knows of the listed groups only.
    unlisted = groups.list_groups(client).unlisted
    if unlisted:
        raise Failed(
            "group-coordinator-unavailable",
            f"No broker of the {client.end} lists the groups of {some(unlisted)} "
            f"({next(iter(unlisted.values()))}), so it is unknown which restores wrote to these topics. "
            "Nothing was written. Start the brokers that `aqueduct doctor cluster` lists, and run the "
            "command again.",
        )


def states(client: Client, restore_id: str, existing: Mapping[str, Topic]) -> dict[str, TopicState]:
    """Return the states of these topics, by name. A re-created topic has no state."""
    group = progress.plan_group(restore_id)
    states_by_topic = {}
    for (name, _), (_, metadata) in groups.progress(
        client, group, (TopicPartition(name, 0) for name in existing)
    ).items():
        state = progress.loads(TopicState, metadata)
        if state and state.topic_id == str(existing[name].id):
            states_by_topic[name] = state
    return states_by_topic


def remember(client: Client, restore_id: str, remembered: States) -> None:
    offsets_ = {
        TopicPartition(name, 0): (state.snapshot, progress.dumps(state, name))
        for name, state in remembered.items()
    }
    groups.commit(client, progress.plan_group(restore_id), offsets_)


# Checks, before anything is written


def check_partitions(plan: RestorePlan, existing: Mapping[str, Topic]) -> None:
    """Check partitions; Refused if a topic has a different number of them than in the backup."""
    wrong = [
        f"{name} ({len(existing[name].partitions)}, in the backup {len(plan.partitions(name))})"
        for name in plan.topics
        if name in existing and len(existing[name].partitions) != len(plan.partitions(name))
    ]
    if wrong:
        raise Refused(
            "partition-count-mismatch",
            f"The number of partitions of {count(len(wrong), 'topic')} differs from the backup: "
            f"{some(wrong)}. Restore under other names (old:new). Or delete the topics, which deletes their "
            "records, and run the command again.",
        )


def check_others(existing: Mapping[str, Topic], others: Plans) -> None:
    """Check other restores; Refused if one of these topics has an unfinished one.

    Its records would be written between those of this restore.
    """
    names = {str(topic.id): name for name, topic in existing.items()}
    open_ = sorted(
        (names[state.topic_id], restore_id)
        for restore_id, states_ in others.items()
        for state in states_
        if state.topic_id in names and not state.done
    )
    if open_:
        restores = (f"{name} (restore {restore_id})" for name, restore_id in open_)
        raise Refused(
            "restore-in-progress",
            f"Another restore writes to these topics, or was interrupted: {some(restores)}. Complete it "
            "with its own command. Or delete the topics, which deletes their records.",
        )


def check_empty(
    client: Client,
    partitions: Iterable[TopicPartition],
    existing: Mapping[str, Topic],
    others: Plans,
    appending: Callable[[], str] = str,
) -> None:
    """Check that partitions are empty; Refused if one has records that a consumer receives.

    `appending` returns what --append would do instead, or its precondition, as the end of a sentence. It
    reads positions of mirrors, so it is called only for a refusal.
    """
    occupied = list(_visible(client, list(partitions)))
    if occupied:
        ids = {str(topic.id) for topic in existing.values()}
        wrote = [
            f"restore {restore_id} (--snapshot {states_[0].snapshot})"
            for restore_id, states_ in sorted(others.items())
            if any(state.topic_id in ids for state in states_)
        ]
        raise Refused(
            "target-not-empty",
            f"The target has records in {count(len(occupied), 'partition')}: {some(occupied)}. "
            f"{f'Some were written by {some(wrote)}. ' if wrote else ''}"
            f"Restore under other names (old:new){appending()}. Deleting the topics deletes their records, "
            "but not the copies at the targets of mirrors.",
        )


def _visible(client: Client, partitions: list[TopicPartition]) -> Iterator[str]:
    starts, ends = offsets.log_starts(client, partitions), offsets.ends(client, partitions)
    for partition in partitions:
        if starts[partition] < ends[partition] and visible(
            client, Range(*partition, starts[partition], ends[partition])
        ):
            yield str(partition)


def visible(client: Client, part: Range) -> bool:
    """Return whether a consumer receives a record of this range: markers and aborted records do not count."""
    return any(piece.batches for piece in fetch.read(client, part, max_bytes=PEEK_BYTES))


# Before the records


def accepted(
    client: Client, plan: RestorePlan, existing: Collection[str]
) -> tuple[RestorePlan, tuple[DroppedSetting, ...]]:
    """Return the plan without the settings that the target refuses, and these settings.

    A target with another version may lack a setting (4.0 removed message.format.version), or refuse a value.
    The other settings are kept.
    """
    backup_settings = {
        name: dict(settings.of_backup(topic.settings, 1)) for name, (topic, _) in plan.topics.items()
    }
    refused = refused_settings(
        client, {name: overrides for name, overrides in backup_settings.items() if overrides}, existing
    )
    if not refused:
        return plan, ()
    refusals: dict[tuple[str, str], str | None] = {}  # by setting and value alone; None: accepted
    asked = {name: set(backup_settings[name].items()) for name in refused}
    while asked:
        # Each topic checks another one of its own settings, and none twice.
        pairs = {name: min(untested) for name, untested in asked.items() if untested}
        answers = refused_settings(client, {name: {k: v} for name, (k, v) in pairs.items()}, existing)
        refusals |= {pair: answers.get(name) for name, pair in pairs.items()}
        asked = {name: left for name, untested in asked.items() if (left := untested - refusals.keys())}
    dropped = {
        name: {key for key, value in backup_settings[name].items() if refusals[key, value] is not None}
        for name in refused
    }
    for key in sorted({key for keys in dropped.values() for key in keys}):
        # A setting that is refused alone may be accepted together with the other ones.
        names = [name for name, keys in dropped.items() if key in keys]
        beside = {
            name: {k: v for k, v in backup_settings[name].items() if k == key or k not in dropped[name]}
            for name in names
        }
        still = refused_settings(client, beside, existing)
        for name in names:
            if name not in still:
                dropped[name].remove(key)
    dropped_settings = tuple(
        DroppedSetting(
            topic=name,
            key=key,
            value=backup_settings[name][key],
            why=refusals[key, backup_settings[name][key]] or "",
        )
        for name, keys in sorted(dropped.items())
        for key in sorted(keys)
    )
    kept = dict(plan.topics)
    for name, keys in dropped.items():
        topic, instance = kept[name]
        others = {key: value for key, value in topic.settings.items() if key not in keys}
        kept[name] = replace(topic, settings=others), instance
    return replace(plan, topics=kept), dropped_settings


def check_creation(
    client: Client, plan: RestorePlan, existing: Iterable[str], *, with_settings: bool
) -> None:
    """Check creations; Refused if the controller would refuse the name or the settings of a topic."""
    declared, _ = _declared(client, plan, existing, with_settings=with_settings)
    apply_topics(client, topics.TopicChanges(create=declared, grow={}, alter={}, unmet=()), check_only=True)


def create(
    client: Client, plan: RestorePlan, existing: Iterable[str], *, with_settings: bool
) -> tuple[Warned, ...]:
    """Create the missing topics; return warnings. Refused if the controller refuses one."""
    declared, warnings = _declared(client, plan, existing, with_settings=with_settings)
    try:
        apply_topics(client, topics.TopicChanges(create=declared, grow={}, alter={}, unmet=()))
    except AqueductError as error:
        if made := client.topics(topic.name for topic in declared):
            raise Failed(
                "restore-in-progress",
                f"{count(len(made), 'topic')} appeared during this restore: {some(sorted(made))}. Another "
                "restore has probably begun at the same time. No record was written. Wait until the "
                "other restore is complete.",
            ) from error
        raise
    await_topics(client, declared)
    return warnings


def _declared(
    client: Client, plan: RestorePlan, existing: Iterable[str], *, with_settings: bool
) -> tuple[tuple[DeclaredTopic, ...], tuple[Warned, ...]]:
    """Return declarations of the missing topics, and warnings."""
    missing = sorted(plan.topics.keys() - set(existing))
    if not missing:
        return (), ()
    brokers = len(describe_cluster(client).brokers)
    default = default_replication_factor(client)
    declared = []
    fewer = []
    lowered = []
    for name in missing:
        topic = plan.topics[name][0]
        asked = topic.replication_factor if with_settings else default
        factor = min(asked, brokers)
        if factor < asked:
            fewer.append(name)
        overrides = topic.settings if with_settings else {}
        config = settings.of_backup(overrides, factor)
        if config.get(settings.MIN_IN_SYNC) != overrides.get(settings.MIN_IN_SYNC):
            lowered.append(name)
        declared.append(
            DeclaredTopic(
                name=name, partitions=len(plan.partitions(name)), replication_factor=factor, config=config
            )
        )
    warnings = []
    if fewer:
        warnings.append(
            Warned(
                "replication-factor-reduced",
                f"The replication factor of {some(fewer)} is {brokers}, lower than in the backup, because "
                f"the target has only {count(brokers, 'broker')}.",
            )
        )
    if lowered:
        warnings.append(
            Warned(
                "min-insync-replicas-reduced",
                f"{settings.MIN_IN_SYNC} of {some(lowered)} is lower than in the backup, because there are "
                "fewer replicas.",
            )
        )
    return tuple(declared), tuple(warnings)


def withdraw(client: Client, restore_id: str, names: Iterable[str]) -> None:
    """Remove the states of topics that this restore has begun and not written to."""
    groups.commit(
        client, progress.plan_group(restore_id), {TopicPartition(name, 0): (0, "") for name in names}
    )


def hold_open(
    client: Client,
    restore_id: str,
    request: str,
    plan: RestorePlan,
    origins: Mapping[str, RestoreOrigin],
    *,
    with_settings: bool,
    recheck: Callable[[States], None],
) -> dict[str, TopicState]:
    """Store the settings to set at the end, then set those for the restore.

    `recheck` is called when other restores can see that this one has begun, and before anything is set.

    The stored states are read after the settings: if another run of this restore changed the settings in
    between, it stored before which ones to set at the end.
    """
    existing = client.topics(plan.topics)
    own = own_settings(client, plan.topics)
    holding = all_settings(client, plan.topics)
    old_states = states(client, restore_id, existing)
    new_states: dict[str, TopicState] = {}
    alter: dict[str, topics.Overrides] = {}
    for name, (topic, _) in plan.topics.items():
        factor = min(len(partition.replicas) for partition in existing[name].partitions)
        backup_settings = settings.of_backup(topic.settings, factor)
        state = old_states.get(name)
        if state is None or (with_settings and not state.of_backup):
            before = (state.pending, state.holds) if state else ({}, {})
            back, holds = settings.to_set_back(
                own[name], holding[name], backup_settings if with_settings else {}, factor, *before
            )
            state = _opened(
                plan,
                existing[name],
                state,
                origins,
                request=request,
                back=back,
                holds=holds,
                of_backup=with_settings,
            )
        new_states[name] = state
        if not state.done:
            meanwhile = (backup_settings if state.of_backup else {}) | settings.meanwhile(state.back, factor)
            alter[name] = {key: value for key, value in meanwhile.items() if own[name].get(key) != value}
    remember(
        client,
        restore_id,
        {name: state for name, state in new_states.items() if state != old_states.get(name)},
    )
    recheck(new_states)
    _set(client, alter)
    return new_states


def _set(client: Client, alter: Mapping[str, topics.Overrides]) -> None:
    """Set settings, and wait for the leaders: one with the former ones might change or delete records."""
    changed = {name: changes for name, changes in alter.items() if changes}
    apply_topics(client, topics.TopicChanges(create=(), grow={}, alter=changed, unmet=()))
    await_settings(client, changed)


def _opened(
    plan: RestorePlan,
    topic: Topic,
    former: TopicState | None,
    origins: Mapping[str, RestoreOrigin],
    *,
    request: str,
    back: Mapping[str, str | None],
    holds: Mapping[str, str],
    of_backup: bool,
) -> TopicState:
    """Return the state of a topic whose restore begins or continues: not done, whatever the former state."""
    return TopicState(
        topic_id=str(topic.id),
        snapshot=plan.snapshot,
        request=request,
        back=back,
        holds=holds,
        of_backup=of_backup,
        groups=former.groups if former else (),
        expired=former.expired if former else plan.expired(topic.name),
        origin=former.origin if former else origins[topic.name],
        continues=plan.continues.get(topic.name, ()),
        unknown=progress.partition_bits(plan.unknown_of(topic.name)),
    )


# After the records


def let_go(
    client: Client, old_states: States, written: Mapping[TopicPartition, Written], *, hold: bool, now: int
) -> dict[str, TopicState]:
    """Set the settings again, except those that would delete restored records at once, or may do so.

    `written` lacks the partitions whose progress the target has deleted.
    """
    new_states = dict(old_states)
    alter: dict[str, topics.Overrides] = {}
    of_topic: dict[str, list[RestoreProgress]] = {}
    for (name, _), restored in written.items():
        of_topic.setdefault(name, []).append(restored.progress)
    for name, state in old_states.items():
        if state.done and (hold or not state.held):
            continue
        back = state.pending
        mine = [part for part in of_topic.get(name, ()) if part.records]
        oldest = min((part.oldest for part in mine if part.oldest is not None), default=None)
        size = max((part.bytes for part in mine), default=0)
        if name not in of_topic:
            oldest, size = 0, sys.maxsize
        kept = settings.to_hold(back, state.holds, oldest=oldest, size=size, now=now) if hold else set()
        alter[name] = {key: value for key, value in back.items() if key not in kept}
        new_states[name] = replace(state, done=True, held={key: back[key] for key in sorted(kept)})
    _set(client, alter)
    return new_states


def limits(client: Client, existing: Mapping[str, Topic]) -> dict[str, tuple[UUID | None, int]]:
    """Return each topic's id and max.message.bytes."""
    max_bytes = setting(client, existing, "max.message.bytes")
    return {name: (topic.id, int(max_bytes[name])) for name, topic in existing.items()}
