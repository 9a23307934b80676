import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.link.wire.blocks import CHUNK, PART_BYTES, VALUE_BYTES, Assembler, Packer
from aqueduct.link.wire.counters import Counters

CAPACITY = 64
EDGES = [
    1,
    *(blocks * (CAPACITY - CHUNK.size) + more for blocks in (1, 2, 3) for more in (-21, -20, -1, 0, 1)),
]
values = st.lists(st.sampled_from(EDGES) | st.integers(1, 300), max_size=12).map(
    lambda lengths: [bytes([number + 1]) * length for number, length in enumerate(lengths)]
)


def assembler_of(largest: int, limit: int) -> Assembler:
    return Assembler(largest, limit, Counters())


def packed(values: list[bytes], capacity: int = CAPACITY, pad: int = 16) -> list[bytes]:
    packer = Packer(capacity)
    blocks = [block for value in values for block in packer.add(value)]
    if not packer.empty:
        blocks.append(packer.close())
    assert all(CHUNK.size < len(block) <= capacity for block in blocks)
    return [block.ljust(-(-len(block) // pad) * pad, b"\0") for block in blocks]


@given(values, st.sampled_from([CHUNK.size + 1, CAPACITY, 10_000]), st.randoms(use_true_random=False))
def test_values_come_out_of_blocks_in_any_order(
    expected: list[bytes], capacity: int, chance: random.Random
) -> None:
    blocks = packed(expected, capacity)
    assembler = assembler_of(1000, 1 << 24)
    assert [value for block in blocks for value in assembler.add(block, 0)] == expected
    chance.shuffle(blocks)
    assert sorted(value for block in blocks for value in assembler.add(block, 0)) == sorted(expected)
    assert (assembler._counters.values_incomplete, assembler._counters.blocks_malformed, assembler._held) == (
        0,
        0,
        0,
    )


@given(values, st.data())
def test_value_is_assembled_completely_or_not_at_all(expected: list[bytes], data: st.DataObject) -> None:
    blocks = packed(expected)
    kept = data.draw(st.lists(st.sampled_from(blocks), unique=True)) if blocks else []
    assembler = assembler_of(1000, 1 << 24)
    found = [value for block in kept for value in assembler.add(block, 0)]
    assert set(found) <= set(expected)
    assembler.close()
    assert (assembler._held, assembler._partial) == (0, {})


def test_small_values_share_block_until_it_overflows() -> None:
    packer = Packer(CAPACITY)
    assert packer.add(b"a" * 12) == []
    assert packer.add(b"b" * 12) == []  # exactly full
    (block,) = packer.add(b"c")
    assert len(block) == CAPACITY
    assert packer.close() == CHUNK.pack(2, 1, 0, 1) + b"c"


@pytest.mark.parametrize("value", [b""])
def test_an_empty_value_can_not_cross(value: bytes) -> None:
    with pytest.raises(ValueError, match="0 bytes"):
        Packer(CAPACITY).add(value)


HALF = VALUE_BYTES + PART_BYTES + 50  # memory for half a value of 100 bytes


def test_the_oldest_goes_when_too_much_is_held() -> None:
    blocks = packed([b"a" * 100, b"b" * 100, b"c" * 100], CHUNK.size + 50)
    assembler = assembler_of(100, 2 * HALF)
    for block in (blocks[0], blocks[2], blocks[4]):  # the first halves
        assert assembler.add(block, 0) == []
    assert (assembler._counters.values_incomplete, assembler._held) == (1, 2 * HALF)
    assert assembler.add(blocks[3], 0) == [b"b" * 100]
    assert assembler.add(blocks[5], 0) == [b"c" * 100]


def test_what_nothing_is_added_to_is_given_up() -> None:
    first, second = packed([b"a" * 100], CHUNK.size + 50)
    assembler = assembler_of(100, 2 * HALF)
    assembler.add(first, 5)
    assembler.expire(before=5)
    assert assembler._counters.values_incomplete == 0
    assembler.expire(before=6)
    assert (assembler._counters.values_incomplete, assembler._held) == (1, 0)
    assert assembler.add(second, 6) == []


def test_too_large_a_value_leaves_its_neighbours_alone() -> None:
    assembler = assembler_of(99, 1000)
    blocks = packed([b"x", b"a" * 100, b"y"])
    assert [value for block in blocks for value in assembler.add(block, 0)] == [b"x", b"y"]
    assert (assembler._counters.values_oversized, assembler._held) == (1, 0)


@pytest.mark.parametrize(
    "block",
    [
        CHUNK.pack(0, 1, 0, 0) + b"a",
        CHUNK.pack(0, 1, 1, 1) + b"a",
        CHUNK.pack(0, 1, 0, 2) + b"ab",
        CHUNK.pack(0, 9, 0, 9) + b"short",
        CHUNK.pack(0, 2, 0, 1) + b"a" + CHUNK.pack(0, 3, 1, 1) + b"b",  # another length
        CHUNK.pack(0, 2, 0, 1) + b"a" + CHUNK.pack(0, 2, 0, 1) + b"b",  # twice the same
        CHUNK.pack(0, 3, 0, 2) + b"ab" + CHUNK.pack(0, 3, 1, 2) + b"bc",  # too much
        CHUNK.pack(0, 4, 0, 2) + b"ab" + CHUNK.pack(0, 4, 1, 2) + b"bc",  # a hole
    ],
)
def test_what_no_sender_makes(block: bytes) -> None:
    assembler = assembler_of(100, 1000)
    assert assembler.add(CHUNK.pack(7, 1, 0, 1) + b"z" + block, 0) == [b"z"]
    assert assembler._counters.blocks_malformed == 1


@given(st.binary(max_size=200))
def test_noise(block: bytes) -> None:
    assembler = assembler_of(100, 50)
    for _ in range(3):
        assembler.add(block, 0)
    assert assembler._held <= 50


def test_what_grows_is_not_given_up() -> None:
    first, second, third = packed([b"a" * 100], CHUNK.size + 40)
    assembler = assembler_of(100, 2 * HALF)
    assembler.add(first, 5)
    assembler.add(second, 8)
    assembler.expire(before=7)
    assert assembler.add(third, 9) == [b"a" * 100]


def test_memory_for_what_is_not_whole_is_bounded() -> None:
    """Count what chunks of one byte take beside it: each begins a value, or all are of one."""
    for numbers in (range(40_000), [0] * 40_000):
        limit = 4 << 20
        assembler = assembler_of(1 << 20, limit)
        tracemalloc.start()
        try:
            for at, number in enumerate(numbers):
                assembler.add(CHUNK.pack(number, 1 << 20, at, 1) + b"x", 0.0)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 1.25 * limit
        assert assembler._counters.values_incomplete
