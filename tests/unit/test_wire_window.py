from hypothesis import given
from hypothesis import strategies as st

from aqueduct.link.wire.window import BlockSpan, BlockWindow

numbers = st.lists(st.integers(0, 40), max_size=40)


@given(numbers, st.integers(1, 12))
def test_every_number_is_finished_once_or_lost_once(arriving: list[int], size: int) -> None:
    window = BlockWindow(size, 0)
    finished, lost = set(), 0
    for number in arriving:
        if number not in window:
            assert number in finished or number < window.floor
            continue
        assert number not in finished
        lost += window.reach(number)
        window.finish(number)
        finished.add(number)
        assert window.top - window.floor <= size
        assert window.floor + window.missing + sum(b - a + 1 for a, b in window.done()) == window.top
        again = BlockWindow(size, window.floor, list(window.done()))
        assert (again.floor, again.top, again.missing) == (window.floor, window.top, window.missing)
        assert all((n in again) == (n in window) for n in range(45))
    lost += window.pass_by(50)
    assert lost == 50 - len(finished)
    assert (window.floor, window.missing, list(window.done())) == (50, 0, [])


def test_spans() -> None:
    window = BlockWindow(10, 0)
    for number in (1, 2, 5, 7, 8):
        window.reach(number)
        window.finish(number)
    assert list(window.done()) == [BlockSpan(1, 2), BlockSpan(5, 5), BlockSpan(7, 8)]
    assert window.missing == 4


def test_a_far_jump_costs_nothing() -> None:
    window = BlockWindow(10, 0)
    assert window.reach(1 << 60) == (1 << 60) - 9
    assert window.pass_by(0) == 0


def test_what_is_expected_is_missing() -> None:
    window = BlockWindow(10, 0)
    window.expect(3)
    assert (window.missing, window.floor) == (3, 0)
    assert window.pass_by(2) == 2
    assert 1 not in window
    assert 2 in window


def test_smaller_window_after_restart_admits_no_duplicate() -> None:
    window = BlockWindow(2, 0, [BlockSpan(1, 3), BlockSpan(8, 9)])
    assert not any(number in window for number in (0, 1, 2, 3, 8, 9))
    assert 10 in window
