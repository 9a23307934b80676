"""The policy that selects the snapshots to keep. Days are in UTC, weeks follow ISO 8601."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from aqueduct.common.wording import count

DAY = 86_400_000  # milliseconds


class Dated(NamedTuple):
    """A snapshot and its time of creation, in milliseconds since 1970."""

    number: int
    time: int


@dataclass(frozen=True, kw_only=True)
class KeepPolicy:
    """The numbers of snapshots to keep. A snapshot stays if one of the rules keeps it. 0: no such rule."""

    last: int = 0  # the newest ones
    daily: int = 0  # the newest one of each of this many days that have one
    weekly: int = 0  # the same for weeks
    monthly: int = 0  # the same for months
    days: int = 0  # all that are at most this many days older than the newest one

    def keeps(self, snapshots: Sequence[Dated]) -> dict[int, list[str]]:
        """Return the reasons to keep snapshots, by number. The newest one is always kept. Any order."""
        newest_first = sorted(snapshots, reverse=True)
        reasons: dict[int, list[str]] = {}
        for snapshot in newest_first[:1]:
            reasons.setdefault(snapshot.number, []).append("newest")
        for snapshot in newest_first[: self.last]:
            reasons.setdefault(snapshot.number, []).append("last")
        for most, word, period in (
            (self.daily, "daily", _day),
            (self.weekly, "weekly", _week),
            (self.monthly, "monthly", _month),
        ):
            for number, name in _newest_of_each(newest_first, most, period):
                reasons.setdefault(number, []).append(f"{word} {name}")
        if self.days:
            since = newest_first[0].time - self.days * DAY if newest_first else 0
            for snapshot in newest_first:
                if snapshot.time >= since:
                    reasons.setdefault(snapshot.number, []).append(f"within {count(self.days, 'day')}")
        return reasons


def _newest_of_each(
    newest_first: Sequence[Dated], most: int, period: Callable[[datetime], str]
) -> list[tuple[int, str]]:
    newest: dict[str, int] = {}
    for snapshot in newest_first:
        if len(newest) == most:
            break
        newest.setdefault(period(datetime.fromtimestamp(snapshot.time / 1000, UTC)), snapshot.number)
    return [(number, name) for name, number in newest.items()]


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")


def _week(moment: datetime) -> str:
    year, week, _ = moment.isocalendar()
    return f"{year}-W{week:02}"


def _month(moment: datetime) -> str:
    return moment.strftime("%Y-%m")
