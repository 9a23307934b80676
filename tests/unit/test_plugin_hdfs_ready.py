"""What the module hdfs_ready says of a NameNode's page, and which folders it makes."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "plugins/modules/hdfs_ready.py"
PAGE = "https://names.example.com:9871"


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hdfs_ready", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Names:
    """A NameNode that is in these states in turn; the last one stays."""

    def __init__(self, *states: str | Exception, alive: tuple[str, ...] = ("data-1",)) -> None:
        self.states, self.alive, self.address = list(states), alive, "10.0.0.7:9866"
        self.found: dict[str, Any] | None = None

    def bean(self, name: str) -> dict[str, Any]:
        if name == "NameNodeInfo":
            live = {f"{host}:9866": {"xferaddr": self.address} for host in self.alive}
            return {"LiveNodes": json.dumps(live)}
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return {"FSState": state}

    def status(self, _: str) -> dict[str, Any] | None:
        return self.found


def given(datanode: str = "data-1", seconds: float = 0) -> dict[str, Any]:
    return {"page": PAGE, "datanode": datanode, "timeout_seconds": seconds}


def test_what_is_wrong_is_told(plugin: ModuleType) -> None:
    assert plugin.waited(given(), Names("Operational")) == ""
    assert plugin.waited(given(""), Names("Operational", alive=())) == ""
    said = plugin.waited(given(), Names(OSError("refused")))
    assert f"{PAGE} does not answer (refused)" in said
    assert "0 s" in said
    assert "is in safe mode" in plugin.waited(given(), Names("safeMode"))
    said = plugin.waited(given("data-2"), Names("Operational"))
    assert all(fact in said for fact in (PAGE, "data-2", "data-1"))


def test_datanode_with_loopback_address_is_reported(plugin: ModuleType) -> None:
    names = Names("Operational")
    assert plugin.loopback(given(), names) == ""
    names.address = "127.0.1.1:9866"
    said = plugin.loopback(given(), names)
    assert "data-1" in said
    assert "127.0.1.1:9866" in said
    assert plugin.loopback(given(""), names) == plugin.loopback(given("data-2"), names) == ""


def test_it_is_waited_for(plugin: ModuleType) -> None:
    answers = (OSError("refused"), ValueError("no beans"), "safeMode", "Operational")
    assert plugin.waited(given(seconds=20), Names(*answers)) == ""


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        (None, True),
        ({}, False),
        ({"owner": "hdfs"}, True),
        ({"group": "supergroup"}, True),
        ({"permission": "700"}, True),
        ({"permission": "0755"}, False),
        ({"type": "FILE"}, True),
    ],
)
def test_folder_is_repaired_only_if_missing_or_different(
    plugin: ModuleType, found: dict[str, str] | None, lacks: bool
) -> None:
    names = Names("Operational")
    whole = {"type": "DIRECTORY", "owner": "a", "group": "a", "permission": "755"}
    names.found = None if found is None else {**whole, **found}
    assert plugin.lacking({"path": "/lake", "owner": "a", "mode": "755"}, names) is lacks
