"""The topics that are restored into: made, checked, and set so that what is written stays as it is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from aqueduct import topics
from aqueduct.errors import Refused
from aqueduct.io.kafka import fetch, groups, offsets
from aqueduct.io.kafka.client import Client, Place, Topic
from aqueduct.io.kafka_admin import Admin
from aqueduct.ranges import Range
from aqueduct.restore import progress, settings
from aqueduct.restore.plan import Plan
from aqueduct.restore.progress import Progress, TopicState
from aqueduct.topics import Declared
from aqueduct.wording import count, some

PEEK_BYTES = 64 << 10

States = Mapping[str, TopicState]  # by topic


# What a restore remembers


def states(client: Client, restore_id: str, there: Mapping[str, Topic]) -> dict[str, TopicState]:
    """Of these very topics."""
    group = progress.plan_group(restore_id)
    found = {}
    for (name, _), (_, metadata) in groups.progress(client, group, ((name, 0) for name in there)).items():
        state = progress.loads(TopicState, metadata)
        if state and state.topic_id == str(there[name].id):
            found[name] = state
    return found


def remember(client: Client, restore_id: str, remembered: States) -> None:
    offsets_ = {
        (name, 0): (state.snapshot, progress.dumps(state, name)) for name, state in remembered.items()
    }
    groups.commit(client, progress.plan_group(restore_id), offsets_)


# Checks, before anything is written


def check_partitions(plan: Plan, there: Mapping[str, Topic]) -> None:
    """Refused where a topic has others than the one that was backed up."""
    wrong = [
        f"{name} ({len(there[name].partitions)}, in the backup {len(plan.partitions(name))})"
        for name in plan.topics
        if name in there and len(there[name].partitions) != len(plan.partitions(name))
    ]
    if wrong:
        raise Refused(
            f"{count(len(wrong), 'topic')} with another number of partitions than was backed up: "
            f"{some(wrong)}; records would move to other ones. Delete them, or restore under other names."
        )


def check_empty(client: Client, places: Iterable[Place]) -> None:
    """Refused where there is a record that a consumer sees."""
    found = list(_visible(client, list(places)))
    if found:
        raise Refused(
            f"{count(len(found), 'partition')} of the target with records: {some(found)}; "
            "delete the topics, restore under other names (old:new), or give --append."
        )


def _visible(client: Client, places: list[Place]) -> Iterator[str]:
    starts, ends = offsets.log_starts(client, places), offsets.ends(client, places)
    for topic, partition in places:
        place = topic, partition
        if starts[place] < ends[place]:  # by markers and aborted transactions, too
            whole = Range(topic, partition, starts[place], ends[place])
            if any(piece.batches for piece in fetch.read(client, whole, max_bytes=PEEK_BYTES)):
                yield f"{topic}-{partition}"


# Before the records


def create(admin: Admin, plan: Plan, there: Iterable[str], *, with_settings: bool) -> tuple[str, ...]:
    """Make the topics that are not there; warnings. Refused if the controller refuses one."""
    missing = sorted(plan.topics.keys() - set(there))
    if not missing:
        return ()
    brokers = len(admin.cluster().brokers)
    default = admin.default_replication_factor()
    declared = []
    fewer = []
    lowered = []
    for name in missing:
        topic = plan.topics[name][0]
        asked = topic.replication_factor if with_settings else default
        factor = min(asked, brokers)
        if factor < asked:
            fewer.append(name)
        wanted = topic.settings if with_settings else {}
        config = settings.of_backup(wanted, factor)
        if config.get(settings.MIN_IN_SYNC) != wanted.get(settings.MIN_IN_SYNC):
            lowered.append(name)
        declared.append(Declared(name, len(plan.partitions(name)), factor, config))
    admin.apply_topics(topics.Plan(tuple(declared), {}, {}, ()))
    admin.await_topics(declared)
    warnings = []
    if fewer:
        warnings.append(
            f"{some(fewer)}: the replication factor is {brokers}, and was more; "
            f"the target has {count(brokers, 'broker')}."
        )
    if lowered:
        warnings.append(
            f"{some(lowered)}: {settings.MIN_IN_SYNC} is lower than it was, as there are fewer replicas."
        )
    return tuple(warnings)


def hold_open(
    client: Client,
    admin: Admin,
    restore_id: str,
    request: str,
    plan: Plan,
    known: States,
    *,
    with_settings: bool,
) -> dict[str, TopicState]:
    """Remember what the topics' settings shall be, then set what holds while they are restored."""
    there = client.topics(plan.topics)
    own = admin.topic_settings(plan.topics)
    holding = admin.settings([name for name in plan.topics if name not in known])
    found = dict(known)
    alter: dict[str, topics.Overrides] = {}
    for name, (topic, _) in plan.topics.items():
        factor = min(len(each.replicas) for each in there[name].partitions)
        wanted = settings.of_backup(topic.settings, factor) if with_settings else {}
        if name not in known:
            shall = own[name] | wanted
            holds = holding[name] | shall
            changed = settings.while_restoring(holds, factor)
            found[name] = TopicState(
                topic_id=str(there[name].id),
                snapshot=plan.snapshot,
                request=request,
                back={key: shall.get(key) for key in changed},
                holds={key: holds[key] for key in (settings.POLICY, *settings.RETENTION)},
            )
        state = found[name]
        if not state.settings:
            meanwhile = wanted | settings.meanwhile(state.back, factor)
            alter[name] = {key: value for key, value in meanwhile.items() if own[name].get(key) != value}
    remember(client, restore_id, {name: found[name] for name in found.keys() - known.keys()})
    admin.apply_topics(topics.Plan((), {}, {name: changes for name, changes in alter.items() if changes}, ()))
    return found


# After the records


def let_go(
    admin: Admin, known: States, written: Mapping[Place, Progress], *, hold: bool, now: int
) -> dict[str, TopicState]:
    """Set the settings back, but for those by which what was restored would be deleted at once."""
    found = dict(known)
    alter: dict[str, topics.Overrides] = {}
    of_topic: dict[str, list[Progress]] = {}
    for (name, _), each in written.items():
        of_topic.setdefault(name, []).append(each)
    for name, state in known.items():
        if state.settings and (hold or not state.held):
            continue
        back = state.held if state.settings else state.back
        mine = [each for each in of_topic.get(name, ()) if each.records]
        oldest = min((each.oldest for each in mine if each.oldest is not None), default=None)
        size = max((each.bytes for each in mine), default=0)
        kept = settings.to_hold(back, state.holds, oldest=oldest, size=size, now=now) if hold else set()
        alter[name] = {key: value for key, value in back.items() if key not in kept}
        found[name] = replace(state, settings=True, held={key: back[key] for key in sorted(kept)})
    admin.apply_topics(topics.Plan((), {}, {name: changes for name, changes in alter.items() if changes}, ()))
    return found


def limits(admin: Admin, there: Mapping[str, Topic]) -> dict[str, tuple[UUID | None, int]]:
    """Id and max.message.bytes of each topic."""
    found = admin.effective(there, "max.message.bytes")
    return {name: (topic.id, int(found[name])) for name, topic in there.items()}
