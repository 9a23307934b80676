"""Restarts by the module service_units: of units with a file younger than their process."""

import os
import time
from pathlib import Path
from types import ModuleType

import plugin_modules
import pytest


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    return plugin_modules.load("service_units")


def file(path: Path, age: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_a_unit_is_restarted_for_a_file_that_is_younger_than_its_process(
    plugin: ModuleType, tmp_path: Path
) -> None:
    runtime = file(tmp_path / "run", age=100).stat().st_mtime_ns
    old = str(file(tmp_path / "old", age=101))
    assert not plugin._younger([old], runtime)
    assert not plugin._younger([str(file(tmp_path / "same", age=100))], runtime)
    assert plugin._younger([old, str(file(tmp_path / "new", age=99))], runtime)
    assert plugin._younger([str(file(tmp_path / "tls/deep/key.pem", age=1).parents[1])], runtime)


def test_files_of_people_and_missing_ones_restart_nothing(plugin: ModuleType, tmp_path: Path) -> None:
    runtime = file(tmp_path / "run", age=100).stat().st_mtime_ns
    assert not plugin._younger([str(file(tmp_path / "tls/client.properties", age=1).parent)], runtime)
    assert not plugin._younger([str(tmp_path / "nowhere")], runtime)


def test_one_that_left_no_folder_is_restarted(plugin: ModuleType, tmp_path: Path) -> None:
    since = plugin._since({"name": "backup", "runtime": "aqueduct-of-nobody"}, {})
    assert plugin._younger([str(file(tmp_path / "old", age=100_000))], since)


def test_a_timer_runs_since_systemd_says_so(plugin: ModuleType) -> None:
    shown = {"ActiveEnterTimestampMonotonic": str(time.monotonic_ns() // 1000 - 5_000_000)}
    since = plugin._since({"name": "land_compact.timer", "runtime": None}, shown)
    assert abs(time.time_ns() - since - 5 * 10**9) < 10**9


@pytest.mark.parametrize(
    ("name", "instance"),
    [
        ("mirror_maker@pro1.service", "pro1"),
        ("mirror_maker@pro1.service.d", "pro1"),
        ("mirror_maker@.service", ""),
        ("mirror_maker@a.d.service", "a.d"),
    ],
)
def test_instances_are_told_by_their_files(plugin: ModuleType, name: str, instance: str) -> None:
    assert plugin._instance(name, "mirror_maker@") == instance
