"""Instants of event times: text in ISO 8601, epochs, and the days of a zone; whole columns at once.

An instant is in microseconds since 1970 in UTC. A local time that a clock skips is as much later as the clock
goes forward; of one that comes twice the first is meant.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct.errors import Refused
from aqueduct.kafka.batches.varints import Mask, Numbers

SECOND = 1_000_000
DAY = 86_400 * SECOND
YEARS = range(1, 10_000)  # as Hive's timestamps
UNITS = {"s": SECOND, "ms": 1_000, "us": 1, "ns": 0}  # in microseconds; of nanoseconds see NANOS
NANOS = 1_000  # in a microsecond
UNIT_OF_AVRO = {"millis": "ms", "micros": "us", "nanos": "ns"}
TEXT = (
    r"^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<part>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?$"
)
DATE = r"^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})$"


def zone(name: str, where: str) -> ZoneInfo:
    """Return a zone by name; Refused, with `where` it stands, if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Refused(
            "landing-declaration-invalid",
            f"{where}: the time zone {name} does not exist. Write a name such as Europe/Berlin or UTC.",
        ) from None


def instants(text: pa.StringArray, of: ZoneInfo, *, cut: bool = False) -> tuple[Numbers, Mask]:
    """Return the instants of texts, and which texts tell one; one without an offset is of the zone.

    One with nanoseconds tells none, unless they are cut.
    """
    fields = pc.extract_regex(text, TEXT)
    numbers = {name: _numbers(fields, name) for name in ("year", "month", "day", "hour", "minute", "second")}
    days, right = _days(numbers["year"], numbers["month"], numbers["day"])
    right &= pc.is_valid(fields).to_numpy(zero_copy_only=False)
    right &= (numbers["hour"] < 24) & (numbers["minute"] < 60) & (numbers["second"] < 60)
    digits = pc.utf8_rpad(pc.struct_field(fields, "part"), 9, "0")
    part, nanos = (_filled(pc.utf8_slice_codeunits(digits, *bounds)) for bounds in ((0, 6), (6, 9)))
    right &= cut | (nanos == 0)
    seconds = numbers["hour"] * 3600 + numbers["minute"] * 60 + numbers["second"]
    local = days * DAY + seconds * SECOND + part
    zones = pc.fill_null(pc.struct_field(fields, "zone"), "")
    offset, valid = _offsets(zones)
    own = pc.equal(zones, "").to_numpy(zero_copy_only=False)
    result = local - offset * SECOND
    if own.any():
        result[own & right] = to_instants(local[own & right], of)
    return result, right & valid & _in_years(result)


def dates(text: pa.StringArray) -> tuple[Numbers, Mask]:
    """Return the days since 1970 of texts such as 2024-02-29, and which texts tell one."""
    fields = pc.extract_regex(text, DATE)
    days, right = _days(*(_numbers(fields, name) for name in ("year", "month", "day")))
    return days, right & pc.is_valid(fields).to_numpy(zero_copy_only=False)


def epochs(numbers: Numbers, unit: str) -> tuple[Numbers, Mask]:
    """Return the instants of epochs in a unit of UNITS, and which of them are within YEARS.

    Nanoseconds are cut: see has_nanoseconds.
    """
    if unit == "ns":  # those of 64 bits are all within YEARS
        return numbers // NANOS, np.ones(len(numbers), np.bool_)
    scale = UNITS[unit]
    low, high = (_days_of(year) * DAY // scale for year in (YEARS.start, YEARS.stop))
    right = (numbers >= low) & (numbers < high)
    return np.where(right, numbers, 0) * scale, right


def has_nanoseconds(epochs_: Numbers) -> Mask:
    """Return which epochs in nanoseconds are no whole microseconds."""
    is_fractional: Mask = epochs_ % NANOS != 0
    return is_fractional


def to_instants(local: Numbers, of: ZoneInfo) -> Numbers:
    """Return the instants of local times, given as if they were of UTC."""
    moments, before, after = _changes(local, of)
    # The clock's offset changes for good when both its times, the one before and the one after, are over.
    over = moments + np.maximum(before, after)
    order = np.argsort(over, kind="stable")
    indices = np.searchsorted(over[order], local, side="right") - 1
    instants_: Numbers = local - after[order][np.maximum(indices, 0)]
    return instants_


def to_days(instants_: Numbers, of: ZoneInfo) -> Numbers:
    """Return the days since 1970 on which instants are in the zone."""
    moments, _, after = _changes(instants_, of)
    indices = np.searchsorted(moments, instants_, side="right") - 1
    days: Numbers = (instants_ + after[np.maximum(indices, 0)]) // DAY
    return days


def _changes(times: Numbers, of: ZoneInfo) -> tuple[Numbers, Numbers, Numbers]:
    """Return when the zone's offset changes in the years of these times, from what, and to what."""
    years = np.unique(times.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970)
    near = {near_year for year in years.tolist() for near_year in (year - 1, year, year + 1)}
    rows = [row for year in sorted(near.intersection(YEARS)) for row in _changes_of_year(of, year)]
    table = np.array(rows or [(0, 0, 0)], np.int64)
    return table[:, 0] * SECOND, table[:, 1] * SECOND, table[:, 2] * SECOND


@lru_cache(4096)
def _changes_of_year(of: ZoneInfo, year: int) -> tuple[tuple[int, int, int], ...]:
    """Return when the offset changes in a year, its first moment too: seconds, offsets before and after."""
    return tuple(_found_changes(of, year))


def _found_changes(of: ZoneInfo, year: int) -> Iterator[tuple[int, int, int]]:
    begin, end = (_days_of(edge_year) * 86_400 for edge_year in (year, year + 1))
    had = _offset(of, begin)
    yield begin, had, had
    for day in range(begin, end, 86_400):
        if (has := _offset(of, day + 86_400)) != had:
            low, high = day, day + 86_400
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(of, middle) == had else (low, middle)
            yield high, had, has
            had = has


def _offset(of: ZoneInfo, seconds: int) -> int:
    first, last = (_days_of(edge_year) * 86_400 for edge_year in (YEARS.start, YEARS.stop))
    inside = min(max(seconds, first + 86_400), last - 2 * 86_400)  # where a zone's date is one, too
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=inside)
    offset = moment.astimezone(of).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def _numbers(fields: pa.StructArray, name: str) -> Numbers:
    return _filled(pc.struct_field(fields, name))


