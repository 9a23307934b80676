"""A topic with a table in a Hive metastore, and changes to the metastore by other clients."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from kit import clients
from kit.hive_reader import HiveReader
from pymetastore.hive_metastore import ttypes
from pymetastore.hive_metastore.ThriftHiveMetastore import Client
from pymetastore.hive_metastore.ttypes import AlreadyExistsException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from aqueduct.cli import main
from servers.broker import Broker
from servers.hive_metastore import HiveMetastore

PARTITIONS = 2
COLUMNS = [
    {"name": "n", "type": "int"},
    {"name": "price", "type": "decimal(10,2)"},
    {"name": "names", "type": "array<string>"},
    {"name": "at", "type": "timestamp", "unit": "s"},
]
NOVEMBER = 1_698_796_800  # 2023-11-01
DAY = 86_400


@dataclass
class HiveLake:
    """A topic with its own table in the database `lake`."""

    broker: Broker
    metastore: HiveMetastore
    folder: Path
    topic: str
    table: str
    columns: list[dict[str, Any]] = field(default_factory=lambda: list(COLUMNS))
    location: str = ""
    produced: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)  # that is declared

    def arguments(self, *arguments: str) -> list[str]:
        declared = {
            "table": f"lake.{self.table}",
            "topics": [self.topic],
            "columns": self.columns,
            "partition_by": [{"name": "day", "of": "at", "every": "day"}],
            **self.more,
        }
        file = self.folder / "tables.yml"
        file.write_text(yaml.safe_dump([declared]))
        reached = ["--bootstrap-server", self.broker.plaintext, "--declarations", str(file)]
        location = self.location or (self.folder / "lake").as_uri()
        return ["land", *arguments, *reached, "--location", location]

    def land(self, *arguments: str) -> int:
        given = self.arguments("--until-caught-up", "--metastore", self.metastore.url)
        return main([*given, "--report", str(self.folder / "report.json"), *arguments])

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())["tables"][0]
        return found

    def produce(self, days: range, number: int, **more: object) -> None:
        """Produce so many records to each partition, with timestamps on days of November 2023."""
        first, values = len(self.produced), list[dict[str, Any]]()
        for partition in range(PARTITIONS):
            for n in range(number):
                at = NOVEMBER + days[n % len(days)] * DAY + n
                value = {"n": n, "price": f"{n}.{partition}5", "names": ["ä", str(n)], "at": at, **more}
                values.append({"value": json.dumps(value).encode(), "partition": partition})
                offset = sum(each["k_partition"] == partition for each in self.produced)
                day = f"2023-11-{1 + days[n % len(days)]:02d}"
                self.produced.append({"k_partition": partition, "k_offset": offset, **value, "day": day})
        clients.produce(self.broker, self.topic, values)
        assert len(self.produced) == first + number * PARTITIONS

    def expected(self) -> list[dict[str, Any]]:
        return sorted(self.produced, key=lambda each: (each["k_partition"], each["k_offset"]))

    def read(self, reader: HiveReader, *more: str, beside: str = "") -> list[dict[str, Any]]:
        columns = ("k_partition", "k_offset", "n", "cast(price as string) price", "names")
        time = "unix_timestamp(at) at"
        return reader.rows(
            f"select {', '.join((*columns, time, *more, 'day'))} from lake.{self.table}{beside} "  # noqa: S608
            "order by k_partition, k_offset"
        )


def wait(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 400
    while True:
        with suppress(OSError, ValueError, LookupError):
            if reached():
                return
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def create(metastore: HiveMetastore, name: str, **changes: Any) -> None:
    """Create a table in the database `lake`, as another client."""
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("n", "int", "")],
        location=changes.pop("location", None),
        inputFormat=changes.pop("input", "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"),
        serdeInfo=ttypes.SerDeInfo(parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    common = {"tableType": "EXTERNAL_TABLE", "parameters": {"EXTERNAL": "TRUE"}, "partitionKeys": []}
    with client(metastore) as hive:
        with suppress(AlreadyExistsException):
            hive.create_database(ttypes.Database(name="lake"))
        hive.create_table(ttypes.Table(dbName="lake", tableName=name, sd=storage, **common | changes))


@contextmanager
def client(metastore: HiveMetastore) -> Iterator[Any]:
    """Yield a Thrift client of the metastore, without Aqueduct's wrapper."""
    transport = TBufferedTransport(TSocket("127.0.0.1", metastore.port))
    transport.open()
    try:
        yield Client(TBinaryProtocol(transport))
    finally:
        transport.close()


def table_of(hive: Any, name: str) -> Any:
    """Return a table from the metastore. Hive 4 no longer has get_table."""
    return hive.get_table_req(ttypes.GetTableRequest(dbName="lake", tblName=name)).table
