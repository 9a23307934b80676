"""A captured service writes through /proc/PID/root (proc(5)) of another process of its user.

systemd itself runs the service and the other process. The service has the sandbox of every unit, and the
user is one that every Debian has.
"""

import pwd
from collections.abc import Iterator

import pytest
from kit import clients, systemd
from kit.plugin_modules import load_filters
from kit.systemd import Systemd

USER = "daemon"
OWN, OTHER = "/srv/own", "/srv/other"  # folders of the user; the service may write to the first one
# Write to the other folder by each way, and print the ways that are open.
CAPTURED = f"""
for way in "" $(ls -d /proc/[0-9]*); do
    root=$way
    [ -z "$way" ] || root=$way/root
    if touch "$root{OTHER}/written" 2>/dev/null; then echo "$way"; fi
done
"""


def in_sandbox(*command: str) -> list[str]:
    """Return the command that runs another one as the service's user, as roles do."""
    words: list[str] = load_filters("units").sandboxed(command, USER, OWN)
    return words


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systemd]:
    empty = ("/srv", "/tmp", "/var/tmp")  # noqa: S108
    with systemd.running(tmp_path_factory.mktemp("systemd"), {}, *empty) as running:
        user = pwd.getpwnam(USER)
        for folder in (OWN, OTHER):
            running.enter("install", "--directory", f"--owner={user.pw_uid}", folder)
        clients.wait_for("the bus", lambda: running.enter(*in_sandbox("true")).returncode == 0)
        yield running


def open_ways(host: Systemd) -> list[str]:
    done = host.enter(*in_sandbox("sh", "-c", CAPTURED))
    assert done.returncode == 0, done
    return done.stdout.split("\n")[:-1]


def process_of(host: Systemd, command: str) -> str | None:
    """Return the number of the user's process that runs this command."""
    return host.enter("pgrep", "--uid", USER, "--full", f"{command}$").stdout.strip() or None


def test_unsandboxed_process_is_a_way_out(host: Systemd) -> None:
    """The control: so roles once ran commands of a service."""
    host.enter("systemd-run", f"--uid={USER}", "--unit=outside", "sleep", "1001")
    outside = clients.wait_for("the process", lambda: process_of(host, "sleep 1001"))
    assert f"/proc/{outside}" in open_ways(host)
    host.enter("systemctl", "stop", "outside")


def test_sandboxed_process_is_no_way_out(host: Systemd) -> None:
    command = in_sandbox("sleep", "1002")
    host.enter(*[word for word in command if word not in ("--wait", "--pipe")])
    clients.wait_for("the process", lambda: process_of(host, "sleep 1002"))
    assert open_ways(host) == []
