"""Event times, judged by Python's own datetime and zoneinfo, one by one."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.land import times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]


def instant(text: str, zone: str = "UTC") -> str | None:
    found, right = times.instants(pa.array([text]), ZoneInfo(zone))
    return (EPOCH + timedelta(microseconds=int(found[0]))).isoformat() if right[0] else None


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2013-01-01T05:00:00Z", "America/New_York", "2013-01-01T05:00:00+00:00"),
        ("2013-01-01 05:00", "America/New_York", "2013-01-01T10:00:00+00:00"),
        ("2013-07-01", "America/New_York", "2013-07-01T04:00:00+00:00"),
        ("2013-01-01T05:00:00.123456000+05:30", "UTC", "2012-12-31T23:30:00.123456+00:00"),
        ("2013-01-01T05:00:00.123456789+05:30", "UTC", None),
        ("2013-01-01T05:00:00-0800", "UTC", "2013-01-01T13:00:00+00:00"),
        ("2013-01-01T05:00:00+01", "UTC", "2013-01-01T04:00:00+00:00"),
        # A clock that goes forward at 2: 2:30 is half an hour behind 3.
        ("2013-03-10T02:30:00", "America/New_York", "2013-03-10T07:30:00+00:00"),
        ("2013-03-10T01:59:59", "America/New_York", "2013-03-10T06:59:59+00:00"),
        ("2013-03-10T03:00:00", "America/New_York", "2013-03-10T07:00:00+00:00"),
        # A clock that goes back at 2 to 1: the first 1:30, which is of the summer.
        ("2013-11-03T01:30:00", "America/New_York", "2013-11-03T05:30:00+00:00"),
        ("2013-11-03T02:00:00", "America/New_York", "2013-11-03T07:00:00+00:00"),
        # A day that is skipped.
        ("2011-12-30T12:00:00", "Pacific/Apia", "2011-12-30T22:00:00+00:00"),
        ("0001-01-02T00:00:00", "UTC", "0001-01-02T00:00:00+00:00"),
        ("9999-12-31T23:59:59.999999", "UTC", "9999-12-31T23:59:59.999999+00:00"),
        ("2024-02-29T00:00:00", "UTC", "2024-02-29T00:00:00+00:00"),
        *(
            (wrong, "UTC", None)
            for wrong in (
                *(
                    "",
                    "now",
                    "2013-1-1",
                    "2013-01-01T5:00",
                    "2013-02-29",
                    "1900-02-29",
                    "2013-13-01",
                    "2013-00-01",
                ),
                *(
                    "2013-01-00",
                    "2013-01-01T24:00:00",
                    "2013-01-01T00:60",
                    "2013-01-01T00:00:60",
                    "0000-01-01",
                ),
                *(
                    "2013-01-01T00:00:00+19:00",
                    "2013-01-01Z",
                    "2013-01-01T00:00:00 UTC",
                    "2013-01-01T00:00:00.Z",
                ),
                *(
                    " 2013-01-01",
                    "2013-01-01\n",
                    "10000-01-01",
                    "0001-01-01T00:00:00+01:00",
                    "\uff12013-01-01",
                ),
            )
        ),
    ],
)
def test_texts(text: str, zone: str, expected: str | None) -> None:
    assert instant(text, zone) == expected


def test_column_keeps_order_beside_invalid_texts_and_nulls() -> None:
    text = pa.array(["2013-01-01T00:00:00Z", None, "x", "1970-01-01T00:00:01", "2013-06-01"])
    found, right = times.instants(text, ZoneInfo("Europe/Berlin"))
    assert right.tolist() == [True, False, False, True, True]
    assert found[right].tolist() == [1_356_998_400_000_000, -3_599_000_000, 1_370_037_600_000_000]


local_times = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1))


@given(st.lists(local_times, min_size=1, max_size=20), st.sampled_from(ZONES))
def test_local_times_are_those_of_python(locals_: list[datetime], name: str) -> None:
    """PEP 495: fold=0 is the first of two, and of a gap the offset before it, which shifts it forward."""
    zone = ZoneInfo(name)
    found = times.to_instants(np.array([_micros(each) for each in locals_], np.int64), zone)
    assert found.tolist() == [_micros(each.replace(tzinfo=zone).astimezone(UTC)) for each in locals_]


@given(st.lists(local_times, min_size=1, max_size=20), st.sampled_from(ZONES))
def test_days_are_those_of_python(moments: list[datetime], name: str) -> None:
    zone = ZoneInfo(name)
    found = times.to_days(np.array([_micros(each) for each in moments], np.int64), zone)
    days = [each.replace(tzinfo=UTC).astimezone(zone).date() for each in moments]
    assert found.tolist() == [(each - date(1970, 1, 1)).days for each in days]


def _micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def test_epochs_out_of_all_years_are_told() -> None:
    numbers = np.array([1_356_998_400, -62_135_596_800, -62_135_596_801, 253_402_300_800, 2**62], np.int64)
    found, right = times.epochs(numbers, "s")
    assert right.tolist() == [True, True, False, False, False]
    assert found[0] == 1_356_998_400_000_000


def test_dates() -> None:
    days, right = times.dates(pa.array(["1970-01-02", "2024-02-29", "2023-02-29", "2024-02-29T00:00", None]))
    assert right.tolist() == [True, True, False, False, False]
    assert days[:2].tolist() == [1, 19_782]


def test_a_zone_that_is_not_there_is_named() -> None:
    with raises(Refused, "landing-declaration-invalid") as refused:
        times.zone("Europe/Bielefeld", "here")
    assert str(refused.value).startswith("here: ")
    assert "Europe/Bielefeld" in str(refused.value)
