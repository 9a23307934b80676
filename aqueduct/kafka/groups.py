"""Consumer groups and their committed offsets, as the Admin API of Kafka's own client does it.

Not through confluent-kafka: 2.16.1 ends the process where a cluster never had a group.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.errors import (
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    KafkaError,
    NotCoordinatorError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    for_code,
)
from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import Failed
from aqueduct.kafka.client import POLL_SECONDS, Client, Patience
from aqueduct.kafka.diagnosis import GROUPS, name_of_each_partition
from aqueduct.kafka.fan_out import OmittedError, ask_all, check_mentioned
from aqueduct.kafka.requests import in_lists

COMMITTING_TYPES = frozenset({"", "classic", "consumer"})  # of groups that have committed offsets alone
GROUPS_PER_REQUEST = 200
COMMIT_BYTES = 500_000  # in one request: the coordinator writes it as one batch, at most max.message.bytes

CommittedOffsets = Mapping[TopicPartition, tuple[int, str]]  # the next offset to read, and its metadata

_STATES_SINCE = 4  # version of ListGroups (KIP-518)
_MANY_SINCE = 8  # version of OffsetFetch
_NAMES_UNTIL = 9  # version of OffsetFetch and OffsetCommit; later ones want topics' ids (KIP-848)

# What a coordinator says to a commit from outside the group, depending on the group's protocol and state.
_LIVE = (
    UnknownMemberIdError,
    IllegalGenerationError,
    RebalanceInProgressError,
    FencedMemberEpochError,
    StaleMemberEpochError,
)


@dataclass(frozen=True, kw_only=True)
class ConsumerGroup:
    name: str
    protocol: str  # its type: "classic", "consumer" (KIP-848), "share", ...; "" from a broker before 3.8
    kind: str  # what its members are: "consumer", "connect", ...; "" where only offsets were ever committed
    state: str  # "Empty", "Stable", ...

    @property
    def live(self) -> bool:
        """Return whether the group has members."""
        return self.state not in ("Empty", "Dead")


@dataclass(frozen=True, kw_only=True)
class ListedGroups:
    by_name: Mapping[str, ConsumerGroup]
    unlisted: Mapping[TopicPartition, str]  # of `__consumer_offsets`: the groups of these are unknown; why
    checked: bool = True  # False if the client may not describe `__consumer_offsets`


class LiveGroup(Failed):
    """The refusal to change a group with members: its offsets are theirs."""

    id = "group-has-members"


def list_groups(client: Client, *, silent: Collection[int] = (), patient: bool = True) -> ListedGroups:
    """Return every group that the client may describe, and the partitions whose groups no broker lists.

    A broker leaves out the groups of a partition without an error until it begins to load them, and if it
    cannot load them. So the leader of each partition must answer for a group of this partition before the
    groups are listed, and the leaders must not change until then. A client that may describe some groups only
    cannot ask the leaders, and gets what the brokers list.
    `silent` are brokers that do not answer. A `patient` caller waits for the leaders, and for their groups.
    """
    deadline = time.monotonic() + client.patience_seconds
    while True:
        listed = Patience(client, "did not list its groups").until_done(lambda: _listed(client, silent))
        if not (patient and listed.unlisted) or time.monotonic() > deadline:
            return listed
        client.sleep(POLL_SECONDS)


def _listed(client: Client, silent: Collection[int]) -> ListedGroups:
    """Ask all brokers once."""
    leaders = _coordinators(client)
    unlisted = _unlisted(client, leaders or {}, silent)
    by_name = _list(client, silent)
    if _coordinators(client) != leaders:
        raise NotCoordinatorError("a coordinator changed while the groups were listed")
    return ListedGroups(by_name=by_name, unlisted=unlisted, checked=leaders is not None)


def _coordinators(client: Client) -> dict[int, int | None] | None:
    """Return the leader of each partition of `__consumer_offsets`; None if the client may not describe it."""
    try:
        topic = client.topics([GROUPS]).get(GROUPS)
    except TopicAuthorizationFailedError:
        return None
    return {partition.number: partition.leader for partition in topic.partitions} if topic else {}


def _unlisted(
    client: Client, leaders: Mapping[int, int | None], silent: Collection[int]
) -> dict[TopicPartition, str]:
    """Return the partitions whose leader does not answer for a group of the partition, with the reason."""
    reasons: dict[int, str] = {}
    asked: dict[int, dict[str, int]] = {}  # by leader: the partitions by group
    for (number, leader), group in zip(
        leaders.items(), name_of_each_partition("aqueduct-none-", len(leaders)), strict=True
    ):
        if leader is None:
            reasons[number] = "the partition has no leader"
        elif leader in silent:
            reasons[number] = f"broker {leader}, which leads the partition, does not answer"
        else:
            asked.setdefault(leader, {})[group] = number
    if not _may_describe_any(client, asked):
        asked = {}
    responses = {
        leader: client.submit(_offsets_request(dict.fromkeys(of)), leader) for leader, of in asked.items()
    }
    for leader, response in responses.items():
        partition_by_group = asked[leader]
        answers: dict[str, Any] = dict.fromkeys(partition_by_group, OmittedError())
        answers |= dict(_committed({}, client.wait(response)))
        for group, answer in answers.items():
            if isinstance(answer, KafkaError):
                why = f"broker {leader} does not coordinate its groups ({type(answer).__name__})"
                reasons[partition_by_group[group]] = why
    return {TopicPartition(GROUPS, number): why for number, why in sorted(reasons.items())}


def _may_describe_any(client: Client, groups_by_leader: Mapping[int, Iterable[str]]) -> bool:
    """Ask about one group only: brokers log each group that is denied."""
    for leader, names in groups_by_leader.items():
        request = _offsets_request(dict.fromkeys(list(names)[:1]))
        answers = dict(_committed({}, client.send(request, leader))).values()
        return not any(isinstance(answer, GroupAuthorizationFailedError) for answer in answers)
    return True


def _list(client: Client, silent: Collection[int]) -> dict[str, ConsumerGroup]:
    request = ListGroupsRequest(states_filter=[], types_filter=[], min_version=_STATES_SINCE)
    asked = [broker for broker in client.brokers() if broker not in silent]
    responses = [client.submit(request, broker) for broker in asked]
    group_by_name = {}
    for response in map(client.wait, responses):
        if response.error_code:
            raise for_code(response.error_code)()
        for listed in response.groups:
            group = ConsumerGroup(
                name=listed.group_id,
                protocol=listed.group_type.lower(),
                kind=listed.protocol_type,
                state=listed.group_state,
            )
            group_by_name[group.name] = group
    return group_by_name


def committed(
    client: Client, groups: Iterable[str], unanswered: dict[str, KafkaError] | None = None
) -> dict[str, CommittedOffsets]:
    """Return all that the groups have committed; nothing for a group that is not there.

    What was committed in a transaction appears a moment after the transaction's commit returned.
    `unanswered` as in `ask_all`.
    """
    return _fetch(client, dict.fromkeys(groups), stable=False, unanswered=unanswered)


def progress(client: Client, group: str, partitions: Iterable[TopicPartition]) -> CommittedOffsets:
    """Return a group's offsets for these partitions, once every transaction's outcome is known (KIP-447).

    That takes the partitions' names: asked for all, a broker is silent on one whose first commit is pending.
    """
    return _fetch(client, {group: list(partitions)}, stable=True)[group]


def _fetch(
    client: Client,
    partitions_by_group: Mapping[str, list[TopicPartition] | None],
    stable: bool,
    unanswered: dict[str, KafkaError] | None = None,
) -> dict[str, CommittedOffsets]:
    return ask_all(
        client,
        partitions_by_group,
        responsible=lambda names: client.coordinators(CoordinatorType.GROUP, names),
        request=lambda names: _offsets_request({name: partitions_by_group[name] for name in names}, stable),
        answers=partial(_committed, partitions_by_group),
        limit=GROUPS_PER_REQUEST,
        fault="did not return the offsets of all groups",
        unanswered=unanswered,
    )


def _offsets_request(
    partitions_by_group: Mapping[str, list[TopicPartition] | None], stable: bool = False
) -> OffsetFetchRequest:
    """Return the request for the offsets of these partitions; all offsets of a group where it is None."""
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topic_kind = kind.OffsetFetchRequestTopics

    def topics(partitions: list[TopicPartition] | None) -> list[Any] | None:
        if partitions is None:
            return None
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        return [topic_kind(name=topic, partition_indexes=indexes) for topic, indexes in numbers.items()]

    return OffsetFetchRequest(
        groups=[
            kind(group_id=name, topics=topics(partitions), member_id=None, member_epoch=-1)
            for name, partitions in partitions_by_group.items()
        ],
        require_stable=stable,
        min_version=_MANY_SINCE,
        max_version=_NAMES_UNTIL,
    )


def _committed(
    partitions_by_group: Mapping[str, list[TopicPartition] | None], response: Any
) -> Iterator[tuple[str, CommittedOffsets | KafkaError]]:
    for group in response.groups:
        parts = [(topic.name, part) for topic in group.topics for part in topic.partitions]
        code = group.error_code or next((part.error_code for _, part in parts if part.error_code), 0)
        error = for_code(code)
        if code and error is not GroupIdNotFoundError:
            yield group.group_id, error(f"group {group.group_id}")
            continue
        mentioned = {TopicPartition(topic, part.partition_index): part for topic, part in parts}
        if error is not GroupIdNotFoundError:
            try:
                check_mentioned(partitions_by_group.get(group.group_id) or (), mentioned)
            except OmittedError as omitted:
                yield group.group_id, omitted
                continue
        yield (
            group.group_id,
            {
                partition: (part.committed_offset, part.metadata or "")
                for partition, part in mentioned.items()
                if part.committed_offset >= 0
            },
        )


def commit(client: Client, group: str, offsets: CommittedOffsets) -> None:
    """Set offsets of a group without members, which need not be there yet; LiveGroup if it has some.

    Done again, it changes nothing; where it fails, some may be set.
    """
    for some in in_lists(
        offsets.items(), COMMIT_BYTES, lambda partition_offset: _weight(group, *partition_offset)
    ):
        patience = Patience(client, f"did not accept the offsets of group {group}")
        patience.until_done(lambda some=some: _commit(client, group, dict(some)))  # type: ignore[misc]


def _weight(group: str, partition: TopicPartition, committed: tuple[int, str]) -> int:
    """Return at least the bytes of the record of a committed offset."""
    return 100 + len(group.encode()) + len(partition.topic) + len(committed[1].encode())


def _commit(client: Client, group: str, offsets: CommittedOffsets) -> None:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=offset_topics(kind, kind.OffsetCommitRequestPartition, offsets),
        max_version=_NAMES_UNTIL,
    )
    coordinator = client.coordinator(CoordinatorType.GROUP, group)
    mentioned: set[TopicPartition] = set()
    for topic in client.send(request, coordinator).topics:
        for partition in topic.partitions:
            mentioned.add(TopicPartition(topic.name, partition.partition_index))
            error = for_code(partition.error_code)
            if error in _LIVE:
                raise LiveGroup(
                    f"Group {group} of the {client.end} has members, so its offsets cannot be set. Stop the "
                    "consumers of the group."
                )
            if partition.error_code:
                raise error(f"group {group}, {topic.name}-{partition.partition_index}")
    check_mentioned(offsets, mentioned)


def delete(client: Client, names: Iterable[str]) -> None:
    """Delete groups without members, with their offsets; those that are not there are none."""

    def answers(response: Any) -> Iterator[tuple[str, bool | KafkaError]]:
        for deleted in response.results:
            error = for_code(deleted.error_code)
            existed = not deleted.error_code
            yield (
                deleted.group_id,
                existed if existed or error is GroupIdNotFoundError else error(f"group {deleted.group_id}"),
            )

    ask_all(
        client,
        names,
        responsible=lambda some: client.coordinators(CoordinatorType.GROUP, some),
        request=lambda some: DeleteGroupsRequest(groups_names=some),
        answers=answers,
        limit=GROUPS_PER_REQUEST,
        fault="did not delete all groups",
    )


def offset_topics(kind: Any, partition: Any, offsets: CommittedOffsets) -> list[Any]:
    """Return the `topics` of a request that commits offsets, of its own kinds of topic and partition."""
    topics: dict[str, list[Any]] = {}
    for (topic, number), (offset, metadata) in offsets.items():
        entry = partition(partition_index=number, committed_offset=offset, committed_metadata=metadata)
        topics.setdefault(topic, []).append(entry)
    return [kind(name=topic, partitions=entries) for topic, entries in topics.items()]
