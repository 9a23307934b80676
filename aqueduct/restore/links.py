"""One-way links that read the restored topics: they continue at the same records."""

from collections.abc import Iterable, Mapping

from aqueduct.errors import Failed, LeftOut, Skipped
from aqueduct.kafka import groups
from aqueduct.link.wire import position
from aqueduct.link.wire.position import SenderPosition
from aqueduct.names import TopicPartition
from aqueduct.restore.job import Job, connected
from aqueduct.restore.outcome import Written
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
) -> tuple[tuple[str, ...], LeftOut]:
    """Make one-way links that read the restored topics continue at the same records, once.

    Return the groups of the links that must not be started, and the skipped items.
    """
    stopped: list[str] = []
    left_out: list[Skipped] = []
    for name in job.order.links:
        try:
            left_out += _moved(job, name, written, workers)
        except Failed as error:
            stopped.append(name)
            left_out.append(Skipped.because_of(f"link {name}", error))
    return tuple(stopped), tuple(left_out)


def _moved(job: Job, name: str, written: Mapping[TopicPartition, Written], workers: Workers) -> list[Skipped]:
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
    stops = {partition: (offset, lanes[partition].stop) for partition, offset in old.items()}
    behind = [f"{partition} from {at} to {stop - 1}" for partition, (at, stop) in stops.items() if at < stop]
    ahead = [f"{partition} up to {at - 1}" for partition, (at, stop) in stops.items() if at > stop]
    skipped = []
    if behind:
        why = f"it sends {some(behind)} again (offsets in the backup), as far as they had crossed"
        skipped.append(Skipped(f"link {name}", why, "link-records-repeated"))
    if ahead:
        why = f"it has sent {some(ahead)}, which the snapshot does not contain"
        skipped.append(Skipped(f"link {name}", why, "link-ahead"))
    return skipped


def _link_positions(
    committed: Iterable[tuple[TopicPartition, int, str]],
) -> dict[TopicPartition, tuple[int, SenderPosition]]:
    return {partition: (offset, at) for partition, offset, said in committed if (at := position.loads(said))}
