"""Kafka's admin API, through kafka-python: it is pure Python, so every host can have it.

Where kafka-python's admin methods drop what is needed (an error's message, an operation that it has no name
for) the request goes through its protocol layer.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

from kafka import KafkaAdminClient
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, ConfigSourceType
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    NoError,
    RetriableError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from aqueduct.errors import Failed, Refused
from aqueduct.kafka import acls, topics
from aqueduct.kafka.answers import RECONNECT, reaching
from aqueduct.kafka.answers import answering as answering
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.cluster import Cluster, Partition, Quorum
from aqueduct.kafka.quotas import Quota
from aqueduct.kafka.requests import in_lists
from aqueduct.wording import count, some

POLL_SECONDS = 0.5
RETRIES = 5
SETTLE_SECONDS = 60  # for a change that the controller accepted to be seen by brokers

# A KRaft controller refuses requests that make over 10,000 metadata records (MAX_RECORDS_PER_USER_OP).
RECORDS_PER_REQUEST = 5_000
RESOURCES_PER_REQUEST = 1_000

# The positions are Kafka's codes (org.apache.kafka.common.acl and .resource).
_RESOURCES = ["unknown", "any", "topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
_PATTERNS = ["unknown", "any", "match", "literal", "prefixed"]
_PERMISSIONS = ["unknown", "any", "deny", "allow"]
_OPERATIONS = ["unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe"]
_OPERATIONS += ["cluster_action", "describe_configs", "alter_configs", "idempotent_write"]
_OPERATIONS += ["create_tokens", "describe_tokens", "two_phase_commit"]

T = TypeVar("T")
P = ParamSpec("P")
Send = Callable[[Any], Any]


def from_any_broker(question: Callable[P, T]) -> Callable[P, T]:
    """Ask again if the broker that was asked is gone: kafka-python asks any, and learns so that one is."""

    @wraps(question)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(RETRIES):
            try:
                return question(*args, **kwargs)
            except (KafkaConnectionError, NodeNotReadyError):
                time.sleep(POLL_SECONDS)
        return question(*args, **kwargs)

    return ask


@contextmanager
def connect(bootstrap_servers: str, config: ClientConfig, timeout_seconds: float = 30) -> "Iterator[Admin]":
    """An Admin of the cluster at `bootstrap_servers` ("host:port,..."); Failed if no broker answers in time.

    An answer is waited for as long again, 30 s at most. An error that the cluster answers ends the block as
    Failed, too.
    """
    with reaching(bootstrap_servers, timeout_seconds):
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap_servers.split(","),
            bootstrap_timeout_ms=int(timeout_seconds * 1000),
            request_timeout_ms=int(min(timeout_seconds, 30) * 1000),
            **RECONNECT,
            **config.kafka_python(),
        )
    try:
        with answering(bootstrap_servers):
            yield Admin(client)
    finally:
        client.close()


class Admin:
    """What Aqueduct asks of a cluster and does to it. A KafkaError is made a sentence by `connect`."""

    def __init__(self, client: KafkaAdminClient) -> None:
        self.client = client

    def send(self, request: Any, node_id: int | None = None) -> Any:
        """The response to one request of kafka-python's protocol layer, from any broker or a certain one."""
        manager = self.client._manager
        return manager.run(manager.send, request, node_id)

    # The cluster as a whole

    @from_any_broker
    def cluster(self) -> Cluster:
        """What one broker knows of the cluster, and the active controller of its quorum, now."""
        metadata = self.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        registered = self.client.describe_cluster()["brokers"]
        partitions = (
            Partition(
                topic=topic.name,
                number=partition.partition_index,
                leader=partition.leader_id if partition.leader_id >= 0 else None,
                replicas=tuple(partition.replica_nodes),
                in_sync=tuple(partition.isr_nodes),
            )
            for topic in metadata.topics
            for partition in topic.partitions
        )
        return Cluster(
            cluster_id=metadata.cluster_id,
            brokers=frozenset(b["broker_id"] for b in registered if not b.get("is_fenced")),
            fenced=frozenset(b["broker_id"] for b in registered if b.get("is_fenced")),
            partitions=tuple(sorted(partitions, key=lambda p: (p.topic, p.number))),
            quorum=self._quorum(),
        )

    def _quorum(self) -> Quorum:
        # Not Metadata's or DescribeCluster's controller: in KRaft that is any broker (KIP-590).
        try:
            [topic] = self.client.describe_metadata_quorum()["topics"]
        except RetriableError:  # the brokers forward the question to the active controller, and there is none
            return Quorum(None, {}, {})
        [state] = topic["partitions"]
        voters, observers = (
            {node["replica_id"]: node["last_caught_up_timestamp"] for node in state[kind]}
            for kind in ("current_voters", "observers")
        )
        leader = state["leader_id"] if state["leader_id"] >= 0 else None
        now = (voters | observers).get(leader, -1)  # the leader is always caught up; -1: unknown

        def behind(caught_up: dict[int, int]) -> dict[int, int | None]:
            return {node: now - then if min(now, then) >= 0 else None for node, then in caught_up.items()}

        return Quorum(leader, behind(voters), behind(observers))

    def silence(self, node_id: int) -> list[str]:
        """Why this very broker does not answer at the address that it advertises; empty if it does."""
        try:
            self.send(MetadataRequest(topics=[]), node_id)
        except KafkaError as error:
            return [f"Broker {node_id} does not answer at the address that it advertises ({error})."]
        return []

    def min_in_sync(self, names: Iterable[str]) -> dict[str, int]:
        """`min.insync.replicas` that holds for each topic: its own, else the cluster's."""
        return {name: int(value) for name, value in self.effective(names, "min.insync.replicas").items()}

    def wait(self, problems: Callable[[Cluster], Sequence[str]], seconds: float) -> Cluster:
        """The cluster once it has no more problems; Failed with what is left of them when the time is up."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                cluster = self.cluster()
                left = problems(cluster)
                if not left:
                    return cluster
            except RetriableError as error:
                left = [f"The cluster does not answer: {error}."]
            if time.monotonic() > deadline:
                raise Failed(f"Waited {seconds:g} s: {' '.join(left)}")
            time.sleep(POLL_SECONDS)

    @from_any_broker
    def default_replication_factor(self) -> int:
        """Of topics for which none is asked for."""
        key, broker = "default.replication.factor", str(min(self.cluster().brokers))
        resource = ConfigResource(ConfigResourceType.BROKER, broker, [key])
        found = self.client.describe_configs([resource], config_filter="all")
        return int(found["broker"][broker][key]["value"])

    # Topics

    @from_any_broker
    def find_topics(self, declared: Iterable[topics.Declared]) -> dict[str, topics.Actual]:
        """Those of the declared topics that exist, with the overrides whose keys are declared."""
        keys = {topic.name: list(topic.config) for topic in declared}
        found = {}
        for names in in_lists(keys, RESOURCES_PER_REQUEST):
            asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
            response = self.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
            for topic in response.topics:
                error = for_code(topic.error_code)
                if error not in (NoError, UnknownTopicOrPartitionError):
                    raise error(f"topic {topic.name}")
            found.update({topic.name: topic.partitions for topic in response.topics if not topic.error_code})
        configs = _configs(self.send, {name: keys[name] for name in found if keys[name]}, "modified")
        return {
            name: topics.Actual(
                partitions=len(partitions),
                replication_factors=frozenset(len(p.replica_nodes) for p in partitions),
                config=configs.get(name, {}),
                without_leader=sum(p.leader_id < 0 for p in partitions),
            )
            for name, partitions in found.items()
        }

    def apply_topics(self, plan: topics.TopicChanges, *, check_only: bool = False) -> None:
        """Let the controller check the whole plan, then do it; Refused, with nothing done, for a mistake."""
        if refused := self._alter_topics(plan, validate_only=True):
            raise Refused(f"The controller refuses {some(refused)}. Nothing was changed.")
        if not check_only and (refused := self._alter_topics(plan, validate_only=False)):
            raise Failed(f"The controller refused {some(refused)}; the rest was done.")

    def _alter_topics(self, plan: topics.TopicChanges, *, validate_only: bool) -> list[str]:
        refused = []
        for some_topics in in_lists(plan.create, RECORDS_PER_REQUEST, lambda t: t.partitions + len(t.config)):
            response = self.client.create_topics(
                {topic.name: _creation(topic) for topic in some_topics},
                validate_only=validate_only,
                raise_errors=False,
            )
            refused += _refusals(
                (f"topic {t['name']}", t["error_code"], t["error_message"]) for t in response["topics"]
            )
        for growing in in_lists(plan.grow.items(), RECORDS_PER_REQUEST, lambda item: item[1]):
            grown = self.client.create_partitions(
                dict(growing), validate_only=validate_only, raise_errors=False
            )
            refused += _refusals((f"topic {t.name}", t.error_code, t.error_message) for t in grown.results)
        for altering in in_lists(plan.alter.items(), RECORDS_PER_REQUEST, lambda item: len(item[1])):
            resources = [
                ConfigResource(ConfigResourceType.TOPIC, name, _alterations(config))
                for name, config in altering
            ]
            outcome = self.client.alter_configs(
                resources, validate_only=validate_only, raise_on_unknown=False, incremental=True
            )
            refused += [f"topic {name} ({said})" for name, said in outcome["topic"].items() if said != "OK"]
        return refused

    def await_topics(self, declared: Collection[topics.Declared]) -> None:
        """Return when the topics are known as declared and each of their partitions has a leader."""
        deadline = time.monotonic() + SETTLE_SECONDS
        pending = list(declared)
        while pending:
            actual = self.find_topics(pending)
            unsettled = topics.plan(pending, actual).touched()
            unsettled |= {name for name, topic in actual.items() if topic.without_leader}
            pending = [topic for topic in pending if topic.name in unsettled]
            if pending and time.monotonic() > deadline:
                raise Failed(
                    f"{count(len(pending), 'topic')} not ready {SETTLE_SECONDS} s after the change: "
                    f"{some(sorted(unsettled))}; see whether all brokers run."
                )
            time.sleep(POLL_SECONDS if pending else 0)

    @from_any_broker
    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """What is set on each topic itself, by key; nothing for a topic that is not there."""
        return _configs(self.send, dict.fromkeys(names), "modified")

    @from_any_broker
    def settings(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """All that holds for each topic, by key; nothing for a topic that is not there."""
        return _configs(self.send, dict.fromkeys(names), "all")

    @from_any_broker
    def effective(self, names: Iterable[str], key: str) -> dict[str, str]:
        """The value of a setting that holds for each topic: its own, else the cluster's."""
        wanted = set(names)
        found = effective(self.send, wanted, key)
        if gone := sorted(wanted - found.keys()):
            raise UnknownTopicOrPartitionError(some(gone))
        return found

    # ACLs

    @from_any_broker
    def list_acls(self) -> frozenset[acls.Acl]:
        """Every ACL of the cluster."""
        response = self.send(
            DescribeAclsRequest(
                resource_type_filter=_RESOURCES.index("any"),
                resource_name_filter=None,  # any; left out, it would be the empty name
                pattern_type_filter=_PATTERNS.index("any"),
                principal_filter=None,
                host_filter=None,
                operation=_OPERATIONS.index("any"),
                permission_type=_PERMISSIONS.index("any"),
                min_version=3,  # with resources of type user
            )
        )
        if response.error_code:
            raise for_code(response.error_code)(response.error_message)
        return frozenset(
            acls.Acl(
                principal=acl.principal,
                resource=_RESOURCES[resource.resource_type],
                name=resource.resource_name,
                pattern=_PATTERNS[resource.pattern_type],
                operation=_OPERATIONS[acl.operation],
                host=acl.host,
                permission=_PERMISSIONS[acl.permission_type],
            )
            for resource in response.resources
            for acl in resource.acls
        )

    def apply_acls(self, plan: acls.AclChanges) -> None:
        """Grant, then revoke, so that no right is missing between; return when the brokers know it."""
        refused = []
        for added in in_lists(plan.add, RESOURCES_PER_REQUEST):
            creations = [CreateAclsRequest.AclCreation(*_codes(acl)) for acl in added]
            results = self.send(CreateAclsRequest(creations=creations)).results
            refused += _refusals(
                (str(acl), result.error_code, result.error_message)
                for acl, result in zip(added, results, strict=True)
            )
        for removed in in_lists(plan.remove, RESOURCES_PER_REQUEST):
            filters = [DeleteAclsRequest.DeleteAclsFilter(*_codes(acl)) for acl in removed]
            results = self.send(DeleteAclsRequest(filters=filters)).filter_results
            refused += _refusals(
                (str(acl), result.error_code, result.error_message)
                for acl, result in zip(removed, results, strict=True)
            )
        if refused:
            raise Failed(f"The controller refused {count(len(refused), 'ACL')}: {some(refused)}.")
        self._await_acls(plan)

    def _await_acls(self, plan: acls.AclChanges) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while not (set(plan.add) <= (found := self.list_acls()) and found.isdisjoint(plan.remove)):
            if time.monotonic() > deadline:
                raise Failed(f"The broker does not know the new ACLs {SETTLE_SECONDS} s after they were set.")
            time.sleep(POLL_SECONDS)

    # Quotas

    @from_any_broker
    def quotas(self) -> tuple[Quota, ...]:
        """Every quota of users, clients and addresses."""
        response = self.send(DescribeClientQuotasRequest(components=[], strict=False))
        if response.error_code:
            raise for_code(response.error_code)(response.error_message)
        return tuple(
            Quota(
                entity={each.entity_type: each.entity_name for each in entry.entity},
                values={each.key: each.value for each in entry.values},
            )
            for entry in response.entries
        )

    def apply_quotas(self, quotas: Iterable[Quota]) -> None:
        """Set these values; others of the same entities stay."""
        refused = []
        kind = AlterClientQuotasRequest.EntryData
        for some_quotas in in_lists(quotas, RESOURCES_PER_REQUEST):
            entries = [
                kind(
                    entity=[kind.EntityData(*part) for part in quota.entity.items()],
                    ops=[
                        kind.OpData(key=key, value=value, remove=False) for key, value in quota.values.items()
                    ],
                )
                for quota in some_quotas
            ]
            results = self.send(AlterClientQuotasRequest(entries=entries, validate_only=False)).entries
            refused += _refusals(
                (f"{dict(quota.entity)}", result.error_code, result.error_message)
                for quota, result in zip(some_quotas, results, strict=True)
            )
        if refused:
            raise Failed(f"The controller refused {count(len(refused), 'quota')}: {some(refused)}.")


