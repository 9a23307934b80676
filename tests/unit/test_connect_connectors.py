"""Connectors: what is declared against what there is. tests/broker/test_connect.py has a real worker."""

from collections.abc import Mapping
from typing import Any

import pytest
from kit.identifiers import raises

from aqueduct.connect import connectors
from aqueduct.connect.connectors import (
    MASK,
    ConnectorChanges,
    ConnectorStatus,
    RunningConnector,
    Validation,
    WantedConnector,
)
from aqueduct.errors import Refused

CONFIG = {"connector.class": "FileStreamSink", "topics": "flights", "name": "sink"}


def declared(state: str = "running", config: Mapping[str, str] | None = CONFIG) -> WantedConnector:
    return WantedConnector("sink", state, config)


def actual(*states: str, config: Mapping[str, str] = CONFIG, trace: str = "") -> dict[str, RunningConnector]:
    numbers = [None, *range(len(states) - 1)]
    rows = [
        ConnectorStatus(task=n, state=state, worker="h:1", trace=trace)
        for n, state in zip(numbers, states, strict=True)
    ]
    return {"sink": RunningConnector(name="sink", config=config, statuses=tuple(rows))}


def test_values_are_what_connect_takes() -> None:
    [found] = connectors.parse(
        [{"name": "sink", "config": {"connector.class": "X", "a": True, "b": 5, "c": ["x", 1], "d": None}}]
    )
    expected = {"connector.class": "X", "a": "true", "b": "5", "c": "x,1", "name": "sink"}
    assert found == WantedConnector("sink", "running", expected)


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([{"name": "a", "config": {}}], "a has no connector.class"),
        ([{"name": "a"}, {"name": "a"}], "a is declared twice"),
        (
            [{"name": "a", "config": {"connector.class": "X", "name": "b"}}],
            "the configuration of a contains another name, b",
        ),
    ],
)
def test_what_can_not_be_declared(entries: list[dict[str, Any]], sentence: str) -> None:
    with raises(Refused, "connector-config-invalid") as caught:
        connectors.parse(entries)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        (declared(), {}, ConnectorChanges(create=(declared(),))),
        (declared(), actual("RUNNING", "RUNNING"), ConnectorChanges()),
        (declared(), actual("RUNNING", config=CONFIG | {"a": "b"}), ConnectorChanges(update=(declared(),))),
        (declared(), actual("PAUSED", "PAUSED"), ConnectorChanges(move=(declared(),))),
        (declared(), actual("STOPPED"), ConnectorChanges(move=(declared(),))),
        (declared(), actual("RUNNING", "FAILED"), ConnectorChanges(restart=("sink",))),
        (declared(), actual("FAILED"), ConnectorChanges(restart=("sink",))),
        (declared(), actual("UNASSIGNED", "UNASSIGNED"), ConnectorChanges()),
        (declared("paused"), actual("RUNNING", "FAILED"), ConnectorChanges(move=(declared("paused"),))),
        (declared("paused", None), actual("PAUSED", "PAUSED"), ConnectorChanges()),
        (declared("stopped", None), actual("PAUSED"), ConnectorChanges(move=(declared("stopped", None),))),
        (declared("absent"), actual("FAILED"), ConnectorChanges(delete=("sink",))),
        (declared("absent"), {}, ConnectorChanges()),
    ],
)
def test_only_what_differs_is_done(
    wanted: WantedConnector, there: Mapping[str, RunningConnector], expected: ConnectorChanges
) -> None:
    other = {
        "other": RunningConnector(
            name="other",
            config={},
            statuses=(ConnectorStatus(task=None, state="FAILED", worker="h:1", trace=""),),
        )
    }  # is nobody's business
    assert connectors.plan([wanted], {**there, **other}) == expected


def test_absent_connector_without_configuration_is_refused() -> None:
    with raises(Refused, "connector-missing") as caught:
        connectors.plan([declared(config=None)], {})
    assert "sink" in str(caught.value)


@pytest.mark.parametrize(
    ("state", "states", "missing"),
    [
        ("running", ["RUNNING", "RUNNING"], ""),
        ("running", ["RUNNING"], "has no task"),
        ("running", ["RUNNING", "UNASSIGNED", "FAILED"], "task 0 is UNASSIGNED; task 1 is FAILED"),
        ("running", ["UNASSIGNED"], "it is UNASSIGNED"),
        ("paused", ["PAUSED", "PAUSED"], ""),
        ("paused", ["PAUSED", "RUNNING"], "task 0 is RUNNING"),
        ("paused", ["PAUSED", "FAILED"], ""),
        ("stopped", ["STOPPED"], ""),
        ("stopped", ["RUNNING", "RUNNING"], "is RUNNING"),
    ],
)
def test_a_connector_is_waited_for_with_every_task(state: str, states: list[str], missing: str) -> None:
    assert connectors.waiting_for(declared(state), actual(*states)["sink"]) == missing
    assert connectors.waiting_for(declared(state), None) == "does not exist yet"


def test_tasks_that_failed_alike_are_told_once() -> None:
    [connector] = actual("RUNNING", "FAILED", "FAILED", trace="java.X: no\n\tat Y\n").values()
    assert connectors.failures(connector) == (
        "Connector sink: task 0, task 1 FAILED on h:1: java.X: no\n\tat Y"
    )
    assert connectors.first_line(connector.failed[0].trace) == "java.X: no"


