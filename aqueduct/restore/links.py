"""One-way links that read the restored topics: they continue at the same records."""

from collections.abc import Iterable, Mapping

from aqueduct.errors import Failed, LeftOut, Skipped
from aqueduct.kafka import groups
from aqueduct.link.wire import position
from aqueduct.link.wire.position import SenderPosition
from aqueduct.mirror.binding import RestoreRange
from aqueduct.names import TopicPartition
from aqueduct.restore.job import Job, connected
from aqueduct.restore.outcome import AHEAD, DOUBLED, IN_BACKUP, FlowRange, Written, listed
from aqueduct.restore.positions import Unsure, translate
from aqueduct.wording import some
from aqueduct.work.workers import Workers

NO_POSITION = (
    "the snapshot does not contain its position, so it stays stopped; "
    "to send all restored records again, start it"
)
AS_NEW = "would arrive as new, so the link stays stopped; if that is intended, start it"


def move(
    job: Job, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[tuple[str, ...], LeftOut, tuple[FlowRange, ...]]:
    """Make one-way links that read the restored topics continue at the same records, once.

    Return the groups of the links that must not be started, the skipped items, and their ranges.
    """
    stopped: list[str] = []
    left_out: list[Skipped] = []
    ranges: list[FlowRange] = []
    for name in job.order.links:
        try:
            found = _moved(job, name, written, workers)
        except Failed as error:
            stopped.append(name)
            left_out.append(Skipped.because_of(f"link {name}", error))
        else:
            left_out += skipped(name, found)
            ranges += found
    return tuple(stopped), tuple(left_out), tuple(ranges)


def _moved(
    job: Job, name: str, written: Mapping[TopicPartition, Written], workers: Workers
) -> list[FlowRange]:
    """Move the positions of one link; return what it repeats or has lost. Failed if none was moved."""
    lanes = {lane.target: lane for lane in job.plan.lanes if lane.topic == lane.stored_partition.topic}
    saved = _link_positions(
        (TopicPartition(each.topic, each.partition), each.offset, each.metadata)
        for of_group in job.snapshot.manifest.groups
        if of_group.group == name
        for each in of_group.offsets
    )
    backed_up = {topic: instance.topic_id for topic, (_, instance) in job.plan.topics.items()}
    with connected(job.order) as client:
        ids = {topic: str(found.id) for topic, found in client.topics(backed_up).items()}
        there = _link_positions(
            (partition, *said) for partition, said in groups.committed(client, [name])[name].items()
        )
        # One that only waited in the empty topic has not begun.
        begun = {
            partition
            for partition, (offset, at) in there.items()
            if offset and at.topic_id == ids.get(partition.topic)
        }
        if not saved and not begun:
            raise Failed("link-position-unknown", NO_POSITION)
        old = {
            partition: offset
            for partition, (offset, at) in sorted(saved.items())
            if partition in lanes and partition not in begun and at.topic_id == backed_up[partition.topic]
        }
        if same := sorted({topic for topic, _ in old if ids[topic] == backed_up[topic]}):
            raise Failed(
                "link-topic-not-recreated",
                f"{some(same)} was not re-created before the restore; the restored records {AS_NEW}",
            )
        answers = translate(job, {partition: {offset} for partition, offset in old.items()}, written, workers)
        new = {partition: answers[partition, offset].new for partition, offset in old.items()}
        if unsure := [f"{at}: {unknown.why}" for at, unknown in new.items() if isinstance(unknown, Unsure)]:
            raise Failed(
                "link-position-unknown",
                f"its position cannot be translated, so it stays stopped: {some(unsure)}",
            )
        session = max(at.session for _, at in (*saved.values(), *there.values()))
        groups.commit(
            *(client, name),
            {
                partition: (at, SenderPosition(ids[partition.topic], at, session).dumps())
                for partition, at in new.items()
                if not isinstance(at, Unsure)
            },
        )
    return [
        FlowRange(
            f"link {name}",
            partition,
            RestoreRange(DOUBLED, at, lanes[partition].stop, IN_BACKUP, at_most=True)
            if at < lanes[partition].stop
            else RestoreRange(AHEAD, lanes[partition].stop, at, IN_BACKUP),
        )
        for partition, at in old.items()
        if at != lanes[partition].stop
    ]


def skipped(name: str, ranges: Iterable[FlowRange]) -> list[Skipped]:
    """Return what a link repeats, and what it has sent of records that are not in the snapshot."""
    of: dict[str, list[FlowRange]] = {DOUBLED: [], AHEAD: []}
    for each in ranges:
        of[each.range.kind].append(each)
    found = []
    if repeated := of[DOUBLED]:
        said = [f"{each.partition} from {each.range.start} to {each.range.stop - 1}" for each in repeated]
        why = f"it sends {listed(said)} again (offsets in the backup), as far as they had crossed"
        found.append(Skipped(f"link {name}", why, "link-records-repeated"))
    if ahead := of[AHEAD]:
        said = [f"{each.partition} up to {each.range.stop - 1}" for each in ahead]
        why = f"it has sent {listed(said)}, which the snapshot does not contain"
        found.append(Skipped(f"link {name}", why, "link-ahead"))
    return found


def _link_positions(
    committed: Iterable[tuple[TopicPartition, int, str]],
) -> dict[TopicPartition, tuple[int, SenderPosition]]:
    return {partition: (offset, at) for partition, offset, said in committed if (at := position.loads(said))}
