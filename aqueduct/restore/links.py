"""One-way links that read the restored topics: they continue at the same records."""

from collections.abc import Iterable, Mapping

from aqueduct.errors import Failed, LeftOut
from aqueduct.kafka import groups
from aqueduct.link.wire import position
from aqueduct.link.wire.position import SenderPosition
from aqueduct.names import TopicPartition
from aqueduct.restore.job import Job, connected
from aqueduct.restore.outcome import Written
from aqueduct.restore.positions import translate
from aqueduct.wording import some
from aqueduct.work.workers import Workers

UNKNOWN_LINK = (
    "the snapshot has no position of it, so it must stay stopped; "
    "if all that was restored is to cross, start it"
)
AGAIN = "would cross as new, and it must stay stopped; if that is meant, start it"


def move(
    job: Job, written: Mapping[TopicPartition, Written], workers: Workers
) -> tuple[tuple[str, ...], LeftOut]:
    """Make one-way links that read the restored topics continue at the same records, once.

    Return the links of which that can't be told, whose services must not be started; and what was left out.
    """
    stopped, left_out = [], []
    for name in job.order.links:
        try:
            found = _moved(job, name, written, workers)
        except Failed as error:
            stopped.append(name)
            found = [str(error)]
        left_out += [(f"link {name}", each.rstrip(".")) for each in found]
    return tuple(stopped), tuple(left_out)


def _moved(job: Job, name: str, written: Mapping[TopicPartition, Written], workers: Workers) -> list[str]:
    """Move one link's positions; return sentences to report. Failed if none was moved."""
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
            raise Failed(UNKNOWN_LINK)
        old = {
            partition: offset
            for partition, (offset, at) in sorted(saved.items())
            if partition in lanes and partition not in begun and at.topic_id == backed_up[partition.topic]
        }
        if same := sorted({topic for topic, _ in old if ids[topic] == backed_up[topic]}):
            raise Failed(f"{some(same)} was never recreated, so what was restored {AGAIN}")
        answers = translate(job, {partition: {offset} for partition, offset in old.items()}, written, workers)
        found = {partition: answers[partition, offset] for partition, offset in old.items()}
        if unsure := [f"{partition}: {each.unsure}" for partition, each in found.items() if each.new is None]:
            raise Failed(f"where it was can't be told, so it must stay stopped: {some(unsure)}")
        session = max(at.session for _, at in (*saved.values(), *there.values()))
        new = {partition: each.new for partition, each in found.items() if each.new is not None}
        groups.commit(
            *(client, name),
            {
                partition: (at, SenderPosition(ids[partition.topic], at, session).dumps())
                for partition, at in new.items()
            },
        )
    stops = {partition: (offset, lanes[partition].stop) for partition, offset in old.items()}
    behind = [f"{partition} from {at} to {stop - 1}" for partition, (at, stop) in stops.items() if at < stop]
    ahead = [f"{partition} up to {at - 1}" for partition, (at, stop) in stops.items() if at > stop]
    return [
        *([f"what of {some(behind)} (in the backup) had crossed crosses again"] if behind else []),
        *([f"it has sent {some(ahead)}, and the snapshot ends before"] if ahead else []),
    ]


def _link_positions(
    committed: Iterable[tuple[TopicPartition, int, str]],
) -> dict[TopicPartition, tuple[int, SenderPosition]]:
    return {partition: (offset, at) for partition, offset, said in committed if (at := position.loads(said))}
