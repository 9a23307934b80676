"""The ledger as dedup leaves it in a real gap topic, read by another client, and its bundles."""

import json
from typing import Any

import pytest
from kit import clients
from kit.raw_topic import ID, RawTopic, frames

from aqueduct.cli import main
from aqueduct.link.ledger import entry
from aqueduct.link.wire.frame import Announcement
from servers.broker import Broker

Newest = dict[str, Any]  # of each key; None: a tombstone


def read(broker: Broker, gap_topic: str) -> list[tuple[str, Any]]:
    """Return keys and values of all records that there are, with no code of ours."""
    return [
        ((message.key() or b"").decode(), json.loads(message.value()) if message.value() else None)
        for number in (0, 1)
        for message in clients.read(broker, gap_topic, number)
    ]


def newest(broker: Broker, gap_topic: str) -> Newest:
    return dict(read(broker, gap_topic))


def gaps_of(found: Newest, topic: str, partition: int) -> list[list[int]]:
    """Return the gaps of a partition, which may stand in several records."""
    key = f"{topic}/{partition}"
    parts = [found[key], *(found[f"{key}/{part}"] for part in range(1, found[key]["parts"] + 1))]
    return [gap for part in parts for gap in part["gaps"]]


def create(of: RawTopic, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    capsys.readouterr()
    argv = ["diode", "create", "--bootstrap-server", of.servers, "--topic", of.gaps]
    assert main([*argv, *options]) == 0
    return json.loads(capsys.readouterr().out)


def lose(of: RawTopic, topic: str, partition: int, *, arrived: list[int], end: int) -> None:
    """Bring offsets of a partition, each a frame, and an announcement of its end."""
    for offset in arrived:
        of.bring(*frames(topic, offset, offset, [partition]))
    of.bring(Announcement(topic=topic, topic_id=ID, partition=partition, first=0, end=end, compacted=False))


def test_bundle_of_first_gaps_lists_one_per_partition(
    brokers: list[Broker],
    crossed: RawTopic,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, other = crossed.topics
    lose(crossed, topic, 0, arrived=[0, 1, 5, 7], end=9)  # 2 to 4, 6, 8
    lose(crossed, topic, 3, arrived=[0, 1, 2], end=3)  # nothing
    lose(crossed, other, 2, arrived=[1, 3], end=4)  # 0 and 2
    crossed.dedup()
    clients.wait_for("the ledger", lambda: len(newest(brokers[0], crossed.gaps)) == 3)
    ledger = newest(brokers[0], crossed.gaps)
    expected = {(topic, 0): [[2, 4], [6, 6], [8, 8]], (topic, 3): [], (other, 2): [[0, 0], [2, 2]]}
    assert {place: gaps_of(ledger, *place) for place in expected} == expected

    def listed(kind: str) -> dict[tuple[str, int], list[list[int]]]:
        found = create(crossed, capsys, f"--limit={kind}")
        assert found["type"] == kind
        return {(each["topic"], each["partition"]): each["gaps"] for each in found["results"]}

    assert listed("first") == {place: gaps[:1] for place, gaps in expected.items() if gaps}
    assert listed("all") == {place: gaps for place, gaps in expected.items() if gaps}


def test_compaction_takes_nothing_from_the_ledger(
    brokers: list[Broker],
    crossed: RawTopic,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each partition the newest entry stays, in as many records as it has; what it had more of goes."""
    monkeypatch.setattr(entry, "PER_RECORD", 2)
    broker, (topic, _) = brokers[0], crossed.topics
    clients.configure(
        *(broker, crossed.gaps), min_cleanable_dirty_ratio="0.001", segment_ms="1", delete_retention_ms="0"
    )

    lose(crossed, topic, 0, arrived=[0, 2, 4, 6, 8, 10, 12], end=13)  # six gaps: three records
    lose(crossed, topic, 1, arrived=[0, 2, 4, 6], end=7)  # three gaps: two records
    crossed.dedup()
    clients.wait_for("three parts", lambda: newest(broker, crossed.gaps)[f"{topic}/0"]["parts"] == 2)
    crossed.bring(*(frame for offset in (1, 3, 5, 7) for frame in frames(topic, offset, offset, [0])))
    crossed.dedup()
    expected = {0: [[9, 9], [11, 11]], 1: [[1, 1], [3, 3], [5, 5]]}

    def compacted() -> bool:
        """One record of each key that is left, and no tombstone; each run ends a segment."""
        crossed.bring(*frames(topic, 0, next(ends), [2, 3]))
        crossed.dedup()
        keys = [key for key, _ in read(broker, crossed.gaps) if key.startswith((f"{topic}/0", f"{topic}/1"))]
        return sorted(keys) == [f"{topic}/0", f"{topic}/1", f"{topic}/1/1"]

    ends = iter(range(1_000))
    clients.wait_for("compaction", compacted)
    ledger = newest(broker, crossed.gaps)
    assert {number: gaps_of(ledger, topic, number) for number in expected} == expected
    bundle = create(crossed, capsys)
    assert {each["partition"]: each["gaps"] for each in bundle["results"]} == expected
    crossed.dedup()  # goes on with it
    assert {number: gaps_of(newest(broker, crossed.gaps), topic, number) for number in expected} == expected
