"""The key of one site's broker is in wrong hands: it rules that site's cluster, and no other."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kit import ansible_process, clients

from servers import broker
from servers.broker import Broker

Settings = Mapping[str, Any]  # of librdkafka

ROOT = Path(__file__).parents[2]
SITES = ("pro1", "pro2")
SETTINGS = ("super.users", "ssl.principal.mapping.rules", "allow.everyone.if.no.acl.found")


def settings_of_role(folder: Path) -> dict[str, dict[str, str]]:
    """Return, by site, what the role kafka gives its brokers on who may do what."""
    role = ROOT / "roles/kafka"
    sites = {f"site_{site}": {"hosts": {f"{site}-kafka-1": {}}} for site in SITES}
    hosts = {f"{site}-kafka-1": {} for site in SITES}
    inventory = {"all": {"children": {**sites, "kafka": {"hosts": hosts}}}}
    told = "{{ dict(settings | zip(settings | map('extract', _kafka_node_properties))) }}"
    tasks = [
        {
            "ansible.builtin.copy": {
                "content": told,
                "dest": f"{folder}/{{{{ _kafka_site }}}}.json",
                "mode": "0600",
            }
        }
    ]
    play = {
        "hosts": "kafka",
        "gather_facts": False,
        "vars_files": [str(role / f"{part}/main.yml") for part in ("defaults", "vars")],
        "vars": {"settings": list(SETTINGS), "kafka_node_id": 1},
        "tasks": tasks,
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    run = ansible_process.play(
        folder / "play.yml",
        *(f"--inventory={folder}/hosts.yml", "--connection=local"),
        f"--extra-vars=ansible_python_interpreter={sys.executable}",
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return {site: json.loads((folder / f"{site}.json").read_text()) for site in SITES}


@pytest.fixture(scope="module")
def of_pro1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker of the site pro1, with the role's settings."""
    folder = tmp_path_factory.mktemp("pro1")
    settings = settings_of_role(folder)[SITES[0]]
    # Only what the tests' own plaintext listeners need is added.
    settings["super.users"] += ";User:ANONYMOUS"
    with broker.running(folder, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def topic(of_pro1: Broker) -> str:
    """Return a topic of the site with a record."""
    name = clients.create(of_pro1, clients.unique("owned"))
    clients.produce(of_pro1, name, ["record"])
    return name


def done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


def write(settings: Settings, topic: str) -> None:
    """Write a record. librdkafka reports a rejection in the delivery callback."""
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 30_000})
    producer.produce(topic, b"forged", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    if errors[0]:
        raise KafkaException(errors[0])


def read(settings: Settings, topic: str) -> None:
    consumer = Consumer({**settings, "group.id": clients.unique("captured")})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(60)
        assert message is not None
        if message.error():
            raise KafkaException(message.error())
    finally:
        consumer.close()


def fence(settings: Settings, topic: str) -> None:
    Producer({**settings, "transactional.id": topic}).init_transactions(30)


def configure(kind: ResourceType, name: str, setting: str) -> Callable[[Settings, str], None]:
    def change(settings: Settings, topic: str) -> None:
        entry = ConfigEntry(setting, "1000000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name or topic, incremental_configs=[entry])
        admin = AdminClient(settings)  # one that is collected drops its requests
        done(admin.incremental_alter_configs([resource]))

    return change


def grant(settings: Settings, topic: str) -> None:
    allow = (AclOperation.ALL, AclPermissionType.ALLOW)
    binding = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:captured", "*", *allow)
    admin = AdminClient(settings)  # one that is collected drops its requests
    done(admin.create_acls([binding]))


def create(settings: Settings, _: str) -> None:
    admin = AdminClient(settings)  # one that is collected drops its requests
    done(admin.create_topics([NewTopic(clients.unique("captured"), 1, 1)]))


def delete(settings: Settings, topic: str) -> None:
    admin = AdminClient(settings)  # one that is collected drops its requests
    done(admin.delete_topics([topic]))


# What the rulers of a cluster may do there, with the deletion last.
ACTIONS: dict[str, Callable[[Settings, str], None]] = {
    "create": create,
    "write": write,
    "read": read,
    "fence": fence,
    "configure topic": configure(ResourceType.TOPIC, "", "retention.bytes"),
    "configure brokers": configure(ResourceType.BROKER, "1", "log.retention.bytes"),
    "grant": grant,
    "delete": delete,
}
REFUSALS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


def refusals(at: Broker, principal: str, topic: str) -> dict[str, int]:
    """Try all actions with this principal's key; return the codes of those that fail."""
    pem = str(at.authority.issue(principal))
    settings: Settings = {
        "bootstrap.servers": at.tls,
        "log_level": 0,
        "security.protocol": "SSL",
        "ssl.ca.location": str(at.authority.certificate),
        "ssl.certificate.location": pem,
        "ssl.key.location": pem,
    }
    codes = {}
    for name, act in ACTIONS.items():
        try:
            act(settings, topic)
        except KafkaException as error:
            codes[name] = error.args[0].code()
    return codes


@pytest.mark.parametrize("principal", ["kafka-pro1", "admin"])
def test_who_rules_a_site_does_everything_there(of_pro1: Broker, principal: str) -> None:
    """The control: the others lack the right, and nothing else."""
    name = clients.create(of_pro1, clients.unique("owned"))
    clients.produce(of_pro1, name, ["record"])
    assert refusals(of_pro1, principal, name) == {}


@pytest.mark.parametrize("principal", ["kafka-pro2", "kafka", "connect-pro1", "kafka-pro1,O=x"])
def test_other_broker_or_service_key_can_do_nothing(of_pro1: Broker, topic: str, principal: str) -> None:
    codes = refusals(of_pro1, principal, topic)
    assert codes.keys() == ACTIONS.keys()
    assert {*codes.values()} <= REFUSALS, codes
