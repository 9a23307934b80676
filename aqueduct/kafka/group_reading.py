"""Looks at the positions of consumer groups, and at the records that they have not read yet."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka.errors import KafkaError

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Skipped
from aqueduct.kafka import groups, offsets
from aqueduct.kafka.client import Client
from aqueduct.kafka.diagnosis import GROUPS
from aqueduct.kafka.group_lag import GroupLag, LagLook, LagState, PartitionLag, judge, undecided
from aqueduct.kafka.groups import CommittedOffsets, ConsumerGroup
from aqueduct.kafka.lag_seconds import unread_ages

LOOKS = 6  # in a window
KINDS = frozenset({"", "consumer"})  # of groups whose positions are committed offsets

Looks = dict[TopicPartition, list[LagLook]]


@dataclass(frozen=True, kw_only=True)
class LagSelection:
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


def group_lags(client: Client, selection: LagSelection, window_seconds: float) -> GroupLags:
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
    log = _GroupLogs(client, {partition for committed in first.values() for partition in committed})
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
        _lag(client, listed[name], committed, looks[name], log) for name, committed in sorted(first.items())
    ]
    return lags


def _listed(client: Client, selection: LagSelection, lags: GroupLags) -> dict[str, ConsumerGroup]:
    """Return the chosen groups that commit offsets; what is not known of others is noted."""
    listing = groups.list_groups(client)
    every = listing.by_name
    listed = {
        name: group
        for name, group in every.items()
        if selection.has(name) and group.protocol in groups.COMMITTING_TYPES and group.kind in KINDS
    }
    lags.unknown += _unlisted(listing)
    for name, group in sorted(every.items()):
        if selection.has(name) and group.protocol not in groups.COMMITTING_TYPES:
            why = f"the lag of a group of type {group.protocol} is not measured"
            lags.unknown.append(Skipped(f"group {name}", why, "group-type-unsupported"))
    for name in sorted(selection.names - every.keys()):
        why = "the cluster has no group of this name, or the client may not describe it"
        lags.unknown.append(Skipped(f"group {name}", why, "group-unknown"))
    for name in sorted(selection.names & every.keys()):
        group = every[name]
        if selection.has(name) and group.protocol in groups.COMMITTING_TYPES and group.kind not in KINDS:
            why = f"its members are of type {group.kind}, so the group has no lag"
            lags.unknown.append(Skipped(f"group {name}", why, "group-type-unsupported"))
    if not (listed or lags.unknown):
        excluded = selection.excluded and any(selection.excluded.fullmatch(name) for name in every)
        why = (
            f"{selection.excluded.pattern} excludes all groups"
            if selection.excluded and excluded
            else "the cluster has no group that commits offsets, or the client may not describe the groups"
        )
        lags.unknown.append(Skipped("groups", why, "group-unknown"))
    return listed


def _unlisted(listing: groups.ListedGroups) -> list[Skipped]:
    """Return what may have groups that no broker lists."""
    if not listing.checked:
        why = "the client may not describe the topic, so groups without a coordinator are unknown"
        return [Skipped(GROUPS, why, "groups-unlisted")]
    return [
        Skipped(str(partition), f"{why}, so no broker lists its groups", "groups-unlisted")
        for partition, why in listing.unlisted.items()
    ]


class _GroupLogs:
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


def _note(
    looks: Mapping[str, Looks],
    committed: Mapping[str, CommittedOffsets],
    ends: Mapping[TopicPartition, int],
) -> None:
    for name, positions in committed.items():
        for partition, (offset, _) in positions.items():
            if partition in ends:
                looks[name].setdefault(partition, []).append(LagLook(offset, ends[partition]))


def _lag(
    client: Client, group: ConsumerGroup, committed: CommittedOffsets, looks: Looks, log: _GroupLogs
) -> GroupLag:
    unread = {
        partition: max(of_partition[-1].offset, log.starts.get(partition, 0))
        for partition, of_partition in looks.items()
        if of_partition[-1].lag
    }
    ages = unread_ages(client, unread)
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
        unknown.append("the group has committed no offset, or the client may not describe its topics")
    return GroupLag(
        name=group.name, has_members=group.live, partitions=tuple(partitions), unknown=tuple(unknown)
    )
