import argparse

import pytest

from aqueduct.cli import timestamp_argument
from aqueduct.common import timestamps


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14t22:13:20.123z", 1_700_000_000_123),
        ("2023-11-15T00:13:20.123999+02:00", 1_700_000_000_123),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_are_milliseconds(text: str, milliseconds: int) -> None:
    assert timestamp_argument.parse(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2023", "2023-11-14", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z", "-5", "1e9"),
        *("1700000000", "17000000001234", "1700000000123456", "\u0661" * 13, "0001-01-01T00:00:00+25:00"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="2026-01-31T18:00:00Z"):
        timestamp_argument.parse(text)


def test_seconds_are_not_taken_for_milliseconds() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"\b1700000000000\b"):
        timestamp_argument.parse("1700000000")


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63), 253_402_300_800_000])
def test_times_that_rfc_3339_lacks_stay_numbers(milliseconds: int) -> None:
    assert timestamps.text(milliseconds) == str(milliseconds)
