"""What leaves the inventory loses its rights: by the role's own task, as a cluster tells another client."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kit import ansible_process, clients

from servers.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
SOURCE, TARGET = "pro1-host-1", "lake-host-1"
PLAY = """
- hosts: kafka
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: aqueduct.estate.kafka, tasks_from: entities}
"""
# A mirror and a link from pro1 to the lake, a backup there and Connect here.
SERVICES = {
    "backup": SOURCE,
    "diode_upstream": SOURCE,
    **dict.fromkeys(("mirror_maker", "reconcile", "diode_downstream", "dedup", "connect"), TARGET),
}
FLOWS = {
    "mirror_maker_flows": [{"source": "pro1", "topics": ["flights"]}],
    "diode_downstream_links": [{"source": "pro1", "number": 7, "topics": ["flights"], "address": "10.0.0.2"}],
    "connect_connectors": [{"name": "files", "config": {"connector.class": "X", "topics": "flights"}}],
}
RIGHTS = {
    SOURCE: {"mirror-lake", "reconcile-lake", "diode-upstream-pro1", "backup-pro1"},
    TARGET: {
        *(
            "mirror-lake",
            "reconcile-lake",
            "diode-downstream-lake",
            "dedup-lake.pro1",
            "connect-lake",
            "dlq-replay-lake",
        ),
    },
}
PERSON, STRANGER = "anna-of-the-inventory", "mirrorless-stranger"


def have_entities(
    folder: Path, brokers: dict[str, Broker], *, flows: bool, revoked: Sequence[str] = ()
) -> str:
    """Run the role's task for both sites as playbooks/kafka.yml does; what Ansible said."""
    host = {
        name: {"kafka_node_id": 1, "broker": broker.plaintext, **(FLOWS if flows and name == TARGET else {})}
        for name, broker in brokers.items()
    }
    person = {"principal": PERSON, "resource": "topic", "name": "flights", "operations": ["read"]}
    groups: dict[str, Any] = {service: {"hosts": {name: {}}} for service, name in SERVICES.items() if flows}
    groups["site_pro1"] = {"hosts": {SOURCE: host[SOURCE]}, "vars": {"kafka_acls": [person]}}
    groups["site_lake"] = {"hosts": {TARGET: host[TARGET]}}
    groups["kafka"] = {"hosts": {SOURCE: {}, TARGET: {}}, "vars": {"kafka_revoked_principals": [*revoked]}}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    (folder / "play.yml").write_text(PLAY)
    (folder / "client.properties").write_text("")
    # Only where the cluster is, and what runs the modules, is not the role's.
    extra = {
        "_kafka_bootstrap_servers": "{{ broker }}",
        "_kafka_tls": str(folder),
        "ansible_python_interpreter": sys.executable,
        "_environment_python": sys.executable,
        "ansible_connection": "local",
    }
    done = ansible_process.play(
        "-i", folder / "hosts.yml", folder / "play.yml", "--extra-vars", json.dumps(extra)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def principals(broker: Broker) -> set[str]:
    """Return who has rights there, without those that other tests gave."""
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    admin = clients.admin(broker)
    found = {acl.principal.removeprefix("User:") for acl in admin.describe_acls(every).result(30)}
    return found & {*RIGHTS[SOURCE], *RIGHTS[TARGET], PERSON, STRANGER}


@pytest.mark.long
def test_last_flow_of_site_leaves_no_rights(brokers: list[Broker], tmp_path: Path) -> None:
    sites = dict(zip((SOURCE, TARGET), brokers, strict=True))
    by_hand = AclBinding(
        ResourceType.TOPIC, "x", ResourcePatternType.LITERAL, f"User:{STRANGER}", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = clients.admin(sites[SOURCE])
    admin.create_acls([by_hand])[by_hand].result(30)
    have_entities(tmp_path, sites, flows=True)
    people = {SOURCE: {PERSON, STRANGER}, TARGET: set()}
    whole = {site: RIGHTS[site] | people[site] for site in sites}
    clients.wait_for("their rights", lambda: {site: principals(sites[site]) for site in sites} == whole)
    have_entities(tmp_path, sites, flows=False)
    clients.wait_for("no rights", lambda: {site: principals(sites[site]) for site in sites} == people)
    assert "changed=0" in have_entities(tmp_path, sites, flows=False)


def test_revoked_principal_has_no_rights_even_if_declared(brokers: list[Broker], tmp_path: Path) -> None:
    sites = dict(zip((SOURCE, TARGET), brokers, strict=True))
    have_entities(tmp_path, sites, flows=True)
    clients.wait_for("their rights", lambda: principals(sites[SOURCE]) >= {PERSON, *RIGHTS[SOURCE]})
    have_entities(tmp_path, sites, flows=True, revoked=[PERSON, "mirror-lake"])
    left = {SOURCE: RIGHTS[SOURCE] - {"mirror-lake"}, TARGET: RIGHTS[TARGET] - {"mirror-lake"}}
    clients.wait_for(
        "their rights to be gone",
        lambda: {site: principals(sites[site]) - {STRANGER} for site in sites} == left,
    )
    # Who is no longer declared, either.
    assert "changed=0" in have_entities(tmp_path, sites, flows=True, revoked=[PERSON, "mirror-lake"])
    have_entities(tmp_path, sites, flows=False)
