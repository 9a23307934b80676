"""A separate systemd with real units, in namespaces that end with it. It needs root, as labs do.

It can read the files of this machine but not change them: Debian's systemd-tmpfiles, for example, empties
/tmp when a system boots. It has neither the units nor the processes of this machine.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kit import clients
from kit.plugin_modules import COLLECTIONS, MODULES, RUN

CGROUPS = Path("/sys/fs/cgroup")
# As in a container, kernel settings are read only. systemd can write to these folders and to /etc/systemd.
FOLDERS = ("/run", "/usr/lib/systemd/system-generators", str(CGROUPS))
BOOT = """
set -e
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount --bind "$1" /etc/machine-id
units=$2 version=$3
shift 3
awk '{print $5}' /proc/self/mountinfo | while read -r mounted; do
    [ "${mounted#/proc}" != "$mounted" ] || mount -o remount,bind,ro "$(printf %b "$mounted")"
done
mount -t tmpfs tmpfs /etc/systemd
mkdir /etc/systemd/system
cp "$units"/* /etc/systemd/system
for folder; do mount -t tmpfs tmpfs "$folder"; done
if [ "$version" = 2 ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd systemd /sys/fs/cgroup/systemd
fi
export container=docker
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=null --show-status=no
"""
NAMESPACES = ("--mount", "--pid", "--cgroup")


class Systemd:
    """A running systemd. `enter` runs a command in its namespaces."""

    def __init__(self, process_id: int) -> None:
        self._enter = ["nsenter", "--target", str(process_id), *NAMESPACES, "--"]

    def enter(self, *command: str | Path, given: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._enter, *command], input=given, capture_output=True, text=True, check=False
        )

    def module(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a module as Ansible does on a host with this systemd, and return its result."""
        run = (sys.executable, "-c", RUN, str(COLLECTIONS), str(MODULES / f"{name}.py"))
        done = self.enter(*run, given=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@contextmanager
def running(folder: Path, units: dict[str, str], *empty: str) -> Iterator[Systemd]:
    """Yield a systemd that has these units, by the names of their files.

    `empty`: other folders that it can write to, in which it does not see the files of this machine.
    """
    (folder / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    files = folder / "units"
    files.mkdir()
    for name, text in {"multi-user.target": "[Unit]\nDefaultDependencies=no\n", **units}.items():
        (files / name).write_text(text)
    version = "2" if (CGROUPS / "cgroup.controllers").exists() else "1"
    hierarchy = CGROUPS if version == "2" else CGROUPS / "systemd"
    cgroup = hierarchy / f"aqueduct-test-{os.getpid()}"
    cgroup.mkdir()
    own = ("--uts", "--ipc", "--net", "--fork", "--kill-child", "--mount-proc")
    boot = ["unshare", *NAMESPACES, *own, "/bin/sh", "-c", BOOT, "sh", str(folder / "machine-id")]
    boot += [str(files), version, *FOLDERS, *empty]
    process = subprocess.Popen(["/bin/sh", "-c", f'echo $$ >{cgroup}/cgroup.procs && exec "$@"', "sh", *boot])

    def booted() -> Systemd | None:
        assert process.poll() is None, "systemd did not start"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        systemd = Systemd(int(children[0])) if children else None
        answers = systemd and systemd.enter("systemctl", "list-units").returncode == 0
        return systemd if answers else None

    try:
        yield clients.wait_for("systemd", booted)
    finally:
        process.kill()
        process.wait()
        clients.wait_for("the end of its processes", lambda: removed(cgroup))


def removed(cgroup: Path) -> bool:
    """Remove a control group and the groups below it, as soon as they contain no process."""
    for path, _, _ in os.walk(cgroup, topdown=False):
        with suppress(OSError):
            Path(path).rmdir()
    return not cgroup.exists()
