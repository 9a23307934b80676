"""Looks at the positions of consumer groups, and at the records that they have not read yet."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import KafkaError, TopicAuthorizationFailedError, for_code
from kafka.protocol.consumer import FetchRequest, IsolationLevel

from aqueduct import moments
from aqueduct.errors import Skipped
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.batches.batch import Batch, Damaged, walk
from aqueduct.kafka.client import Client
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.kafka.fetch import TOPIC_IDS_SINCE
from aqueduct.kafka.group_lag import GroupLag, LagLook, LagState, PartitionLag, judge, undecided
from aqueduct.kafka.groups import CommittedOffsets, ConsumerGroup
from aqueduct.names import TopicPartition

LOOKS = 6  # in a window
KINDS = frozenset({"", "consumer"})  # of groups whose positions are committed offsets
FETCHED_TOGETHER = 100  # partitions
PARTITION_BYTES = 64 << 10  # fetched of each of these; a larger batch is fetched alone

Looks = dict[TopicPartition, list[LagLook]]


@dataclass(frozen=True, kw_only=True)
class GroupSelection:
    names: frozenset[str] = frozenset()  # empty: all
    excluded: re.Pattern[str] | None = None  # whole names

    def has(self, group: str) -> bool:
        return (not self.names or group in self.names) and not (
            self.excluded and self.excluded.fullmatch(group)
        )


@dataclass
class GroupLags:
    """The lag of groups, and what is not known."""

    groups: list[GroupLag] = field(default_factory=list)
    unknown: list[Skipped] = field(default_factory=list)
    seconds: float = 0.0  # that were looked at


def group_lags(client: Client, selection: GroupSelection, window_seconds: float) -> GroupLags:
    """Evaluate the lag of groups. It looks again, for the whole window, only while a partition lags."""
    lags = GroupLags()
    listed = _listed(client, selection, lags)
    began = time.monotonic()
    failures: dict[str, KafkaError] = {}
    first = groups.committed(client, listed, failures)
    lags.unknown += [
        Skipped(f"group {name}", str(error), "group-coordinator-unavailable")
        for name, error in sorted(failures.items())
    ]
    log = _Log(client, {partition for committed in first.values() for partition in committed})
    looks: dict[str, Looks] = {name: {} for name in first}
    log.look()
    _note(looks, first, log.ends)
    for number in range(1, LOOKS):
        lagging = [name for name in looks if undecided(looks[name])]
        if not lagging:
            break
        client.sleep(max(0.0, began + window_seconds * number / (LOOKS - 1) - time.monotonic()))
        again = groups.committed(client, lagging, failures := {})
        log.look()
        _note(looks, again, log.ends)
        for name, error in failures.items():
            lags.unknown.append(Skipped(f"group {name}", str(error), "group-coordinator-unavailable"))
            first.pop(name, None)
            looks.pop(name)
    lags.seconds = time.monotonic() - began
    lags.groups = [
        _lag(listed[name], committed, looks[name], log) for name, committed in sorted(first.items())
    ]
    return lags


def _listed(client: Client, selection: GroupSelection, lags: GroupLags) -> dict[str, ConsumerGroup]:
    """Return the chosen groups that commit offsets; what is not known of others is noted."""
    every = groups.list_groups(client)
    listed = {
        name: group
        for name, group in every.items()
        if selection.has(name) and group.protocol in groups.COMMITTING_TYPES and group.kind in KINDS
    }
    lags.unknown += _unlisted(client)
    for name, group in sorted(every.items()):
        if selection.has(name) and group.protocol not in groups.COMMITTING_TYPES:
            why = f"the lag of a group of type {group.protocol} is not measured"
            lags.unknown.append(Skipped(f"group {name}", why, "group-type-unsupported"))
    for name in sorted(selection.names - every.keys()):
        why = "the cluster has no group of this name, or the client may not describe it"
        lags.unknown.append(Skipped(f"group {name}", why, "group-unknown"))
    return listed


def _unlisted(client: Client) -> list[Skipped]:
    """Return what may have groups that no broker lists."""
    try:
        leaderless = groups.unlisted(client)
    except TopicAuthorizationFailedError:
        why = "the client may not describe it, so groups without a coordinator are not known"
        return [Skipped(GROUPS, why, "groups-unlisted")]
    why = "no broker lists its groups, as it has no leader"
    return [
        Skipped(f"{partition.topic}-{partition.partition}", why, "groups-unlisted")
        for partition in leaderless
    ]


class _Log:
    """The logs of partitions: their starts, their ends at the last look, and why one is not known."""

    def __init__(self, client: Client, partitions: Iterable[TopicPartition]) -> None:
        self._client = client
        wanted = sorted(partitions)
        topics = client.topics() if wanted else {}  # by names, one that is hidden would hide all
        self.unanswered: dict[TopicPartition, KafkaError] = {}
        self.hidden: set[TopicPartition] = set()
        self._partitions = []
        for partition in wanted:
            topic = topics.get(partition.topic)
            if topic and partition.partition < len(topic.partitions):
                self._partitions.append(partition)
            else:
                self.hidden.add(partition)
        self.starts = offsets.log_starts(client, self._partitions, self.unanswered)
        self.ends: dict[TopicPartition, int] = {}

    def look(self) -> None:
        asked = [partition for partition in self._partitions if partition not in self.unanswered]
        self.ends = offsets.ends(self._client, asked, "read_uncommitted", self.unanswered)

    def reason(self, partition: TopicPartition) -> str:
        """Return why the end of a partition is not known."""
        if partition in self.hidden:
            return "the topic does not exist, or the client may not describe it"
        return str(self.unanswered.get(partition, "no answer"))

    def ages(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Return the age, in seconds, of the batch at each position, as far as it is known."""
        now = moments.now()
        ages = {}
        for partition, batch in _first_batches(self._client, positions).items():
            written = batch.max_time if batch.log_append_time else batch.base_time
            if written >= 0:
                ages[partition] = max(0.0, (now - written) / 1000)
        return ages


