"""The admin client, the Ansible modules and `aqueduct health`, against a real broker."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka.admin import NewTopic
from kit import ansible_process, clients
from kit.clients import unique
from kit.estate_facts import judged
from kit.identifiers import assert_printed, raises

import servers.broker
from aqueduct.cli import health, main
from aqueduct.control_node.status.model import ObjectState
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import acls, topics
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls, list_acls
from aqueduct.kafka.admin.asking import SETTLE_SECONDS
from aqueduct.kafka.admin.cluster import await_cluster, cluster_id, describe_cluster, silence
from aqueduct.kafka.admin.quotas import apply_quotas, list_quotas
from aqueduct.kafka.admin.settings import min_in_sync, own_settings, setting
from aqueduct.kafka.admin.topics import apply_topics, await_topics, find_topics
from aqueduct.kafka.client import Client, connect
from aqueduct.kafka.client_config import End
from aqueduct.kafka.quotas import Quota
from aqueduct.kafka.topics import DeclaredTopic
from servers.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "plugins/modules"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with connect(End("cluster", broker.plaintext), "test") as client:
        yield client


# In a process of its own, as Ansible does it: beside the controller's code, warnings go another way.
RUN_MODULE = """
import json, runpy, sys
from ansible.module_utils.testing import patch_module_args
with patch_module_args(json.loads(sys.argv[2])):
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def run_module(broker: Broker) -> Run:
    return runner(broker)


