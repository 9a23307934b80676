"""Dedup's position in a raw partition, which must be of the topic and the log that are there now."""

from uuid import UUID

import pytest

from aqueduct.link.dedup.raw_position import RawLog, outdated
from aqueduct.link.dedup.share import Counted, DedupCounts, loads, parse

HERE, BEFORE = UUID(int=1), UUID(int=2)


def counted(topic_id: UUID = HERE, epoch: int = 4) -> Counted:
    return Counted(topic_id=str(topic_id), stop=100, run="run", done=DedupCounts(), epoch=epoch)


def log(end: int, start: int = 5, epoch_end: int | None = None) -> RawLog:
    return RawLog(topic_id=HERE, start=start, end=end, epoch_end=epoch_end)


@pytest.mark.parametrize(
    ("position", "of", "raw_log", "start"),
    [
        (100, counted(), log(100, epoch_end=100), None),
        (100, counted(), log(150, epoch_end=120), None),
        (100, None, log(150), None),  # somebody set the position
        (100, counted(BEFORE), log(150), 5),
        (100, counted(), log(60, epoch_end=60), 60),
        (100, counted(), log(60), 5),  # the leader has no epoch
        (100, None, log(60), 5),
        (100, counted(), log(150, epoch_end=60), 60),  # it has grown past the position
        (100, counted(), log(150, epoch_end=-1), 5),
        (3, counted(), log(150, epoch_end=150), None),  # retention: the ledger lists what is missing
    ],
)
def test_an_outdated_position(position: int, of: Counted | None, raw_log: RawLog, start: int | None) -> None:
    assert outdated(position, of, raw_log) == start


def test_a_position_is_read_as_it_was_written() -> None:
    written = counted().dumps()
    assert parse(written) == counted()
    assert parse(written.replace(',"epoch":4', "")) is None
    assert (loads(written, HERE), loads(written, BEFORE), parse("")) == (counted(), None, None)
