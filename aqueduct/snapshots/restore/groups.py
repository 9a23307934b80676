"""Sets the offsets of consumer groups. A group with members gets them in a later run.

Until then, its offsets are stored as those of a group of Aqueduct's own, with each move as metadata.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kafka.errors import KafkaError

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import AqueductError, Failed, LeftOut, Refused, Skipped
from aqueduct.kafka import groups, share_groups
from aqueduct.kafka.client import Client, passing
from aqueduct.snapshots.restore import progress, topics
from aqueduct.snapshots.restore.job import Job, connected
from aqueduct.snapshots.restore.outcome import Move, Written
from aqueduct.snapshots.restore.positions import Answers, Unsure, translate
from aqueduct.snapshots.restore.progress import EVERY_GROUP, TopicState
from aqueduct.work.workers import Workers

ORIGIN_UNKNOWN = "nothing was appended to this partition, so the offset of its next record is unknown"
OLDER = "they refer to a topic of this name that was created after the restored instance"
LIVE = "it has members; stop them, and run the command again"
MOVED_ON = (
    "it already has offsets in the restored topics, which stay; to replace them, delete them and run the "
    "command again"
)


def restore(
    job: Job, states: dict[str, TopicState], written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[tuple[Move, ...], LeftOut]:
    """Set the offsets of all groups to those of the same records. Groups with members get them later."""
    if job.order.groups is None:
        return (), ()
    committed, left_out = _positions(job, states)
    offsets: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    for of_group in committed.values():
        for partition, (old, _) in of_group.items():
            offsets[partition].add(old)
    moves, unsure = _moves(job, committed, translate(job, offsets, written, workers))
    with connected(job.order) as client:
        late = set_waiting(client, job.id, job.groups, ran=any(state.groups for state in states.values()))
        # Topics that existed before may already have groups.
        settled = job.ended | (job.there.keys() if job.order.append else set())
        now = set_groups(client, job.id, moves, settled)
        if not (unsure or now.failed):
            _groups_are_set(client, job, states)
    return late.moves + now.moves, left_out + late.waiting + unsure + now.waiting + now.failed


def _groups_are_set(client: Client, job: Job, states: dict[str, TopicState]) -> None:
    """Store that the groups are set, or waiting, so that a later run does not set them again."""
    chosen = job.order.groups and job.order.groups.pattern
    pattern = chosen.pattern if chosen else EVERY_GROUP
    changed = {
        name: replace(state, groups=(pattern,) if pattern == EVERY_GROUP else (*state.groups, pattern))
        for name, state in states.items()
        if not {pattern, EVERY_GROUP} & set(state.groups)
    }
    if changed:
        topics.remember(client, job.id, changed)
        states |= changed


def _positions(
    job: Job, states: dict[str, TopicState]
) -> tuple[Mapping[str, groups.CommittedOffsets], LeftOut]:
    """Return the snapshot's committed offsets in restored topics, by group and names at the target.

    Offsets that are already set are not included.
    """
    renamed, lanes = job.plan.renamed, {lane.target for lane in job.plan.lanes}
    unknown = {
        TopicPartition(lane.stored_partition.topic, lane.stored_partition.partition): lane
        for lane in job.plan.unknown
    }
    older = {
        target for target, (topic, instance) in job.plan.topics.items() if instance.topic_id != topic.topic_id
    }
    matched_groups = {
        patterns: progress.matched(patterns, job.groups) for patterns in {s.groups for s in states.values()}
    }
    by_name = {group.group: group for group in job.snapshot.manifest.every_group}
    committed: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
    left_out = set()
    for name in job.groups:
        for stored_offset in by_name[name].offsets:
            partition = TopicPartition(renamed.get(stored_offset.topic, ""), stored_offset.partition)
            if lane := unknown.get(TopicPartition(stored_offset.topic, stored_offset.partition)):
                left_out.add(Skipped(f"group {name}, {lane}", ORIGIN_UNKNOWN, "append-origin-unknown"))
                continue
            if partition not in lanes:
                continue
            if partition.topic in older:
                left_out.add(Skipped(f"group offsets of {partition.topic}", OLDER, "topic-recreated"))
            elif name not in matched_groups[states[partition.topic].groups]:
                committed.setdefault(name, {})[partition] = stored_offset.offset, stored_offset.metadata
    return committed, tuple(sorted(left_out))


def _moves(
    job: Job, committed: Mapping[str, groups.CommittedOffsets], answers: Answers
) -> tuple[dict[str, list[Move]], LeftOut]:
    stops = {lane.target: lane.stop for lane in job.plan.lanes}
    shares = {group.group for group in job.snapshot.manifest.share_groups}
    moves: defaultdict[str, list[Move]] = defaultdict(list)
    unsure = []
    for name, of_group in committed.items():
        for partition, (old, metadata) in sorted(of_group.items()):
            answer = answers[partition, old]
            if isinstance(answer.new, Unsure):
                unsure.append(Skipped(f"group {name}, {partition}", answer.new.why, answer.new.id))
                continue
            note = f"the snapshot ends at {stops[partition]}" if old > stops[partition] else answer.note
            moves[name].append(
                Move(
                    group=name,
                    topic=partition.topic,
                    partition=partition.partition,
                    old=old,
                    new=answer.new,
                    metadata=metadata,
                    note=note,
                    share=name in shares,
                )
            )
    return moves, tuple(unsure)


@dataclass(frozen=True)
class GroupsSet:
    moves: tuple[Move, ...]  # that were set
    waiting: LeftOut  # groups that a later run tries again without being asked
    failed: LeftOut


def set_groups(
    client: Client, restore_id: str, moves: Mapping[str, Sequence[Move]], settled: Set[str]
) -> GroupsSet:
    """Set the offsets of groups.

    `settled`: topics in which groups may already have offsets of their own, which are kept.
    """
    late = {name for name, mine in moves.items() if any(move.topic in settled for move in mine)}
    unanswered: dict[str, KafkaError] = {}
    shares = {name for name, mine in moves.items() if any(move.share for move in mine)}
    target_positions = positions(client, moves, shares, unanswered)
    moves_set: list[Move] = []
    waiting: list[Skipped] = []
    failed = [*without_coordinator(unanswered)]
    for name, every in moves.items():
        if name in unanswered:
            continue
        kept_positions = target_positions.get(name, {}) if name in late else {}
        mine = [move for move in every if kept_positions.get(move.topic_partition) != move.new]
        if any(move.topic in settled and move.topic_partition in kept_positions for move in mine):
            failed.append(Skipped(f"group {name}", MOVED_ON, "group-has-offsets"))
            continue
        try:
            set_positions(client, name, mine)
        except groups.LiveGroup:
            try:
                groups.commit(client, progress.waiting_group(restore_id, name), dict(_kept(mine)))
                waiting.append(has_members(name))
            except Refused:  # its own metadata leaves no space
                failed.append(has_members(name))
        except (Failed, KafkaError) as error:
            failed.append(rejected(name, error))
        else:
            moves_set += mine
    return GroupsSet(tuple(moves_set), tuple(waiting), tuple(failed))


def set_waiting(client: Client, restore_id: str, chosen: Iterable[str], *, ran: bool) -> GroupsSet:
    """Set the waiting offsets of chosen groups.

    `ran`: an earlier run set groups or let them wait, so a coordinator that does not answer is reported.
    If one offset of a group cannot be read, none is set. Otherwise another run would set the others a second
    time, and reset the progress of the group.
    """
    prefix = progress.waiting_group(restore_id, "")
    waiting = [progress.waiting_group(restore_id, name) for name in chosen]
    moves_set: list[Move] = []
    left: list[Skipped] = []
    unanswered: dict[str, KafkaError] = {}
    for group, offsets in groups.committed(client, waiting, unanswered).items():
        if not offsets:
            continue
        name = group.removeprefix(prefix)
        moves: list[Move] = []
        unreadable: list[TopicPartition] = []
        for partition, (_, metadata) in sorted(offsets.items()):
            if move := progress.loads(Move, metadata):
                moves.append(move)
            else:
                unreadable.append(partition)
        if unreadable:
            left += (_unreadable(name, partition, group) for partition in unreadable)
            continue
        try:
            set_positions(client, name, moves)
        except groups.LiveGroup:
            left.append(has_members(name))
        except (Failed, KafkaError) as error:
            left.append(rejected(name, error))
        else:
            moves_set += moves
            groups.delete(client, [group])
    if ran:
        left += without_coordinator(
            {group.removeprefix(prefix): error for group, error in unanswered.items()}
        )
    return GroupsSet(tuple(moves_set), tuple(left), ())


def _unreadable(name: str, partition: TopicPartition, waiting_group: str) -> Skipped:
    return Skipped(
        f"group {name}, {partition}",
        f"its offset in group {waiting_group} cannot be read, so all offsets of the group stay there. Run "
        "the command with the release of Aqueduct that began the restore, or set the offsets of the group "
        "yourself, and delete the waiting group",
        "waiting-offset-unreadable",
    )


def without_coordinator(unanswered: Mapping[str, KafkaError]) -> LeftOut:
    """Return the groups that are skipped because their coordinators did not answer about them."""
    return tuple(_without_answer(name, error) for name, error in sorted(unanswered.items()))


def _without_answer(name: str, error: KafkaError) -> Skipped:
    if isinstance(error, share_groups.NOT_SUPPORTED):
        reason, id_ = f"the target has no share groups. {share_groups.UPGRADE}", "share-groups-unsupported"
        return Skipped(f"group {name}", reason, id_)
    if not passing(error):
        return rejected(name, error)
    return Skipped(
        f"group {name}",
        f"its coordinator does not answer ({cause(error)}). Start the brokers that `aqueduct doctor "
        f"cluster --groups {name}` lists, and run the command again",
        "group-coordinator-unavailable",
    )


def cause(error: KafkaError) -> str:
    """Return the last answer of the cluster, as part of a sentence."""
    return str(error).rstrip(".")


def has_members(name: str) -> Skipped:
    """Return a group that is skipped because it has members."""
    return Skipped(f"group {name}", LIVE, groups.LiveGroup.id)


def rejected(name: str, error: Failed | KafkaError) -> Skipped:
    """Return a group that is skipped because the cluster rejected its offsets."""
    if isinstance(error, AqueductError):
        return Skipped.because_of(f"group {name}", error)
    return Skipped(f"group {name}", str(error).rstrip("."), "group-offsets-rejected")


def positions(
    client: Client, names: Iterable[str], shares: Set[str], unanswered: dict[str, KafkaError]
) -> dict[str, Mapping[TopicPartition, int]]:
    """Return the offsets that groups have at the target. `shares`: which of them are share groups.

    `unanswered` receives the groups without an answer, with the last error.
    """
    asked = set(names)
    committed = groups.committed(client, asked - shares, unanswered)
    started = share_groups.start_offsets(client, asked & shares, unanswered)
    return {
        **{
            name: {partition: offset for partition, (offset, _) in of.items()}
            for name, of in committed.items()
        },
        **{name: {partition: share.start for partition, share in of.items()} for name, of in started.items()},
    }


def set_positions(client: Client, name: str, moves: Iterable[Move]) -> None:
    """Set a group's offsets by the request of its type; LiveGroup if it has members."""
    mine = list(moves)
    if share := {move.topic_partition: move.new for move in mine if move.share}:
        share_groups.set_positions(client, name, share)
    others = {move.topic_partition: (move.new, move.metadata) for move in mine if not move.share}
    groups.commit(client, name, others)


def _kept(moves: Iterable[Move]) -> Iterator[tuple[TopicPartition, tuple[int, str]]]:
    for move in moves:
        yield move.topic_partition, (move.new, progress.dumps(move, f"group {move.group}"))
