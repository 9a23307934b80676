"""Follows many partitions as they grow, as the batches that hold their records, read-committed.

One Fetch per broker is under way, for all the partitions that it leads: a broker answers when any has news.
In a fetch session (KIP-227) requests and answers name only what changed, so that idle partitions cost little.
Brokers answer a connection's requests in order: who asks for other things, too, has another client for that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
    KafkaError,
    NoError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    for_code,
)
from kafka.future import Future
from kafka.protocol.consumer import FetchRequest, IsolationLevel

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.batches.batch import Batch, Damaged
from aqueduct.kafka.client import Client, Patience, passing
from aqueduct.kafka.fetch import (
    TOPIC_IDS_SINCE,
    WAIT_MILLISECONDS,
    committed_batches,
    fetched_batches,
    log_start_above,
)
from aqueduct.kafka.line import DEFAULTS, FetchSettings
from aqueduct.kafka.nearest_replicas import NO_REPLICA, NearestReplicas

# What a broker says that has forgotten a fetch session, or of a topic in it that was recreated.
_SESSION_IS_OVER = FetchSessionIdNotFoundError, InvalidFetchSessionEpochError, FetchSessionTopicIdError
_EPOCHS = (1 << 31) - 1  # after which a session's epoch starts again at 1

NO_EPOCH = -1

FetchPositions = dict[tuple[UUID, int], int]  # the next offset to read, by topic id and partition


class ReadDenied(TopicAuthorizationFailedError):  # type: ignore[misc]
    """The refusal to let the client read a partition."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(str(partition))
        self.partition = partition


@dataclass(frozen=True, kw_only=True)
class News:
    """The news of one partition."""

    topic_partition: TopicPartition
    topic_id: UUID  # another one than before: the topic was recreated, and this is from its beginning
    batches: tuple[Batch, ...]  # committed data from the position on
    start: int  # the position that it was read from
    next_offset: int  # all before it was told; without batches in between, there was nothing to read
    log_start: int  # what is below is deleted; above `start`: before it could be read
    stable: int  # the last stable offset: what is read-committed ends here
    first: int  # the base offset of the first batch, committed or not; `next_offset` without one
    epoch: int  # the leader epoch of the last batch before `next_offset`; -1: it is not known


