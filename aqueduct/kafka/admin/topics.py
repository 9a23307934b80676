"""Topics: find, create, grow and alter them."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from kafka.admin import AlterConfigOp, ConfigResourceType
from kafka.errors import InvalidConfigurationError, KafkaError, for_code
from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, IncrementalAlterConfigsRequest

from aqueduct.common.wording import count, some
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import topics
from aqueduct.kafka.admin.asking import POLL_SECONDS, SETTLE_SECONDS, Said, change
from aqueduct.kafka.admin.settings import own_settings_at, settings_of
from aqueduct.kafka.client import REQUEST_SECONDS, Client, Patience
from aqueduct.kafka.requests import in_lists
from aqueduct.kafka.topics import ActualTopic, DeclaredTopic, Overrides, TopicChanges

# A KRaft controller refuses requests that make over 10,000 metadata records (MAX_RECORDS_PER_USER_OP).
RECORDS_PER_REQUEST = 5_000
SETTINGS_POLL_SECONDS = 0.05  # a leader is some milliseconds behind the controller

_MILLISECONDS = REQUEST_SECONDS * 1000


def find_topics(
    client: Client, declared: Iterable[DeclaredTopic], denied: dict[str, KafkaError] | None = None
) -> dict[str, ActualTopic]:
    """Return the declared topics that exist, with the overrides whose keys are declared.

    `denied`, if given, gets the topics whose settings cannot be read, each with its error. They have none
    then, and a topic that the client may not describe is one that does not exist.
    """
    keys = {topic.name: list(topic.config) for topic in declared}
    if denied is None:
        existing = client.topics(keys)
    else:
        existing = {name: topic for name, topic in client.topics().items() if name in keys}
    configs = settings_of(client, {name: keys[name] for name in existing if keys[name]}, "modified", denied)
    return {
        name: ActualTopic(
            partitions=len(topic.partitions),
            replication_factors=frozenset(len(partition.replicas) for partition in topic.partitions),
            config=configs.get(name, {}),
            without_leader=sum(partition.leader is None for partition in topic.partitions),
        )
        for name, topic in existing.items()
    }


def apply_topics(client: Client, changes: TopicChanges, *, check_only: bool = False) -> None:
    """Ask the controller to check all changes, then make them; Refused, with nothing done, for a mistake."""
    if refused := _alter(client, changes, validate_only=True):
        raise Refused("topic-rejected", f"The controller rejected {_listed(refused)}. Nothing was changed.")
    if not check_only and (refused := _alter(client, changes, validate_only=False)):
        raise Failed(
            "topic-rejected", f"The controller rejected {_listed(refused)}. All other changes were made."
        )


def apply_accepted(client: Client, changes: TopicChanges) -> dict[str, str]:
    """Make the changes that the controller accepts; return the topics that it refuses, with the reasons."""
    return _alter(client, changes, validate_only=False)


def _listed(refused: Mapping[str, str]) -> str:
    return some(f"topic {name} ({reason})" for name, reason in refused.items())


def refused_settings(
    client: Client, overrides: Mapping[str, Overrides], existing_names: Collection[str]
) -> dict[str, str]:
    """Return the topics whose settings the controller refuses, each with its reason; nothing is changed.

    `existing_names`: those that exist. What else it refuses of a topic is not told.
    """
    reasons: dict[str, str] = {}

    def noted(results: Iterable[Said]) -> Iterator[Said]:
        for name, code, message in results:
            if for_code(code) is InvalidConfigurationError:
                reasons[name] = message or "the setting is not valid"
            yield name, code, message

    missing = [
        DeclaredTopic(name=name, partitions=1, replication_factor=1, config=config)
        for name, config in overrides.items()
        if name not in existing_names
    ]
    for creating in in_lists(missing, RECORDS_PER_REQUEST, lambda topic: 1 + len(topic.config)):
        change(
            client,
            CreateTopicsRequest(
                topics=[_creation(topic) for topic in creating],
                timeout_ms=_MILLISECONDS,
                validate_only=True,
                min_version=4,
            ),
            lambda response: noted((t.name, t.error_code, t.error_message) for t in response.topics),
        )
    existing = [(name, config) for name, config in overrides.items() if name in existing_names]
    for altering in in_lists(existing, RECORDS_PER_REQUEST, lambda alteration: len(alteration[1])):
        change(
            client,
            IncrementalAlterConfigsRequest(
                resources=[_alteration(name, config) for name, config in altering], validate_only=True
            ),
            lambda response: noted(
                (r.resource_name, r.error_code, r.error_message) for r in response.responses
            ),
        )
    return reasons


def await_topics(client: Client, declared: Collection[DeclaredTopic]) -> None:
    """Return when the topics are known as declared and each of their partitions has a leader."""
    if unsettled := unsettled_topics(client, declared):
        raise Failed(
            "topic-not-ready",
            f"{count(len(unsettled), 'topic')} not ready {SETTLE_SECONDS} s after the change: "
            f"{some(unsettled)}. Check that all brokers run.",
        )


def await_settings(client: Client, alter: Mapping[str, Overrides]) -> None:
    """Return when the leaders of topics know changed settings: until then, they use the former ones."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while alter and (late := _not_known(client, alter)):
        if time.monotonic() > deadline:
            raise Failed(
                "topic-not-ready",
                f"{count(len(late), 'topic')} without new settings {SETTLE_SECONDS} s after the change: "
                f"{some(late)}. Check that all brokers run.",
            )
        client.sleep(SETTINGS_POLL_SECONDS)


