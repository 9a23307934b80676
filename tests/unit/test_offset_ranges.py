from hypothesis import given
from hypothesis import strategies as st

from aqueduct.common.offset_ranges import Range, shares, split

ranges = st.builds(
    lambda topic, partition, start, length: Range(topic, partition, start, start + length),
    st.sampled_from("ab"),
    st.integers(0, 3),
    st.integers(0, 2**62),
    st.integers(0, 1000),
)


@given(ranges, st.integers(1, 300))
def test_split_covers_the_whole_once(whole: Range, at_most: int) -> None:
    parts = split(whole, at_most)
    assert all(0 < len(part) <= at_most for part in parts)
    edges = [whole.start, *(part.stop for part in parts)]
    assert [part.start for part in parts] == edges[:-1]
    assert edges[-1] == whole.stop
    assert max(map(len, parts), default=0) - min(map(len, parts), default=0) <= 1


@given(st.lists(ranges), st.integers(1, 3000))
def test_shares(every: list[Range], offsets: int) -> None:
    found = list(shares(every, offsets))
    assert [each for share in found for each in share] == every
    for share in found:
        assert sum(map(len, share)) <= offsets or len(share) == 1
        assert len({(each.topic, each.partition) for each in share}) == len(share)


def test_shares_are_full() -> None:
    every = [Range("a", n, 0, 10) for n in range(10)]
    assert [len(share) for share in shares(every, 30)] == [3, 3, 3, 1]
