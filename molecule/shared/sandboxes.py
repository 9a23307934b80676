"""The sandboxes of every service of ours that runs in a lab; systemd lists them, so none is forgotten.

This file is sent to each host as it is, and looks there as root: at what systemd says of a unit, at its
process, and from inside the process's mount namespace, where it tries what is forbidden.
"""

import errno
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROMISED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectProc": "invisible",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "LockPersonality": "yes",
    "CapabilityBoundingSet": "",
    "SystemCallArchitectures": "native",
}
# Units that have no process, and set the host up as root.
RULES = {
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "cap_net_admin",
    "RestrictAddressFamilies": "AF_NETLINK AF_UNIX",
}
WITHOUT_PROCESS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("diode_silence", "hdfs_ports", "hive_metastore_ports", "zookeeper_ports"), RULES),
    "connect_ports": RULES,
    "lab_mac": {},  # the lab's own
}
MOST_EXPOSED = 30  # tenths of what systemd-analyze calls a unit's exposure; 100 is one without a sandbox
UNITS, CONFIG = Path("/etc/systemd/system"), Path("/etc/aqueduct")
FORBIDDEN = ("/etc", "/usr", "/opt/aqueduct", "/var/lib")
MARKERS = ("/home/sandbox-marker", "/tmp/sandbox-marker", "/var/tmp/sandbox-marker")
PROBE = "sandbox-probe"


def check(lab: Any) -> None:
    """Fail unless each of the lab's services is as its sandbox promises."""
    from lab import wait_until

    def look(host: str) -> Any:
        seen = json.loads(lab.run(host, "python3", "-", stdin=Path(__file__).read_text()).stdout)
        assert not seen["idle"], f"these do not run: {seen['idle']}"
        return seen

    def look_when_all_run(host: str) -> Any:
        return wait_until(f"all services of {host}", lambda: look(host))

    with ThreadPoolExecutor() as pool:
        found = dict(zip(lab.variables, pool.map(look_when_all_run, lab.variables), strict=True))
    print({host: seen["units"] for host, seen in found.items()})
    assert any(seen["units"] for seen in found.values())
    faults = [f"{host}: {fault}" for host, seen in found.items() for fault in seen["faults"]]
    assert not faults, "\n".join(faults)


def look_here() -> dict[str, list[str]]:
    """Return services that run, those that should and don't, and what is wrong with the first."""
    installed = {path.stem for path in UNITS.glob("*.service") if path.is_file() and not path.is_symlink()}
    instances = {name for name in units() if "@" in name}  # of templates
    with running_a_sleep(name for name in (installed | instances) - {*WITHOUT_PROCESS} if _is_off(name)):
        shown = units()
        running = {name: unit for name, unit in shown.items() if unit["MainPID"] != "0"}
        idle = [
            name
            for name in installed - {*WITHOUT_PROCESS}
            if not any(each == name or _is_of(each, name) for each in running)
        ]
        idle += [name for name, unit in running.items() if _is_still_systemd(unit["MainPID"])]
        for marker in MARKERS:
            Path(marker).touch()
        try:
            faults = [f"{name}: {fault}" for name, unit in shown.items() for fault in unpromised(name, unit)]
            for name, unit in running.items():
                try:
                    of_process = [f"{name}: {fault}" for fault in broken(unit)]
                except FileNotFoundError:  # below /proc/PID
                    of_process = []
                if Path("/proc", unit["MainPID"]).exists():
                    faults += of_process
                else:  # a timer's run has ended meanwhile: look again
                    idle.append(name)
        finally:
            for marker in MARKERS:
                Path(marker).unlink()
    return {"units": sorted(running), "idle": idle, "faults": faults}


def _is_off(name: str) -> bool:
    """Return whether a service is there for those who want it, and nobody here does, or for a timer."""
    if name.endswith("@"):
        return False
    asked = ("systemctl", "show", "--property=UnitFileState,ActiveState,TriggeredBy", f"{name}.service")
    found = dict(line.split("=", 1) for line in _said(*asked).splitlines())
    if "@" in name and not found["TriggeredBy"]:
        return False
    # One that has failed ran by its timer before.
    return found["UnitFileState"] in ("disabled", "static") and found["ActiveState"] in ("inactive", "failed")


@contextmanager
def running_a_sleep(names: Iterable[str]) -> Iterator[None]:
    """Start services that are off, as their units say, but for their commands; stop them afterwards."""
    started = []
    try:
        for name in names:
            added = Path(f"/run/systemd/system/{name}.service.d/sandbox.conf")
            added.parent.mkdir(parents=True, exist_ok=True)
            started.append((name, added))
            # The start of such a type ends when the process has its sandbox.
            service = "Type=exec\nExecStartPre=\nExecStart=\nExecStart=/usr/bin/sleep infinity\n"
            # Without its conditions: a classic mirror, say, has no positions to look at.
            added.write_text(f"[Unit]\nConditionPathExists=\n[Service]\n{service}")
        if started:
            _said("systemctl", "daemon-reload")
            _said("systemctl", "start", *(name for name, _ in started))
        yield
    finally:
        for _, added in started:
            added.unlink(missing_ok=True)
            added.parent.rmdir()
        if started:  # before the stop, at which a timer may start the unit again: not its sleep
            _said("systemctl", "daemon-reload")
            _said("systemctl", "stop", *(name for name, _ in started))


