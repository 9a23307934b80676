"""The probe of what a key may do at the host of a source."""

import os
from pathlib import Path

import pytest
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.recovery.file_backup import rsync
from aqueduct.recovery.file_backup.plan import FileSource
from aqueduct.recovery.file_backup.rsync import Reached, SshOptions


def test_probe_that_does_not_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    ssh.chmod(0o755)
    monkeypatch.setattr(rsync, "KEYLESS", {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    monkeypatch.setattr(rsync, "PROBE_SECONDS", 0.1)
    source = FileSource("/etc/kafka", "root@kafka-1")
    with raises(Failed, "rsync-failed", "root@kafka-1:/etc/kafka", "0.1 s"):
        Reached(source, SshOptions()).refuse_other_key(tmp_path / "backups")
