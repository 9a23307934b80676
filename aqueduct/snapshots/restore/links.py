"""Adjusts one-way links that read the restored topics, so that they continue at the same records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aqueduct.common.topic_names import TopicPartition
from aqueduct.common.wording import some
from aqueduct.errors import Failed, LeftOut, Skipped
from aqueduct.kafka import groups
from aqueduct.kafka.client import Client
from aqueduct.link.wire import position
from aqueduct.link.wire.position import SenderPosition
from aqueduct.mirror.binding import RestoreRange
from aqueduct.snapshots.restore.job import Job, connected
from aqueduct.snapshots.restore.outcome import AHEAD, DOUBLED, IN_BACKUP, FlowRange, Written, listed
from aqueduct.snapshots.restore.positions import Unsure, translate
from aqueduct.work.workers import Workers

NO_POSITION = (
    "the snapshot does not contain its position, so it stays stopped; "
    "to send all restored records again, start it"
)
AS_NEW = "would arrive as new, so the link stays stopped; if that is intended, start it"


def move(
    job: Job, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[tuple[str, ...], LeftOut, tuple[FlowRange, ...]]:
    """Adjust the positions of one-way links that read the restored topics, once.

    Return the groups of the links that must not be started, the skipped items, and their ranges.
    """
    stopped: list[str] = []
    left_out: list[Skipped] = []
    ranges: list[FlowRange] = []
    for name in job.order.links:
        try:
            moved_ranges = _moved(job, name, written, workers)
        except Failed as error:
            stopped.append(name)
            left_out.append(Skipped.because_of(f"link {name}", error))
        else:
            left_out += skipped(name, moved_ranges)
            ranges += moved_ranges
    return tuple(stopped), tuple(left_out), tuple(ranges)


LinkPositions = Mapping[TopicPartition, tuple[int, SenderPosition]]


@dataclass(frozen=True, kw_only=True)
class _LinkAtTarget:
    """The position of a link at the target, and the ids of the topics that it reads there."""

    ids: Mapping[str, str]
    positions: LinkPositions

    @property
    def begun(self) -> set[TopicPartition]:
        """Return the partitions from which the link has sent records; not those of empty topics."""
        return {
            partition
            for partition, (offset, sender) in self.positions.items()
            if offset and sender.topic_id == self.ids.get(partition.topic)
        }


def _moved(
    job: Job, name: str, written: Mapping[TopicPartition, Written], workers: Workers
) -> list[FlowRange]:
    """Set the position of one link; return the repeated and lost ranges. Failed if none was set."""
    saved = _saved_positions(job, name)
    with connected(job.order) as client:
        target = _inspect(client, job, name)
        old = _movable(job, saved, target)
        new = _translated(job, old, written, workers)
        session = max(sender.session for _, sender in (*saved.values(), *target.positions.values()))
        groups.commit(
            client,
            name,
            {
                partition: (
                    offset,
                    SenderPosition(
                        topic_id=target.ids[partition.topic], from_=offset, session=session
                    ).dumps(),
                )
                for partition, offset in new.items()
            },
        )
    return _ranges(job, name, old)


def _saved_positions(job: Job, name: str) -> LinkPositions:
    return _link_positions(
        (
            TopicPartition(stored_offset.topic, stored_offset.partition),
            stored_offset.offset,
            stored_offset.metadata,
        )
        for of_group in job.snapshot.manifest.groups
        if of_group.group == name
        for stored_offset in of_group.offsets
    )


def _inspect(client: Client, job: Job, name: str) -> _LinkAtTarget:
    ids = {topic: str(existing.id) for topic, existing in client.topics(job.plan.backed_up_ids).items()}
    committed = groups.committed(client, [name])[name]
    return _LinkAtTarget(
        ids=ids, positions=_link_positions((partition, *commit) for partition, commit in committed.items())
    )


def _movable(job: Job, saved: LinkPositions, target: _LinkAtTarget) -> dict[TopicPartition, int]:
    """Return the saved offsets, without partitions from which the link has sent records since.

    Failed if the link must not continue.
    """
    begun, lanes, backed_up = target.begun, job.plan.continued_lanes, job.plan.backed_up_ids
    if not saved and not begun:
        raise Failed("link-position-unknown", NO_POSITION)
    if lost := sorted(map(str, (saved.keys() & job.plan.unknown_partitions) - begun)):
        raise Failed(
            "link-position-unknown",
            f"it is unknown which restore wrote the records of {some(lost)}, so the position of the link "
            "there is unknown, too, and the link stays stopped; to send all records of the topic, start it",
        )
    old = {
        partition: offset
        for partition, (offset, sender) in sorted(saved.items())
        if partition in lanes and partition not in begun and sender.topic_id == backed_up[partition.topic]
    }
    if same := sorted({topic for topic, _ in old if target.ids[topic] == backed_up[topic]}):
        raise Failed(
            "link-topic-not-recreated",
            f"{some(same)} was not re-created before the restore; the restored records {AS_NEW}",
        )
    return old


def _translated(
    job: Job, old: Mapping[TopicPartition, int], written: Mapping[TopicPartition, Written], workers: Workers
) -> dict[TopicPartition, int]:
    """Return the offsets of the same records at the target; Failed if one is unknown."""
    answers = translate(job, {partition: {offset} for partition, offset in old.items()}, written, workers)
    new: dict[TopicPartition, int] = {}
    unsure = []
    for partition, offset in old.items():
        translated = answers[partition, offset].new
        if isinstance(translated, Unsure):
            unsure.append(f"{partition}: {translated.why}")
        else:
            new[partition] = translated
    if unsure:
        raise Failed(
            "link-position-unknown",
            f"its position cannot be translated, so it stays stopped: {some(unsure)}",
        )
    return new


def _ranges(job: Job, name: str, old: Mapping[TopicPartition, int]) -> list[FlowRange]:
    """Return the records that the link sends again, and those that it has sent and the backup lacks."""
    stops = {partition: lane.stop for partition, lane in job.plan.continued_lanes.items()}
    return [
        FlowRange(
            f"link {name}",
            partition,
            RestoreRange(kind=DOUBLED, start=offset, stop=stops[partition], log=IN_BACKUP, at_most=True)
            if offset < stops[partition]
            else RestoreRange(kind=AHEAD, start=stops[partition], stop=offset, log=IN_BACKUP),
        )
        for partition, offset in old.items()
        if offset != stops[partition]
    ]


def skipped(name: str, ranges: Iterable[FlowRange]) -> list[Skipped]:
    """Return a skipped item for each kind of range: sent again, or sent but not in the snapshot."""
    of: dict[str, list[FlowRange]] = {DOUBLED: [], AHEAD: []}
    for flow_range in ranges:
        of[flow_range.range.kind].append(flow_range)
    skipped_items = []
    if repeated := of[DOUBLED]:
        spans = [
            f"{flow_range.partition} from {flow_range.range.start} to {flow_range.range.stop - 1}"
            for flow_range in repeated
        ]
        reason = f"it sends {listed(spans)} again (offsets in the backup), including records that had arrived"
        skipped_items.append(Skipped(f"link {name}", reason, "link-records-repeated"))
    if ahead := of[AHEAD]:
        spans = [f"{flow_range.partition} up to {flow_range.range.stop - 1}" for flow_range in ahead]
        reason = f"it has sent {listed(spans)}, which the snapshot does not contain"
        skipped_items.append(Skipped(f"link {name}", reason, "link-ahead"))
    return skipped_items


def _link_positions(
    committed: Iterable[tuple[TopicPartition, int, str]],
) -> dict[TopicPartition, tuple[int, SenderPosition]]:
    return {
        partition: (offset, sender)
        for partition, offset, metadata in committed
        if (sender := position.loads(metadata))
    }
