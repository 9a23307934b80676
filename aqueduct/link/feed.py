"""The source's feed for a link: frames of what is new, and announcements of what exists."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from aqueduct.common.topic_names import TopicPartition, pattern_parts
from aqueduct.common.wording import some
from aqueduct.errors import labelled
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.admin.settings import setting_if_there
from aqueduct.kafka.client import Client
from aqueduct.kafka.follow import Follower, News
from aqueduct.link.framing import FrameSpan, TooLarge, frame_spans
from aqueduct.link.wire import position
from aqueduct.link.wire.frame import Announcement, Frame
from aqueduct.link.wire.position import SenderPosition

REFRESH_SECONDS = 10.0  # between looks for new topics and partitions
# What a log holds is told when it changed, again so much later, then after twice as long, and so on up to
# the latter: the word may be lost with the very records that it would have told missing.
ANNOUNCE_SECONDS, ANNOUNCE_AGAIN_SECONDS = 1.0, 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Standing:
    """The state of a partition's log."""

    topic_id: UUID
    first: int
    end: int


@dataclass(frozen=True)
class _Due:
    """The time at which a partition is next announced, and the wait after that; seconds."""

    at: float
    wait: float


class Feed:
    """The wanted topics, from where the group stopped."""

    def __init__(
        self,
        client: Client,
        following: Client,
        group: str,
        crosses: Callable[[str], bool],
        *,
        session: int,
        shift: int,
        largest: int,
        from_time: int | None,
        asked: str = "",
    ) -> None:
        """`following` is for reading alone. `session`: when it began; it is kept with the position, see
        `last_session`. `shift` is added to partition numbers. `from_time`: where nothing was committed yet.
        `asked`: the topics that `crosses` returns True for, as the user wrote them.
        """
        self._client = client
        self._group = group
        self._wanted = crosses
        # Of each topic or pattern that was asked for. What matches none is logged when that changes.
        self._parts = pattern_parts(asked)
        self._unmatched: frozenset[str] = frozenset()
        self._session = session
        self._shift = shift
        self._largest = largest
        self._from_time = from_time
        self._follower = Follower(following, {}, self._leave_cut)
        self._cut: dict[TopicPartition, str] = {}  # logs that are not sent on, with their topics' ids
        self._compacted: dict[str, bool] = {}
        # Topic id, and the first offset that ever was to cross.
        self._began: dict[TopicPartition, tuple[str, int]] = {}
        self._epochs: dict[TopicPartition, int] = {}  # as they were committed
        self._standing: dict[TopicPartition, _Standing] = {}
        self._due: dict[TopicPartition, _Due] = {}
        self._refresh_at = self._announce_at = 0.0
        self.records = self.bytes = self.oversized = 0

    # Reading

    def begin(self) -> None:
        """Follow what is there, and commit that the session began, before anybody hears of it.

        If it is killed at once, and its clock set back, the next one is still later.
        """
        self._refresh()
        self.commit(self.reached())

    def poll(self, seconds: float) -> Iterator[tuple[Frame, int]]:
        """Yield frames of what is new, each with its number of records."""
        if time.monotonic() >= self._refresh_at:
            self._refresh()
        for news in self._follower.poll(seconds):
            yield from self._frames(news)

    def _frames(self, news: News) -> Iterator[tuple[Frame, int]]:
        partition = news.topic_partition
        if self._began.get(partition, ("",))[0] != str(news.topic_id):
            _recreated(partition, news.topic_id)
            self._began[partition] = str(news.topic_id), news.log_start
            self._epochs.pop(partition, None)
        compacted = self._compacted.get(partition.topic, False)
        # What was deleted before it could be read never crosses; what compaction took has newer values.
        first = news.start if compacted else max(news.start, news.log_start)
        if news.batches:
            first = min(first, news.batches[0].base_offset)
        if first > news.start:
            log.error(
                "%s-%d: offsets %d to %d were deleted at the source before they could be sent; the ledger "
                "will list these offsets as lost",
                *partition, news.start, first - 1,
            )  # fmt: skip
        standing = _Standing(news.topic_id, max(self._began[partition][1], news.log_start), news.stable)
        # Of a log that never had a record there is nothing to tell: a restore may yet say where to begin.
        if standing.end and self._standing.get(partition) != standing:
            self._standing[partition] = standing
            self._due[partition] = _Due(0, ANNOUNCE_SECONDS)
        for span in frame_spans(news.batches, first, news.next_offset, self._largest):
            if isinstance(span, TooLarge):
                self._refuse(partition, span)
            else:
                yield self._frame(news, span)

    def _frame(self, news: News, span: FrameSpan) -> tuple[Frame, int]:
        topic, partition = news.topic_partition
        body, records = span.data, span.count
        self.records += records
        self.bytes += len(body)
        return Frame(
            topic=topic,
            topic_id=news.topic_id,
            partition=partition + self._shift,
            first=span.start,
            last=span.stop - 1,
            batches=body,
        ), records

    def _refuse(self, partition: TopicPartition, record: TooLarge) -> None:
        self.oversized += 1
        log.error(
            "%s-%d: the %s at offset %d has %d bytes, which is more than largestRecord (%d), so it was not "
            "sent. The ledger lists its offsets as missing. Increase largestRecord at both ends and "
            "max.message.bytes of the raw topic, and send the missing offsets again",
            *partition,
            "record" if record.stop == record.start + 1 else (
                "batch, which cannot be split because it is too large after decompression,"
            ),
            record.start, record.size, self._largest,
        )  # fmt: skip

    @property
    def cut(self) -> int:
        """The number of partitions that are not sent on, because their logs lost what was sent."""
        return len(self._cut)

    def _leave_cut(self, partition: TopicPartition, position: int, cut_at: int) -> None:
        self._cut[partition] = self._began[partition][0]
        self._due.pop(partition, None)
        self._standing.pop(partition, None)
        log.error(
            "%s-%d: the log was truncated at %s, before offset %d, up to which records were sent, for "
            "example by an unclean leader election. New records have offsets of records that were already "
            "sent, so the link does not send them. Write the new records to another topic",
            *partition, cut_at if cut_at >= 0 else "an offset that its leader does not have", position,
        )  # fmt: skip

    # Announcing

    def announcements(self, now: float) -> list[Announcement]:
        """Return the announcements of logs that are due."""
        if now < self._announce_at:
            return []
        self._announce_at = now + ANNOUNCE_SECONDS
        partitions = sorted(partition for partition, due in self._due.items() if due.at <= now)
        for partition in partitions:
            wait = self._due[partition].wait
            self._due[partition] = _Due(now + wait, min(2 * wait, ANNOUNCE_AGAIN_SECONDS))
        return [self._announcement(partition) for partition in partitions]

    def _announcement(self, topic_partition: TopicPartition) -> Announcement:
        (topic, partition), standing = topic_partition, self._standing[topic_partition]
        return Announcement(
            topic=topic,
            topic_id=standing.topic_id,
            partition=partition + self._shift,
            first=standing.first,
            end=standing.end,
            compacted=self._compacted.get(topic, False),
        )

    # Where it is

    def lag(self) -> int:
        """Return offsets that are stable at the source and were not read."""
        positions = self._follower.positions
        standing = list(self._standing.items())  # metrics are asked for in another thread
        return sum(max(0, state.end - positions.get(partition, state.end)) for partition, state in standing)

    def reached(self) -> groups.CommittedOffsets:
        """Return the next offsets, with what must be known to resume from them."""
        return {
            partition: (offset, self._sender_position(partition).dumps())
            for partition, offset in self._follower.positions.items()
            if partition in self._began
        }

    def _sender_position(self, partition: TopicPartition) -> SenderPosition:
        epoch = self._follower.epochs.get(partition, self._epochs.get(partition, position.NO_EPOCH))
        topic_id, begin = self._began[partition]
        return SenderPosition(topic_id=topic_id, from_=begin, session=self._session, epoch=epoch)

    def commit(self, reached: groups.CommittedOffsets) -> None:
        groups.commit(self._client, self._group, reached)

    def _refresh(self) -> None:
        """Follow new topics and partitions, and leave those that are gone."""
        self._refresh_at = time.monotonic() + REFRESH_SECONDS
        topic_by_name = {name: topic for name, topic in self._client.topics().items() if self._wanted(name)}
        self._report_unmatched(topic_by_name)
        for name in {topic for topic, _ in self._follower.positions} - topic_by_name.keys():
            log.warning("topic %s was deleted, or this client may no longer describe it", name)
            self._follower.leave(name)
            for partition in [partition for partition in self._standing if partition.topic == name]:
                del self._standing[partition]
                del self._due[partition]
        partitions = [partition for topic in topic_by_name.values() for partition in topic.topic_partitions]
        ids = {name: str(topic.id) for name, topic in topic_by_name.items()}
        self._cut = {
            partition: was for partition, was in self._cut.items() if ids.get(partition.topic) == was
        }
        followed = self._follower.positions.keys() | self._cut.keys()
        if new := [partition for partition in partitions if partition not in followed]:
            topics = {topic for topic, _ in new}
            policies = self._settings(topics, "cleanup.policy")
            self._compacted |= {topic: policy == "compact" for topic, policy in policies.items()}
            limits = self._settings(topics, "max.message.bytes")
            self._compare({topic: int(limit) for topic, limit in limits.items()})
            new = [added for added in new if added.topic in policies]  # others may just have been deleted
            self._follower.follow(self._starts(new, ids))
            log.info("following %d new partitions of %d topics", len(new), len(topics))

    @property
    def unmatched(self) -> int:
        """The number of topics and patterns that were asked for and match no topic."""
        return len(self._unmatched)

    def _report_unmatched(self, crossing: Collection[str]) -> None:
        """Log once which parts of what was asked for match no topic, and once that one does again."""
        unmatched = frozenset(
            part for part, whole in self._parts.items() if not any(map(whole.fullmatch, crossing))
        )
        if found := sorted(self._unmatched - unmatched):
            log.warning(
                "topics %s: these names or patterns now match a topic, and the link sends this topic",
                some(found),
            )
        if lacking := sorted(unmatched - self._unmatched):
            message = (
                f"{some(lacking)} matches no whole topic name of the source that this client may describe, "
                "so the link sends nothing for this name or pattern. Correct it, or create the topic. The "
                f"link checks the topics every {REFRESH_SECONDS:g} s."
            )
            log.warning("%s", labelled("pattern-matches-nothing", message))
        self._unmatched = unmatched

    def _settings(self, topics: set[str], key: str) -> dict[str, str]:
        return setting_if_there(self._client, topics, key)

    def _compare(self, limits: Mapping[str, int]) -> None:
        """Tell which topics may get records that would not cross; a batch is split if it has several."""
        if over := {topic: limit for topic, limit in limits.items() if limit > self._largest}:
            log.warning(
                "a record of %s may have up to %d bytes (max.message.bytes), but the link does not send "
                "records larger than largestRecord (%d). Increase largestRecord at both ends and "
                "max.message.bytes of the raw topic",
                some(over), max(over.values()), self._largest,
            )  # fmt: skip

    def _starts(self, partitions: list[TopicPartition], ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """Return the offsets to start at.

        Where the group stopped in this very topic, else at the time asked for, else at the start.
        """
        committed = groups.committed(self._client, [self._group])[self._group]
        log_starts = offsets.log_starts(self._client, partitions)
        starts: dict[TopicPartition, int] = {}
        fresh = []
        for partition in partitions:
            offset, metadata = committed.get(partition, (0, ""))
            stored = position.loads(metadata)
            if stored and stored.topic_id == ids[partition.topic]:
                starts[partition], self._began[partition] = offset, (stored.topic_id, stored.from_)
                self._epochs[partition] = stored.epoch
            else:
                fresh.append(partition)
                if stored:
                    _recreated(partition, ids[partition.topic])
        self._leave_those_cut(starts)
        since, ends = {}, {}
        if self._from_time is not None and not committed:
            since = offsets.since(self._client, fresh, self._from_time)
            ends = offsets.ends(
                self._client, [partition for partition, offset in since.items() if offset < 0]
            )
        for partition in fresh:
            start = since.get(partition, log_starts[partition])
            starts[partition] = start if start >= 0 else ends[partition]
            self._began[partition] = ids[partition.topic], starts[partition]
        return starts

    def _leave_those_cut(self, starts: dict[TopicPartition, int]) -> None:
        """Take partitions away whose logs are not those that were sent."""
        epochs = {
            partition: self._epochs[partition]
            for partition in starts
            if self._epochs[partition] != position.NO_EPOCH
        }
        for partition, end in offsets.ends_of_epochs(self._client, epochs).items():
            if end < starts[partition]:
                self._leave_cut(partition, starts.pop(partition), end)


def _recreated(partition: TopicPartition, topic_id: UUID | str) -> None:
    log.warning(
        "%s-%d: the topic was deleted and re-created, and its new topic ID is %s. Records of the deleted "
        "topic that were not sent yet are lost",
        *partition, topic_id,
    )  # fmt: skip


def last_session(client: Client, group: str) -> int:
    """Return when the group's newest session began, as far as it committed; 0: there was none."""
    committed = groups.committed(client, [group])[group].values()
    return max(
        (stored.session for _, metadata in committed if (stored := position.loads(metadata))), default=0
    )