class Follower:
    """The follower of partitions for one thread, which calls `poll` again and again."""

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        cut: Callable[[TopicPartition, int, int], None] | None = None,
        epochs: Mapping[TopicPartition, int] | None = None,
        refuse: Callable[[TopicPartition, KafkaError | Damaged], None] | None = None,
        settings: FetchSettings = DEFAULTS,
    ) -> None:
        """`positions`: the next offset to read of each partition.

        With `cut`, a log that was cut before its position and has grown again is followed no more (KIP-320):
        it is told of which partition, the position, and the offset at which. `epochs`: the leader epochs of
        the last batches before the positions, as far as they are known.

        With `refuse`, a partition that cannot be read from its position on is followed no more, and the
        others are: it gets the partition and the error. Without it, the error ends the poll.

        With a rack in `settings`, leaders may choose a follower that is nearer (KIP-392). What only a
        follower says, such as a start of the log above the position, is asked of the leader.
        """
        self._client = client
        self._positions = dict(positions)
        self._cut = cut
        self._epochs = dict(epochs or {})
        self._refuse = refuse
        self._nearest = NearestReplicas(settings.rack)
        self._settings = settings
        self._ids: dict[str, UUID] = {}
        self._sessions: dict[int, _FetchSession] = {}  # by broker, as the next
        self._coming: dict[int, Future] = {}
        self._troubled: set[int] = set()  # brokers whose last answers were errors, or had some
        self._patience = Patience(client, "returned no records of the followed topics")

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to read of each partition."""
        return self._positions

    @property
    def epochs(self) -> Mapping[TopicPartition, int]:
        """The leader epoch of the last batch before a position, of partitions that brought one."""
        return self._epochs

    def follow(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Follow these partitions too, from these offsets on; those that it follows already continue."""
        self._positions = {**partitions, **self._positions}

    def leave(self, topic: str) -> None:
        """Stop following a topic that is no longer wanted, or no longer exists."""
        self._positions = {
            partition: start for partition, start in self._positions.items() if partition.topic != topic
        }
        self._epochs = {
            partition: epoch for partition, epoch in self._epochs.items() if partition.topic != topic
        }
        self._ids.pop(topic, None)

    def leave_partition(self, partition: TopicPartition) -> None:
        """Stop following one partition."""
        self._positions.pop(partition, None)
        self._epochs.pop(partition, None)

    def poll(self, seconds: float) -> list[News]:
        """Return what came within `seconds`. Failed if the cluster gave nothing for STALL_SECONDS."""
        news: list[News] = []
        try:
            self._ask()
            self._client.wait_any(self._coming.values(), seconds)
            for broker in [broker for broker, response in self._coming.items() if response.is_done]:
                self._read(broker, self._coming.pop(broker), news)
            self._ask()  # what comes next comes while this is used
        except KafkaError as error:
            self._patience.pause(error)
            for topic in self._ids:
                self._client.forget(topic)
        return news

    def _ask(self) -> None:
        self._client.learn(topic for topic, _ in self._positions)
        positions_by_broker: dict[int, FetchPositions] = {}
        partitions_by_broker: dict[int, list[TopicPartition]] = {}
        epochs: dict[tuple[UUID, int], int] = {}
        for partition in self._positions:
            try:
                broker = self._nearest.broker(partition, self._client.leader(*partition))
                if broker not in self._coming:
                    position = self._position(*partition)
                    asked = self._ids[partition.topic], partition.partition
                    positions_by_broker.setdefault(broker, {})[asked] = position
                    partitions_by_broker.setdefault(broker, []).append(partition)
                    epochs[asked] = self._epochs.get(partition, NO_EPOCH)
            except KafkaError as error:
                if not passing(error):
                    raise
        for broker, positions in positions_by_broker.items():
            session = self._sessions.setdefault(broker, _FetchSession(self._settings))
            rack = self._nearest.rack(partitions_by_broker[broker])
            self._coming[broker] = self._client.submit(session.request(positions, epochs, rack), broker)
        self._troubled.intersection_update(self._coming)  # nothing that is followed is read from others

    def _position(self, topic: str, partition: int) -> int:
        """Return the position of a partition; a recreated topic is followed from its beginning."""
        topic_id = self._client.topic(topic).id
        if topic_id is None:
            raise Failed(
                "topic-ids-unsupported",
                f"The {self._client.end} does not support topic IDs. Upgrade its brokers to Kafka 2.8 or "
                "later.",
            )
        if self._ids.setdefault(topic, topic_id) != topic_id:
            self._ids[topic] = topic_id
            self._positions |= {partition: 0 for partition in self._positions if partition.topic == topic}
            self._epochs = {
                partition: epoch for partition, epoch in self._epochs.items() if partition.topic != topic
            }
        return self._positions[TopicPartition(topic, partition)]

    def _read(self, broker: int, response: Future, news: list[News]) -> None:
        """Read a response; raise what is wrong with one partition when all the others' news are there."""
        self._troubled.add(broker)  # until nothing is wrong with its answer
        session = self._sessions.pop(broker)  # it continues if nothing is wrong with all of the answer
        answer = self._answer(broker, response)
        if answer is None:
            return
        if session.goes_on(answer.session_id):
            self._sessions[broker] = session
        names = {topic_id: name for name, topic_id in self._ids.items()}
        trouble: KafkaError | Damaged | None = None
        for topic in answer.responses:
            for partition in topic.partitions:
                topic_partition = TopicPartition(names.get(topic.topic_id, ""), partition.partition_index)
                start = session.positions.get((topic.topic_id, partition.partition_index))
                # A partition that was asked of two leaders comes twice.
                if start is not None and self._positions.get(topic_partition) == start:
                    if self._is_elsewhere(broker, topic_partition, partition):
                        continue
                    if self._cut and _is_cut(partition.diverging_epoch, start):
                        self.leave_partition(topic_partition)
                        self._cut(topic_partition, start, partition.diverging_epoch.end_offset)
                        continue
                    try:
                        news.append(self._news(topic_partition, topic.topic_id, start, partition))
                    except (KafkaError, Damaged) as error:
                        if self._refuse is None or (isinstance(error, KafkaError) and passing(error)):
                            trouble = error
                        else:
                            self.leave_partition(topic_partition)
                            self._refuse(topic_partition, error)
        if trouble:
            raise trouble
        self._troubled.discard(broker)
        if not self._troubled:  # also without news: idle partitions are not in the answer
            self._patience.progress()

    def _answer(self, broker: int, response: Future) -> Any:
        """Return the answer; None if the broker has forgotten the session, and the next request opens one."""
        try:
            answer = self._client.wait(response)
            if answer.error_code:
                raise for_code(answer.error_code)()
        except _SESSION_IS_OVER:
            return None
        except KafkaError:
            self._nearest.reject_broker(broker)
            raise
        return answer

    def _is_elsewhere(self, broker: int, partition: TopicPartition, answer: Any) -> bool:
        """Return whether the partition is read from another broker next, and choose that broker."""
        if answer.preferred_read_replica != NO_REPLICA:
            self._nearest.choose(partition, answer.preferred_read_replica)
            return True
        doubtful = _is_doubtful(answer, self._positions[partition])
        if is_elsewhere := doubtful and self._nearest.is_follower(partition, broker):
            self._nearest.reject(partition)
        return is_elsewhere

    def _news(self, partition: TopicPartition, topic_id: UUID, start: int, answer: Any) -> News:
        error = for_code(answer.error_code)
        if error is OffsetOutOfRangeError:
            return self._deleted(partition, topic_id, start)
        if error is TopicAuthorizationFailedError:
            raise ReadDenied(partition)
        if error is not NoError:
            raise error(str(partition))
        self._patience.progress()
        fetched = fetched_batches(self._client, partition, answer, up_to_damage=True)
        batches = committed_batches(answer, fetched, start)
        stop = self._positions[partition] = fetched[-1].last_offset + 1 if fetched else start
        if fetched and self._cut:
            self._epochs[partition] = fetched[-1].leader_epoch
        elif answer.diverging_epoch:  # with the offset as it was: only the epoch's own entry is gone
            self._epochs.pop(partition, None)
        return News(
            topic_partition=partition,
            topic_id=topic_id,
            batches=batches,
            start=start,
            next_offset=stop,
            log_start=answer.log_start_offset,
            stable=max(stop, answer.last_stable_offset),  # a follower learns it late
            first=fetched[0].base_offset if fetched else stop,
            epoch=self._epochs.get(partition, NO_EPOCH),
        )

    def _deleted(self, partition: TopicPartition, topic_id: UUID, start: int) -> News:
        """Return the deleted offsets from a position that is out of range."""
        log_start = self._positions[partition] = log_start_above(self._client, partition, start)
        self._epochs.pop(partition, None)
        return News(
            topic_partition=partition,
            topic_id=topic_id,
            batches=(),
            start=start,
            next_offset=log_start,
            log_start=log_start,
            stable=log_start,
            first=log_start,
            epoch=NO_EPOCH,
        )


