from hypothesis import given
from hypothesis import strategies as st

from aqueduct.kafka.share_groups import _State

OFFSETS = st.integers(0, 30)


@given(start=OFFSETS, spans=st.lists(st.tuples(OFFSETS, st.integers(0, 5))))
def test_position_is_first_offset_that_is_not_complete(start: int, spans: list[tuple[int, int]]) -> None:
    complete = [(first, first + more) for first, more in spans]
    expected = start
    while any(first <= expected <= last for first, last in complete):
        expected += 1
    assert _State(start, complete).position == expected