def effective(send: Send, names: Iterable[str], key: str) -> dict[str, str]:
    """As `Admin.effective`, of the topics that are there. `send` returns the response to a request."""
    found = _configs(send, {name: [key] for name in names}, "all")
    return {name: config[key] for name, config in found.items() if key in config}


def _configs(
    send: Send, keys: Mapping[str, list[str] | None], which: Literal["all", "modified"]
) -> dict[str, dict[str, str]]:
    """Settings by topic and key (None: every key): all that hold, or those of the topics themselves.

    Nothing for a topic that is not there. kafka-python's describe_configs takes one that we may not ask
    about for a topic without settings.
    """
    found: dict[str, dict[str, str]] = {}
    for names in in_lists(keys, RESOURCES_PER_REQUEST):
        kind = DescribeConfigsRequest.DescribeConfigsResource
        resources = [
            kind(resource_type=ConfigResourceType.TOPIC, resource_name=name, configuration_keys=keys[name])
            for name in names
        ]
        for result in send(DescribeConfigsRequest(resources=resources, min_version=1)).results:
            error = for_code(result.error_code)
            if error not in (NoError, UnknownTopicOrPartitionError):
                raise error(f"settings of topic {result.resource_name}")
            found[result.resource_name] = {
                entry.name: entry.value
                for entry in result.configs
                if which == "all" or entry.config_source == ConfigSourceType.DYNAMIC_TOPIC_CONFIG
            }
    return found


def _creation(topic: topics.Declared) -> dict[str, Any]:
    return {
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor or -1,
        "configs": {key: value for key, value in topic.config.items() if value is not None},
    }


def _alterations(config: topics.Overrides) -> dict[str, tuple[AlterConfigOp, str | None]]:
    return {
        key: (AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
        for key, value in config.items()
    }


def _codes(acl: acls.Acl) -> tuple[int, str, int, str, str, int, int]:
    """The fields of AclCreation, and in the same order those of DeleteAclsFilter."""
    return (
        _RESOURCES.index(acl.resource),
        acl.name,
        _PATTERNS.index(acl.pattern),
        acl.principal,
        acl.host,
        _OPERATIONS.index(acl.operation),
        _PERMISSIONS.index(acl.permission),
    )


def _refusals(results: Iterable[tuple[str, int, str | None]]) -> list[str]:
    return [f"{what} ({message or for_code(code).__name__})" for what, code, message in results if code]
