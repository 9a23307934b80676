"""Transfers: the values that go in come out, through loss up to the parity, any order, any duplication."""

import dataclasses
import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from kit.link_ends import (
    DROPPED,
    LINK,
    OVERHEAD,
    PAYLOAD,
    SHARD,
    TAKEN,
    datagrams,
    pair,
    receive,
    receiver,
    rises,
    settings,
    shard_of,
    type_of,
    value,
)

from aqueduct.common.keys import ReceiverKey, SenderKey
from aqueduct.link.wire.blocks import CHUNK
from aqueduct.link.wire.datagram import Type
from aqueduct.link.wire.receiver import Receiver
from aqueduct.link.wire.sender import Session, SessionSettings

BLOCK = 8 * SHARD
# Lengths with which a value alone, or with its like, just fills a shard or a block, or just does not.
EDGES = sorted(
    {
        max(OVERHEAD, unit * count - headers * CHUNK.size + more)
        for unit in (SHARD, BLOCK)
        for count in (1, 2, 3)
        for headers in (1, 2, 3)
        for more in (-1, 0, 1)
    }
)
lengths = st.sampled_from(EDGES) | st.integers(OVERHEAD, 5000)
parities = st.sampled_from([0, 1, 15, 30, 100, 200])
interleaves = st.integers(1, 5)


def check_counted_once(by: Receiver) -> None:
    counters = dataclasses.asdict(by.counters)
    assert sum(counters[name] for name in TAKEN | DROPPED) == counters["datagrams"]


def sent(of: Session, values: list[bytes], flush_after: set[int] = frozenset()) -> list[bytes]:  # type: ignore[assignment]
    sends = []
    for number, each in enumerate(values):
        sends += of.add(each, 0.0)
        if number in flush_after:
            sends += of.flush()
    return datagrams([*sends, *of.flush()])


@examples(deadline=None, max_examples=150)
@given(
    st.lists(lengths, max_size=15),
    parities,
    interleaves,
    st.sets(st.integers(0, 14)),
    st.randoms(use_true_random=False),
)
def test_values_survive_loss_within_parity_reordering_and_duplication(
    sizes: list[int], parity: int, interleave: int, flush_after: set[int], chance: random.Random
) -> None:
    sending, receiving = pair(settings(parity=parity, interleave=interleave))
    values = [value(number, size) for number, size in enumerate(sizes)]
    sends = sent(sending, values, flush_after)
    assert all(len(each) == sending.size <= PAYLOAD for each in sends)

    blocks = defaultdict(list)
    for each in sends:
        blocks[shard_of(each)[0]].append(each)
    kept = []
    for shards in blocks.values():
        _, _, k, m = shard_of(shards[0])
        assert len(shards) == k + m
        assert m == -(-k * parity // 100)
        lost = chance.sample(shards, chance.randint(0, m))
        kept += [each for each in shards if each not in lost]
    kept += chance.choices(kept, k=len(kept) // 3) if kept else []
    end = datagrams(sending.end(5000))
    kept += end
    chance.shuffle(kept)

    assert sorted(receive(receiving, kept)) == sorted(values)
    counters = receiving.counters
    assert (counters.blocks, counters.values, counters.beats) == (len(blocks), len(values), 1)
    check_counted_once(receiving)

    assert receive(receiving, kept) == []  # all once more
    receiving.tick(100.0)
    assert (counters.blocks_lost, counters.values_incomplete, receiving.sessions()) == (0, 0, [])
    check_counted_once(receiving)


@pytest.mark.parametrize("size", EDGES)
def test_values_around_shard_and_block_capacity_arrive(size: int) -> None:
    for count in (1, 2, 3):
        sending, receiving = pair()
        values = [value(number, size) for number in range(count)]
        assert receive(receiving, sent(sending, values)) == values


@examples(deadline=None, max_examples=150)
@given(st.data())
def test_loss_beyond_parity_drops_values_and_is_counted(data: st.DataObject) -> None:
    sending, receiving = pair()
    values = [
        value(number, size)
        for number, size in enumerate(data.draw(st.lists(lengths, min_size=1, max_size=9)))
    ]
    sends = sent(sending, values)
    kept = data.draw(st.lists(st.sampled_from(sends), unique=True))
    found = receive(receiving, kept + datagrams(sending.end(5000)))
    assert set(found) <= set(values)
    receiving.tick(1.0 + 5.0)
    arrived = {block for block, *_ in map(shard_of, sends)}
    enough = {
        block
        for block, _, k, _ in map(shard_of, sends)
        if sum(shard_of(each)[0] == block for each in kept) >= k
    }
    assert receiving.counters.blocks == len(enough)
    assert receiving.counters.blocks_lost == len(arrived - enough)
    if enough == arrived:
        assert sorted(found) == sorted(values)
    check_counted_once(receiving)


@examples(deadline=None, max_examples=300)
@given(st.data())
def test_any_bit_flipped_is_rejected_and_counted(data: st.DataObject) -> None:
    sending, receiving = pair()
    fresh = receiver()
    good = {
        "keys": datagrams(sending.due(1.0, 5000))[0],
        "beats": datagrams(sending.end(5000))[-1],
        "shards": sent(sending, [value(1, 300)])[0],
    }
    what = data.draw(st.sampled_from(sorted(good)))
    flipped = bytearray(good[what])
    bit = data.draw(st.integers(0, len(flipped) * 8 - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    for by in (receiving, fresh):
        (counter,) = rises(by, bytes(flipped))
        assert counter in DROPPED
    assert rises(fresh if what == "keys" else receiving, good[what]) >= {what}


@pytest.mark.parametrize("payload", [1352, 1472, 8972])
def test_true_sizes_with_hybrid_keys(payload: int) -> None:
    receiver_key, sender_key = ReceiverKey.generate(), SenderKey.generate()
    sending = Session(
        SessionSettings(link=LINK, payload=payload), sender_key, receiver_key.public, now=0.0, start=1
    )
    receiving = Receiver([receiver_key], [sender_key.public], LINK)
    values = [value(number, 3_000_000) for number in range(2)]
    sends = datagrams(sending.due(0.0, 1)) + sent(sending, values)
    assert all(len(each) == sending.size for each in sends if type_of(each) is not Type.KEY)
    chance = random.Random(payload)  # noqa: S311
    kept = [each for each in sends if chance.random() > 0.03 or type_of(each) is not Type.DATA]
    assert sorted(receive(receiving, kept)) == values
    assert receiving.counters.blocks_repaired == receiving.counters.blocks


def test_a_buffer_of_several_datagrams() -> None:
    sending, receiving = pair()
    values = [value(1, 1000), value(2, 1000)]
    joined = b"".join(sent(sending, values))
    buffer = bytearray(joined + joined[:100])  # the last is cut off
    found = receiving.receive(memoryview(buffer), 1.0, sending.size)
    buffer[:] = bytes(len(buffer))
    assert [record.value for record in found] == values
    assert receiving.counters.bad_tag + receiving.counters.shards_again == 1
    check_counted_once(receiving)