def runner(broker: Broker) -> Run:
    """Return what runs one of our Ansible modules, and returns its answer."""

    def run(name: str, check: bool = False, **arguments: Any) -> dict[str, Any]:
        given = {"bootstrap_servers": broker.plaintext, **arguments, "_ansible_check_mode": check}
        done = subprocess.run(
            [sys.executable, "-c", RUN_MODULE, MODULES / f"{name}.py", json.dumps(given)],
            capture_output=True,
            text=True,
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run


def make_so(client: Client, *declared: DeclaredTopic) -> topics.TopicChanges:
    plan = topics.plan(declared, find_topics(client, declared))
    apply_topics(client, plan)
    await_topics(client, declared)
    return plan


def test_topic_is_created_grown_and_altered_then_unchanged(client: Client) -> None:
    name = unique("topic")
    first = DeclaredTopic(
        name=name,
        partitions=1,
        replication_factor=None,
        config={"retention.ms": "1000", "min.cleanable.dirty.ratio": "0.50"},
    )
    assert make_so(client, first).create == (first,)
    assert not make_so(client, first).touched()
    second = DeclaredTopic(
        name=name,
        partitions=3,
        replication_factor=1,
        config={"retention.ms": "2000", "cleanup.policy": "compact, delete"},
    )
    assert make_so(client, second).touched() == {name}
    assert not make_so(client, second).touched()
    every = DeclaredTopic(
        name=name,
        partitions=3,
        replication_factor=1,
        config={"retention.ms": None, "min.cleanable.dirty.ratio": "0.5"},
    )
    assert find_topics(client, [every])[name].config == {
        "retention.ms": "2000",
        "min.cleanable.dirty.ratio": "0.5",  # not named by the second: kept
    }
    make_so(client, every)
    assert "retention.ms" not in find_topics(client, [every])[name].config


def test_changes_of_many_topics_are_split_into_requests(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request is larger than the controller accepts."""
    monkeypatch.setattr("aqueduct.kafka.admin.topics.RECORDS_PER_REQUEST", 7)
    monkeypatch.setattr("aqueduct.kafka.admin.settings.RESOURCES_PER_REQUEST", 2)
    names = [unique("many") for _ in range(5)]
    declared = [
        DeclaredTopic(name=name, partitions=number + 1, replication_factor=None, config={"retention.ms": "1"})
        for number, name in enumerate(names)
    ]
    make_so(client, *declared)
    grown = [
        DeclaredTopic(name=name, partitions=9, replication_factor=None, config={"retention.ms": "2"})
        for name in names
    ]
    make_so(client, *grown)
    found = find_topics(client, grown)
    assert sorted(found) == sorted(names)
    assert {(topic.partitions, topic.config["retention.ms"]) for topic in found.values()} == {(9, "2")}
    assert min_in_sync(client, names) == dict.fromkeys(names, 1)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("retention.mss", "1", "Unknown topic config name: retention.mss"),
        ("retention.ms", "week", "Not a number of type LONG"),
    ],
)
def test_one_rejected_topic_prevents_all_topic_changes(
    client: Client, key: str, value: str, said: str
) -> None:
    good, wrong, old = unique("good"), unique("wrong"), unique("old")
    make_so(client, DeclaredTopic(name=old, partitions=1))
    for mistake in (
        DeclaredTopic(name=wrong, partitions=1, replication_factor=None, config={key: value}),
        DeclaredTopic(name=old, partitions=1, replication_factor=None, config={key: value}),
    ):
        declared = [DeclaredTopic(name=good, partitions=1), mistake]
        plan = topics.plan(declared, find_topics(client, declared))
        with pytest.raises(Refused) as refused:
            apply_topics(client, plan)
        assert f"topic {mistake.name}" in str(refused.value)
        assert said in str(refused.value)
        assert good not in find_topics(client, declared)


def test_acls_become_the_declared_ones_of_managed_principals(client: Client) -> None:
    site = uuid4().hex[:8]
    mirror, other = f"User:mirror-{site}", f"User:other-{site}"
    stale = Acl(principal=mirror, resource="topic", name="old", pattern="prefixed", operation="read")
    denied = Acl(
        principal=mirror,
        resource="group",
        name="g",
        pattern="literal",
        operation="describe",
        host="10.1.2.3",
        permission="deny",
    )
    foreign = Acl(
        principal=other,
        resource="transactional_id",
        name="t",
        pattern="literal",
        operation="two_phase_commit",
    )
    apply_acls(client, acls.AclChanges(add=(stale, denied, foreign), remove=()))
    wanted = {
        Acl(principal=mirror, resource="topic", name="new", pattern="literal", operation="read"),
        Acl(
            principal=mirror,
            resource="cluster",
            name="kafka-cluster",
            pattern="literal",
            operation="idempotent_write",
        ),
    }
    plan = acls.plan(wanted, list_acls(client), f"^mirror-{site}$")
    assert set(plan.remove) == {stale, denied}
    apply_acls(client, plan)
    now = list_acls(client)
    assert {acl for acl in now if acl.principal in (mirror, other)} == {*wanted, foreign}
    assert acls.plan(wanted, now, f"^mirror-{site}$") == acls.AclChanges((), ())


def test_an_acl_that_the_controller_refuses_is_named(client: Client) -> None:
    nameless = Acl(principal="User:x", resource="topic", name="", pattern="literal", operation="read")
    with raises(Failed, "acl-rejected", "1 ACL", "User:x", "read on topic"):
        apply_acls(client, acls.AclChanges(add=(nameless,), remove=()))


def test_the_cluster_is_seen_as_it_is(client: Client) -> None:
    topic = unique("seen")
    make_so(
        client,
        DeclaredTopic(name=topic, partitions=2, replication_factor=1, config={"min.insync.replicas": "2"}),
    )
    state = describe_cluster(client)
    assert (state.brokers, state.fenced, state.quorum.leader) == ({1}, frozenset(), 1)
    assert state.quorum.voters.keys() == {1}
    assert state.quorum.caught_up() == {1}
    found = {(p.number, p.leader, p.replicas, p.in_sync) for p in state.partitions if p.topic == topic}
    assert found == {(0, 1, (1,), (1,)), (1, 1, (1,), (1,))}
    assert min_in_sync(client, [topic]) == {topic: 2}
    assert silence(client, 1) == []
    assert silence(client, 2)


def test_waiting_ends_with_what_is_still_wrong(client: Client) -> None:
    with raises(Failed, "cluster-not-ready") as failed:
        await_cluster(client, lambda _: ["This is wrong.", "That too."], 0)
    assert "This is wrong. That too." in str(failed.value)
    answers = iter([["Not yet."], []])
    found = await_cluster(client, lambda _: next(answers), 30)
    assert found.cluster_id == describe_cluster(client).cluster_id == cluster_id(client)


def test_the_topics_module_tells_exactly_what_it_changes(run_module: Run) -> None:
    name = unique("module")
    wanted = {"name": name, "partitions": 2, "config": {"retention.ms": -1, "preallocate": False}}
    for check in (True, False):  # check mode tells the same and does nothing
        first = run_module("kafka_topics", check=check, topics=[wanted])
        assert (first["changed"], first["created"]) == (True, [name])
        assert first["diff"]["after"][name]["partitions"] == 2
    again = run_module("kafka_topics", topics=[wanted])
    assert (again["changed"], again["diff"]) == (False, {"before": {}, "after": {}})
    grown = run_module("kafka_topics", topics=[{**wanted, "partitions": 3, "replication_factor": 2}])
    assert (grown["created"], grown["grown"], grown["altered"]) == ([], [name], [])
    assert "replication factor than declared" in grown["unmet"][0]
    shrunk = run_module("kafka_topics", topics=[{**wanted, "partitions": 1}])
    assert shrunk["failed"]
    assert f"{name} (3, declared 1)" in shrunk["msg"]


def test_the_acls_module_grants_and_revokes(run_module: Run) -> None:
    entry = {
        "principal": unique("mirror-x"),
        "resource": "topic",
        "name": "t",
        "operations": ["read", "write"],
    }
    for check in (True, False):
        first = run_module("kafka_acls", check=check, managed_principals="^never$", acls=[entry])
        assert (first["changed"], len(first["granted"]), first["revoked"]) == (True, 2, [])
    assert not run_module("kafka_acls", managed_principals="^never$", acls=[entry])["changed"]
    gone = run_module("kafka_acls", managed_principals=f"^{entry['principal']}$", acls=[])
    assert (gone["changed"], gone["granted"], len(gone["revoked"])) == (True, [], 2)
    assert (gone["diff"]["before"].count("\n"), gone["diff"]["after"]) == (2, "")
    wrong = run_module("kafka_acls", managed_principals="^never$", acls=[{**entry, "operations": ["fly"]}])
    assert "operation fly" in wrong["msg"]


def test_ready_module_waits_refuses_and_returns_state(run_module: Run) -> None:
    ready = run_module("kafka_ready", node_id=1, roles=["broker", "controller"], no_under_replicated=True)
    assert (ready["active_controller"], ready["brokers"], ready["restart_order"]) == (1, [1], [1])
    assert (ready["under_replicated"], ready["changed"]) == (0, False)
    missing = run_module("kafka_ready", node_id=2, roles=["broker", "controller"], timeout_seconds=1)
    assert "Broker 2 is not registered" in missing["msg"]
    assert "Controller 2 does not follow" in missing["msg"]
    refused = run_module("kafka_ready", stopping=1)
    assert refused["msg"].startswith("Node 1 may not be stopped.")
    assert not run_module("kafka_ready", stopping=1, allow_unavailable=True).get("failed")


def test_replicas_of_replaced_broker_are_reported_without_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first").mkdir()
    with servers.broker.running(tmp_path / "first") as first:
        run = runner(first)
        second = servers.broker.joining(first, 2, tmp_path / "second")
        with second.running():
            asked = clients.admin(first)
            asked.create_topics([NewTopic("both", 1, replica_assignment=[[1, 2]])])["both"].result()
            declared = {"name": "both", "partitions": 1, "replication_factor": 3}
            clients.wait_for("its leader", lambda: clients.led(asked, "both", 1))
            [unmet] = run("kafka_topics", topics=[declared])["unmet"]
            assert "both (2, declared 3)" in unmet
            assert run("kafka_topics", topics=[{**declared, "replication_factor": 2}])["unmet"] == []
            [running] = run("kafka_ready", expected=[1])["unexpected"]
            assert "Broker 2 is not in the inventory, and runs" in running
            assert run("kafka_ready", expected=[1, 2])["unexpected"] == []
            ask = ["doctor", "cluster", "--bootstrap-server", first.plaintext]
            assert main([*ask, "--expected-brokers", "1,2"]) == 0
            assert main([*ask, "--expected-brokers", "1"]) == 3
            assert_printed(capsys.readouterr().out, "broker-unexpected", "Broker 2")
            assert played_entities(tmp_path, first, [1, 2], replication_factor=2) == (0, set())
            assert played_entities(tmp_path, first, [1], replication_factor=3) == (
                2,
                {("both", ""), ("", "2")},
            )
        clients.wait_for("the end of broker 2", lambda: 2 not in clients.metadata(asked).brokers)
        clients.wait_for(
            "its end at the controller", lambda: run("kafka_ready", expected=[1]).get("brokers") == [1]
        )
        wait = {"no_under_replicated": True, "timeout_seconds": 1}
        assert "under-replicated: both-0" in run("kafka_ready", expected=[1, 2], **wait)["msg"]
        assert "under-replicated: both-0" in run("kafka_ready", **wait)["msg"]
        found = run("kafka_ready", expected=[1, 3], **wait)
        assert "Broker 2 is not in the inventory, and does not run" in found["unexpected"][0]
        assert "both-0" in found["unexpected"][0]
        assert "kafka_restart_with_outage" in run("kafka_ready", stopping=1, expected=[1])["msg"]


def played_entities(
    folder: Path, broker: Broker, node_ids: list[int], replication_factor: int
) -> tuple[int, set[tuple[str, str]]]:
    """Run the role's tasks after `playbooks/kafka.yml` has deployed, without those of ACLs.

    Return the exit code, and the topics and brokers of the last task's refusal.
    """
    tasks = yaml.safe_load((ROOT / "roles/kafka/tasks/entities.yml").read_text())
    play = {
        "hosts": "kafka",
        "gather_facts": False,
        "vars": {
            "_environment_python": sys.executable,
            "_kafka_site": "pro",
            "_kafka_bootstrap_servers": broker.plaintext,
            "_kafka_tls": str(folder),
            "_kafka_brokers": [{"node_id": node_id} for node_id in node_ids],
            "kafka_ready_seconds": 60,
            "kafka_topics": [{"name": "both", "partitions": 1, "replication_factor": replication_factor}],
        },
        "tasks": [task for task in tasks if "aqueduct.estate.kafka_acls" not in task],
    }
    (folder / "client.properties").write_text("")
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    host = {"localhost": {"ansible_connection": "local", "kafka_node_id": 1}}
    inventory = {"all": {"children": {"kafka": {"hosts": host}, "site_pro": {"hosts": {"localhost": {}}}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    done = ansible_process.play(f"--inventory={folder / 'hosts.yml'}", folder / "play.yml")
    printed = " ".join(done.stdout.split())
    assert ("[cluster-differs-from-inventory]" in printed) == (done.returncode != 0), printed
    differences = r"(both) \(2, declared 3\)|Broker (2) is not in the inventory, and runs"
    return done.returncode, set(re.findall(differences, printed))


def test_health_says_what_is_wrong(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["health", "--bootstrap-server", broker.plaintext]
    assert main(ask) == 0
    assert main([*ask, "--node-id", "1"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*ask, "--node-id", "4"]) == 1
    assert "Broker 4 is not registered" in capsys.readouterr().out


def test_health_gives_the_status_its_facts(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["health", "--bootstrap-server", broker.plaintext, "--json", "--expected-brokers"]
    code = main([*ask, "1"])
    found = judged("pro-kafka-1", "cluster", capsys.readouterr().out, code)
    of_site = [
        each
        for each in found.objects
        if each.declared.kind.section == "clusters" and each.declared.site == "pro"
    ]
    assert [each.declared.kind.label for each in of_site] == ["cluster", "broker", "controller"]
    assert {each.state for each in of_site} == {ObjectState.WELL}
    assert of_site[0].figures["offline"] == 0
    code = main([*ask, "2,3"])
    found = judged("pro-kafka-1", "cluster", capsys.readouterr().out, code, kafka_node_id=2)
    of_site = [
        each
        for each in found.objects
        if each.declared.kind.section == "clusters" and each.declared.site == "pro"
    ]
    assert {each.state for each in of_site} == {ObjectState.NEEDS_ACTION}
    assert {each.id for each in of_site[0].findings} == {"cluster-node-unhealthy"}


def test_health_reports_a_broker_that_left_the_inventory(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["health", "--bootstrap-server", broker.plaintext, "--expected-brokers"]
    assert main([*ask, "1,2"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*ask, "2,3"]) == 1
    assert "Broker 1 is not in the inventory, and runs." in capsys.readouterr().out


def test_health_over_tls_names_reason_of_rejection(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = type(broker.authority)(tmp_path / "pki")
    # Half of the limit is for the connection, which is repeated if it is rejected. The first one is not: the
    # broker takes its time for the first handshake since its start.
    for limit, config, said in (
        (60, broker.authority.client_config("nobody"), "Cluster authorization failed"),
        (10, broker.authority.client_config("sceptic", trust=stranger), "CERTIFICATE_VERIFY_FAILED"),
        (10, stranger.client_config("stranger", trust=broker.authority), "alert"),
    ):
        monkeypatch.setattr(health, "LIMIT_SECONDS", limit)
        ask = ["health", "--bootstrap-server", broker.tls, "--command-config", str(config)]
        assert main(ask) == 1
        sentence = capsys.readouterr().err
        assert said in sentence
        assert sentence.count("\n") == 1


def test_hidden_topics_differ_from_a_new_cluster(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By plaintext comes a super user, by TLS one who may describe the cluster, and no topic at first."""
    monkeypatch.setattr(health, "LIMIT_SECONDS", 60)  # a new broker takes its time for the first handshake
    with servers.broker.running(tmp_path) as new:
        assert main(["health", "--bootstrap-server", new.plaintext]) == 0
        name = unique("viewer")
        config = str(new.authority.client_config(name))
        ask = ["--bootstrap-server", new.tls, "--command-config", config]
        verbs = (["health"], ["doctor", "cluster"], ["transactions", "find-hanging"])

        def grant(resource: str, at: str) -> None:
            granted = Acl(
                principal=f"User:CN={name}",
                resource=resource,
                name=at,
                pattern="literal",
                operation="describe",
            )
            with connect(End("cluster", new.plaintext), "test") as client:
                apply_acls(client, acls.AclChanges((granted,), ()))

        grant("cluster", "kafka-cluster")
        for topics in (0, 1):  # a topic that exists is hidden, too
            if topics:
                clients.create(new, unique("hidden"))
            for verb in verbs:
                assert main([*verb, *ask]) == 3
                said = capsys.readouterr().out
                assert re.search(r"\[(cluster-topics-hidden|transaction-search-incomplete)\]", said)
        grant("topic", "*")
        for verb in verbs:
            assert main([*verb, *ask]) == 0


def test_own_topic_settings_are_distinguished_from_effective_ones(client: Client) -> None:
    declared = [
        DeclaredTopic(name="own", partitions=1, replication_factor=1, config={"retention.ms": "5000"}),
        DeclaredTopic(name="plain", partitions=1, replication_factor=1),
    ]
    apply_topics(client, topics.plan(declared, {}))
    await_topics(client, declared)
    assert own_settings(client, ["own", "plain", "gone"]) == {
        "own": {"retention.ms": "5000"},
        "plain": {},
        "gone": {},
    }
    assert setting(client, ["own", "plain"], "retention.ms") == {"own": "5000", "plain": "-1"}
    assert setting(client, ["own"], "cleanup.policy") == {"own": "delete"}


def test_quotas_are_set_and_found(client: Client) -> None:
    mine = Quota({"user": "amir", "client-id": None}, {"producer_byte_rate": 1e6})
    default = Quota({"ip": None}, {"connection_creation_rate": 500.0})
    apply_quotas(client, [mine, default])
    deadline = time.monotonic() + SETTLE_SECONDS  # the broker learns it from the controller
    while not (mine in (found := list_quotas(client)) and default in found):
        assert time.monotonic() < deadline, found
    with raises(Failed, "quota-rejected", "1 quota", "amir"):
        apply_quotas(client, [Quota({"user": "amir"}, {"nonsense": 1.0})])
