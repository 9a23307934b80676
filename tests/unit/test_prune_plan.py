"""Which snapshots a policy keeps, and in which order the others go."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.snapshots.prune.plan import Pruned, PrunePlan, plan
from aqueduct.snapshots.prune.policy import Dated, KeepPolicy
from aqueduct.snapshots.prune.referenced_segments import NamedSegments, digests
from aqueduct.store.clock import Clock


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def dated(*texts: str) -> list[Dated]:
    return [Dated(number, at(text)) for number, text in enumerate(texts, 1)]


YEARS = dated(
    "2025-12-27T10:00",  # 1, a Saturday of W52
    "2025-12-28T23:59:59.999",  # 2, the Sunday
    "2025-12-29T00:00",  # 3, the Monday of 2026-W01
    "2025-12-31T23:59:59.999",  # 4
    "2026-01-01T00:00",  # 5
    "2026-01-04T12:00",  # 6, the Sunday of 2026-W01
    "2026-01-05T00:00",  # 7, the Monday of W02
    "2026-01-05T06:00",  # 8
)


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (KeepPolicy(last=3), [6, 7, 8]),
        (KeepPolicy(last=99), [*range(1, 9)]),
        (KeepPolicy(daily=1), [8]),
        (KeepPolicy(daily=4), [4, 5, 6, 8]),  # days without a snapshot do not count
        (KeepPolicy(weekly=2), [6, 8]),
        (KeepPolicy(weekly=3), [2, 6, 8]),
        (KeepPolicy(monthly=2), [4, 8]),
        (KeepPolicy(monthly=9), [4, 8]),
        (KeepPolicy(last=2, weekly=3, monthly=2), [2, 4, 6, 7, 8]),
        (KeepPolicy(days=1), [6, 7, 8]),
        (KeepPolicy(days=5), [4, 5, 6, 7, 8]),
        (KeepPolicy(days=1, monthly=2), [4, 6, 7, 8]),
        (KeepPolicy(), [8]),  # the newest, always
    ],
)
def test_what_a_policy_keeps(policy: KeepPolicy, kept: list[int]) -> None:
    assert sorted(policy.keeps(YEARS)) == kept
    assert sorted(policy.keeps(YEARS[::-1])) == kept


def test_why() -> None:
    why = KeepPolicy(last=1, daily=2, weekly=2, monthly=2, days=1).keeps(YEARS)
    assert why == {
        8: ["newest", "last", "daily 2026-01-05", "weekly 2026-W02", "monthly 2026-01", "within 1 day"],
        7: ["within 1 day"],
        6: ["daily 2026-01-04", "weekly 2026-W01", "within 1 day"],
        4: ["monthly 2025-12"],
    }


def test_days_are_utc_despite_daylight_saving_time() -> None:
    """On 2026-03-29 and 2026-10-25 clocks of Europe change."""
    for day in ("2026-03-29", "2026-10-25"):
        hours = [Dated(hour + 1, at(f"{day}T{hour:02}:30")) for hour in range(24)]
        assert sorted(KeepPolicy(daily=2).keeps(hours)) == [24]


def test_clock_set_back_counts_no_day_twice() -> None:
    back = dated("2026-01-02T00:00", "2026-01-03T00:00", "2026-01-02T12:00", "2026-01-03T01:00")
    assert sorted(KeepPolicy(daily=2).keeps(back)) == [3, 4]


def chains(*lengths: int) -> list[Pruned]:
    """Return snapshots an hour apart, in chains of these lengths."""
    found: list[Pruned] = []
    for length in lengths:
        base = len(found) + 1
        found += [
            Pruned(number=base + each, time=(base + each) * 3_600_000, base=base) for each in range(length)
        ]
    return found


def test_what_builds_on_another_keeps_it() -> None:
    made = plan(chains(3, 4, 2), KeepPolicy(last=1), {})
    assert made == PrunePlan(
        stay={8: "snapshot 9 builds on it", 9: "newest, last"},
        go=(1, 2, 3, 4, 5, 6, 7),
        rounds=((3, 7), (2, 6), (1, 5), (4,)),
        leased=(),
    )
    assert plan(chains(9), KeepPolicy(last=1), {}).go == ()


def test_what_a_restore_uses_stays() -> None:
    made = plan(chains(3, 4, 2), KeepPolicy(last=1), {5: {"b", "a"}, 9: {"c"}, 70: {"gone"}})
    assert made.stay == {
        4: "snapshot 5 builds on it",
        5: "restore a read it in the last 3 hours, restore b read it in the last 3 hours",
        8: "snapshot 9 builds on it",
        9: "newest, last, restore c read it in the last 3 hours",
    }
    assert (made.go, made.leased) == ((1, 2, 3, 6, 7), (4, 5))


def test_doubtful_snapshots_stay_without_counting_for_policy() -> None:
    snapshots = [replace(each, doubtful="odd" if each.number in (6, 7) else "") for each in chains(3, 4, 2)]
    made = plan(snapshots, KeepPolicy(last=3), {})
    assert made.stay == {
        4: "snapshot 5 builds on it",
        5: "last",
        6: "odd",
        7: "odd",
        8: "last",
        9: "newest, last",
    }
    assert (made.go, made.doubtful, made.leased) == ((1, 2, 3), (6, 7), ())


DAY = 86_400_000
HOUR = DAY // 24


@pytest.mark.parametrize(
    ("created", "written", "time", "doubtful"),
    [
        (100 * DAY, 100 * DAY + 5, 100 * DAY + 5, False),
        (100 * DAY, 101 * DAY, 101 * DAY, False),  # a day's difference of clocks
        (100 * DAY, 101 * DAY + 1, 101 * DAY + 1, True),
        (900 * DAY, 100 * DAY, 100 * DAY, False),  # a clock that was ahead gains nothing
    ],
)
def test_snapshot_age_follows_time_of_store(created: int, written: int, time: int, doubtful: bool) -> None:
    clock = Clock()
    found, why = clock.time(1, created, written)
    assert (found, bool(why), clock.backwards) == (time, doubtful, [])
    assert Clock(copied_through=1).time(1, created, written) == (min(created, written), "")
    assert Clock(wrong=frozenset({1})).time(1, created, written)[1]


@pytest.mark.parametrize(
    ("number", "at", "doubtful"),
    [
        (1, 300 * DAY, False),  # copied with the others
        (2, 301 * DAY, False),  # a day later than a copy of a later one
        (2, 301 * DAY + 1, True),
        (9, 310 * DAY, False),  # just before the first that a backup added
        (9, 310 * DAY + 1, True),
        (10, 310 * DAY + 1, True),
        (11, 320 * DAY, False),  # not copied
    ],
)
def test_copied_snapshots_are_not_newer_than_later_ones(number: int, at: int, doubtful: bool) -> None:
    written = {3: 300 * DAY, 8: 320 * DAY, 11: 310 * DAY, 12: 311 * DAY} | {number: at}
    clock = Clock(copied_through=10, written=written)
    created = min(number * DAY if number < 11 else at, at)
    time, why = clock.time(number, created, at)
    assert (time, bool(why)) == (at if doubtful or number > 10 else created, doubtful)


def test_a_time_that_runs_backwards_is_found() -> None:
    times = [100 * DAY, 101 * DAY, 101 * DAY - HOUR, 900 * DAY, 102 * DAY, 101 * DAY, 103 * DAY, 99 * DAY]
    written = [100 * DAY + number * DAY // 2 for number in range(len(times))]
    found = []
    for wrong in (frozenset[int](), frozenset({6, 8})):
        clock = Clock(wrong=wrong)
        for number, (created, at) in enumerate(zip(times, written, strict=True), 1):
            clock.time(number, created, at)
        found.append([number for number, _, _ in clock.backwards])
    assert found == [[6, 8], []]


def test_nothing_goes_twice_or_where_all_stays() -> None:
    assert plan([], KeepPolicy(last=1), {}) == PrunePlan(stay={}, go=(), rounds=(), leased=())
    assert plan(chains(1), KeepPolicy(monthly=1), {}).rounds == ()


lengths = st.lists(st.integers(1, 5), min_size=1, max_size=6)
numbers = st.integers(0, 4)
policies = st.builds(
    KeepPolicy, last=numbers, daily=numbers, weekly=numbers, monthly=numbers, days=st.integers(0, 30)
)


@given(lengths, policies, st.data())
def test_interrupted_pruning_leaves_complete_chains_and_newest_snapshot(
    lengths: list[int], policy: KeepPolicy, data: st.DataObject
) -> None:
    pause = data.draw(st.integers(1, 40 * 24))
    snapshots = [
        Pruned(number=each.number, time=each.time * pause, base=each.base) for each in chains(*lengths)
    ]
    leased = data.draw(st.dictionaries(st.integers(1, 40), st.sets(st.sampled_from("ab"), min_size=1)))
    made = plan(snapshots, policy, leased)
    there = {each.number: each for each in snapshots}
    newest = max(there)
    assert newest in made.stay
    assert policy.keeps([Dated(each.number, each.time) for each in snapshots]).keys() <= made.stay.keys()
    assert leased.keys() & there.keys() <= made.stay.keys()
    assert sorted([*made.stay, *made.go]) == sorted(there)
    assert sorted(each for some in made.rounds for each in some) == list(made.go)
    left = set(there)
    for some in made.rounds:
        for number in data.draw(st.permutations(some)):  # a request removes its objects in any order
            left.remove(number)
            for each in left:
                assert set(range(there[each].base, each + 1)) <= left
    assert left == made.stay.keys()


@given(st.lists(st.lists(st.text(min_size=1, max_size=3), max_size=20), max_size=5), st.lists(st.text()))
def test_names_are_found_again(added: list[list[str]], asked: list[str]) -> None:
    named = NamedSegments()
    every: set[str] = set()
    for some in added:
        named.add(digests(some))
        every.update(some)
        assert named.has(asked) == [each in every for each in asked]
    assert all(named.has(sorted(every)))


def test_names_beyond_what_waits_to_be_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct.snapshots.prune.referenced_segments.LOOSE", 10)
    monkeypatch.setattr("aqueduct.snapshots.prune.referenced_segments.AT_ONCE", 7)
    named = NamedSegments()
    for some in range(50):
        named.add(digests(f"{each}" for each in range(some, some + 30)))
    assert named.has(["0", "78", "79"]) == [True, True, False]


def test_policy_follows_calendar_days_weeks_and_months() -> None:
    """Two years of a snapshot an hour, and what is kept of them by a usual policy."""
    began = datetime(2024, 12, 1, tzinfo=UTC)
    hours = [
        Dated(each + 1, int((began + timedelta(hours=each)).timestamp() * 1000)) for each in range(24 * 730)
    ]
    kept = KeepPolicy(last=24, daily=7, weekly=8, monthly=12).keeps(hours)
    assert len(kept) == 24 + 6 + 7 + 10  # the newest of each are the same, and a week's end is a month's
    assert max(kept) == 24 * 730
