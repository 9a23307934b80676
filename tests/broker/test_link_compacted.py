"""A compacted topic crosses: what compaction took at the source is no gap, and what was lost is one."""

from collections.abc import Callable
from pathlib import Path

import clients
import pytest
from kafka_broker import Broker
from relay import Faults, Relay
from test_link import (  # noqa: F401  # fixtures
    Ends,
    bundle,
    dedup,
    ends,
    gaps,
    raw,
    relay,
    sent_all,
    source,
    target,
    told_all,
    wait_for,
)

from aqueduct.cli import main


@pytest.fixture
def topic(source: Broker, target: Broker) -> str:  # noqa: F811
    """One whose old values the source removes as soon as it can."""
    name = clients.unique("link.compacted")
    eager = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "1", "delete_retention_ms": "0"}
    clients.create(source, name, 2, cleanup_policy="compact", **eager)
    return clients.create(target, name, 2)


def held(broker: Broker, topic: str, partition: int) -> list[int]:
    return [message.offset() for message in clients.read(broker, topic, partition)]


def fill(broker: Broker, topic: str) -> None:
    """Write the same keys again and again; return when compaction has left holes in both partitions."""

    def holes() -> bool:
        for partition in (0, 1):
            values = [{"key": f"{key}", "value": clients.unique("v")} for key in range(20)]
            clients.produce(broker, topic, values, partition)
        return all((there := held(broker, topic, number))[-1] >= len(there) + 40 for number in (0, 1))

    clients.wait_for("compaction", holes)


def test_what_compaction_took_is_no_gap(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,
    ends: Ends,  # noqa: F811
    relay: Relay,  # noqa: F811
    dedup: Callable[..., None],  # noqa: F811
    raw: str,  # noqa: F811
    gaps: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    fill(source, topic)
    down, up = ends.downstream(), ends.following()
    wait_for(sent_all(source, topic, ends), "sending all")
    wait_for(told_all(source, target, topic, raw), "telling all")
    dedup()
    assert bundle(target, gaps, tmp_path)["results"] == []
    for number in (0, 1):
        there = {message.value() for message in clients.read(source, topic, number)}  # fewer by and by
        arrived = [message.value() for message in clients.read(target, topic, number)]
        assert there <= {*arrived}
        assert len(arrived) == len({*arrived}) < max(held(source, topic, number))
    # What is lost on the way is listed all the same, from the first offset to the last.
    before = [max(held(source, topic, number)) for number in (0, 1)]
    relay.faults = Faults(lose=1)
    fill(source, topic)
    wait_for(sent_all(source, topic, ends), "sending all")
    relay.faults = Faults()
    wait_for(told_all(source, target, topic, raw), "telling all")
    dedup()
    lost = [[[before[number] + 1, max(held(source, topic, number))]] for number in (0, 1)]
    assert [each["gaps"] for each in bundle(target, gaps, tmp_path)["results"]] == lost
    argv = [f"--{name}={value}" for name, value in ends.sending.items()]
    assert main(["diode", "resend", *argv, "--resendFileName", str(tmp_path / "bundle.json")]) == 0

    def filled() -> bool:
        dedup()
        return not bundle(target, gaps, tmp_path)["results"]

    wait_for(filled, "filling what was lost")
    ends.stop(up)
    ends.stop(down)
