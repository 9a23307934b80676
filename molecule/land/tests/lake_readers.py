"""Who reads the tables, none of them ours: pyarrow of what HDFS lists, and SQL by beeline."""

import base64
import io
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
from departures import Place, Row, milliseconds
from lab import Lab, wait_until

from demo.hive import BIN, Landing

LISTER = Path(__file__).with_name("lister.py")
HOST = "lake-hive-1"
TABLE, LATE, BAD = "flights.departures", "flights.departures_late", "flights.departures_bad"
TABLES = (TABLE, LATE, BAD)
ICEBERG = "flights.delimited_iceberg"
PAUSE_SECONDS = 4.0
METASTORE = f"thrift://{HOST}:9083"
DELETED = 2  # the status of a manifest's entry


@dataclass(frozen=True)
class Read:
    """What a reader saw of all three tables at once; or why it saw nothing."""

    began: float
    ended: float
    rows: int = 0
    distinct: int = 0
    files: int = 0
    error: str = ""


@dataclass(frozen=True)
class Lake:
    """The lake's tables."""

    lab: Lab

    @cached_property
    def landing(self) -> Landing:
        return Landing(self.lab, HOST, TABLE)

    def lister(self, *arguments: str) -> list[str]:
        return [f"{BIN}/python", "-c", LISTER.read_text(), *arguments]

    def ask(self, *arguments: str) -> list[Any]:
        """Return what HDFS has, by a lister that is not ours."""
        said = self.lab.run(HOST, *self.lister(*arguments), seconds=1800).stdout
        return [json.loads(line) for line in said.splitlines()]

    def newest(self) -> int:
        """Return the number of the newest commit."""
        [number] = self.ask("newest", TABLE)
        return int(number)

    def rows(self, table: str) -> list[Row]:
        """Return rows as pyarrow reads them from HDFS's files."""
        return self.ask("rows", table)

    def iceberg_rows(self, table: str) -> list[Row]:
        """Return rows of an Iceberg table's newest snapshot, by the format's specification."""
        [place] = self.ask("metadata", METASTORE, table)
        metadata = json.loads(self._content(place)[0])
        [snapshot] = (
            each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"]
        )
        manifests = self._avro(snapshot["manifest-list"])
        entries = self._avro(*(each["manifest_path"] for each in manifests))
        files = [each["data_file"] for each in entries if each["status"] != DELETED]
        days = {_path(each["file_path"]): each["partition"].get("day") for each in files}
        rows = self.ask("rows_of", *days)
        found = [row | {"day": days[path] and str(days[path])} for row in rows for path in [row.pop("path")]]
        return [{name: each for name, each in row.items() if each is not None} for row in found]

    def _content(self, *urls: str) -> list[bytes]:
        return [base64.b64decode(each) for each in self.ask("content", *map(_path, urls))]

    def _avro(self, *urls: str) -> list[Any]:
        return [row for data in self._content(*urls) for row in fastavro.reader(io.BytesIO(data))]

    def sql_rows(self, table: str) -> list[Row]:
        """Return rows as the SQL server gives them to beeline."""
        shown = (
            "*"
            if not table.endswith("_bad")
            else "k_topic, k_partition, k_offset, k_timestamp, error, hex(key) AS key, hex(value) AS value"
        )
        how = ("--silent=true", "--outputformat=tsv2", "--showHeader=false")
        query = f"SELECT to_json(struct(*)) FROM (SELECT {shown} FROM {table})"  # noqa: S608
        said = self.lab.run(HOST, "env", *self.landing.beeline(), *how, "-e", query, seconds=1800).stdout
        # It writes its prompt before the first row.
        lines = (line[line.index("{") :] for line in said.splitlines() if "{" in line)
        return [_plain(json.loads(line, parse_float=Decimal)) for line in lines]

    @contextmanager
    def watched(self) -> Iterator[list["Watch"]]:
        """Read the tables by both ways, again and again."""
        watches: list[Watch] = [ListerWatch(self), SqlWatch(self)]
        try:
            for watch in watches:
                wait_until(f"the first read by {watch.name}", lambda watch=watch: watch.whole)
            yield watches
        except AssertionError as error:
            said = "".join(f"{watch.name}: {watch.said[-5:]}\n" for watch in watches)
            raise AssertionError(f"{error}; readers said last:\n{said}") from error
        finally:
            for watch in watches:
                watch.finish()


def _path(url: str) -> str:
    return urlsplit(url).path


def _plain(row: Row) -> Row:
    """Return a row of SQL as those of pyarrow are."""
    for name in ("k_timestamp", "departed"):
        if name in row:
            row[name] = milliseconds(datetime.fromisoformat(row[name]))
    if "delay" in row:
        row["delay"] = float(row["delay"])
    if "fare" in row:
        row["fare"] = f"{row['fare']:.2f}"
    return row | {name: row[name].lower() for name in ("key", "value") if name in row}


def by_place(rows: Sequence[Row]) -> dict[Place, Row]:
    """Return rows by where they come from; fail where two come from the same place."""
    found = {(row["k_topic"], row["k_partition"], row["k_offset"]): row for row in rows}
    assert len(found) == len(rows), f"{len(rows) - len(found)} rows are there twice"
    return found


class Watch(threading.Thread):
    """A reader that reads until it is stopped."""

    def __init__(self, name: str, command: list[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.reads: list[Read] = []
        self.said: list[str] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self.start()

    @property
    def whole(self) -> list[Read]:
        return [each for each in self.reads if not each.error]

    def finish(self) -> None:
        self._in.close()
        self.join(600)
        self._process.wait(600)


class ListerWatch(Watch):
    def __init__(self, lake: Lake) -> None:
        super().__init__("pyarrow", lake.lab.command(HOST, *lake.lister("watch", *TABLES)))

    def run(self) -> None:
        for line in self._out:
            if line.startswith("{"):
                self.reads.append(Read(**json.loads(line)))
            else:
                self.said.append(line)


class SqlWatch(Watch):
    """A session of beeline, which goes on whatever its queries come to."""

    def __init__(self, lake: Lake) -> None:
        self._stopped = threading.Event()
        how = ("--silent=true", "--outputformat=tsv2", "--showHeader=false")
        super().__init__("beeline", lake.lab.command(HOST, "env", *lake.landing.beeline(), *how))

    def run(self) -> None:
        while not self._stopped.wait(PAUSE_SECONDS):
            began = time.time()
            try:
                print(_counting(number := len(self.reads)), file=self._in, flush=True)
            except (OSError, ValueError):
                return
            for line in self._out:
                self.said.append(line)
                if found := re.search(rf'\{{"query":{number},"rows":(\d+),"distinct":(\d+)\}}', line):
                    self.reads.append(Read(began, time.time(), int(found[1]), int(found[2])))
                    break
                if re.search(r"\(state=\w*,code=\d+\)", line):  # what an error ends with
                    self.reads.append(Read(began, time.time(), error="".join(self.said[-20:])))
                    break
            else:
                return

    def finish(self) -> None:
        self._stopped.set()
        super().finish()


def _counting(number: int) -> str:
    each = " UNION ALL ".join(f"SELECT k_topic, k_partition, k_offset FROM {table}" for table in TABLES)  # noqa: S608
    counts = "count(*), 'distinct', count(DISTINCT k_topic, k_partition, k_offset)"
    return f"SELECT to_json(named_struct('query', {number}, 'rows', {counts})) FROM ({each});"  # noqa: S608