def test_authorization_failure_names_remedy() -> None:
    trace = "java.X: no\nCaused by: org.apache.kafka.common.errors.TopicAuthorizationException: [seats]"
    [connector] = actual("RUNNING", "FAILED", trace=trace).values()
    assert "Error of Connect: java.X: no" in connectors.failures(connector)


def validation(*known: str, errors: Mapping[str, list[str]] | None = None) -> Validation:
    return Validation.parse(
        [
            {
                "definition": {"name": key, "type": "PASSWORD" if "password" in key else "STRING"},
                "value": {"name": key, "errors": (errors or {}).get(key, [])},
            }
            for key in known
        ]
        + [{"definition": None, "value": {"name": "without", "errors": []}}]
    )


def test_errors_have_no_secrets() -> None:
    config = CONFIG | {"my.password": "hush", "url": "x${file:/s:k}", "client.secret": "hush"}
    config |= {"hosts": "http+x://a:hush@b", "jdbc": "jdbc:x://h?password=hush&a=b"}
    found = connectors.errors(
        declared(config=config),
        validation(
            *("url", "my.password", "client.secret", "topics", "hosts"),
            errors={
                "hosts": ["Invalid value http+x://a:hush@b for it"],
                "url": ["Invalid value xhush"],
                "client.secret": ["Invalid value hush for it"],
                "topics": ["Invalid value flights."],
            },
        ),
    )
    assert found[:4] == [
        f"[connector-config-invalid] Connector sink: client.secret: Invalid value {MASK} for it.",
        f"[connector-config-invalid] Connector sink: hosts: Invalid value http+x://a:{MASK}@b for it.",
        "[connector-config-invalid] Connector sink: topics: Invalid value flights.",
        "[connector-config-invalid] Connector sink: url: the value of x${file:/s:k} is not accepted.",
    ]
    for key, refused in zip(("client.secret", "hosts", "jdbc", "my.password"), found[4:], strict=True):
        assert refused.startswith(f"[connector-secret-plain] Connector sink: {key} ")
    assert "hush" not in str(found)


@pytest.mark.parametrize(
    ("key", "value", "plain"),
    [
        ("connection.password", "hunter2", True),
        ("connection.password", "${file:x:y}", False),
        ("connection.password", "", False),
        ("aws_secret", "hunter2", True),
        ("sasl.jaas.config", "x", True),
        ("producer.override.ssl.keystore.key", "PEM of a key", True),
        ("sasl.jaas.config", 'Plain required username="a" password="${file:/s:k}";', False),
        ("password.encoder", "x", False),
        ("tokens.max", "2", False),
        ("connection.url", "jdbc:postgresql://h:5432/db?user=a&password=hunter2", True),
        ("connection.url", "jdbc:sqlserver://h:1433;user=a;password=hunter2;encrypt=true", True),
        ("connection.url", "elastic://user:hunter2@host:9200", True),
        ("connection.url", "elastic://user:${file:/s:k}@host/?password=${file:/s:k}", False),
        ("connection.url", "jdbc:postgresql://h-1:5432,h-2:5433/db?user=a@b", False),
    ],
)
def test_a_secret_in_plain_is_found(key: str, value: str, plain: bool) -> None:
    assert connectors.plain_secrets({key: value}) == ([key] if plain else [])


def test_a_reference_is_no_secret() -> None:
    config = CONFIG | {"my.password": "${file:/s:k}", "producer.override.ssl.key.password": "${file:/s:k}"}
    assert connectors.errors(declared(config=config), validation("my.password")) == []
    literal = CONFIG | {"producer.override.ssl.key.password": "hush"}
    [refused] = connectors.errors(declared(config=literal), validation())
    assert refused.startswith("[connector-secret-plain] Connector sink: producer.override.ssl.key.password ")


def test_keys_that_nobody_knows_are_named() -> None:
    known = validation(*CONFIG, "errors.tolerance", "tasks.max")
    extra = {"task.max": "1", "errors.tolerence": "all", "hibernate.x": "y", "value.converter.a": "b"}
    extra |= {"transforms.a.b": "c", "consumer.override.d": "e"}
    warnings = connectors.unknown(declared(config=CONFIG | extra), known)
    begin = "[connector-setting-unknown] Connector sink: "
    unknown = [warning.removeprefix(begin).split()[0] for warning in warnings]
    assert unknown == ["errors.tolerence", "hibernate.x", "task.max"]
    assert "errors.tolerance?" in warnings[0]
    assert "tasks.max?" in warnings[2]


def test_a_difference_shows_no_secret() -> None:
    before = CONFIG | {"my.password": "old", "odd": "old", "a.token": "${file:/s:k}", "url": "x://y:old@z"}
    after = before | {"my.password": "new", "odd": "new", "url": "x://y:new@z"}
    there = actual("RUNNING", "RUNNING", config=before)
    wanted = declared("paused", after)
    [shown] = connectors.diff(connectors.plan([wanted], there), there, {"sink": frozenset({"odd"})})
    assert "old" not in shown["before"]
    assert "new" not in shown["after"]
    assert f"my.password={MASK}\n" in shown["after"]
    assert "a.token=${file:/s:k}\n" in shown["after"]
    assert (shown["before"][-14:], shown["after"][-13:]) == ("state=RUNNING\n", "state=PAUSED\n")
    entries = [
        {"name": "a", "config": {"x.password": "hush", "y": "z", "tokens": True, "b.secret": "${f:p:k}"}},
        {"name": "b", "config": {"url": "jdbc:x://h?password=hash&a=b", "hosts": "//a:${f:p:k}@b"}},
    ]
    assert connectors.secrets(entries) == {"hush", "hash"}
