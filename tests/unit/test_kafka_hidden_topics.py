"""A cluster that shows a client no topic is not one without a topic: what it hides is unknown."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.errors import TopicAuthorizationFailedError
from kit.identifiers import assert_printed

from aqueduct.cli import doctor, health, main, transactions
from aqueduct.control_node.status import scraping
from aqueduct.kafka.admin import cluster as asking
from aqueduct.kafka.client import Client, Topic
from aqueduct.kafka.cluster import Partition, Quorum

QUORUM = Quorum(1, {1: 0}, {})
FLIGHTS = Topic(
    id=None,
    name="flights",
    partitions=(Partition(topic="flights", number=0, leader=1, replicas=(1,), in_sync=(1,)),),
)
CLUSTER = ["--bootstrap-server=localhost:1"]


class Brokers:
    """A cluster that answers a client, which may describe all topics or those that are given."""

    patience_seconds = 0.0

    def __init__(self, *topics: Topic, may_describe_all: bool) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._may_describe_all = may_describe_all

    def ask_topics(self, names: list[str] | None, _: int | None = None) -> dict[str, Topic]:
        if names is None:
            return self._topics
        if not self._may_describe_all:
            raise TopicAuthorizationFailedError(names)
        return {}

    def send(self, *_: object) -> Any:
        broker = SimpleNamespace(broker_id=1, is_fenced=False, host="localhost", port=1)
        return SimpleNamespace(error_code=0, cluster_id="id", controller_id=1, brokers=[broker])


HIDDEN = Brokers(may_describe_all=False)
EMPTY = Brokers(may_describe_all=True)
PARTLY = Brokers(FLIGHTS, may_describe_all=False)


@pytest.fixture(autouse=True)
def without_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_quorum", lambda *_: QUORUM)


def run(monkeypatch: pytest.MonkeyPatch, brokers: Brokers, *command: str) -> int:
    @contextmanager
    def connected(*_: object, **__: object) -> Iterator[Brokers]:
        yield brokers

    searched = SimpleNamespace(hanging=(), tracked=(), unknown=())
    for verb in (doctor, health, transactions):
        monkeypatch.setattr(verb, "connect", connected)
        monkeypatch.setattr(verb, "silence", lambda *_: [])
    for verb in (doctor, transactions):
        search = transactions.Search(**vars(searched))
        monkeypatch.setattr(verb.asking, "find", lambda *_, search=search, **__: search)
    return main([*command, *CLUSTER])


@pytest.mark.parametrize(("brokers", "hides"), [(HIDDEN, True), (EMPTY, False), (PARTLY, False)])
def test_new_cluster_differs_from_hidden_topics(brokers: Brokers, hides: bool) -> None:
    """A client that sees some topics is believed to see all that it asks about."""
    assert asking.describe_cluster(cast(Client, brokers)).hides_topics == hides


@pytest.mark.parametrize(
    ("command", "id_"),
    [
        (("health",), "cluster-topics-hidden"),
        (("health", "--node-id=1"), "cluster-topics-hidden"),
        (("doctor", "cluster"), "cluster-topics-hidden"),
        (("transactions", "find-hanging"), "transaction-search-incomplete"),
        (("transactions", "finish"), "transaction-search-incomplete"),
        (("transactions", "finish", "--leader=1"), "transaction-search-incomplete"),
    ],
)
def test_hidden_topics_are_unknown(
    command: tuple[str, ...], id_: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, HIDDEN, *command) == 3
    assert_printed(capsys.readouterr().out, id_)
    for brokers in (EMPTY, PARTLY):
        assert run(monkeypatch, brokers, *command) == 0
        assert id_ not in capsys.readouterr().out


def test_hidden_topics_are_in_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, HIDDEN, "health", "--json") == 3
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert problem["id"] == "cluster-topics-hidden"
    assert run(monkeypatch, HIDDEN, "transactions", "find-hanging", "--json") == 3
    [left_out] = json.loads(capsys.readouterr().out)["left_out"]
    assert left_out["id"] == "transaction-search-incomplete"


def test_hidden_topics_do_not_hide_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, HIDDEN, "health", "--node-id=2") == 1
    assert_printed(capsys.readouterr().out, "cluster-topics-hidden")


def test_estate_takes_hidden_topics_for_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for brokers, hides in ((HIDDEN, True), (EMPTY, False), (PARTLY, False)):
        run(monkeypatch, brokers, "health", "--json")
        assert scraping._shows_no_topic(capsys.readouterr().out) == hides
