"""Frames of a link that can't be written: dedup names them, lists them as missing, and goes on."""

from collections.abc import Callable
from dataclasses import replace

import clients
import pytest
from crossed import Crossed, frames

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as kafka
from aqueduct.kafka.batches.batch import HEADER, LOG_APPEND_TIME, seal
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.link.ledger import gap_topic
from aqueduct.link.wire.frame import Frame
from servers.broker import Broker

Spoil = Callable[[Frame], Frame]


@pytest.fixture
def crossed(brokers: list[Broker]) -> Crossed:
    return Crossed(brokers[0])


def flipped(found: Frame) -> Frame:
    """Flip a bit of a batch's body: its CRC is wrong."""
    data = bytearray(found.batches)
    data[-1] ^= 1
    return replace(found, batches=bytes(data))


def miscounted(found: Frame, count: int = 99) -> Frame:
    """Tell more records than there are, under a right CRC: only who opens it sees that."""
    data = bytearray(found.batches)
    data[HEADER.size - 4 : HEADER.size] = count.to_bytes(4)
    seal(data)
    return replace(found, batches=bytes(data))


def left_over(found: Frame) -> Frame:
    """Tell fewer: whoever stops there takes the others for withheld."""
    return miscounted(found, 5)


def inflating(found: Frame) -> Frame:
    """Hold a record of 200 MiB, in a batch that must be opened."""
    rows = [Record(1, found.first, bytes(200 << 20)), Record(1, found.last, b"")]
    data = build(Records.listed(rows), codec="zstd", attributes=LOG_APPEND_TIME)
    seal(data)
    return replace(found, batches=bytes(data))


def of_no_partition(found: Frame) -> Frame:
    return replace(found, partition=7)


ATTACKS: dict[str, tuple[Spoil, str]] = {
    "flipped": (flipped, "does not have the CRC that it tells"),
    "miscounted": (miscounted, "its records do not fill it"),
    "left over": (left_over, "its records do not fill it"),
    "inflating": (inflating, "is not opened: it unpacks to more than 104,857,600 bytes"),
    "of no partition": (of_no_partition, "has only 4 partitions: add some"),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_a_frame_that_cannot_be_written_is_named_and_missing(
    what: str, crossed: Crossed, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, why = ATTACKS[what]
    topic, other = crossed.topics
    before, bad, after = (frames(topic, first, first + 9, [1])[0] for first in (0, 10, 20))
    spoilt = spoil(bad)
    crossed.bring(before, *frames(other), spoilt, after)
    crossed.dedup(code=3)
    said = capsys.readouterr().out
    assert "60 records in" in said
    assert "1 frame not written" in said
    assert f"offsets 10 to 19 of {topic}-{spoilt.partition} at offset" in said
    assert why in said
    assert clients.records(crossed.broker, topic, 1)
    with kafka.connect(crossed.end, "test") as client:
        found = gap_topic.whole(client, crossed.gaps)[TopicPartition(topic, spoilt.partition)]
    assert spoilt.partition != 1 or found.missing == [(10, 19)]
    crossed.dedup()  # nothing of it is read again
    assert "0 records in 0 frames" in capsys.readouterr().out
    crossed.bring(bad)
    crossed.dedup()
    assert "10 records in 1 frame" in capsys.readouterr().out
    assert len(clients.records(crossed.broker, topic, 1)) == 30


def test_the_last_frame_is_missing_too(crossed: Crossed) -> None:
    """What comes after it would tell that it is; nothing does."""
    topic, _ = crossed.topics
    before, bad = (frames(topic, first, first + 9, [1])[0] for first in (0, 10))
    crossed.bring(before, flipped(bad))
    crossed.dedup(code=3)
    with kafka.connect(crossed.end, "test") as client:
        assert gap_topic.whole(client, crossed.gaps)[TopicPartition(topic, 1)].missing == [(10, 19)]
