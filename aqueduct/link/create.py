"""The bundle of what the ledger says is missing, and what the ledger can't know."""

from collections.abc import Iterator
from dataclasses import dataclass

from aqueduct.common.offset_sets import size
from aqueduct.common.wording import count
from aqueduct.kafka.client import connect
from aqueduct.link import silence
from aqueduct.link.ledger import bundle, entry, gap_topic
from aqueduct.link.ledger.entry import LedgerPartition
from aqueduct.link.options import Create

AS_OF = "As of"  # the first words of a sentence that reports a time, not a problem


@dataclass(frozen=True, kw_only=True)
class Created:
    bundle: str
    offsets: int  # that it lists
    left_out: tuple[str, ...]  # sentences: what no bundle can bring
    fresh: tuple[str, ...] = ()  # sentences: how old what the ledger knows is


def create(settings: Create) -> Created:
    """Create the bundle of what the ledger lists as missing; Refused if the gap topic would forget it."""
    end = settings.end("target")
    with connect(end, f"{settings.id}-create") as client:
        numbers = gap_topic.numbers(client, settings.topic)
        gap_topic.check_kept(client, settings.topic)
        ledger = gap_topic.part(client, settings.topic, numbers)
        group = entry.group(settings.topic)
        raw = silence.raw_topics_of(client, group) if ledger else []
        unheard = [
            *silence.silent(client, raw, settings.silence_after),
            *silence.unread(client, raw, group, settings.silence_after),
        ]
        limit = settings.announced_within
        ages = dict(silence.ages(client, raw, group)) if limit is not None else {}
        unheard += [_stale(topic, age, limit) for topic, age in ages.items() if _is_stale(age, limit)]
        fresh = [
            (f"{AS_OF} now, the newest announcement of raw topic {topic} that dedup has read is {age} s old.")
            for topic, age in ages.items()
            if not _is_stale(age, limit)
        ]
    resend_bundle = bundle.bundle(ledger.values(), settings.limit)
    left_out = unheard
    left_out += [sentence for partition in sorted(ledger) for sentence in _lost(ledger[partition])]
    if not ledger:
        left_out.append(
            f"The ledger in {settings.topic} has no entry, so it is unknown which offsets are missing. No "
            "record has arrived yet, or dedup has not run."
        )
    elif not raw:
        left_out.append(
            f"The consumer group {group} of dedup has no committed offsets, because Kafka deletes old "
            "offsets. It is unknown which later offsets are missing. Check that dedup runs."
        )
    return Created(
        bundle=bundle.dumps(resend_bundle),
        offsets=sum(size(missing.gaps) for missing in resend_bundle.results),
        left_out=tuple(left_out),
        fresh=tuple(fresh),
    )


def _is_stale(age: int | None, limit: int | None) -> bool:
    return age is None or (limit is not None and age > limit)


def _stale(topic: str, age: int | None, limit: int | None) -> str:
    newest = "dedup has read no announcement" if age is None else f"the newest announcement is {age} s old"
    return (
        f"Announcements of raw topic {topic} are too old: {newest}, and the limit is {limit} s. Later "
        "records of the source are unknown. Check that both ends of the link and dedup run."
    )


def _lost(partition: LedgerPartition) -> Iterator[str]:
    for topic_id, spans in partition.lost.items():
        now = partition.current is not None and topic_id == partition.current.topic_id
        loss = (
            "deleted at the source before the link could send them"
            if now
            else f"of the deleted topic with the same name and the topic ID {topic_id}"
        )
        ranges = ", ".join(f"{first} to {last}" for first, last in spans[:10])
        more = ", ..." if len(spans) > 10 else ""
        yield (
            f"{partition.topic}-{partition.partition}: {count(size(spans), 'offset')} permanently lost, "
            f"{loss}: {ranges}{more}."
        )
