"""Batches of a source that cannot be read: damaged on its disk, or of a message format before Kafka 0.11."""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from kit import clients
from kit.mirror_engine_flows import Flow

from aqueduct.errors import ExitCode
from servers import broker
from servers.broker import Broker

HEADER = struct.Struct(">qi")  # of a batch: its first offset, and the bytes that follow
# Of a message of format 1: its offset, the bytes that follow, and their CRC; then format, attributes, time,
# and the lengths of key and value.
OLD_HEADER, OLD_CONTENT = struct.Struct(">qiI"), struct.Struct(">bbqii")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    """Yield a broker whose log is changed: no other test uses it."""
    (tmp_path / "broker").mkdir()
    with broker.running(tmp_path / "broker") as started:
        yield started


def write(own: Broker, topic: str, values: range) -> None:
    """Write each record as a batch of its own."""
    producer = clients.idempotent(own)
    for value in values:
        clients.write(producer, topic, [value])
        assert producer.flush(clients.SECONDS) == 0


def damage(batch: bytes) -> bytes:
    """Return a batch whose content does not have its CRC."""
    return batch[:-1] + bytes([batch[-1] ^ 0xFF])


def age(batch: bytes) -> bytes:
    """Return a message of format 1, as Kafka 0.10 wrote it, at the same offset and of the same size."""
    offset, _ = HEADER.unpack_from(batch)
    value = bytes(len(batch) - OLD_HEADER.size - OLD_CONTENT.size)
    content = OLD_CONTENT.pack(1, 0, 1_400_000_000_000, -1, len(value)) + value
    return OLD_HEADER.pack(offset, len(content) + 4, zlib.crc32(content)) + content


def change(log: Path, offset: int, by: Callable[[bytes], bytes]) -> None:
    """Change the batch at an offset in a broker's log; the broker sends what the file has."""
    content, start = log.read_bytes(), 0
    while HEADER.unpack_from(content, start)[0] < offset:
        start += HEADER.size + HEADER.unpack_from(content, start)[1]
    stop = start + HEADER.size + HEADER.unpack_from(content, start)[1]
    changed = by(content[start:stop])
    assert len(changed) == stop - start
    with log.open("r+b") as file:
        file.seek(start)
        file.write(changed)


@pytest.mark.parametrize("spoil", [damage, age])
def test_unreadable_batch_stops_mirroring_of_one_partition_only(
    own: Broker, target: Broker, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    name = clients.unique("spoiled")
    spoiled, whole = (clients.create(own, f"{name}.{end}") for end in ("spoiled", "whole"))
    for topic in (spoiled, whole):
        write(own, topic, range(10))
    log = tmp_path / f"broker/data/{spoiled}-0/00000000000000000000.log"
    sound = log.read_bytes()
    change(log, 6, spoil)
    flow = Flow(own, target, spoiled, tmp_path, rf"{re.escape(name)}\..*")

    def arrived(topic: str) -> list[int]:
        return [int(value or b"") for _, value, _, _ in clients.records(target, topic)]

    def has_all(count: int) -> bool:
        return arrived(whole) == [*range(count)]

    def is_found() -> bool:
        return any("mirror-batch-unreadable" in finding and spoiled in finding for finding in flow.findings())

    assert flow.catch_up("--tasks", "1") == ExitCode.INCOMPLETE
    assert flow.identifiers() == ["mirror-batch-unreadable"]
    assert (arrived(spoiled), arrived(whole)) == ([*range(6)], [*range(10)])
    with flow.running():  # it looks again every second
        for start in (10, 20, 30):
            write(own, whole, range(start, start + 10))
            clients.wait_for("the other topic", partial(has_all, start + 10))
        clients.wait_for("the finding", is_found)
    assert arrived(spoiled) == [*range(6)]
    # Nothing is skipped: the other replica's batch is mirrored once it is there.
    with log.open("r+b") as file:
        file.write(sound)
    assert flow.catch_up() == ExitCode.DONE
    assert (arrived(spoiled), arrived(whole)) == ([*range(10)], [*range(40)])
