"""Flights as JSON, some of them wrong or late, and by Python alone the rows that they come to."""

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from lab import Record

from demo.flights import Flight, flights

Row = dict[str, Any]  # without what is NULL; moments in milliseconds, decimals as text
Place = tuple[str, int, int]  # topic, partition, offset

PLACE = ("k_topic", "k_partition", "k_offset")
ZONE = ZoneInfo("America/New_York")
LATE_AFTER = timedelta(hours=36)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The clock skips an hour on the first day, and has one twice on the other.
FORWARD, BACK = date(2013, 3, 10), date(2013, 11, 3)
DAYS = [date(2013, 3, 9) + timedelta(each) for each in range(4)] + [
    date(2013, 11, 2) + timedelta(each) for each in range(40)
]
DAY_RECORDS = 1_500  # of a writer, until a day comes that no one had before

BROKEN = [
    b"", b"{", b"null", b"[]", b'{"number": "1"}', b'{"number": 1.5}', b'{"number": 1} {"number": 2}',
    b'{"number": 9223372036854775808}', b'{"clock": "yesterday"}', b'{"airline": {"carrier": "\xff"}}',
    b'{"number": 1, "number": 2}', b'{"fare": "12345678901.00"}', b'{"fare": "1.505"}', b'{"legs": "EWR"}',
    b'{"clock": "10000-01-01 00:00:00"}', b'{"dep_delay": "late"}',
]  # fmt: skip


class Departures:
    """A site's flights without end, of ever later days."""

    def __init__(self, airport: str, chance: random.Random) -> None:
        self._airport, self._chance = airport, chance
        self._to_break = 0

    def break_next(self, records: int) -> None:
        """Make so many records bad, one after another."""
        self._to_break += records

    def __iter__(self) -> Iterator[Flight]:
        chance = self._chance
        for number, flight in enumerate(itertools.cycle(flights(self._airport))):
            made = self._made(number, flight)
            if self._to_break > 0:
                self._to_break -= 1
                made = replace(made, value=chance.choice(BROKEN))
            elif chance.random() < 0.001:
                made = replace(made, value=chance.choice(BROKEN))
            yield made

    def _made(self, number: int, flight: Flight) -> Flight:
        chance, real = self._chance, json.loads(flight.value)
        newest = min(number // DAY_RECORDS, len(DAYS) - 1)
        day = DAYS[chance.randint(max(0, newest - 2), newest)]
        clock = datetime.combine(day, time(chance.randrange(24), chance.randrange(60), chance.randrange(60)))
        if chance.random() < 0.1:
            hour = chance.choice([datetime(2013, 3, 10, 2), datetime(2013, 11, 3, 1)])
            clock = hour + timedelta(minutes=chance.randrange(60))
        value = {
            "number": number,
            "airline": {"carrier": real["carrier"], "country": "US"},
            "dep_delay": real["dep_delay"],
            "fare": chance.choice([f"{chance.randrange(99_999) / 100:.2f}", 250, None]),
            "legs": chance.choice([[real["origin"], real["dest"]], [], None]),
            "clock": clock.isoformat(sep=" ") if chance.random() < 0.98 else None,
            "gate": f"Ä{chance.randrange(100)}\n",
        }
        data = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode()
        came = instant(clock) + timedelta(seconds=chance.randrange(12 * 3600))
        if (
            chance.random() < 0.2
        ):  # at any time later; and to the millisecond when it is late, or just not yet
            came = instant(clock) + timedelta(seconds=chance.randrange(5 * 86400))
            if chance.random() < 0.2:
                came = late_from(clock.date()) - timedelta(milliseconds=chance.randrange(2))
        return Flight(flight.key, data, milliseconds(came), flight.headers)


def instant(clock: datetime) -> datetime:
    """Return what a clock's time means: what is skipped is shifted, of what comes twice it is the first."""
    return clock.replace(tzinfo=ZONE).astimezone(UTC)


def late_from(day: date) -> datetime:
    """Return from when on a record of a day is late."""
    return datetime.combine(day + timedelta(days=1), time(), ZONE).astimezone(UTC) + LATE_AFTER


def milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Expected:
    """What a topic comes to: rows, late rows and rejected records, by place."""

    rows: dict[Place, Row]
    late: dict[Place, Row]
    bad: dict[Place, Row]


def expected(topic: str, read: dict[int, list[tuple[int, Record]]]) -> Expected:
    """Return what the records of a topic should be, as declared in the inventory and with `gate`."""
    found = Expected({}, {}, {})
    for partition, records in read.items():
        for offset, record in records:
            if record.value is None:
                continue
            place = (topic, partition, offset)
            own = dict(zip(PLACE, place, strict=True)) | {"k_timestamp": record.timestamp}
            try:
                row = _row(record)
            except (ValueError, TypeError, AttributeError, OverflowError):
                key = {"key": record.key.hex()} if record.key is not None else {}
                found.bad[place] = own | key | {"value": record.value.hex()}
                continue
            day = date.fromisoformat(row["day"]) if "day" in row else None
            late = day and record.timestamp >= milliseconds(late_from(day))
            (found.late if late else found.rows)[place] = own | row
    return found


def _row(record: Record) -> Row:
    assert record.value is not None
    value = json.loads(record.value.decode(), object_pairs_hook=_once)
    fare, clock = value.get("fare"), value.get("clock")
    moment = instant(datetime.fromisoformat(clock)) if clock is not None else None
    origin = record.header("origin")
    row = {
        "number": _is(int, value.get("number")),
        "carrier": _is(str, value.get("airline", {}).get("carrier")),
        "delay": None if (delay := value.get("dep_delay")) is None else float(_is(int, delay)),
        "fare": None if fare is None else _fare(fare),
        "legs": _is(list, value.get("legs")),
        "aircraft": record.key.decode() if record.key is not None else None,
        "origin": origin.decode() if origin is not None else None,
        "departed": milliseconds(moment) if moment else None,
        "day": str(moment.astimezone(ZONE).date()) if moment else None,
        "gate": value.get("gate"),
    }
    if row["number"] is not None and row["number"] >= 2**63:
        raise OverflowError
    return {name: each for name, each in row.items() if each is not None}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _is(kind: type, value: Any) -> Any:
    if value is not None and type(value) is not kind:
        raise TypeError(value)
    return value


def _fare(value: object) -> str:
    number = Decimal(str(value))
    if abs(number) >= 10**10 or number != round(number, 2):
        raise ValueError(value)
    return f"{number:.2f}"
