import pytest

from aqueduct.work import pace
from aqueduct.work.pace import Pace


class Clock:
    """A clock in place of the module time; only sleeping and `pass_` make it go."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    pass_ = sleep


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    return clock


def test_each_amount_takes_its_time(clock: Clock) -> None:
    mine = Pace(10)
    for size in (5, 0, 20):
        mine.spent(size)
    assert clock.now == pytest.approx(102.5)


def test_what_took_longer_is_not_slowed_down(clock: Clock) -> None:
    mine = Pace(10)
    mine.spent(5)
    clock.pass_(0.3)
    mine.spent(5)
    assert clock.now == pytest.approx(101.3)  # the second amount begins when the first is told


def test_a_pause_is_not_saved_up(clock: Clock) -> None:
    mine = Pace(10)
    clock.pass_(60)
    mine.spent(10)
    mine.spent(10)
    assert clock.now == pytest.approx(162)


def test_without_a_limit_nobody_waits(clock: Clock) -> None:
    Pace(None).spent(1 << 40)
    assert clock.now == 100
