"""The key of one site's broker is in wrong hands: it rules that site's cluster, and no other."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kit import ansible_process, clients

from servers import broker
from servers.broker import Broker

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
    done = ansible_process.play(
        folder / "play.yml",
        *(f"--inventory={folder}/hosts.yml", "--connection=local"),
        f"--extra-vars=ansible_python_interpreter={sys.executable}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
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


def refused(at: Broker, principal: str) -> KafkaError | None:
    """Create a topic with this principal's key; return why it can't, if it can't."""
    pem = str(at.authority.issue(principal))
    tls = {"ssl.ca.location": str(at.authority.certificate), "security.protocol": "SSL"}
    keys = {"ssl.certificate.location": pem, "ssl.key.location": pem}
    admin = AdminClient({"bootstrap.servers": at.tls, "log_level": 0, **tls, **keys})
    name = clients.unique("captured")
    try:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    except KafkaException as error:
        found: KafkaError = error.args[0]
        return found
    return None


@pytest.mark.parametrize("principal", ["kafka-pro1", "admin"])
def test_who_rules_a_site_creates_topics_there(of_pro1: Broker, principal: str) -> None:
    """The control: the others lack the right, and nothing else."""
    assert refused(of_pro1, principal) is None


@pytest.mark.parametrize("principal", ["kafka-pro2", "kafka", "connect-pro1", "kafka-pro1,O=x"])
def test_other_broker_or_service_key_cannot_create_topics(of_pro1: Broker, principal: str) -> None:
    why = refused(of_pro1, principal)
    assert why is not None
    assert why.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, why
