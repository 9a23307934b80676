"""Fetches are as large as a line between two sites needs, and never larger than brokers send."""

import pytest

from aqueduct.kafka.line import DEFAULTS, MOST_BYTES, FetchSettings, fetch_settings, with_line

MIB = 1 << 20


@pytest.mark.parametrize(
    ("milliseconds", "mbit", "partition", "answer"),
    [
        (0, 1000, 4 * MIB, 16 * MIB),  # not declared
        (1, 1000, 4 * MIB, 16 * MIB),
        (20, 1000, 10_000_000, 16 * MIB),
        (80, 1000, 40_000_000, 40_000_000),
        (100, 10_000, MOST_BYTES, MOST_BYTES),
    ],
)
def test_fetches_hold_four_times_the_line(milliseconds: int, mbit: int, partition: int, answer: int) -> None:
    settings = fetch_settings(milliseconds, mbit, "rack-1")
    assert settings == FetchSettings(rack="rack-1", answer_bytes=answer, partition_bytes=partition)
    assert fetch_settings(0) == DEFAULTS


def test_java_consumer_keeps_larger_size_of_inventory() -> None:
    name = "max.partition.fetch.bytes"
    assert with_line({name: 5, "fetch.min.bytes": 1}, 0) == {name: 5, "fetch.min.bytes": 1}
    assert with_line({name: 5, "fetch.min.bytes": 1}, 20) == {name: 10_000_000, "fetch.min.bytes": 1}
    assert with_line({name: MOST_BYTES}, 20) == {name: MOST_BYTES}
    assert with_line({}, 20) == {name: 10_000_000}