def _not_known(client: Client, alter: Mapping[str, Overrides]) -> list[str]:
    """Return the topics with a leader that does not have these settings yet."""

    def ask() -> list[str]:
        names: dict[int, set[str]] = {}
        for topic in client.topics(alter).values():
            for partition in topic.partitions:
                if partition.leader is not None:
                    names.setdefault(partition.leader, set()).add(topic.name)
        late = set()
        for leader, of_leader in names.items():
            known = own_settings_at(client, leader, {name: list(alter[name]) for name in sorted(of_leader)})
            for name in of_leader:
                values = known.get(name, {})
                if not all(topics.same(value, values.get(key)) for key, value in alter[name].items()):
                    late.add(name)
        return sorted(late)

    return Patience(client, "did not return the settings of topics").until_done(ask)


def unsettled_topics(
    client: Client, declared: Collection[DeclaredTopic], denied: dict[str, KafkaError] | None = None
) -> list[str]:
    """Wait until topics are known as declared and each of their partitions has a leader, for SETTLE_SECONDS.

    Return the others, in order. `denied` as in `find_topics`; these are not waited for.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    pending = list(declared)
    while pending:
        actual = find_topics(client, pending, denied)
        pending = [topic for topic in pending if topic.name not in (denied or ())]
        unsettled = topics.plan(pending, actual).touched()
        unsettled |= {name for name, topic in actual.items() if topic.without_leader}
        pending = [topic for topic in pending if topic.name in unsettled]
        if pending and time.monotonic() > deadline:
            break
        if pending:
            client.sleep(POLL_SECONDS)
    return sorted(topic.name for topic in pending)


def _alter(client: Client, changes: TopicChanges, *, validate_only: bool) -> dict[str, str]:
    """Ask the controller for the changes; return the topics that it refused, each with the reasons."""
    refused: dict[str, list[str]] = {}

    def ask(request: Any, read_results: Callable[[Any], Iterable[Said]]) -> None:
        reasons: dict[str, str] = {}

        def noted(response: Any) -> Iterator[Said]:
            reasons.clear()  # of a controller that was asked before
            for name, code, message in read_results(response):
                if code:
                    reasons[name] = message or for_code(code).__name__
                yield name, code, message

        change(client, request, noted)
        for name, reason in reasons.items():
            refused.setdefault(name, []).append(reason)

    for creating in in_lists(changes.create, RECORDS_PER_REQUEST, lambda t: t.partitions + len(t.config)):
        ask(
            CreateTopicsRequest(
                topics=[_creation(topic) for topic in creating],
                timeout_ms=_MILLISECONDS,
                validate_only=validate_only,
                min_version=4,  # takes -1 for the default replication factor
            ),
            lambda response: ((t.name, t.error_code, t.error_message) for t in response.topics),
        )
    for growing in in_lists(changes.grow.items(), RECORDS_PER_REQUEST, lambda growth: growth[1]):
        kind = CreatePartitionsRequest.CreatePartitionsTopic
        ask(
            CreatePartitionsRequest(
                topics=[kind(name=name, count=partitions, assignments=None) for name, partitions in growing],
                timeout_ms=_MILLISECONDS,
                validate_only=validate_only,
            ),
            lambda response: ((t.name, t.error_code, t.error_message) for t in response.results),
        )
    for altering in in_lists(
        changes.alter.items(), RECORDS_PER_REQUEST, lambda alteration: len(alteration[1])
    ):
        ask(
            IncrementalAlterConfigsRequest(
                resources=[_alteration(name, config) for name, config in altering],
                validate_only=validate_only,
            ),
            lambda response: (
                (result.resource_name, result.error_code, result.error_message)
                for result in response.responses
            ),
        )
    return {name: "; ".join(reasons) for name, reasons in refused.items()}


def _creation(topic: DeclaredTopic) -> CreateTopicsRequest.CreatableTopic:
    kind = CreateTopicsRequest.CreatableTopic
    return kind(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        assignments=[],
        configs=[
            kind.CreatableTopicConfig(name=key, value=value)
            for key, value in topic.config.items()
            if value is not None
        ],
    )


def _alteration(name: str, config: Overrides) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    return kind(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=name,
        configs=[
            kind.AlterableConfig(
                name=key,
                config_operation=AlterConfigOp.DELETE if value is None else AlterConfigOp.SET,
                value=value,
            )
            for key, value in config.items()
        ],
    )
