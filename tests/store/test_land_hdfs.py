"""A landing in HDFS, and a backup there: a rename without overwriting is the commit."""

import json
import secrets
import subprocess
import sys
import time
from pathlib import Path

import hdfs_native
import pytest
import yaml
from kit import clients, landing_service
from kit.identifiers import printed
from kit.staging import overdue
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.store import retries
from aqueduct.store.backends import open_store
from servers.broker import Broker
from servers.hdfs import HdfsServer


@pytest.fixture
def location(hdfs: HdfsServer) -> str:
    return f"{hdfs.url}/{secrets.token_hex(4)}/lake"


def arguments(broker: Broker, topic: str, location: str, folder: Path) -> list[str]:
    declared = {
        "table": "a.b",
        "topics": [topic],
        "columns": [{"name": "n", "type": "int"}, {"name": "at", "type": "timestamp"}],
        "partition_by": [{"name": "day", "of": "at", "every": "day"}],
    }
    declarations = folder / "tables.yml"
    declarations.write_text(yaml.safe_dump([declared]))
    ends = ["--bootstrap-server", broker.plaintext, "--location", location]
    return [*ends, "--declarations", str(declarations)]


def fill(broker: Broker, topic: str, start: int, records: int) -> list[tuple[int, int, int]]:
    """Produce to both partitions; return partition, offset and number of each record."""
    values = [{"n": n, "at": f"2024-02-{1 + n % 3:02d}T00:00:00Z"} for n in range(start, start + records)]
    for partition in range(2):
        clients.produce(broker, topic, (json.dumps(each).encode() for each in values), partition)
    return [(partition, each["n"], each["n"]) for partition in range(2) for each in values]


def rows(hdfs: HdfsServer, location: str, into: Path) -> list[tuple[int, int, int]]:
    """Return what is in the table's files, which Hadoop's own client fetches."""
    hdfs.shell("-get", f"/{location.split('/', 3)[3]}/a/b", str(into))
    found = []
    for file in into.rglob("day=*/*"):
        table = orc.ORCFile(file).read()
        found += zip(
            *(table.column(name).to_pylist() for name in ("k_partition", "k_offset", "n")), strict=True
        )
    return found


# A program that waits for a NameNode also on a slow machine, where one may start for longer than a minute.
PATIENT = (
    "import sys; from aqueduct.store import retries; retries.RETRY_SECONDS = 400; "
    "from aqueduct.cli import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.long  # scenario land kills it, too
def test_killed_name_node_neither_loses_nor_duplicates_records(
    brokers: list[Broker], hdfs: HdfsServer, location: str, tmp_path: Path
) -> None:
    topic = clients.create(brokers[0], clients.unique("landed"), 2)
    given = arguments(brokers[0], topic, location, tmp_path)
    land = ["land", *given, "--until-caught-up"]
    command = [sys.executable, "-c", PATIENT, *land]
    client = hdfs_native.Client(hdfs.url)
    begun = f"/{location.split('/', 3)[3]}/a/b/_land/staged"
    wanted = fill(brokers[0], topic, 0, 3_000)
    landers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    clients.wait_for("a staged file", lambda: exists(client, begun))
    hdfs.name_node.kill()
    time.sleep(1)
    hdfs.name_node.start()
    for each in landers:
        said = each.communicate()[1]
        assert "Traceback" not in said
        assert each.returncode == 0 or "landers-compete" in printed(said)
    assert 0 in [each.returncode for each in landers]  # who was the first waited for the NameNode
    assert main(land) == 0
    assert sorted(rows(hdfs, location, tmp_path / "got")) == sorted(wanted)
    assert overdue(entry.path for entry in open_store(location).list("a/b/_land")) == []
    assert main(["land", "verify", *given]) == 0


def exists(client: hdfs_native.Client, path: str) -> bool:
    try:
        return bool([*client.list_status(path, recursive=True)])
    except FileNotFoundError:
        return False


def test_safe_mode_prevents_landing_and_loses_no_records(
    brokers: list[Broker],
    hdfs: HdfsServer,
    location: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = clients.create(brokers[0], clients.unique("landed"), 2)
    land = ["land", *arguments(brokers[0], topic, location, tmp_path), "--until-caught-up"]
    wanted = fill(brokers[0], topic, 0, 100)
    assert main(land) == 0
    wanted += fill(brokers[0], topic, 100, 100)
    hdfs.admin("-safemode", "enter")
    with monkeypatch.context() as impatient:
        impatient.setattr(retries, "RETRY_SECONDS", 0.5)
        assert main(land) == 1
    said = capsys.readouterr().err
    assert "is in safe mode" in said
    assert "Traceback" not in said
    hdfs.admin("-safemode", "leave")
    assert main(land) == 0
    assert sorted(rows(hdfs, location, tmp_path / "got")) == sorted(wanted)


def test_a_service_reports_a_silent_name_node(
    brokers: list[Broker], hdfs: HdfsServer, location: str, tmp_path: Path
) -> None:
    topic = clients.create(brokers[0], clients.unique("landed"), 2)
    fill(brokers[0], topic, 0, 100)
    given = ["land", *arguments(brokers[0], topic, location, tmp_path)]
    landing_service.reports_an_outage(given, "aqueduct_land_lag a.b", "store", hdfs.name_node)


def test_service_reports_name_node_in_safe_mode(
    brokers: list[Broker], hdfs: HdfsServer, location: str, tmp_path: Path
) -> None:
    """It answers the watch, but not the round, which must write."""
    topic = clients.create(brokers[0], clients.unique("landed"), 2)
    fill(brokers[0], topic, 0, 100)
    given = ["land", *arguments(brokers[0], topic, location, tmp_path)]
    with landing_service.running(given) as service:
        clients.wait_for("a first round", lambda: service.metric("aqueduct_land_lag a.b") == 0)
        before, _ = service.outages
        hdfs.admin("-safemode", "enter")
        try:
            fill(brokers[0], topic, 100, 100)
            clients.wait_for("the outage", lambda: service.outages[0] > before)
            assert service.metric("aqueduct_land_lag a.b") is None
        finally:
            hdfs.admin("-safemode", "leave")
        clients.wait_for("a later round", lambda: service.metric("aqueduct_land_lag a.b") == 0)


def test_a_backup_there_and_back(brokers: list[Broker], hdfs: HdfsServer) -> None:
    store = f"{hdfs.url}/{secrets.token_hex(4)}/backups"
    topic = clients.numbered(brokers[0], clients.unique("kept"), 2, 500)
    here, there = (["--bootstrap-server", each.plaintext] for each in brokers)
    for _ in range(2):  # the second resumes at the snapshot of the first
        assert main(["backup", *here, "--store", store, "--topics", topic]) == 0
    assert main(["snapshots", "--store", store]) == 0
    assert main(["verify", "--store", store]) == 0
    assert main(["restore", *there, "--store", store]) == 0
    assert clients.records(brokers[1], topic, 0, 1) == clients.records(brokers[0], topic, 0, 1)
