"""Restarts by the module service_units: of units with a file younger than their process."""

import http.server
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from kit import plugin_modules

from aqueduct.recovery.file_backup.folder import remove_tree


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    return plugin_modules.load("service_units")


def file(path: Path, age: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_unit_restarts_if_file_is_younger_than_process(plugin: ModuleType, tmp_path: Path) -> None:
    runtime = file(tmp_path / "run", age=100).stat().st_mtime_ns
    old = str(file(tmp_path / "old", age=101))
    assert not plugin._younger([old], runtime)
    assert not plugin._younger([str(file(tmp_path / "same", age=100))], runtime)
    assert plugin._younger([old, str(file(tmp_path / "new", age=99))], runtime)
    assert plugin._younger([str(file(tmp_path / "tls/deep/key.pem", age=1).parents[1])], runtime)


def test_symlink_of_service_is_not_followed(plugin: ModuleType, tmp_path: Path) -> None:
    (own := tmp_path / "own").mkdir()
    os.chown(own, 1, 1)
    file(tmp_path / "elsewhere/file", age=1)
    (own / "link").symlink_to(tmp_path / "elsewhere")
    os.chown(own / "link", 1, 1, follow_symlinks=False)
    with pytest.raises(plugin.safe_files.UnsafePath):
        plugin._younger([str(own / "link")], 0)
    os.utime(own / "link", (1, 1), follow_symlinks=False)
    assert not plugin._younger([str(own)], 10**10)  # the time of the link, not that of a file behind it


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Return the path of a folder that pytest itself can not remove: it has many levels."""
    yield (folder := tmp_path / "d")
    if folder.exists():
        remove_tree(folder)


def test_deep_folders_are_read(plugin: ModuleType, deep: Path) -> None:
    descriptor = os.open(deep.parent, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=descriptor)
        following = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = following
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    assert plugin._younger([str(deep)], 0)


def test_files_of_people_and_missing_ones_restart_nothing(plugin: ModuleType, tmp_path: Path) -> None:
    runtime = file(tmp_path / "run", age=100).stat().st_mtime_ns
    assert not plugin._younger([str(file(tmp_path / "tls/client.properties", age=1).parent)], runtime)
    assert not plugin._younger([str(tmp_path / "nowhere")], runtime)


@pytest.mark.parametrize("shown", [{}, {"InactiveExitTimestampMonotonic": "0"}])
def test_unit_with_unknown_start_time_is_restarted(
    plugin: ModuleType, tmp_path: Path, shown: dict[str, str]
) -> None:
    assert plugin._younger([str(file(tmp_path / "old", age=100_000))], plugin._since(shown))


def test_unit_start_time_is_begin_of_activation(plugin: ModuleType) -> None:
    shown = {"InactiveExitTimestampMonotonic": str(time.monotonic_ns() // 1000 - 5_000_000)}
    assert abs(time.time_ns() - plugin._since(shown) - 5 * 10**9) < 10**9


class Asked:
    """The class `Systemd` of the module, which asks a systemd that is not there."""

    def __init__(self, plugin: ModuleType, seconds: float) -> None:
        class Systemd(plugin.Systemd):  # type: ignore[name-defined,misc]
            def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
                started = time.monotonic_ns() // 1000 - int(seconds * 1e6)
                properties = {
                    "ActiveState": "active",
                    "UnitFileState": "enabled",
                    "InactiveExitTimestampMonotonic": started,
                }
                output = "\n".join(f"{name}={text}" for name, text in properties.items())
                return subprocess.CompletedProcess(command, 0, output, "")

        self.systemd = Systemd(Module())

    def restarted(self, unit: dict[str, object]) -> list[str]:
        self.systemd.have([{"name": "connect", "state": "started", **unit}], restart=True)
        return list(self.systemd.restarted)


@pytest.mark.parametrize("seconds", [60.0, -60.0])
def test_file_changed_after_start_restarts_service(
    plugin: ModuleType, tmp_path: Path, seconds: float
) -> None:
    config = tmp_path / "config"
    config.touch()  # the service was started before, or is after
    unit = {"files": [str(config)]}
    assert Asked(plugin, seconds).restarted(unit) == (["connect"] if seconds > 0 else [])


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


def shown(state: str, seconds: float = 0.0) -> dict[str, str]:
    entered = int((time.clock_gettime(time.CLOCK_MONOTONIC) - seconds) * 1e6)
    return {"ActiveState": state, "Result": "exit-code", "ActiveEnterTimestampMonotonic": str(entered)}


def test_only_permanently_ended_service_counts_as_failed(
    plugin: ModuleType,
) -> None:
    assert plugin.has_failed(shown("failed"))
    assert plugin.has_failed(shown("inactive"))
    assert not plugin.has_failed(shown("activating"))  # systemd waits for RestartSec
    assert not plugin.has_failed(shown("active"))


def test_service_run_time_begins_with_active_state(plugin: ModuleType) -> None:
    assert 59 < plugin.runs_for(shown("active", seconds=60)) < 90
    assert plugin.runs_for(shown("activating", seconds=60)) == 0
    assert plugin.runs_for({"ActiveState": "active"}) > 0  # it became so at boot


class Said(Exception):
    """How a module ended."""


class Module:
    """What the class asks of an Ansible module."""

    check_mode = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def fail_json(self, msg: str) -> None:
        raise Said(msg)


@pytest.mark.parametrize(
    ("states", "journal", "fails", "waiting"),
    [
        (
            [shown("active", seconds=-86_400), shown("failed")],
            [],
            r"^\[unit-not-working\] backup .*exit-code",
            [],
        ),
        ([shown("active", seconds=60)], [], "", []),
        # systemd starts it for ever: a task that is done would say that it runs.
        ([{**shown("activating"), "NRestarts": "3"}], ["aqueduct: no"], "3 times.*journalctl -u backup", []),
        (
            [{**shown("activating"), "NRestarts": "1"}],
            ["aqueduct: [store-gone] no"],
            r"^\[unit-not-working\] backup .*journalctl -u backup",
            [],
        ),
        ([{**shown("activating"), "NRestarts": "1"}], ["aqueduct: [topic-unknown] no"], "", ["backup"]),
        (
            [{**shown("activating"), "NRestarts": "2"}],
            ["aqueduct: [topic-unknown] no", "Traceback (most recent call last):", "KeyError: 1"],
            "2 times",
            [],
        ),
    ],
)
def test_one_that_does_not_stay_is_noticed(
    plugin: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    states: list[dict[str, str]],
    journal: list[str],
    fails: str,
    waiting: list[str],
) -> None:
    module = Module()
    systemd = plugin.Systemd(module)
    looks = iter(states)
    last = states[-1]
    monkeypatch.setattr(systemd, "_show", lambda _: [next(looks, last)])
    monkeypatch.setattr(systemd, "_journal", lambda *_: journal)
    unit = {"name": "backup", "state": "started", "rounds_port": None}
    stopped = [{**unit, "name": "other", "state": "stopped"}, {**unit, "name": "prune.timer"}]
    if fails:
        with pytest.raises(Said, match=f"(?s){fails}"):
            systemd.await_steady([*stopped, unit], 1, ["topic-unknown"])
    else:
        systemd.await_steady([*stopped, unit], 1, ["topic-unknown"])
    assert systemd.waiting == waiting
    assert len(module.warnings) == len(waiting)
    systemd.await_steady([unit], 0, [])  # not asked


@pytest.mark.parametrize("end", ["\r", "\v", "\x85", "\u2028"])
def test_name_in_the_journal_forges_no_error(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str
) -> None:
    journal = tmp_path / "journalctl"
    text = f"aqueduct: [store-unreachable] x\nTopic a{end}aqueduct: [topic-unknown] y\n"
    (tmp_path / "journal").write_bytes(text.encode() + b"\xff\n")
    journal.write_text(f"#!/bin/sh\ncase $1 in --sync) ;; *) cat {tmp_path}/journal ;; esac\n")
    journal.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    lines = plugin.Systemd(Module())._journal("land")
    assert len(lines) == 3
    assert plugin.last_error(lines) == "store-unreachable"


class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"aqueduct_land_rounds_total 3\n")

    def log_message(self, *_: object) -> None:
        pass


def test_local_metrics_are_read_without_configured_proxy(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(urllib.request, "_opener", None)  # that an earlier test may have made
    with http.server.HTTPServer(("127.0.0.1", 0), Metrics) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert plugin._answers(server.server_port)
        assert plugin._has_rounds(server.server_port)
        server.shutdown()