def _is_doubtful(answer: Any, start: int) -> bool:
    """Return whether the leader must be asked: a follower may be late, and deletes old segments by itself."""
    is_diverging = answer.diverging_epoch is not None and answer.diverging_epoch.end_offset >= 0
    return bool(answer.error_code) or is_diverging or answer.log_start_offset > start


def _is_cut(diverging: Any, position: int) -> bool:
    return diverging is not None and 0 <= diverging.end_offset < position


class _FetchSession:
    """The fetch session at one broker: what it knows of the wanted partitions."""

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._id = self._epoch = 0  # it is to be opened
        self.positions: FetchPositions = {}
        self._epochs: Mapping[tuple[UUID, int], int] = {}

    def request(
        self, positions: FetchPositions, epochs: Mapping[tuple[UUID, int], int], rack: str
    ) -> FetchRequest:
        """Tell the broker which partitions are new, moved or forgotten, and the epochs that they reached."""
        changed = {
            partition: position
            for partition, position in positions.items()
            if self.positions.get(partition) != position
            or self._epochs.get(partition) != epochs.get(partition)
        }
        forgotten = self.positions.keys() - positions.keys()
        self.positions, self._epochs = positions, epochs
        kind = FetchRequest.FetchTopic
        entries: dict[UUID, list[Any]] = {}
        for (topic_id, partition), position in changed.items():
            entry = kind.FetchPartition(
                partition=partition,
                fetch_offset=position,
                last_fetched_epoch=epochs.get((topic_id, partition), -1),
                partition_max_bytes=self._settings.partition_bytes,
            )
            entries.setdefault(topic_id, []).append(entry)
        return FetchRequest(
            max_wait_ms=WAIT_MILLISECONDS,
            min_bytes=1,
            max_bytes=self._settings.answer_bytes,
            isolation_level=IsolationLevel.READ_COMMITTED.value,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[
                kind(topic_id=topic_id, partitions=partitions) for topic_id, partitions in entries.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[partition])
                for topic_id, partition in forgotten
            ],
            rack_id=rack,
            min_version=TOPIC_IDS_SINCE,
        )

    def goes_on(self, session_id: int) -> bool:
        """Take over the answer's session; False for 0: the broker keeps none, and must be told all again."""
        self._id = session_id
        self._epoch = self._epoch % _EPOCHS + 1
        return bool(session_id)