def _note(
    looks: Mapping[str, Looks],
    committed: Mapping[str, CommittedOffsets],
    ends: Mapping[TopicPartition, int],
) -> None:
    for name, positions in committed.items():
        for partition, (offset, _) in positions.items():
            if partition in ends:
                looks[name].setdefault(partition, []).append(LagLook(offset, ends[partition]))


def _lag(group: ConsumerGroup, committed: CommittedOffsets, looks: Looks, log: _Log) -> GroupLag:
    unread = {
        partition: max(of_partition[-1].offset, log.starts.get(partition, 0))
        for partition, of_partition in looks.items()
        if of_partition[-1].lag
    }
    ages = log.ages(unread)
    partitions = []
    unknown = []
    for partition, (offset, _) in sorted(committed.items()):
        of_partition = looks.get(partition)
        if not of_partition:
            unknown.append(f"{partition.topic}-{partition.partition}: {log.reason(partition)}")
            partitions.append(PartitionLag(partition=partition, state=LagState.UNKNOWN, offset=offset))
            continue
        last = of_partition[-1]
        partitions.append(
            PartitionLag(
                partition=partition,
                state=judge(of_partition, has_members=group.live),
                offset=last.offset,
                lag=last.lag,
                seconds=ages.get(partition) if last.lag else 0.0,
                expired=max(0, min(log.starts.get(partition, 0), last.end) - last.offset),
            )
        )
    if not committed:
        unknown.append("it has committed no offset, or the client may not describe its topics")
    return GroupLag(
        name=group.name, has_members=group.live, partitions=tuple(partitions), unknown=tuple(unknown)
    )


def _first_batches(client: Client, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, Batch]:
    """Return the first batch at each position, as far as one comes."""
    batches: dict[TopicPartition, Batch] = {}
    for together in (FETCHED_TOGETHER, 1):
        missing = {partition: positions[partition] for partition in positions.keys() - batches.keys()}
        batches |= {
            partition: batch
            for partition, batch in _fetch(client, missing, together).items()
            if batch is not None
        }
    return batches


def _fetch(
    client: Client, positions: Mapping[TopicPartition, int], together: int
) -> dict[TopicPartition, Batch | None]:
    kind = FetchRequest.FetchTopic

    def request(asked: list[TopicPartition]) -> FetchRequest:
        by_topic: dict[str, list[Any]] = {}
        for partition in asked:
            by_topic.setdefault(partition.topic, []).append(
                kind.FetchPartition(
                    partition=partition.partition,
                    fetch_offset=positions[partition],
                    partition_max_bytes=PARTITION_BYTES,
                )
            )
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=together * PARTITION_BYTES,
            isolation_level=IsolationLevel.READ_UNCOMMITTED.value,
            topics=[kind(topic=name, partitions=entries) for name, entries in by_topic.items()],
            forgotten_topics_data=[],
            min_version=4,
            max_version=TOPIC_IDS_SINCE - 1,
        )

    def answers(response: Any) -> Iterator[tuple[TopicPartition, Batch | KafkaError | None]]:
        for topic in response.responses:
            for partition in topic.partitions:
                name = TopicPartition(topic.topic, partition.partition_index)
                if partition.error_code:
                    yield name, for_code(partition.error_code)(str(name))
                else:
                    yield name, _first(partition.records or b"")

    return offsets.of_leaders(client, positions, request, answers, {}, limit=together)


def _first(records: bytes) -> Batch | None:
    try:
        return next(walk(records, check_crc=False), None)
    except Damaged:
        return None
