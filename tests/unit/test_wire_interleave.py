from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct.link.wire.interleave import interleaved

shapes = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 55)), min_size=1, max_size=16).map(tuple)
sizes = st.sampled_from([64, 1472, 8960, 65_507])


@settings(deadline=None, max_examples=50)
@given(shapes, sizes)
def test_sends_take_each_shard_once_within_half_parity(group: tuple[tuple[int, int], ...], size: int) -> None:
    """A send has at most one shard of a block, or half as many as the block has parity shards."""
    sends = interleaved(group, size)
    expected = [(block, shard) for block, (k, m) in enumerate(group) for shard in range(k + m)]
    assert sorted(place for send in sends for place in send) == expected
    for send in sends:
        assert 1 <= len(send) <= 44
        assert len(send) * size <= 65_507
        for block, hits in Counter(block for block, _ in send).items():
            m = group[block][1]
            assert not m or hits <= max(1, m // 2)


def test_full_blocks_fill_their_sends() -> None:
    assert len(interleaved(((200, 30),) * 16, 1472)) == -(-230 * 16 // 44)
    assert [len(send) for send in interleaved(((1, 1),), 1472)] == [1, 1]
    assert [len(send) for send in interleaved(((3, 2),), 1472)] == [1] * 5
    assert [len(send) for send in interleaved(((20, 4),), 1472)] == [2] * 12


def test_short_block_is_spread_over_whole_group() -> None:
    order = [place for send in interleaved(((200, 30), (4, 1)), 1472) for place in send]
    at = [order.index((1, shard)) for shard in range(5)]
    assert all(40 <= after - before <= 53 for before, after in pairwise(at))


def test_without_parity_nothing_is_spread() -> None:
    order = [place for send in interleaved(((3, 0), (2, 0)), 1472) for place in send]
    assert order == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert len(interleaved(((44, 0), (1, 0)), 1472)) == 2
