"""Sets groups to their positions in a snapshot, in the cluster that still has its original records.

This is for groups whose offsets were lost, for example with a partition of `__consumer_offsets`. The topics
must be those of the snapshot, so that its offsets refer to the same records. Groups whose coordinator does
not answer are skipped.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import count
from aqueduct.errors import ExitCode, Failed, LeftOut, Skipped, left_out_entries
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.client import Client
from aqueduct.snapshots.restore.groups import (
    cause,
    has_members,
    positions,
    rejected,
    set_positions,
    without_coordinator,
)
from aqueduct.snapshots.restore.job import connected
from aqueduct.snapshots.restore.order import RestoreOrder
from aqueduct.snapshots.restore.outcome import Move
from aqueduct.snapshots.restore.report import moved
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.keyring import Keyring
from aqueduct.store.manifest import StoredGroup, StoredTopic

OTHER = "the topic was deleted and re-created, so the offsets refer to other records"
ABSENT = "the topic no longer exists"
NOT_STORED = (
    "the selected groups have no such offsets in the snapshot. Check --topics and --groups-pattern, or "
    "select another snapshot with --snapshot"
)


@dataclass(frozen=True, kw_only=True)
class GroupsRestored:
    """The outcome; `kept`: number of offsets that groups already have, and keep."""

    snapshot: int
    moves: tuple[Move, ...]
    kept: int
    left_out: LeftOut
    dry_run: bool


def main(order: RestoreOrder) -> GroupsRestored:
    """Set the offsets that the chosen groups lack; all other ones stay. Refused if a topic is unknown."""
    objects = open_store(order.store)
    catalog = Catalog.open(objects, order.trust, Keyring(objects, order.private_keys))
    snapshot = catalog.snapshot(order.snapshot, order.at_least)
    order.request.check_names(snapshot.topics)
    by_name = {group.group: group for group in snapshot.manifest.every_group}
    shares = {group.group for group in snapshot.manifest.share_groups}
    chosen = order.groups.choose(by_name) if order.groups else []
    only = {name for name, _ in order.request.names}
    with connected(order) as client:
        stored = [by_name[name] for name in chosen]
        stored_positions, left_out = _stored_positions(client, stored, snapshot.topics, only)
        left_out += _not_stored(stored, only)
        unanswered: dict[str, KafkaError] = {}
        target_positions = positions(client, stored_positions, shares, unanswered)
        left_out += without_coordinator(unanswered)
        if order.groups:
            left_out += tuple(order.groups.unmatched(chosen, "the snapshot"))
        stored_positions = {name: mine for name, mine in stored_positions.items() if name not in unanswered}
        kept = sum(
            len(target_positions.get(name, {}).keys() & mine.keys())
            for name, mine in stored_positions.items()
        )
        for name, mine in stored_positions.items():
            stored_positions[name] = {
                partition: position
                for partition, position in mine.items()
                if partition not in target_positions.get(name, {})
            }
        moves, more = _moves(client, stored_positions, shares)
        left_out += more
        if not order.dry_run:
            moves, more = _set(client, moves)
            left_out += more
    every_move = tuple(move for mine in moves.values() for move in mine)
    return GroupsRestored(
        snapshot=snapshot.manifest.number,
        moves=every_move,
        kept=kept,
        left_out=left_out,
        dry_run=order.dry_run,
    )


GroupPositions = dict[str, dict[TopicPartition, tuple[int, str]]]


def _stored_positions(
    client: Client, stored: Sequence[StoredGroup], topics: Mapping[str, StoredTopic], only: set[str]
) -> tuple[GroupPositions, LeftOut]:
    """Return the groups' offsets in topics that are still those of the snapshot."""
    named = {
        stored_offset.topic
        for group in stored
        for stored_offset in group.offsets
        if not only or stored_offset.topic in only
    }
    existing = client.topics(named)
    same: set[str] = set()
    left_out: list[Skipped] = []
    for name in sorted(named):
        if name not in existing:
            left_out.append(Skipped(f"group offsets of {name}", ABSENT, "topic-missing"))
        elif name not in topics or topics[name].topic_id != str(existing[name].id):
            left_out.append(Skipped(f"group offsets of {name}", OTHER, "topic-recreated"))
        else:
            same.add(name)
    stored_positions: GroupPositions = {}
    for group in stored:
        for stored_offset in group.offsets:
            if stored_offset.topic in same:
                mine = stored_positions.setdefault(group.group, {})
                mine[TopicPartition(stored_offset.topic, stored_offset.partition)] = (
                    stored_offset.offset,
                    stored_offset.metadata,
                )
    return stored_positions, tuple(left_out)


