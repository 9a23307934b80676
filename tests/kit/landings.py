"""A folder in which topics land, and the expected rows, computed only with Python's own modules."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from kit import clients
from pyarrow import orc

from aqueduct.cli import main
from servers.broker import Broker

Row = dict[str, Any]
ZONE = "America/New_York"
COLUMNS = [
    {"name": "id", "type": "bigint"},
    {"name": "carrier", "type": "string", "from": "flight.carrier"},
    {"name": "delay", "type": "double"},
    {"name": "departed", "type": "timestamp", "zone": ZONE},
    {"name": "sent", "type": "string", "from": "$key"},
]


@dataclass
class LandingFolder:
    """A broker and a folder in which its topics land."""

    broker: Broker
    folder: Path
    declared: dict[str, Any] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def admin(self) -> AdminClient:
        return clients.admin(self.broker)

    @property
    def table(self) -> Path:
        return self.folder / "lake" / "lake" / "flights"

    def declare(self, topic: str, **changes: Any) -> None:
        self.declared = {
            "table": "lake.flights",
            "topics": [topic],
            "columns": COLUMNS,
            "partition_by": [{"name": "day", "of": "departed", "every": "day"}],
            **changes,
        }

    def command(self, *arguments: str) -> list[str]:
        file = self.folder / "declarations.yml"
        file.write_text(yaml.safe_dump({"land_tables": [self.declared, *self.others]}))
        common = ["--bootstrap-server", self.broker.plaintext, "--declarations", str(file)]
        return ["land", *arguments, *common, "--location", (self.folder / "lake").as_uri()]

    def land(self, *arguments: str) -> int:
        return main(self.command("--until-caught-up", *arguments))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "aqueduct.cli", *self.command(*arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rows(self, table: str = "flights") -> list[Row]:
        """Return the rows of all files whose name does not begin with _, as other readers do."""
        found: list[Row] = []
        folder = self.folder / "lake" / "lake" / table
        for path in visible_files(folder, ".orc"):
            below = path.relative_to(folder).parts
            day = {"day": below[0].removeprefix("day=")} if len(below) > 1 else {}
            found += [row | day for row in orc.ORCFile(path).read().to_pylist()]
        return found

    def placed(self, table: str = "flights") -> list[tuple[int, int]]:
        return sorted((row["k_partition"], row["k_offset"]) for row in self.rows(table))

    def commits(self) -> list[dict[str, Any]]:
        paths = sorted((self.table / "_land" / "commits").glob("*.json"))
        return [json.loads(path.read_text()) for path in paths]


def visible_files(folder: Path, suffix: str) -> list[Path]:
    """Return the files below a folder without those whose path has a name that begins with _ or a dot.

    A landing that runs removes folders with such names at any moment: they are not entered.
    """
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [Path(parent, name) for name in names if name.endswith(suffix) and name[0] not in "_."]
    return sorted(found)


@pytest.fixture
def lake(brokers: list[Broker], tmp_path: Path) -> LandingFolder:
    (tmp_path / "lake").mkdir()
    return LandingFolder(brokers[0], tmp_path)


def flights(chance: random.Random, number: int, poison: float = 0.0) -> Iterator[dict[str, Any]]:
    """Yield records. Some of them are malformed, in several ways."""
    for each in range(number):
        moment = datetime(2013, 11, 1) + timedelta(minutes=chance.randrange(4 * 1440))
        value = {
            "flight": {"carrier": chance.choice(["AA", "ÜA", "\n"]), "x": 1},
            "id": each,
            "delay": chance.choice([None, 1.5, -3]),
            "departed": moment.isoformat(sep=" "),
        }
        data = json.dumps(value).encode()
        if chance.random() < poison:
            data = chance.choice([
                b"", b"{", b"null", b"[]", b'{"id": "1"}', b'{"id": 1.5}', b'{"id": 1} {"id": 2}',
                b'{"id": 9223372036854775808}', b'{"departed": "yesterday"}',
                b'{"flight": {"carrier": "\xff"}}',
                b'{"id": 1, "id": 2}',
            ])  # fmt: skip
        yield {"value": data, "key": b"%d" % each, "timestamp": 1_700_000_000_000 + each}


def fill(lake: LandingFolder, topic: str, chance: random.Random, number: int, poison: float = 0.0) -> None:
    records = (
        {**record, "partition": partition}
        for partition in range(3)
        for record in flights(chance, number, poison)
    )
    clients.produce(lake.broker, topic, records)


def messages(lake: LandingFolder, topic: str) -> list[Message]:
    return clients.read(lake.broker, topic, *lake.admin.list_topics(topic).topics[topic].partitions)


def should_be(lake: LandingFolder, topic: str) -> tuple[list[Row], list[tuple[int, int]]]:
    """Return the expected rows of a topic, computed with Python, and the positions of rejected records."""
    rows, bad = [], []
    for message in messages(lake, topic):
        partition, offset = message.partition(), message.offset()
        try:
            value = json.loads(message.value().decode(), object_pairs_hook=once)
            row = row_of(value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            bad.append((partition, offset))
            continue
        own = {
            "k_topic": topic,
            "k_partition": partition,
            "k_offset": offset,
            "k_timestamp": naive(message.timestamp()[1]),
        }
        rows.append(own | row | {"sent": message.key().decode()})
    return rows, sorted(bad)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def row_of(value: dict[str, Any]) -> Row:
    if "id" in value and (type(value["id"]) is not int or value["id"] >= 2**63):
        raise ValueError
    text = value.get("departed")
    departed = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE)) if text else None
    return {
        "id": value.get("id"),
        "carrier": value.get("flight", {}).get("carrier"),
        "delay": value.get("delay"),
        "departed": departed.astimezone(UTC).replace(tzinfo=None) if departed else None,
        "day": text[:10] if text else "__HIVE_DEFAULT_PARTITION__",
    }


def naive(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["k_topic"], row["k_partition"], row["k_offset"]))
