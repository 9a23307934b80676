"""Settings of topics and brokers, as they hold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from kafka.admin import ConfigResourceType, ConfigSourceType
from kafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError, for_code
from kafka.protocol.admin import DescribeConfigsRequest

from aqueduct.common.wording import some
from aqueduct.kafka.admin.asking import RESOURCES_PER_REQUEST, answer
from aqueduct.kafka.client import Client
from aqueduct.kafka.requests import in_lists


def own_settings(client: Client, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what is set on each topic itself, by key; nothing for a topic that doesn't exist."""
    return settings_of(client, dict.fromkeys(names), "modified")


def all_settings(client: Client, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return all that holds for each topic, by key; nothing for a topic that is not there."""
    return settings_of(client, dict.fromkeys(names), "all")


def setting(client: Client, names: Iterable[str], key: str) -> dict[str, str]:
    """Return the value that holds for each topic: its own, else the cluster's. An error if one is missing."""
    topics = set(names)
    value_by_topic = setting_if_there(client, topics, key)
    if gone := sorted(topics - value_by_topic.keys()):
        raise UnknownTopicOrPartitionError(some(gone))
    return value_by_topic


def setting_if_there(client: Client, names: Iterable[str], key: str) -> dict[str, str]:
    """Return the value that holds for each of the topics that are there."""
    config_by_topic = settings_of(client, {name: [key] for name in names}, "all")
    return {name: config[key] for name, config in config_by_topic.items() if key in config}


def min_in_sync(client: Client, names: Iterable[str]) -> dict[str, int]:
    """Return the `min.insync.replicas` that holds for each topic: its own, else the cluster's."""
    return {name: int(value) for name, value in setting(client, names, "min.insync.replicas").items()}


def default_replication_factor(client: Client) -> int:
    """Return the replication factor of topics that are created without one."""
    key, broker = "default.replication.factor", min(client.brokers())
    [result] = _described(client, ConfigResourceType.BROKER, {str(broker): [key]}, broker)
    if result.error_code:
        raise for_code(result.error_code)(f"settings of broker {broker}")
    [entry] = result.configs
    return int(entry.value)


def settings_of(
    client: Client,
    keys: Mapping[str, list[str] | None],
    which: Literal["all", "modified"],
    denied: dict[str, KafkaError] | None = None,
) -> dict[str, dict[str, str]]:
    """Return settings by topic and key (None: every key): all that hold, or those of the topics themselves.

    Nothing for a topic that is not there. `denied`, if given, gets the topics whose settings cannot be read,
    each with its error; otherwise, the first of these errors is raised.
    """
    config_by_topic: dict[str, dict[str, str]] = {}
    for names in in_lists(keys, RESOURCES_PER_REQUEST):
        for result in _described(client, ConfigResourceType.TOPIC, {name: keys[name] for name in names}):
            error = for_code(result.error_code)
            if error not in (NoError, UnknownTopicOrPartitionError):
                problem = error(f"settings of topic {result.resource_name}")
                if denied is None:
                    raise problem
                denied[result.resource_name] = problem
                continue
            config_by_topic[result.resource_name] = _values(result, which)
    return config_by_topic


def own_settings_at(client: Client, broker: int, keys: Mapping[str, list[str]]) -> dict[str, dict[str, str]]:
    """Return what is set on topics themselves, by topic and key, as one broker knows it.

    Nothing for a topic that the broker does not know. Raise a KafkaError if it does not answer.
    """
    config_by_topic = {}
    for names in in_lists(keys, RESOURCES_PER_REQUEST):
        request = _question(ConfigResourceType.TOPIC, {name: keys[name] for name in names})
        for result in client.send(request, broker).results:
            error = for_code(result.error_code)
            if error is NoError:
                config_by_topic[result.resource_name] = _values(result, "modified")
            elif error is not UnknownTopicOrPartitionError:
                raise error(f"settings of topic {result.resource_name}")
    return config_by_topic


def _described(
    client: Client,
    kind: ConfigResourceType,
    keys: Mapping[str, list[str] | None],
    broker: int | None = None,
) -> list[Any]:
    results: list[Any] = answer(client, _question(kind, keys), broker).results
    return results


def _question(kind: ConfigResourceType, keys: Mapping[str, Sequence[str] | None]) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        resource(resource_type=kind, resource_name=name, configuration_keys=setting_keys)
        for name, setting_keys in keys.items()
    ]
    return DescribeConfigsRequest(resources=resources, min_version=1)


def _values(result: Any, which: Literal["all", "modified"]) -> dict[str, str]:
    return {
        entry.name: entry.value
        for entry in result.configs
        if which == "all" or entry.config_source == ConfigSourceType.DYNAMIC_TOPIC_CONFIG
    }
