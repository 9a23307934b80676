"""The admin client, the Ansible modules and `aqueduct health`, against a real broker."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kafka_broker import Broker

from aqueduct.cli import main
from aqueduct.errors import Failed, Refused
from aqueduct.kafka import acls, topics
from aqueduct.kafka import admin as kafka_admin
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.client_config import ClientConfig
from aqueduct.kafka.quotas import Quota
from aqueduct.kafka.topics import Declared

MODULES = Path(__file__).parents[2] / "plugins" / "modules"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def admin(broker: Broker) -> Iterator[kafka_admin.Admin]:
    with kafka_admin.connect(broker.plaintext, ClientConfig()) as admin:
        yield admin


# In a process of its own, as Ansible does it: beside the controller's code, warnings go another way.
RUN_MODULE = """
import json, runpy, sys
from ansible.module_utils.testing import patch_module_args
with patch_module_args(json.loads(sys.argv[2])):
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def run_module(broker: Broker) -> Run:
    """Run one of our Ansible modules; its answer."""

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


def unique(name: str) -> str:
    return f"{name}.{uuid4().hex[:8]}"


def make_so(admin: kafka_admin.Admin, *declared: Declared) -> topics.Plan:
    plan = topics.plan(declared, admin.find_topics(declared))
    admin.apply_topics(plan)
    admin.await_topics(declared)
    return plan


def test_a_topic_is_made_grown_and_altered_and_then_stays(admin: kafka_admin.Admin) -> None:
    name = unique("topic")
    first = Declared(name, 1, None, {"retention.ms": "1000", "min.cleanable.dirty.ratio": "0.50"})
    assert make_so(admin, first).create == (first,)
    assert not make_so(admin, first).touched()
    second = Declared(name, 3, 1, {"retention.ms": "2000", "cleanup.policy": "compact, delete"})
    assert make_so(admin, second).touched() == {name}
    assert not make_so(admin, second).touched()
    every = Declared(name, 3, 1, {"retention.ms": None, "min.cleanable.dirty.ratio": "0.5"})
    assert admin.find_topics([every])[name].config == {
        "retention.ms": "2000",
        "min.cleanable.dirty.ratio": "0.5",  # not named by the second: kept
    }
    make_so(admin, every)
    assert "retention.ms" not in admin.find_topics([every])[name].config


def test_many_topics_go_in_requests_that_the_controller_takes(
    admin: kafka_admin.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_admin, "RECORDS_PER_REQUEST", 7)
    monkeypatch.setattr(kafka_admin, "RESOURCES_PER_REQUEST", 2)
    names = [unique("many") for _ in range(5)]
    declared = [Declared(name, number + 1, None, {"retention.ms": "1"}) for number, name in enumerate(names)]
    make_so(admin, *declared)
    grown = [Declared(name, 9, None, {"retention.ms": "2"}) for name in names]
    make_so(admin, *grown)
    found = admin.find_topics(grown)
    assert sorted(found) == sorted(names)
    assert {(topic.partitions, topic.config["retention.ms"]) for topic in found.values()} == {(9, "2")}
    assert admin.min_in_sync(names) == dict.fromkeys(names, 1)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("retention.mss", "1", "Unknown topic config name: retention.mss"),
        ("retention.ms", "week", "Not a number of type LONG"),
    ],
)
def test_nothing_is_changed_if_the_controller_refuses_one_topic(
    admin: kafka_admin.Admin, key: str, value: str, said: str
) -> None:
    good, wrong, old = unique("good"), unique("wrong"), unique("old")
    make_so(admin, Declared(old, 1))
    for mistake in (Declared(wrong, 1, None, {key: value}), Declared(old, 1, None, {key: value})):
        declared = [Declared(good, 1), mistake]
        plan = topics.plan(declared, admin.find_topics(declared))
        with pytest.raises(Refused) as refused:
            admin.apply_topics(plan)
        assert f"topic {mistake.name}" in str(refused.value)
        assert said in str(refused.value)
        assert good not in admin.find_topics(declared)


def test_acls_become_the_declared_ones_of_managed_principals(admin: kafka_admin.Admin) -> None:
    site = uuid4().hex[:8]
    mirror, other = f"User:mirror-{site}", f"User:other-{site}"
    stale = Acl(mirror, "topic", "old", "prefixed", "read")
    denied = Acl(mirror, "group", "g", "literal", "describe", host="10.1.2.3", permission="deny")
    foreign = Acl(other, "transactional_id", "t", "literal", "two_phase_commit")
    admin.apply_acls(acls.Plan(add=(stale, denied, foreign), remove=()))
    wanted = {
        Acl(mirror, "topic", "new", "literal", "read"),
        Acl(mirror, "cluster", "kafka-cluster", "literal", "idempotent_write"),
    }
    plan = acls.plan(wanted, admin.list_acls(), f"^mirror-{site}$")
    assert set(plan.remove) == {stale, denied}
    admin.apply_acls(plan)
    now = admin.list_acls()
    assert {acl for acl in now if acl.principal in (mirror, other)} == {*wanted, foreign}
    assert acls.plan(wanted, now, f"^mirror-{site}$") == acls.Plan((), ())


