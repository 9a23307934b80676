"""Frames of a link that can't be written: dedup names them, lists them as missing, and goes on."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from kit import clients
from kit.raw_topic import ID, PARTITIONS, RawTopic, frames

from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode
from aqueduct.kafka import client as kafka
from aqueduct.kafka.batches.batch import CODEC, HEADER, LOG_APPEND_TIME, seal
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build
from aqueduct.link.dedup import sorting
from aqueduct.link.dedup import task as dedup
from aqueduct.link.ledger import gap_topic
from aqueduct.link.ledger.arrivals import bucket
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Frame
from servers.broker import Broker

Spoil = Callable[[Frame], Frame]


@pytest.fixture
def crossed(brokers: list[Broker]) -> RawTopic:
    return RawTopic(brokers[0])


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
    "flipped": (flipped, "its CRC does not match"),
    "miscounted": (miscounted, "its records are shorter than the batch"),
    "left over": (left_over, "its records are shorter than the batch"),
    "inflating": (inflating, "it decompresses to more than 104,857,600 bytes"),
    "of no partition": (of_no_partition, "has only 4 partitions"),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_dedup_reports_unwritable_frame_and_records_gap(
    what: str, crossed: RawTopic, capsys: pytest.CaptureFixture[str]
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


def test_the_last_frame_is_missing_too(crossed: RawTopic) -> None:
    """What comes after it would tell that it is; nothing does."""
    topic, _ = crossed.topics
    before, bad = (frames(topic, first, first + 9, [1])[0] for first in (0, 10))
    crossed.bring(before, flipped(bad))
    crossed.dedup(code=3)
    with kafka.connect(crossed.end, "test") as client:
        assert gap_topic.whole(client, crossed.gaps)[TopicPartition(topic, 1)].missing == [(10, 19)]


def of_records(sent: Frame, *, milliseconds: int = 1_700_000_000_000, key: bytes | None = b"k") -> Frame:
    """Return a frame of records of 10 KB; so large a batch is moved as it is."""
    rows = [
        Record(milliseconds, offset, body(key, os.urandom(10_000)))
        for offset in range(sent.first, sent.last + 1)
    ]
    return replace(sent, batches=bytes(build(Records.listed(rows))))


def of_tomorrow(sent: Frame) -> Frame:
    return of_records(sent, milliseconds=int((time.time() + 86_400) * 1000))


def without_keys(sent: Frame) -> Frame:
    return of_records(sent, key=None)


def miscounted_and_large(sent: Frame) -> Frame:
    return miscounted(of_records(sent))


def of_codec(sent: Frame, number: int) -> Frame:
    """State a codec, and have other bytes."""
    batch = bytearray(of_records(sent).batches)
    batch[22] = batch[22] & ~CODEC | number
    seal(batch)
    return replace(sent, batches=bytes(batch))


REFUSED: dict[str, tuple[Spoil, dict[str, str]]] = {
    "of tomorrow": (of_tomorrow, {"message.timestamp.after.max.ms": "3600000"}),
    "without keys": (without_keys, {"cleanup.policy": "compact"}),
    "miscounted and large": (miscounted_and_large, {}),
    "no zstd": (lambda sent: of_codec(sent, 4), {}),
    "no snappy": (lambda sent: of_codec(sent, 2), {}),
    "of an unknown codec": (lambda sent: of_codec(sent, 7), {}),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_frame_refused_by_broker_leaves_only_one_gap(
    attack: str, crossed: RawTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, config = REFUSED[attack]
    topic, other = crossed.topics
    if config:
        clients.configure(crossed.broker, topic, **config)
    before, bad, after = (frames(topic, first, first + 9, [1])[0] for first in (0, 10, 20))
    crossed.bring(before, *frames(other), spoil(bad), after)
    crossed.dedup(code=ExitCode.INCOMPLETE)
    output = capsys.readouterr().out
    assert "60 records in" in output
    assert "1 frame not written" in output
    assert f"offsets 10 to 19 of {topic}-1 at offset" in output
    with kafka.connect(crossed.end, "test") as client:
        ledger = gap_topic.whole(client, crossed.gaps)
    assert ledger[TopicPartition(topic, 1)].missing == [(10, 19)]
    crossed.dedup()  # nothing of it is read again
    assert "0 records in 0 frames" in capsys.readouterr().out
    crossed.bring(of_records(bad))
    crossed.dedup()
    assert "10 records in 1 frame" in capsys.readouterr().out


def test_dedup_survives_decompression_bombs_within_memory_limit(crossed: RawTopic) -> None:
    """Together they unpack to 2.4 GB, and dedup may have 2 of addresses."""
    topic, other = crossed.topics
    zeros = bytes(200 << 20)
    crossed.bring(*frames(topic, numbers=[0]), *frames(other))
    bombs = [
        Frame(topic=topic, topic_id=ID, partition=1, first=10 * number, last=10 * number, batches=zeros)
        for number in range(12)
    ]
    packed = [
        {
            "value": frame.pack(bomb, compress_above=1),
            "key": frame.key(bomb),
            "partition": bucket(topic, 1, PARTITIONS),
        }
        for bomb in bombs
    ]
    assert sum(len(record["value"]) for record in packed) < 1 << 20
    clients.produce(crossed.broker, crossed.raw, packed)
    crossed.bring(frames(topic, 1_000, 1_009, [1])[0])
    command = [sys.executable, "-m", "aqueduct.cli", "dedup", "--bootstrap-server", crossed.servers]
    command += ["--raw-topics", crossed.raw, "--gap-topic", crossed.gaps, "--gap-grace", "0s"]
    command += ["--topics", ",".join(crossed.topics), "--until-caught-up"]
    limit = 2 << 30
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert run.returncode == ExitCode.INCOMPLETE, run.stdout + run.stderr
    assert "12 frames not written" in run.stdout
    assert "60 records in" in run.stdout


class Ended(Exception):
    """The end of a dedup as by a kill."""


def test_frames_written_in_parts_arrive_exactly_once(
    crossed: RawTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it ends before or after any part, and where they came in another order."""
    topic, other = crossed.topics
    monkeypatch.setattr(sorting, "MOST_WAITING", 1)
    sent = [each for first in (20, 0, 10) for each in frames(topic, first, first + 9)]
    crossed.bring(*sent[:5], *frames(other), *sent[5:])
    write = dedup._Run._write_all
    for ends_at in (1, 2, 4, 7):
        calls = 0

        def write_some(run: dedup._Run, ends_at: int = ends_at) -> None:
            nonlocal calls
            calls += 1
            if calls == ends_at:
                raise Ended
            write(run)

        with monkeypatch.context() as patch:
            patch.setattr(dedup._Run, "_write_all", write_some)
            with pytest.raises(Ended):
                crossed.dedup()
    crossed.dedup()
    for number in range(4):
        assert len(clients.records(crossed.broker, topic, number)) == 30
        assert len(clients.records(crossed.broker, other, number)) == 10
    with kafka.connect(crossed.end, "test") as client:
        ledger = gap_topic.whole(client, crossed.gaps)
    assert [ledger[TopicPartition(topic, number)].missing for number in range(4)] == [[]] * 4