def _is_still_systemd(process: str) -> bool:
    """Return whether a process that systemd has forked does not run its program yet, which is in brackets."""
    return Path("/proc", process, "comm").read_text().startswith("(")


def _is_of(name: str, template: str) -> bool:
    return template.endswith("@") and name.startswith(template)


def units() -> dict[str, dict[str, str]]:
    """Return what systemd says of each service whose unit file isn't the distribution's, by name.

    A masked one has a link there that lets nobody start it.
    """
    listed = _said("systemctl", "list-units", "--all", "--full", "--type=service", "--plain", "--no-legend")
    names = [line.split()[0] for line in listed.splitlines()]
    asked = ",".join(("Id", "LoadState", "FragmentPath", "MainPID", "MemoryMax", "ReadWritePaths", *PROMISED))
    shown = _said("systemctl", "show", f"--property={asked}", *names).strip().split("\n\n")
    found = [dict(line.split("=", 1) for line in unit.splitlines()) for unit in shown]
    return {
        unit["Id"].removesuffix(".service"): unit
        for unit in found
        if Path(unit["FragmentPath"]).parent == UNITS and unit["LoadState"] != "masked"
    }


def _has_name(uid: int) -> bool:
    """Tell whether the host knows a user; a DynamicUser is one of systemd's alone."""
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def unpromised(name: str, unit: dict[str, str]) -> Iterator[str]:
    for key, value in WITHOUT_PROCESS.get(name, PROMISED).items():
        if sorted(unit[key].split()) != sorted(value.split()):
            yield f"{key} is {unit[key]!r}, not {value!r}"
    if name not in WITHOUT_PROCESS and unit["MemoryMax"] == "infinity":
        yield "it may take all memory"
    if WITHOUT_PROCESS.get(name) != {}:
        judge = ("systemd-analyze", "security", "--no-pager", f"--threshold={MOST_EXPOSED}", unit["Id"])
        judged = subprocess.run(judge, capture_output=True, text=True, check=False)
        if judged.returncode:
            yield judged.stdout.strip().splitlines()[-1] if judged.stdout else judged.stderr


def broken(unit: dict[str, str]) -> Iterator[str]:
    """Look at a unit's process, and try from inside its mount namespace."""
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc", unit["MainPID"], "status").read_text().splitlines()
        if ":\t" in line
    )
    uid, gid = status["Uid"].split()[0], status["Gid"].split()[0]
    if uid == "0":
        yield "it runs as root"
    for name, value in {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16, "CapBnd": "0" * 16}.items():
        if status[name] != value:
            yield f"its process has {name} {status[name]}, not {value}"
    others = [
        str(path)
        for path in CONFIG.glob("*/**/*")
        if path.is_file() and path.name != "ca.pem" and path.stat().st_uid != int(uid)
    ]
    own = [path.lstrip("-+") for path in unit["ReadWritePaths"].split()] + ["/tmp"]
    # As the service's user, whom alone the kernel lets into its namespaces without CAP_SYS_PTRACE.
    caps = "+sys_admin,+sys_chroot"
    enter = (
        *("setpriv", f"--reuid={uid}", f"--regid={gid}"),
        "--init-groups" if _has_name(int(uid)) else "--clear-groups",
        *(f"--inh-caps={caps}", f"--ambient-caps={caps}"),
        *("nsenter", f"--target={unit['MainPID']}", "--mount", sys.executable, "-c", INSIDE),
    )
    tried = json.loads(_said(*enter, json.dumps([[*FORBIDDEN, *own], [*MARKERS, *others]])))
    for path, said in tried["wrote"].items():
        if path in own and said:
            yield f"it can't write to {path}, which is its own (errno {said})"
        # Not EACCES: that the user has no right there isn't the sandbox's doing.
        if path in FORBIDDEN and said != errno.EROFS:
            yield f"writing to {path} is not what the sandbox refuses (errno {said})"
    yield from (f"it can read {path}" for path in tried["read"])


# Runs inside: makes a folder in each of some folders, and opens each of some files.
INSIDE = f"""
import json, os, sys
folders, files = json.loads(sys.argv[1])
wrote, read = {{}}, []
for folder in folders:
    probe = os.path.join(folder, {PROBE!r})
    try:
        os.mkdir(probe)
    except OSError as error:
        wrote[folder] = error.errno
    else:
        os.rmdir(probe)
        wrote[folder] = 0
for file in files:
    try:
        open(file).close()
    except OSError:
        continue
    read.append(file)
print(json.dumps({{"wrote": wrote, "read": read}}))
"""


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    os.umask(0o022)
    print(json.dumps(look_here()))
