"""The module service_units at a real systemd, with units that fail, end again and again, or stay.

No test has the unit of a backup or a mirror in this systemd: scenarios start those, and let none fail. Only
tests/unit/test_plugin_service_units.py reads journals.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import systemd
from kit.systemd import Systemd

SERVICE = "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n[Service]\nType=exec\n"
INSTALL = "[Install]\nWantedBy=multi-user.target\n"
UNITS = {
    "steady": "ExecStart=/bin/sleep infinity\n",
    "fails": "ExecStart=/bin/sh -c 'sleep 1; exit 3'\n",
    "repeats": "ExecStart=/bin/sh -c 'sleep 0.5; exit 3'\nRestart=on-failure\nRestartSec=100ms\n",
}
STEADY_SECONDS = 3


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systemd]:
    units = {f"{name}.service": f"{SERVICE}{text}{INSTALL}" for name, text in UNITS.items()}
    with systemd.running(tmp_path_factory.mktemp("systemd"), units) as running:
        yield running


def deployed(host: Systemd, name: str) -> dict[str, object]:
    unit = {"name": name, "files": [f"/etc/systemd/system/{name}.service"]}
    return host.module("service_units", {"units": [unit], "steady_seconds": STEADY_SECONDS})


def active(host: Systemd, name: str) -> str:
    return host.enter("systemctl", "is-active", name).stdout.strip()


def test_unit_that_stays_is_started_once(host: Systemd) -> None:
    assert deployed(host, "steady")["started"] == ["steady"]
    again = deployed(host, "steady")
    assert (again["changed"], again["started"], again["restarted"]) == (False, [], [])
    assert active(host, "steady") == "active"


def test_unit_that_fails_fails_each_run(host: Systemd) -> None:
    """Also one that is failed before the run, as a backup service whose cluster was re-created."""
    for _ in range(2):
        answer = deployed(host, "fails")
        assert answer["failed"]
        assert str(answer["msg"]).startswith("[unit-not-working] fails failed after its start (exit-code).")
        assert active(host, "fails") == "failed"


def test_unit_that_systemd_restarts_forever_fails(host: Systemd) -> None:
    answer = deployed(host, "repeats")
    assert answer["failed"]
    assert str(answer["msg"]).startswith("[unit-not-working] repeats does not keep running: ")


def test_systemd_of_tests_changes_no_files(host: Systemd, tmp_path: Path) -> None:
    """Debian's systemd-tmpfiles would empty /tmp, and did."""
    for folder in (tmp_path, Path("/tmp"), Path("/var/tmp"), Path("/")):  # noqa: S108
        file = folder / "written-by-systemd-of-tests"
        tried = host.enter("touch", file)
        assert (tried.returncode, file.exists()) == (1, False)
        assert "Read-only file system" in tried.stderr
