"""Arrivals in any order and any number of times, against plain dictionaries of records."""

import random
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.kafka.batches.bodies import body, key_and_value
from aqueduct.kafka.batches.records import Record, Records, build, records
from aqueduct.link.ledger import entry
from aqueduct.link.ledger.arrivals import Bucket, New, Unsound, bucket
from aqueduct.link.ledger.entry import partitions
from aqueduct.link.wire.frame import Announcement, Frame

ID, OTHER = UUID(int=1), UUID(int=2)
PLACE = "t", 0


def batch(first: int, last: int) -> bytes:
    rows = [Record(offset, offset, body(b"%d" % offset, None)) for offset in range(first, last + 1)]
    return bytes(build(Records.listed(rows)))


def frame(first: int, last: int, topic_id: UUID = ID) -> Frame:
    """Build a frame: two batches, if there are two offsets."""
    middle = (first + last) // 2
    batches = batch(first, middle) + (batch(middle + 1, last) if middle < last else b"")
    return Frame(topic="t", topic_id=topic_id, partition=0, first=first, last=last, batches=batches)


def written(news: list[New]) -> list[int]:
    """Return the offsets, each from its record's own key."""
    keys = [key_and_value(each.body)[0] for new in news for one in new.batches for each in records(one)]
    return [int(key or b"") for key in keys]


def told(of: Bucket) -> tuple[int, list[tuple[int, int]], list[tuple[int, int]]]:
    """Return next, gaps and lost, as a reader of the gap topic has them."""
    ledger = partitions({key: value for key, value in of.changes(1).items() if value})
    current = ledger[PLACE].current
    assert current
    return current.next, current.gaps, current.lost


def test_bucket_knows_topics_from_frames_announcements_and_ledger() -> None:
    of = Bucket({})
    assert of.topics == frozenset()
    [*of.arrive([frame(0, 1)])]
    of.announce(Announcement(topic="announced", topic_id=ID, partition=0, first=0, end=3, compacted=False))
    assert of.topics == {"t", "announced"}
    ledger = partitions({key: value for key, value in of.changes(1).items() if value})
    assert Bucket({place: each.close() for place, each in ledger.items()}).topics == {"t", "announced"}


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12), st.randoms(use_true_random=False), st.integers(1, 4)
)
def test_records_arrive_once_and_missing_offsets_become_gaps(
    sizes: list[int], chance: random.Random, polls: int
) -> None:
    edges = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    sent = [frame(first, stop - 1) for first, stop in pairwise(edges)]
    # Cut otherwise, as a resend does, and some twice.
    sent += [frame(first, min(first + 3, edges[-1] - 1)) for first in chance.sample(range(edges[-1]), 1)]
    arriving = [each for each in sent * 2 if chance.random() < 0.6]
    chance.shuffle(arriving)
    one, came = Bucket({}), []
    for number in range(polls):
        came += written(list(one.arrive(arriving[number::polls])))
    covered = {offset for each in arriving for offset in range(each.first, each.last + 1)}
    assert len(came) == len(set(came))
    assert set(came) == covered
    one.announce(Announcement(topic="t", topic_id=ID, partition=0, first=0, end=edges[-1], compacted=False))
    end, gaps, lost = told(one)
    assert end == edges[-1]
    assert {offset for first, last in gaps for offset in range(first, last + 1)} == set(range(end)) - covered
    assert lost == []


def test_one_poll_is_written_in_order() -> None:
    assert written(list(Bucket({}).arrive([frame(5, 9), frame(0, 4), frame(10, 11)]))) == list(range(12))


def test_a_whole_batch_stays_what_it_is() -> None:
    one = frame(0, 3)
    [new] = Bucket({}).arrive([one])
    assert b"".join(each.data for each in new.batches) == one.batches


def test_a_covering_frame_without_batches_fills_the_gap() -> None:
    one = Bucket({})
    list(one.arrive([frame(0, 4), frame(8, 9)]))
    assert list(one.arrive([Frame(topic="t", topic_id=ID, partition=0, first=5, last=7, batches=b"")])) == []
    assert told(one) == (10, [], [])


