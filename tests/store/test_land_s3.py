"""A landing in S3: conditional creates are its commits, copies its renames. Iceberg tables are there, too."""

import io
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kit import clients, landing_service
from kit.iceberg_reader import expected, newest, rows, table
from kit.lakes import HiveLake
from kit.staging import overdue
from pyarrow import orc

from aqueduct.cli import main
from aqueduct.store.backends import open_store
from servers import hive_metastore, object_store
from servers.broker import Broker
from servers.hive_metastore import HiveMetastore
from servers.object_store import Gateway


@pytest.fixture(scope="module")
def plain_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a server without TLS, for PyIceberg can't be told of another authority than the system's."""
    with object_store.running(tmp_path_factory.mktemp("plain-gateway"), None) as started:
        yield started


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory, plain_gateway: Gateway) -> Iterator[HiveMetastore]:
    """Yield a metastore for which the bucket is the folder that the gateway keeps it in.

    It looks whether a table's folder is there, and makes it; Hadoop's own client of S3 is no part of it.
    """
    mounts = {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.s3a.impl": "org.apache.hadoop.fs.LocalFileSystem",
        "fs.viewfs.mounttable.store.linkFallback": plain_gateway.bucket("store").as_uri(),
    }
    with hive_metastore.running(tmp_path_factory.mktemp("metastore"), mounts) as started:
        yield started


@pytest.fixture
def lake_in_s3(lake: HiveLake, plain_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> HiveLake:
    for name, value in plain_gateway.environment.items():
        monkeypatch.setenv(name, value)
    lake.location = f"s3://store/{secrets.token_hex(4)}/lake"
    lake.more = {"kind": "iceberg"}
    return lake


@pytest.mark.usefixtures("s3")
def test_killed_and_raced_each_record_is_there_once(brokers: list[Broker], tmp_path: Path) -> None:
    topic = clients.create(brokers[0], clients.unique("landed"), 2)
    location = f"s3://store/{secrets.token_hex(4)}/lake"
    declared = {
        "table": "a.b",
        "topics": [topic],
        "columns": [{"name": "n", "type": "int"}, {"name": "at", "type": "timestamp"}],
        "partition_by": [{"name": "day", "of": "at", "every": "day"}],
    }
    declarations = tmp_path / "tables.yml"
    declarations.write_text(yaml.safe_dump([declared]))
    arguments = [
        "--bootstrap-server",
        brokers[0].plaintext,
        "--declarations",
        str(declarations),
        "--location",
        location,
    ]
    land, compact = ["land", *arguments, "--until-caught-up"], ["land", "compact", *arguments]
    command = [sys.executable, "-m", "aqueduct.cli"]
    codes, wanted = [], []
    for round_ in range(3):
        for partition in range(2):
            values = [
                {"n": n, "at": f"2024-02-{1 + n % 3:02d}T00:00:00Z"}
                for n in range(round_ * 500, round_ * 500 + 500)
            ]
            clients.produce(brokers[0], topic, (json.dumps(each).encode() for each in values), partition)
            wanted += [(partition, each["n"], each["n"]) for each in values]
        running = [
            subprocess.Popen([*command, *verb], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for verb in (land, compact, land)
        ]
        time.sleep(1 + round_ / 3)
        for each in running[:2]:
            each.send_signal(signal.SIGKILL)
        for each in running:
            each.communicate()
            codes.append(each.returncode)
    assert main(land) == main(compact) == 0
    assert set(codes) <= {0, 1, -signal.SIGKILL}
    found = []
    objects = open_store(location)
    for entry in objects.list("a/b"):
        if not entry.path.startswith("a/b/_"):
            rows = orc.ORCFile(io.BytesIO(objects.read(entry.path))).read()
            found += zip(
                *(rows.column(name).to_pylist() for name in ("k_partition", "k_offset", "n")), strict=True
            )
    assert sorted(found) == sorted(wanted)
    assert overdue(entry.path for entry in objects.list("a/b/_land")) == []
    assert main(["land", "verify", *arguments]) == 0


def test_a_service_reports_a_silent_store(brokers: list[Broker], s3: Gateway, tmp_path: Path) -> None:
    topic = clients.create(brokers[0], clients.unique("landed"), 1)
    clients.produce(brokers[0], topic, (json.dumps({"n": n}).encode() for n in range(100)), 0)
    declared = {"table": "a.b", "topics": [topic], "columns": [{"name": "n", "type": "int"}]}
    declarations = tmp_path / "tables.yml"
    declarations.write_text(yaml.safe_dump([declared]))
    given = ["land", "--bootstrap-server", brokers[0].plaintext, "--declarations", str(declarations)]
    given += ["--location", f"s3://store/{secrets.token_hex(4)}/lake"]
    landing_service.reports_an_outage(given, "aqueduct_land_lag a.b", "store", s3.process)


def test_an_iceberg_table_in_s3_is_read_there(lake_in_s3: HiveLake, plain_gateway: Gateway) -> None:
    """By PyIceberg's own catalogue and Arrow's own client of S3, also after kills and a compaction."""
    lake = lake_in_s3
    settings = {
        "s3.endpoint": plain_gateway.endpoint,
        "s3.region": object_store.REGION,
        "s3.access-key-id": object_store.ACCESS_KEY,
        "s3.secret-access-key": object_store.SECRET_KEY,
    }
    reached = ("--metastore", lake.metastore.url)
    for round_ in range(3):
        lake.produce(range(3), 100)
        command = [sys.executable, "-m", "aqueduct.cli", *lake.arguments("--until-caught-up", *reached)]
        killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1 + round_ / 3)
        killed.kill()
        killed.communicate()
        assert lake.land() == 0
    before = table(lake, **settings)
    assert before.location().startswith("s3a://store/")
    assert rows(before) == expected(lake)
    # The last one killed may have left a lock, which keeps others off for a minute.
    clients.wait_for("a compaction", lambda: main(lake.arguments("compact", *reached)) == 0)
    after = table(lake, **settings)
    assert rows(after) == rows(before) == expected(lake)
    assert newest(after)["operation"] == "replace"
    assert len(list(after.scan().plan_files())) == 3
    lake.produce(range(2, 4), 10)
    assert lake.land() == 0
    assert rows(table(lake, **settings)) == expected(lake)
    assert main(lake.arguments("verify", *reached)) == 0