def _not_stored(stored: Sequence[StoredGroup], only: set[str]) -> LeftOut:
    """Return the selected topics without an offset of these groups as skipped; if none is selected, all."""
    topics = {stored_offset.topic for group in stored for stored_offset in group.offsets}
    if only:
        missing = [f"group offsets of {name}" for name in sorted(only - topics)]
    else:
        missing = [] if topics else ["group offsets"]
    return tuple(Skipped(what, NOT_STORED, "snapshot-offsets-missing") for what in missing)


def _moves(
    client: Client, stored_positions: GroupPositions, shares: Set[str]
) -> tuple[dict[str, list[Move]], LeftOut]:
    """Return the new offsets of each group: the backed-up one, or that of the nearest existing record.

    Partitions whose leaders do not answer are skipped.
    """
    partitions = {partition for mine in stored_positions.values() for partition in mine}
    unanswered: dict[TopicPartition, KafkaError] = {}
    starts = offsets.log_starts(client, partitions, unanswered)
    ends = offsets.ends(client, starts, unanswered=unanswered)
    moves: defaultdict[str, list[Move]] = defaultdict(list)
    for name, mine in stored_positions.items():
        for partition, (old, metadata) in sorted(mine.items()):
            if partition in unanswered:
                continue
            new, note = old, ""
            if old < starts[partition]:
                new, note = (
                    starts[partition],
                    f"the log begins at {starts[partition]}, because earlier records were deleted",
                )
            elif old > ends[partition]:
                new, note = ends[partition], f"the log ends at {ends[partition]}: it has lost records"
            moves[name].append(
                Move(
                    group=name,
                    topic=partition.topic,
                    partition=partition.partition,
                    old=old,
                    new=new,
                    metadata=metadata,
                    note=note,
                    share=name in shares,
                )
            )
    return moves, tuple(
        Skipped(
            f"group offsets of {partition}",
            f"its leader does not answer ({cause(error)}). Start its brokers, and run the command again",
            "partition-unavailable",
        )
        for partition, error in sorted(unanswered.items())
    )


def _set(client: Client, moves: dict[str, list[Move]]) -> tuple[dict[str, list[Move]], LeftOut]:
    moves_set: dict[str, list[Move]] = {}
    left_out: list[Skipped] = []
    for name, mine in moves.items():
        try:
            set_positions(client, name, mine)
        except groups.LiveGroup:
            left_out.append(has_members(name))
        except (Failed, KafkaError) as error:
            left_out.append(rejected(name, error))
        else:
            moves_set[name] = mine
    return moves_set, tuple(left_out)


def exit_code(restored: GroupsRestored) -> ExitCode:
    """Return INCOMPLETE if an item was skipped, or a log that lost records ends before an offset."""
    lost = any(move.new < move.old for move in restored.moves)
    return ExitCode.INCOMPLETE if restored.left_out or lost else ExitCode.DONE


def text(restored: GroupsRestored) -> Iterator[str]:
    """Yield the lines of the report: the number of offsets, and each one that had to be changed."""
    verb = "would be set" if restored.dry_run else "set"
    yield (
        f"Snapshot {restored.snapshot}: {count(len(restored.moves), 'offset')} of "
        f"{count(len({move.group for move in restored.moves}), 'group')} {verb}; "
        f"{count(restored.kept, 'existing offset')} kept."
    )
    for move in restored.moves:
        if move.note:
            offsets_ = f"offset {move.old} became {move.new}"
            yield f"group {move.group}: {move.topic_partition}, {offsets_}: {move.note}."
    for skipped in restored.left_out:
        yield f"Skipped: {skipped}."


def report(restored: GroupsRestored) -> dict[str, Any]:
    return {
        "snapshot": restored.snapshot,
        "groups": moved(restored.moves),
        "kept": restored.kept,
        "left_out": left_out_entries(restored.left_out),
    }