def _filled(text: pa.StringArray) -> Numbers:
    """Return texts of digits as numbers; 0 for empty ones and null."""
    digits = pc.if_else(pc.equal(pc.fill_null(text, ""), ""), "0", text)
    numbers: Numbers = pc.cast(digits, pa.int64()).to_numpy(zero_copy_only=False).copy()
    return numbers


def _days(year: Numbers, month: Numbers, day: Numbers) -> tuple[Numbers, Mask]:
    """Return days since 1970 of dates of the Gregorian calendar, and which dates there are.

    Years begin in March, so that a leap day is their last: Howard Hinnant, chrono-Compatible Low-Level Date
    Algorithms (days_from_civil).
    """
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    right = (year >= YEARS.start) & (year < YEARS.stop) & (month >= 1) & (month <= 12)
    in_month = np.where(right, month, 0)
    right &= (day >= 1) & (day <= lengths[in_month] + (leap & (in_month == 2)))
    from_march = year - (month <= 2)
    era = from_march // 400
    of_era = from_march - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468, right


@cache  # it is asked twice for each day of each year in which a zone may change its offset
def _days_of(year: int) -> int:
    return int(_days(np.array([year]), np.array([1]), np.array([1]))[0][0])


def whole_days() -> tuple[int, int]:
    """Return the first day of YEARS and the last one, since 1970."""
    return _days_of(YEARS.start), _days_of(YEARS.stop) - 1


def beyond_years(values: pa.Array) -> Mask:
    """Return which times and days are not within YEARS; values of other types all are."""
    if pa.types.is_timestamp(values.type):
        return ~_in_years(values.view(pa.int64()).fill_null(0).to_numpy())
    beyond = np.zeros(len(values), np.bool_)
    if pa.types.is_date(values.type):
        first, last = whole_days()
        days = values.view(pa.int32()).fill_null(0).to_numpy()
        beyond |= (days < first) | (days > last)
    return beyond


def _in_years(instants_: Numbers) -> Mask:
    return (instants_ >= _days_of(YEARS.start) * DAY) & (instants_ < _days_of(YEARS.stop) * DAY)


def _offsets(zones: pa.StringArray) -> tuple[Numbers, Mask]:
    """Return the seconds of offsets such as +05:30, and which of them there are; 0 for Z and none."""
    different = pc.dictionary_encode(zones)
    seconds = [_offset_of(text or "") for text in different.dictionary.to_pylist()]
    table = np.array([offset if offset is not None else 0 for offset in seconds] or [0], np.int64)
    valid = np.array([offset is not None for offset in seconds] or [True])
    indices = different.indices.to_numpy(zero_copy_only=False)
    return table[indices], valid[indices]


def _offset_of(text: str) -> int | None:
    match = re.fullmatch(r"([+-])(\d{2}):?(\d{2})?", text)
    if not match:
        return 0
    hours, minutes = int(match[2]), int(match[3] or 0)
    if hours > 18 or minutes > 59:
        return None
    return (1 if match[1] == "+" else -1) * (hours * 3600 + minutes * 60)
