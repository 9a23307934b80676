"""A compacted topic crosses: what compaction took at the source is no gap, and what was lost is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import clients
from kit.clients import wait_for
from kit.links import PARTITIONS, Link, linked
from kit.relay import Faults

from aqueduct.errors import ExitCode
from servers.broker import Broker


@pytest.fixture
def link(tmp_path: Path, source: Broker, target: Broker) -> Iterator[Link]:
    """Yield a link for a topic whose old values the source removes as soon as it can."""
    name = clients.unique("link.compacted")
    eager = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "1", "delete_retention_ms": "0"}
    clients.create(source, name, 2, cleanup_policy="compact", **eager)
    clients.create(target, name, 2)
    with linked(tmp_path, source, target, name) as link:
        yield link


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


@pytest.mark.long  # scenario cross has such a topic
def test_what_compaction_took_is_no_gap(link: Link) -> None:
    source, target, topic = link.source, link.target, link.topic
    fill(source, topic)
    down, up = link.downstream(), link.following()
    link.wait_until_sent()
    link.wait_until_told()
    link.dedup()
    assert not link.missing()
    for number in PARTITIONS:
        there = {message.value() for message in clients.read(source, topic, number)}  # fewer by and by
        arrived = [message.value() for message in clients.read(target, topic, number)]
        assert there <= {*arrived}
        assert len(arrived) == len({*arrived}) < max(held(source, topic, number))
    # What is lost on the way is listed all the same, from the first offset to the last.
    before = [max(held(source, topic, number)) for number in PARTITIONS]
    link.relay.faults = Faults(lose=1)
    fill(source, topic)
    link.wait_until_sent()
    link.relay.faults = Faults()
    link.wait_until_told()
    link.dedup()
    lost = [[[before[number] + 1, max(held(source, topic, number))]] for number in PARTITIONS]
    assert [each["gaps"] for each in link.bundle()["results"]] == lost
    assert link.resend() == ExitCode.DONE
    wait_for("filling what was lost", link.filled)
    link.stop(up, down)
