"""The needs of an inventory's connector: its configuration with a dead-letter topic, topics, and rights."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.estate.acls import connect_acls
from aqueduct.estate.connectors import DeclaredConnector, references, topics

FILE = "/etc/aqueduct/connect/secrets.properties"
SINK = DeclaredConnector.of(
    {"name": "files", "config": {"connector.class": "FileStreamSink", "topics": "a, b"}}
)
SOURCE = DeclaredConnector.of(
    {"name": "lines", "config": {"connector.class": "FileStreamSource"}, "writes": ["lines"]}
)


def rights(*connectors: DeclaredConnector, principal: str = "connect-lake") -> set[tuple[str, str, str, str]]:
    return {
        (acl.resource, acl.name, acl.pattern, operation)
        for acl in connect_acls("lake", connectors)
        for operation in acl.operations
        if acl.principal == principal
    }


def test_a_sink_has_dead_letters() -> None:
    assert SINK.full_config(3) == {
        "connector.class": "FileStreamSink",
        "topics": "a, b",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": "files-dlq",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.deadletterqueue.topic.replication.factor": "3",
    }


@pytest.mark.parametrize(
    ("config", "letters"),
    [
        ({}, "files-dlq"),
        ({"errors.tolerance": "all"}, "files-dlq"),
        ({"errors.deadletterqueue.topic.name": "bad"}, "bad"),
        ({"errors.tolerance": "none"}, ""),
        ({"errors.tolerance": None}, ""),
        ({"errors.deadletterqueue.topic.name": None}, ""),
    ],
)
def test_dead_letters_go_where_the_inventory_says(config: dict[str, str | None], letters: str) -> None:
    sink = DeclaredConnector.of({"name": "files", "config": {"topics": "a", **config}})
    assert sink.dead_letters == letters
    assert ("errors.deadletterqueue.topic.name" in sink.full_config(1)) == bool(letters)
    assert None not in sink.full_config(1).values()
    assert [topic["name"] for topic in topics("lake", [sink], letters_mebibytes=1, declared=[])][3:] == [
        *([letters, "aqueduct.dlq.replayed"] if letters else [])
    ]


def test_source_connector_is_no_sink_whatever_its_settings() -> None:
    mirror = DeclaredConnector.of({"name": "mirror", "config": {"topics": ".*"}, "writes": ["pro1\\..*"]})
    assert not SOURCE.dead_letters
    assert not mirror.is_sink
    assert mirror.reads == ()


def test_values_become_kafka_s_text() -> None:
    assert DeclaredConnector.of({"name": "x", "config": {"a": True, "b": 2, "c": None}}).config == {
        "a": "true",
        "b": "2",
    }


def test_internal_topics_are_compacted_and_declared_ones_omitted() -> None:
    declared = ["files-dlq", "aqueduct.dlq.replayed"]
    made = topics("lake", [SINK], letters_mebibytes=2, declared=declared)
    assert [(topic["name"], topic["config"]["cleanup.policy"]) for topic in made] == [
        ("aqueduct-connect-lake-configs", "compact"),
        ("aqueduct-connect-lake-offsets", "compact"),
        ("aqueduct-connect-lake-status", "compact"),
    ]
    assert made[0]["partitions"] == 1  # Connect refuses more
    [letters, replayed] = topics("lake", [SINK], letters_mebibytes=2, declared=[])[3:]
    assert (replayed["name"], replayed["config"]) == ("aqueduct.dlq.replayed", {"cleanup.policy": "compact"})
    assert len(topics("lake", [SOURCE], letters_mebibytes=2, declared=[])) == 3
    assert (letters["config"]["retention.ms"], letters["config"]["retention.bytes"]) == ("-1", "2097152")


def test_sink_may_read_topics_and_write_dead_letters() -> None:
    assert rights(SINK) - rights() == {
        ("topic", "a", "literal", "describe"),
        ("topic", "a", "literal", "read"),
        ("topic", "b", "literal", "describe"),
        ("topic", "b", "literal", "read"),
        *(("topic", "files-dlq", "literal", right) for right in ("describe", "read", "write")),
        *(("topic", "aqueduct.dlq.replayed", "literal", right) for right in ("describe", "read")),
        ("group", "connect-files", "literal", "describe"),
        ("group", "connect-files", "literal", "read"),
    }


def test_replay_only_writes_sink_topics_and_reads_letters() -> None:
    transactions, own = "aqueduct-dlq-files-dlq", "aqueduct.dlq.replayed"
    assert rights(SINK, SOURCE, principal="dlq-replay-lake") == {
        *(("topic", name, "literal", right) for name in "ab" for right in ("describe", "write")),
        *(("topic", "files-dlq", "literal", right) for right in ("describe", "read")),
        *(("topic", own, "literal", right) for right in ("describe", "read", "write")),
        *(("transactional_id", transactions, "literal", right) for right in ("describe", "write")),
    }
    assert not rights(SOURCE, principal="dlq-replay-lake")


def test_source_may_write_topics_and_create_if_configured() -> None:
    assert rights(SOURCE) - rights() == {
        ("topic", "lines", "literal", "describe"),
        ("topic", "lines", "literal", "write"),
    }
    creating = DeclaredConnector.of(
        {"name": "x", "config": {"topic.creation.default.partitions": 1}, "writes": ["lines"]}
    )
    assert ("topic", "lines", "literal", "create") in rights(creating)


@given(st.lists(st.sampled_from(["lake", "connect-lake", "aqueduct-connect-lake", "x"]), max_size=3))
def test_connector_has_neither_worker_group_nor_cluster_rights(names: list[str]) -> None:
    sinks = [DeclaredConnector.of({"name": name, "config": {"topics": "a"}}) for name in names]
    assert "aqueduct-connect-lake" not in {sink.group for sink in sinks}
    assert not [acl for acl in connect_acls("lake", sinks) if acl.resource == "cluster"]


def test_references_to_our_file_are_found() -> None:
    others = f"${{file:/other:two}} ${{dir:{FILE}:three}} ${{env:four}}"
    value = f"a ${{file:{FILE}:one}} {others} ${{file:{FILE}:five}}"
    assert references(value, FILE) == ["one", "five"]
