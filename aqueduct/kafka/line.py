"""The size of fetches over a line between two sites.

A reader asks for the next records when the last ones have arrived, so that the line is idle for one round
trip each time. With fetches of four times what is on its way at once (the bandwidth-delay product), it is
busy for four fifths of the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARTITION_BYTES = 4 << 20  # of one partition in an answer; a batch over it comes all the same
ANSWER_BYTES = 16 << 20
MOST_BYTES = 48 << 20  # brokers send 55 MiB at most (fetch.max.bytes), and a reader keeps several answers
MBIT = 1000  # of a line whose bandwidth is not declared
BYTES_PER_MBIT_MILLISECOND = 125
TIMES = 4


@dataclass(frozen=True, kw_only=True)
class FetchSettings:
    """How a cluster at another site is read."""

    rack: str = ""  # of the reader, to read from a near replica (KIP-392); empty: leaders are read
    answer_bytes: int = ANSWER_BYTES  # the most of a fetch's answer
    partition_bytes: int = PARTITION_BYTES  # the most of one partition in it


DEFAULTS = FetchSettings()


def fetch_settings(milliseconds: int, mbit: int = MBIT, rack: str = "") -> FetchSettings:
    """Return the settings for a line with this round-trip time and bandwidth; 0 ms: it is not declared."""
    needed = TIMES * milliseconds * mbit * BYTES_PER_MBIT_MILLISECOND
    partition = min(MOST_BYTES, max(PARTITION_BYTES, needed))
    return FetchSettings(rack=rack, answer_bytes=max(ANSWER_BYTES, partition), partition_bytes=partition)


def with_line(settings: Mapping[str, Any], milliseconds: int, mbit: int = MBIT) -> dict[str, Any]:
    """Return the settings of a Java consumer, with at least the size that the line needs for a partition."""
    name = "max.partition.fetch.bytes"
    if not milliseconds:
        return dict(settings)
    return {
        **settings,
        name: max(int(settings.get(name, 0)), fetch_settings(milliseconds, mbit).partition_bytes),
    }
