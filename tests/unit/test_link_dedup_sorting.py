"""Raw records that were written to stop dedup, or to fill its ledger: it continues, and reports them."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka.batches.batch import Batch, seal, walk
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record, Records, build, readable
from aqueduct.kafka.client_config import End
from aqueduct.link.dedup import sorting
from aqueduct.link.dedup.share import OTHERS, Clean, DedupCounts, DedupShare
from aqueduct.link.dedup.sorting import BucketState, Sorter
from aqueduct.link.dedup.task import send_new
from aqueduct.link.ledger.arrivals import Bucket, Unsound, bucket
from aqueduct.link.ledger.entry import partitions
from aqueduct.link.wire import frame
from aqueduct.link.wire.frame import Announcement, Frame

if TYPE_CHECKING:
    from aqueduct.kafka.produce import TransactionalProducer

ID = UUID(int=1)
BUCKETS = 2


def share(*topics: str, every_topic: bool = False) -> DedupShare:
    return DedupShare(
        end=End("cluster", "broker:9092"),
        group="group",
        run="run",
        raw_topics={"raw": None},
        gap_topic="gaps",
        buckets=tuple(range(BUCKETS)),
        partitions=BUCKETS,
        clean={each: Clean(each, 4, 1 << 20) for each in topics},
        every_topic=every_topic,
        grace_seconds=0,
        seconds=None,
    )


def states(*ledgers: Bucket) -> dict[int, BucketState]:
    return {
        number: BucketState(ledger=ledgers[number] if ledgers else Bucket({}), committed={}, counted={})
        for number in range(BUCKETS)
    }


def raw(offset: int, *found: Frame | Announcement) -> Batch:
    """Return a batch of the raw topic that begins at that offset."""
    rows = [
        Record(1, number, body(frame.key(each), frame.pack(each)))
        for number, each in enumerate(found, offset)
    ]
    return next(walk(build(Records.listed(rows))))


def damaged(batch: Batch) -> Batch:
    """Return a batch that states a record more than it has, under a right CRC."""
    data = bytearray(batch.data)
    data[57:61] = (batch.count + 1).to_bytes(4)
    seal(data)
    return next(walk(data))


def place_of(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition("raw", bucket(topic, partition, BUCKETS))


def of_one_bucket(count: int) -> Iterator[str]:
    """Yield names of topics whose first partition is in the first bucket."""
    names = (f"t{number}" for number in range(10 * count))
    for _, name in zip(range(count), (each for each in names if place_of(each).partition == 0), strict=False):
        yield name


def empty(topic: str, topic_id: UUID = ID, first: int = 0, partition: int = 0) -> Frame:
    return Frame(topic=topic, topic_id=topic_id, partition=partition, first=first, last=first, batches=b"")


def test_a_frame_in_another_partition_is_set_aside() -> None:
    mine, other = next(of_one_bucket(1)), next(f"o{n}" for n in range(99) if place_of(f"o{n}").partition)
    found = states()
    sorter = Sorter(share(mine, other), found, {})
    announced = Announcement(topic=other, topic_id=ID, partition=0, first=0, end=1, compacted=False)
    sorter.sort(
        TopicPartition("raw", 0), [raw(5, empty(mine), empty(other), announced, empty(mine, first=1))]
    )
    state = found[0]
    assert state.frames == [empty(mine), empty(mine, first=1)]
    assert state.announced == {}
    assert state.counted == {TopicPartition("raw", 0): 9}
    assert state.done.unlisted == 2
    assert state.done.told[0].startswith("[raw-record-misplaced] ")
    assert "raw-0" in state.done.told[0]
    assert "offset 6" in state.done.told[0]
    assert state.ledger.changes(1) == {}  # which would be in two partitions of the gap topic
    before = state.done.told
    sorter.sort(TopicPartition("raw", 0), [raw(5, empty(mine), empty(other))])  # read again
    assert (state.done.unlisted, state.done.told) == (2, before)


def test_unreadable_raw_batch_is_skipped_and_reported() -> None:
    [mine] = of_one_bucket(1)
    found = states()
    batches = [raw(5, empty(mine)), damaged(raw(6, empty(mine, first=1), empty(mine, first=2)))]
    Sorter(share(mine), found, {}).sort(TopicPartition("raw", 0), [*batches, raw(8, empty(mine, first=3))])
    state = found[0]
    assert state.frames == [empty(mine), empty(mine, first=3)]
    assert state.counted == {TopicPartition("raw", 0): 9}
    assert state.done.malformed == 2
    assert state.done.told[0].startswith("[raw-batch-unreadable] ")
    assert "offsets 6 to 7" in state.done.told[0]


def test_record_too_large_for_clean_topic_is_quarantined() -> None:
    large = bytes(build(Records.listed([Record(1, 0, body(None, os.urandom(2000)))])))
    [new] = Bucket({}).arrive([Frame(topic="t", topic_id=ID, partition=0, first=0, last=0, batches=large)])
    some = replace(share("t"), clean={"t": Clean("t", 1, 1000)})
    nothing_is_sent = cast("TransactionalProducer", None)
    with pytest.raises(Unsound, match=r"offset 0 .*\b1000\b.*max\.message\.bytes"):
        send_new(some, nothing_is_sent, new, DedupCounts(), (TopicPartition("raw", 0), 0))


def test_unreadable_batches_are_passed_over() -> None:
    """As where dead-letter records are replayed, and a topic is retired from the ledger."""
    aside: list[Batch] = []
    bad = damaged(raw(6, empty("t")))
    found = readable([raw(5, empty("t")), bad, raw(7, empty("t"))], lambda batch, _: aside.append(batch))
    assert [each.offset for each in found] == [5, 7]
    assert aside == [bad]


def test_invented_topic_ids_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MOST_IDS", 10)
    [mine] = of_one_bucket(1)
    ledger = Bucket({})
    list(ledger.arrive([empty(mine)]))
    kept = partitions({key: value for key, value in ledger.changes(1).items() if value})
    for _ in range(2):  # another round, with the ledger that the first one left
        state = BucketState(ledger=Bucket(kept), committed={}, counted={})
        sorter = Sorter(share(mine), {0: state}, {})
        invented = [UUID(int=number) for number in range(2, 40)]
        forged: list[Frame | Announcement] = [empty(mine, each) for each in invented[::2]]
        forged += [
            Announcement(topic=mine, topic_id=each, partition=0, first=0, end=5, compacted=False)
            for each in invented[1::2]
        ]
        sorter.sort(TopicPartition("raw", 0), [raw(0, *forged, empty(mine, first=1))])
        list(state.ledger.arrive(state.frames))
        for told in state.matured(1):
            state.ledger.announce(told)
        changes = state.ledger.changes(2)
        kept |= partitions({key: value for key, value in changes.items() if value})
        of = kept[TopicPartition(mine, 0)]
        assert len(of.retired) + 1 <= 10
        assert state.done.unlisted == 38 - 9
        assert state.done.told[0].startswith("[ledger-ids-exceeded] ")
        assert empty(mine, first=1) in state.frames  # the topic's own goes on


def test_invented_topics_and_partitions_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MOST_EXTRA", 10)
    [mine, *others] = of_one_bucket(50)
    found = states()
    sorter = Sorter(share(mine, every_topic=True), found, {})
    far = [number for number in range(4, 200) if bucket(mine, number, BUCKETS) == 0]
    forged = [empty(each) for each in others] + [empty(mine, partition=each) for each in far]
    sorter.sort(TopicPartition("raw", 0), [raw(0, *forged, empty(mine))])
    state = found[0]
    assert len(state.ledger.changes(1)) == 10
    assert state.done.quarantined == 10
    assert state.done.unlisted == len(forged) - 10
    assert state.frames == [empty(mine)]


def test_topic_ids_of_deleted_clean_topic_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MOST_IDS", 10)
    [gone, mine] = of_one_bucket(2)
    found = states()
    sorter = Sorter(replace(share(mine), gone={gone: f"clean.{gone}"}), found, {})
    forged = [empty(gone, UUID(int=number)) for number in range(1, 40)]
    sorter.sort(TopicPartition("raw", 0), [raw(0, *forged, empty(mine))])
    state = found[0]
    assert (state.done.quarantined, state.done.unlisted) == (10, 29)
    assert "no longer has" in state.done.told[0]
    assert state.topics == {gone}
    assert state.frames == [empty(mine)]


@pytest.mark.parametrize("created", [True, False])
def test_an_estate_of_ten_thousand_topics_fits(created: bool) -> None:
    """Each with two partitions, and a tenth of them re-created a few times."""
    names = [f"topic-{number}" for number in range(10_000)]
    found = states()
    sorter = Sorter(share(*(names if created else ["t"]), every_topic=True), found, {})
    sent = [empty(name, ID, partition=number) for name in names for number in range(2)]
    sent += [empty(name, UUID(int=more)) for name in names[::10] for more in range(2, 5)]
    for at in range(BUCKETS):
        mine = [each for each in sent if bucket(each.topic, each.partition, BUCKETS) == at]
        sorter.sort(TopicPartition("raw", at), [raw(0, *mine)])
    assert sum(each.done.unlisted for each in found.values()) == 0
    assert sum(each.done.quarantined for each in found.values()) == (0 if created else len(sent))


def test_number_of_listed_unwanted_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MOST_LEFT_OUT", 10)
    names = [*of_one_bucket(50)]
    found = states()
    Sorter(share("mine"), found, {}).sort(TopicPartition("raw", 0), [raw(0, *map(empty, names * 2))])
    left_out = found[0].done.left_out
    assert len(left_out) == 11
    assert left_out[OTHERS] == 80
    assert sum(left_out.values()) == 100


def test_sorter_writes_before_unpacked_frames_exceed_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is written before, with the position of the frame that comes next."""
    monkeypatch.setattr(sorting, "MOST_WAITING", 10 << 20)
    [mine] = of_one_bucket(1)
    sizes = [1, 4, 4, 2, 30, 1, 1]  # MiB
    sent = [
        replace(empty(mine, first=number), batches=bytes(size << 20)) for number, size in enumerate(sizes)
    ]
    rows = [
        Record(1, number, body(frame.key(each), frame.pack(each, compress_above=1)))
        for number, each in enumerate(sent, 5)
    ]
    [packed] = walk(build(Records.listed(rows)))
    assert len(packed) < 100_000
    states_of_buckets = states()
    state = states_of_buckets[0]
    written: list[list[int]] = []
    positions: list[int] = []

    def write(raw_partition: TopicPartition, unsorted: int) -> None:
        assert raw_partition == TopicPartition("raw", 0)
        assert state.counted[raw_partition] == unsorted
        positions.append(unsorted)
        written.append([each.first for each in state.frames])
        state.frames.clear()
        state.waiting_bytes = 0

    Sorter(share(mine), states_of_buckets, {}).sort(TopicPartition("raw", 0), [packed], write)
    assert written == [[0, 1, 2], [3], [4]]
    assert positions == [8, 9, 10]
    assert [each.first for each in state.frames] == [5, 6]
