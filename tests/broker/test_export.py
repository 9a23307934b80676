"""Exported from a real backup, and read by Arrow and fastavro, beside an independent client of Kafka."""

import glob
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from kit import clients, exports
from kit.clients import create
from kit.cut_logs import cut_log
from kit.identifiers import assert_printed, printed

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker

NOW = exports.NOW
FORMATS = ["parquet", "avro"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Said = pytest.CaptureFixture[str]


@pytest.fixture
def name() -> str:
    return clients.unique("export")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture
def backup(source: Broker, store: str) -> Callable[..., None]:
    def run(*topics: str, code: ExitCode = ExitCode.DONE, options: Iterable[str] = ()) -> None:
        argv = ["backup", "--bootstrap-server", source.plaintext, "--store", store]
        argv += ["--topics", ",".join(topics), "--segment-bytes", "3000", *options]
        assert main(argv) == code

    return run


@pytest.fixture
def export(store: str, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(*argv: str, to: str = "exported", code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        common = ["export", "--store", store, "--to", f"file://{tmp_path}/{to}", "--report", str(report)]
        if "--format" not in argv:
            common += ["--format", "parquet"]
        assert main([*common, *argv]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    return run


Backup = Callable[..., None]
Export = Callable[..., dict[str, Any]]


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **config: Any) -> None:
    """Write values, or arguments of produce; five records in a batch."""
    batches = {"linger.ms": 100, "batch.num.messages": 5}
    stamped = (
        {"timestamp": NOW, **(each if isinstance(each, dict) else {"value": str(each)})} for each in values
    )
    clients.produce(broker, topic, stamped, partition, **batches | config)


@pytest.mark.parametrize("format_", FORMATS)
def test_every_kind_of_record_is_exported_unchanged(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, format_: str
) -> None:
    """One log has batches of each codec."""
    create(source, name, 3, **{"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    odd = [{"timestamp": NOW - number, **each} for number, each in enumerate(exports.ODD_RECORDS)]
    for codec in CODECS:
        produce(source, name, odd * 3, **{"compression.type": codec})
    produce(source, name, range(20), 2)
    backup(name)
    report = export("--format", format_)
    there = exports.expected(source, name, 0, 1, 2)
    assert exports.rows(tmp_path / "exported" / name) == there
    written = 3 * len(exports.ODD_RECORDS) * len(CODECS)
    assert len(there) == written + 20
    assert [each["rows"] for each in report["partitions"]] == [written, 0, 20]


def test_times_of_brokers_and_transactions(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export
) -> None:
    """Aborted records and markers are offsets without a row."""
    appended = f"{name}-appended"
    create(source, appended, **{"message.timestamp.type": "LogAppendTime"})
    create(source, name)
    for topic in (appended, name):
        produce(source, topic, range(7))
        clients.transaction(source, topic, ["never"] * 7, "abort")
        clients.transaction(source, topic, range(7, 12), "commit")
    left = clients.transaction(source, name, ["never"], "leave")
    backup(appended, name)
    left.abort_transaction()
    export()
    for topic in (appended, name):
        there = exports.expected(source, topic)
        assert len(there) == 12
        assert {each["timestampType"] for each in there} == {int(topic == appended)}
        assert exports.rows(tmp_path / "exported" / topic) == there


@pytest.mark.parametrize("format_", FORMATS)
def test_window_includes_its_first_and_last_millisecond(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, format_: str
) -> None:
    create(source, name, 2)
    for partition in range(2):
        mixed = [{"value": str(n), "timestamp": NOW + (n * 37) % 100} for n in range(100)]
        produce(source, name, mixed, partition, **{"batch.num.messages": 7})
    backup(name)
    times = [f"2023-11-14T22:13:20.{each:03}Z" for each in (20, 60)]
    report = export("--from-time", times[0], "--to-time", times[1], "--format", format_)
    inside = [
        each for each in exports.expected(source, name, 0, 1) if NOW + 20 <= each["timestamp"] <= NOW + 60
    ]
    assert exports.rows(tmp_path / "exported" / name) == inside
    assert [(each["rows"], each["outside"]) for each in report["partitions"]] == 2 * [(41, 59)]


def test_window_without_records_exports_empty_table(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, capsys: Said
) -> None:
    create(source, name, 2)
    produce(source, name, range(10))
    backup(name)
    export("--from-time", "2030-01-01T00:00:00Z")
    assert "No record was exported" in capsys.readouterr().out
    [path] = exports.files(tmp_path / "exported" / name)
    assert (path.name, exports.rows(path.parent)) == ("empty.parquet", [])


def test_export_chooses_complete_generation_of_compacted_topic(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export
) -> None:
    create(source, name, cleanup_policy="compact")
    produce(source, name, [{"key": f"{n % 3}", "value": f"{n}"} for n in range(9)])
    backup(name)
    first = exports.expected(source, name)
    produce(source, name, [{"key": f"{n % 3}", "value": None} for n in range(6)])
    backup(name, options=["--compacted-generation-hours", "0.000001"])
    export()
    assert exports.rows(tmp_path / "exported" / name) == exports.expected(source, name)
    assert len(first) < len(exports.expected(source, name))
    export("--instance", "passivate", to="former")
    assert exports.rows(tmp_path / "former" / name) == first


def test_deleted_records_are_named(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, capsys: Said
) -> None:
    create(source, name)
    produce(source, name, range(5))
    backup(name)
    before = exports.expected(source, name)
    produce(source, name, range(5, 20))
    clients.delete_records(source, name, 12)
    backup(name, code=ExitCode.INCOMPLETE)
    report = export(code=ExitCode.INCOMPLETE)
    assert exports.rows(tmp_path / "exported" / name) == before + exports.expected(source, name)
    assert report["gaps"] == [{"topic": name, "partition": 0, "from": 5, "to": 12}]
    assert f"{name}-0: offsets 5 to 11 were deleted before they were backed up." in capsys.readouterr().out


# An export reads only the store, so in each run one change of the source is enough.
@pytest.mark.parametrize(
    "attack", ["recreated", *(pytest.param(each, marks=pytest.mark.long) for each in ("cut", "grown again"))]
)
def test_export_equals_snapshot_after_recreation_or_truncation(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, attack: str
) -> None:
    create(source, name)
    for first in (0, 5):
        produce(source, name, range(first, first + 5))
    backup(name)
    there = exports.expected(source, name)
    export()
    if attack == "recreated":
        clients.recreate(source, name)
    else:
        cut_log(source, name, 5)
    produce(source, name, range(100, 103 if attack == "cut" else 120))
    for folder in ("exported", "again"):  # continued, and begun
        export(to=folder)
        assert exports.rows(tmp_path / folder / name) == there


FLIGHTS = """
- table: lake.flights
  topics: [{topic}]
  format: json
  tombstones: {tombstones}
  columns:
    - {{name: carrier, type: string}}
    - {{name: delay, type: int}}
    - {{name: price, type: "decimal(9,2)"}}
    - {{name: departed, type: timestamp, zone: Europe/Berlin}}
    - {{name: stops, type: array<string>, from: route.stops}}
    - {{name: "on", type: date}}
    - {{name: ratio, type: double}}
    - {{name: late, type: boolean}}
    - {{name: id, type: binary, from: $key}}
    - {{name: origin, type: string, from: $headers.origin}}
"""


@pytest.mark.parametrize(
    ("tombstones", "format_"),
    [
        ("drop", "parquet"),
        ("keep", "avro"),
        pytest.param("drop", "avro", marks=pytest.mark.long),
        pytest.param("keep", "parquet", marks=pytest.mark.long),
    ],
)
def test_columns_are_those_that_a_table_declares(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, tombstones: str, format_: str
) -> None:
    create(source, name)
    whole = {"carrier": "UA", "delay": -3, "price": 12.5, "departed": "2023-03-01T12:00:00.25"}
    whole |= {"route": {"stops": ["a", None, "ü"]}, "on": "2020-02-29", "ratio": 0.1, "late": True}
    values = [
        {"value": json.dumps(whole), "key": b"k", "headers": [("origin", b"x"), ("origin", b"y")]},
        {"value": "{}"},
        {"value": None, "key": b"gone"},
        {"value": json.dumps({"delay": 1 << 40}), "headers": [("h", b"1"), ("h", None)]},
        {"value": b"{"},
        {"value": json.dumps({"price": -0.01})},
    ]
    produce(source, name, values)
    (tmp_path / "tables.yml").write_text(FLIGHTS.format(topic=name, tombstones=tombstones))
    backup(name)
    declared = ("--declarations", str(tmp_path / "tables.yml"), "--format", format_)
    report = export(*declared)
    found = exports.rows(tmp_path / "exported" / name)
    empty = dict.fromkeys(
        ("carrier", "delay", "price", "departed", "stops", "on", "ratio", "late", "id", "origin")
    )
    keeps = tombstones == "keep"
    mark = {"k_tombstone": False} if keeps else {}
    rows = {
        0: {
            "carrier": "UA",
            "delay": -3,
            "price": Decimal("12.50"),
            "departed": 1_677_668_400_250,
            "stops": ["a", None, "ü"],
            "on": date(2020, 2, 29),
            "ratio": 0.1,
            "late": True,
            "id": b"k",
            "origin": "y",
        },
        1: {},
        **({2: {"id": b"gone", "k_tombstone": True}} if keeps else {}),
        5: {"price": Decimal("-0.01")},
    }
    own = {"k_topic": name, "k_partition": 0, "k_timestamp": NOW}
    assert found == [{**own, "k_offset": offset, **empty, **mark, **row} for offset, row in rows.items()]
    there = {each["offset"]: each for each in exports.expected(source, name)}
    bad = exports.bad_rows(tmp_path / "exported" / name)
    assert [each.pop("error") for each in bad] == [
        "delay is not a value of type int",
        "it is not JSON: Missing a name for object member",
    ]
    for each in bad:
        each["headers"] = [(key.decode(), value) for key, value in each["headers"]]
    assert bad == [there[3], there[4]]
    [told] = report["partitions"]
    assert (told["rows"], told["bad"], told["tombstones"]) == (len(rows), 2, int(not keeps))
    export(*declared, "--fail-on-poison", code=ExitCode.INCOMPLETE)


def test_export_needs_one_declaration_and_ignores_other_topics(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, capsys: Said
) -> None:
    """A lake's file has all its tables; who exports one topic without a table in it means another file."""
    create(source, name)
    produce(source, name, ["{}"])
    backup(name)
    other = (
        "- {table: lake.other, topics: [none], format: raw, columns: [{name: v, type: binary, from: $value}]}"
    )
    file = tmp_path / "tables.yml"
    file.write_text(other)
    export("--declarations", str(file), code=ExitCode.REFUSED)
    assert_printed(capsys.readouterr().err, "pattern-matches-nothing", "lake.other", "--topics")
    second = FLIGHTS.format(topic=name, tombstones="drop")
    file.write_text(f"{second}\n{other}")
    report = export("--declarations", str(file))
    assert report["tables"] == {name: "lake.flights"}
    file.write_text(f"{second}\n{second.replace('lake.flights', 'lake.again')}")
    export("--declarations", str(file), to="again", code=ExitCode.REFUSED)
    assert f"{name} is declared for lake.flights, lake.again" in capsys.readouterr().err
    file.write_text(f"{second}  sql: {{where: delay > 0}}")
    export("--declarations", str(file), to="again", code=ExitCode.REFUSED)
    error = capsys.readouterr().err
    assert (printed(error)[-1:], "lake.flights" in error) == (["export-table-unusable"], True)
    assert not (tmp_path / "again").exists()


def test_a_store_that_is_encrypted_and_signed(
    source: Broker, tmp_path: Path, name: str, backup: Backup, export: Export, capsys: Said
) -> None:
    for owner in ("recipient", "host"):
        assert main(["diode", "keygen", "--kind", "receiver", "--out", str(tmp_path), "--name", owner]) == 0
    signing = ed25519.Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "signing.pem").touch(0o600)
    (tmp_path / "signing.pem").write_bytes(signing.private_bytes(*form))
    for who, key in (("ours", signing), ("theirs", ed25519.Ed25519PrivateKey.generate())):
        public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        (tmp_path / f"{who}.pem").write_bytes(key.public_key().public_bytes(*public))
    create(source, name)
    produce(source, name, range(50))
    own = ["--signing-key", f"{tmp_path}/signing.pem", "--private-key", f"{tmp_path}/host.key"]
    backup(name, options=["--recipient", f"{tmp_path}/recipient.pub", *own])
    trusted, opened = (
        ["--trusted-key", f"{tmp_path}/ours.pem"],
        ["--private-key", f"{tmp_path}/recipient.key"],
    )
    for argv, sentence in (
        (["--trusted-key", f"{tmp_path}/theirs.pem", *opened], "signed"),
        (trusted, "no private key was passed"),
        ([*trusted, "--private-key", f"{tmp_path}/host.key"], "is encrypted for"),
    ):
        capsys.readouterr()
        export(*argv, code=ExitCode.FAILED if sentence == "signed" else ExitCode.REFUSED)
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "exported").exists()
    export(*trusted, *opened)
    assert exports.rows(tmp_path / "exported" / name) == exports.expected(source, name)


def test_a_killed_export_goes_on(
    source: Broker, tmp_path: Path, name: str, store: str, backup: Backup, export: Export
) -> None:
    """SIGKILL, again and again, after four files or some more, until fewer are left.

    A run that has written so many waits for its end.
    """
    create(source, name, 3)
    for partition in range(3):
        produce(source, name, [f"{n:0200}" for n in range(200)], partition)
    backup(name)
    argv = ["export", "--store", store, "--to", f"file://{tmp_path}/exported", "--format", "parquet"]
    files = glob.escape(f"{tmp_path}/exported") + "/*/0*.parquet"
    program = f"""
import glob, sys, time
from aqueduct import cli
from aqueduct.snapshots.export import plan
from aqueduct.store import backends
plan.PART_BYTES = 3000
create = backends._Directory.create
def written():
    return len(glob.glob({files!r}))
before = written()
def slow(self, path, data):
    create(self, path, data)
    time.sleep(600 if written() > before + 3 else 0.1)
backends._Directory.create = slow
sys.exit(cli.main({argv!r}))
"""
    folder = tmp_path / "exported"

    def there() -> dict[Path, int]:
        found = map(Path, glob.glob(files))  # noqa: PTH207 (Path.glob fails if a folder vanishes)
        return {path: path.stat().st_ino for path in found}

    def run() -> int:
        """Run until there are some more files, or it has ended."""
        before = there()
        running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
        clients.wait_for("files", lambda: running.poll() is not None or len(there()) > len(before) + 3)
        running.kill()
        code = running.wait()
        assert before.items() <= there().items()
        return code

    kills = 0
    while (code := run()) != 0:
        assert code == -signal.SIGKILL
        if (folder / "_export.json").exists():
            assert exports.rows(folder / name) == exports.expected(source, name, 0, 1, 2)
        kills += 1
    assert kills > 3
    assert exports.rows(folder / name) == exports.expected(source, name, 0, 1, 2)
