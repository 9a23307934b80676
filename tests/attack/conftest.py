"""Fixtures of tests that do what somebody who means harm, or knows no better, would do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit.signing_keys import Key

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from servers.broker import Broker

Run = Callable[..., None]
Restore = Callable[..., dict[str, Any]]


@pytest.fixture
def name() -> str:
    return clients.unique("attacked")


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path, "ours")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the store's objects lie."""
    return tmp_path / "store"


@pytest.fixture
def backup(source: Broker, folder: Path) -> Run:
    def run(topic: str, *more: str, code: ExitCode = ExitCode.DONE) -> None:
        argv = ["backup", "--bootstrap-server", source.plaintext, "--store", f"file://{folder}"]
        assert main([*argv, "--topics", topic, "--segment-bytes", "3000", *more]) == code

    return run


@pytest.fixture
def restore(target: Broker, folder: Path, tmp_path: Path) -> Restore:
    def run(topic: str, *more: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        argv = ["restore", "--bootstrap-server", target.plaintext, "--store", f"file://{folder}"]
        assert main([*argv, "--topics", topic, "--report", str(report), *more]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    return run