@pytest.mark.parametrize(
    "batches",
    {
        "header cut": frame(0, 3).batches[:30],
        "last batch cut": frame(0, 3).batches[:-1],
        "only batch cut": frame(0, 0).batches[:-1],
        "above the frame": batch(4, 7),
        "beyond its end": batch(0, 4),
        "below the frame": batch(0, 3),
        "twice the same": batch(0, 3) * 2,
    }.items(),
    ids=lambda item: item[0],
)
def test_batches_that_do_not_fill_frame_are_refused(batches: tuple[str, bytes]) -> None:
    first = 1 if batches[0] == "below the frame" else 0
    with pytest.raises(Unsound):
        list(
            Bucket({}).arrive(
                [Frame(topic="t", topic_id=ID, partition=0, first=first, last=3, batches=batches[1])]
            )
        )


def test_a_ledger_read_again_goes_on() -> None:
    one = Bucket({})
    list(one.arrive([frame(0, 4), frame(8, 9)]))
    ledger = {key: value for key, value in one.changes(1).items() if value}
    again = Bucket(partitions(ledger))
    assert written(list(again.arrive([frame(0, 9)]))) == [5, 6, 7]
    assert again.repeated == 7
    assert told(again) == (10, [], [])


def test_a_topic_made_anew_starts_anew() -> None:
    one = Bucket({})
    list(one.arrive([frame(0, 4), frame(8, 9)]))
    assert written(list(one.arrive([frame(0, 1, OTHER)]))) == [0, 1]
    changes = one.changes(1)
    assert set(changes) == {"t/0", f"t/0/{ID}"}
    # What was on its way of the old one still comes once.
    assert written(list(one.arrive([frame(5, 9)]))) == [5, 6, 7]


def test_frames_of_retired_topic_are_not_new() -> None:
    one = Bucket({})
    list(one.arrive([frame(0, 4), frame(8, 9)]))
    list(one.arrive([frame(0, 1, OTHER)]))
    ledger = {key: value for key, value in one.changes(1).items() if value}
    of = partitions(ledger)[PLACE]
    assert not of.closed
    retired = entry.records(of.close(), 2, before=ledger)
    assert retired["t/0"] is None
    left = partitions({key: value for key, value in retired.items() if value})
    assert left[PLACE].closed
    again = Bucket(left)
    assert again.missing() == (0, 0)
    assert list(again.arrive([frame(0, 9), frame(0, 1, OTHER)])) == []
    # A topic of the same name that is made later is another one.
    assert written(list(again.arrive([frame(0, 2, UUID(int=3))]))) == [0, 1, 2]


def test_what_says_nothing_new_changes_nothing() -> None:
    one = Bucket({})
    for _ in range(2):
        one.announce(Announcement(topic="t", topic_id=ID, partition=0, first=7, end=7, compacted=False))
        changes = one.changes(1)
    assert changes == {}
    list(one.arrive([frame(7, 9)]))
    one.changes(1)
    list(one.arrive([frame(7, 9)]))
    one.announce(Announcement(topic="t", topic_id=ID, partition=0, first=7, end=10, compacted=False))
    assert one.changes(1) == {}


def test_a_part_without_use_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "PER_RECORD", 1)
    one = Bucket({})
    list(one.arrive([frame(0, 0), frame(2, 2), frame(4, 4)]))
    assert one.changes(1).keys() == {"t/0", "t/0/1"}
    list(one.arrive([frame(1, 1)]))
    assert one.changes(2)["t/0/1"] is None
    list(one.arrive([frame(5, 5)]))
    assert one.changes(3).keys() == {"t/0"}


def test_what_becomes_lost_is_told() -> None:
    one = Bucket({})
    list(one.arrive([frame(0, 4), frame(8, 9)]))
    one.announce(Announcement(topic="t", topic_id=ID, partition=0, first=7, end=10, compacted=False))
    assert told(one) == (10, [(7, 7)], [(5, 6)])


@pytest.mark.parametrize("buckets", [1, 7])
def test_bucket(buckets: int) -> None:
    found = {bucket("t", number, buckets) for number in range(100)}
    assert found == set(range(buckets))
