"""The classic mirror's settings: what keeps records safe, whatever else is set."""

from typing import Any

import pytest

from aqueduct.estate import classic_mirror
from aqueduct.estate.acls import flow_acls
from aqueduct.estate.model import Flow

FLOW = Flow(source="old1", target="lake", topics=("flights", r"a\.b"), engine="classic", threads=3)
ACCESS = {"security.protocol": "SSL"}
UNSAFE: dict[str, Any] = {
    "acks": "1", "enable.idempotence": "false", "retries": 0, "enable.auto.commit": "true",
    "auto.offset.reset": "latest", "isolation.level": "read_uncommitted", "fetch.min.bytes": 7,
}  # fmt: skip


def test_no_tuning_makes_it_lose_records() -> None:
    consumer = classic_mirror.consumer(FLOW, "h:1", ACCESS, UNSAFE, 60)
    producer = classic_mirror.producer(FLOW, "t:1", ACCESS, UNSAFE, "host-1")
    assert consumer["enable.auto.commit"] == "false"
    assert consumer["auto.offset.reset"] == "earliest"
    assert consumer["isolation.level"] == "read_committed"
    assert (consumer["fetch.min.bytes"], consumer["security.protocol"]) == (7, "SSL")
    assert (consumer["group.id"], consumer["bootstrap.servers"]) == ("mirror-lake-old1", "h:1")
    assert (producer["acks"], producer["enable.idempotence"], producer["retries"]) == (
        "all",
        "true",
        "2147483647",
    )
    assert (producer["client.id"], producer["bootstrap.servers"]) == ("mirror-lake-old1-host-1", "t:1")
    # As long as a consumer may be without a poll, and no longer.
    assert producer["delivery.timeout.ms"] == producer["max.block.ms"] == consumer["max.poll.interval.ms"]


def test_the_kernel_sizes_its_buffers_unless_tuning_does() -> None:
    for tuning, wanted in ({}, "-1"), ({"receive.buffer.bytes": 4096}, 4096):
        consumer = classic_mirror.consumer(FLOW, "h:1", ACCESS, tuning, 60)
        producer = classic_mirror.producer(FLOW, "t:1", ACCESS, tuning, "host-1")
        assert consumer["receive.buffer.bytes"] == producer["receive.buffer.bytes"] == wanted
        assert consumer["send.buffer.bytes"] == producer["send.buffer.bytes"] == "-1"


@pytest.mark.parametrize(
    ("version", "isolation"),
    [
        ("0.10.0.1", "read_uncommitted"),
        ("0.11", "read_committed"),
        ("1.0", "read_committed"),
        ("", "read_committed"),
    ],
)
def test_source_without_transactions_is_read_uncommitted(version: str, isolation: str) -> None:
    flow = Flow(source="old1", target="lake", topics=("flights",), engine="classic", source_version=version)
    assert classic_mirror.consumer(flow, "h:1", {}, {}, 60)["isolation.level"] == isolation


def test_its_arguments_are_quoted_as_java_reads_them() -> None:
    arguments = classic_mirror.arguments(FLOW, "/etc/f", 5)
    assert arguments[0] == "kafka.tools.MirrorMaker"
    assert arguments[arguments.index("--num.streams") + 1] == "3"
    assert "--message.handler.args" not in arguments
    lines = classic_mirror.argument_file(arguments).splitlines()
    assert r'"(?!(?:mm2.*\\.internal|.*\\.replica|__.*)$)(?:flights|a\\.b)"' in lines
    prefixed = Flow(source="old1", target="lake", topics=("flights",), naming="prefix")
    assert classic_mirror.arguments(prefixed, "/etc/f", 5)[-2:] == ["--message.handler.args", "old1."]


def test_classic_mirror_reads_source_and_writes_target_only() -> None:
    source = {
        (each.principal, each.resource, each.name, each.operations) for each in flow_acls("old1", [FLOW])
    }
    target = {
        (each.principal, each.resource, each.name, each.operations) for each in flow_acls("lake", [FLOW])
    }
    names = ("a.b", "flights")
    assert source == {
        ("mirror-lake", "group", "mirror-lake-old1", ("describe", "read")),
        *(("mirror-lake", "topic", name, ("describe", "read")) for name in names),
        *(("reconcile-lake", "topic", name, ("describe", "read")) for name in names),
    }
    assert target == {
        # The bindings of its positions are offsets of a group: committing them needs the right to read.
        ("mirror-lake", "group", "mirror-lake-old1-bindings", ("describe", "read")),
        *(("mirror-lake", "topic", name, ("describe", "read", "write")) for name in names),
        *(("reconcile-lake", "topic", name, ("describe", "read")) for name in names),
    }