def test_an_acl_that_the_controller_refuses_is_named(admin: kafka_admin.Admin) -> None:
    nameless = Acl("User:x", "topic", "", "literal", "read")
    with pytest.raises(Failed, match=r"refused 1 ACL: allow User:x from \*: read on topic"):
        admin.apply_acls(acls.Plan(add=(nameless,), remove=()))


def test_the_cluster_is_seen_as_it_is(admin: kafka_admin.Admin) -> None:
    topic = unique("seen")
    make_so(admin, Declared(topic, 2, 1, {"min.insync.replicas": "2"}))
    state = admin.cluster()
    assert (state.brokers, state.fenced, state.quorum.leader) == ({1}, frozenset(), 1)
    assert state.quorum.voters.keys() == {1}
    assert state.quorum.caught_up() == {1}
    found = {(p.number, p.leader, p.replicas, p.in_sync) for p in state.partitions if p.topic == topic}
    assert found == {(0, 1, (1,), (1,)), (1, 1, (1,), (1,))}
    assert admin.min_in_sync([topic]) == {topic: 2}
    assert admin.silence(1) == []
    assert admin.silence(2)


def test_waiting_ends_with_what_is_still_wrong(admin: kafka_admin.Admin) -> None:
    with pytest.raises(Failed, match=r"Waited 0 s: This is wrong\. That too\."):
        admin.wait(lambda _: ["This is wrong.", "That too."], 0)
    answers = iter([["Not yet."], []])
    assert admin.wait(lambda _: next(answers), 30).cluster_id == admin.cluster().cluster_id


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
    assert "replication factor than declared" in str(grown["warnings"])
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


def test_the_ready_module_waits_refuses_and_tells_the_state(run_module: Run) -> None:
    ready = run_module("kafka_ready", node_id=1, roles=["broker", "controller"], no_under_replicated=True)
    assert (ready["active_controller"], ready["brokers"], ready["restart_order"]) == (1, [1], [1])
    assert (ready["under_replicated"], ready["changed"]) == (0, False)
    missing = run_module("kafka_ready", node_id=2, roles=["broker", "controller"], timeout_seconds=1)
    assert "Broker 2 is not registered" in missing["msg"]
    assert "Controller 2 does not follow" in missing["msg"]
    refused = run_module("kafka_ready", stopping=1)
    assert refused["msg"].startswith("Node 1 may not be stopped.")
    assert not run_module("kafka_ready", stopping=1, allow_unavailable=True).get("failed")


def test_health_says_what_is_wrong(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["health", "--bootstrap-servers", broker.plaintext]
    assert main(ask) == 0
    assert main([*ask, "--node-id", "1"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*ask, "--node-id", "4"]) == 1
    assert "Broker 4 is not registered" in capsys.readouterr().out


def test_health_by_tls_tells_why_it_was_turned_away(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct.cli.health.LIMIT_SECONDS", 3)
    stranger = type(broker.authority)(tmp_path / "pki")
    for config, said in (
        (broker.authority.client_config("nobody"), "Cluster authorization failed"),
        (broker.authority.client_config("sceptic", trust=stranger), "CERTIFICATE_VERIFY_FAILED"),
        (stranger.client_config("stranger", trust=broker.authority), "alert"),
    ):
        ask = ["health", "--bootstrap-servers", broker.tls, "--client-config", str(config)]
        assert main(ask) == 1
        sentence = capsys.readouterr().err
        assert said in sentence
        assert sentence.count("\n") == 1


def test_a_topics_own_settings_are_told_from_those_that_hold(admin: kafka_admin.Admin) -> None:
    declared = [Declared("own", 1, 1, {"retention.ms": "5000"}), Declared("plain", 1, 1)]
    admin.apply_topics(topics.plan(declared, {}))
    admin.await_topics(declared)
    assert admin.topic_settings(["own", "plain", "gone"]) == {
        "own": {"retention.ms": "5000"},
        "plain": {},
        "gone": {},
    }
    assert admin.effective(["own", "plain"], "retention.ms") == {"own": "5000", "plain": "-1"}
    assert admin.effective(["own"], "cleanup.policy") == {"own": "delete"}


def test_quotas_are_set_and_found(admin: kafka_admin.Admin) -> None:
    mine = Quota({"user": "amir", "client-id": None}, {"producer_byte_rate": 1e6})
    default = Quota({"ip": None}, {"connection_creation_rate": 500.0})
    admin.apply_quotas([mine, default])
    deadline = time.monotonic() + kafka_admin.SETTLE_SECONDS  # the broker learns it from the controller
    while not (mine in (found := admin.quotas()) and default in found):
        assert time.monotonic() < deadline, found
    with pytest.raises(Failed, match=r"refused 1 quota.*amir"):
        admin.apply_quotas([Quota({"user": "amir"}, {"nonsense": 1.0})])
