"""A landing in S3 over TLS: conditional creates are its commits, copies its renames."""

import io
import json
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import clients
import pytest
import yaml
from pyarrow import orc
from staging import overdue

from aqueduct.cli import main
from aqueduct.store.backends import open_store
from servers.broker import Broker


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
        "--bootstrap-servers",
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
