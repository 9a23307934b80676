#!/usr/bin/python
"""Ansible module: have units of systemd running, with their files as they are now."""

DOCUMENTATION = r"""
module: service_units
short_description: Start, restart and remove systemd units
description:
  - A unit is restarted if one of its files is newer than its last start, as systemd reports it. The
    modification times of folders that the service itself owns are ignored, because the service can change
    them.
  - A service that a timer starts reads its files at each start, so it is not restarted.
  - Files named C(client.properties) are for people and other programs. A change of them restarts nothing.
author: The Aqueduct project (!UNKNOWN)
options:
  units:
    description: The units.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the unit; without C(.service) for a service, with C(.timer) for a timer.
        type: str
        required: true
      files: {description: Files and folders that the unit uses., type: list, elements: path, required: true}
      state:
        description: State of the unit; V(stopped) also disables it.
        type: str
        choices: [started, stopped]
        default: started
      metrics_port: {description: Port of metrics that answers when the service is ready., type: int}
      rounds_port: {description: Port of metrics that count the rounds of the service., type: int}
  restart:
    description: If false, units that need a restart are only returned in RV(stale).
    type: bool
    default: true
  ready_seconds:
    description: Time limit until the services answer at their C(metrics_port); 0 does not wait.
    type: int
    default: 0
  steady_seconds:
    description:
      - Seconds for which a service must run before it counts as running; 0 skips this check. The module
        does not wait for a service that has run for longer, or whose metrics at C(rounds_port) count a
        round.
      - The task fails if a service has failed and systemd does not restart it, or if systemd restarts it
        again and again. O(waits_for) lists exceptions.
    type: int
    default: 0
  waits_for:
    description:
      - Identifiers of errors with which a service ends until another service or client creates an object,
        such as C(topic-unknown). If the last error of a service has one of these identifiers, the task does
        not fail although systemd restarts the service again and again. The module warns, and returns the
        service in RV(waiting).
    type: list
    elements: str
    default: []
  retire:
    description: Units of a template that are not declared any more are stopped, disabled and removed.
    type: dict
    suboptions:
      template: {description: "Such as C(mirror_maker@).", type: str, required: true}
      folder: {description: Folder that contains one folder for each instance., type: path}
      keep: {description: Folders in it that belong to no instance., type: list, elements: str, default: []}
      declared: {description: Declared instances., type: list, elements: str, required: true}
"""

EXAMPLES = r"""
- name: Start a broker, and restart it after a change of its configuration
  aqueduct.estate.service_units:
    units:
      - {name: kafka, files: [/etc/aqueduct/kafka, /etc/systemd/system/kafka.service]}
"""

RETURN = r"""
started: {description: Units that were not running., type: list, returned: success}
restarted:
  description: Units that were restarted because they ran with older files.
  type: list
  returned: success
retired: {description: Instances that were removed., type: list, returned: success}
stale: {description: Units that still run with older files., type: list, returned: success}
waiting:
  description: Units that systemd restarts until another service or client creates what they need.
  type: list
  returned: success
"""

import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files
from ansible_collections.aqueduct.estate.plugins.module_utils.deadlines import within

UNITS = Path("/etc/systemd/system")
STARTED = (
    "InactiveExitTimestampMonotonic"  # before the first program of the unit, also of a restart by systemd
)
JOURNAL_LINES = 10
ANSWER_SECONDS = 5  # for all of a page of metrics
# A host's proxy is for other hosts.
WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PROPERTIES = (
    *("ActiveState", "Result", "NRestarts", "UnitFileState", "NeedDaemonReload"),
    *("ActiveEnterTimestampMonotonic", STARTED),
)
ERROR_LINES = 100  # in which the last error of a service is: systemd and Spark write lines after it


class Systemd:
    """The requests to systemd, and what they changed."""

    def __init__(self, module: Any) -> None:
        self.module, self.check = module, module.check_mode
        self.started: list[str] = []
        self.restarted: list[str] = []
        self.stopped: list[str] = []
        self.retired: list[str] = []
        self.stale: list[str] = []
        self.waiting: list[str] = []

    def retire(self, template: str, folder: str | None, keep: list[str], declared: list[str]) -> None:
        """Remove instances that are not declared, with their folders and what was added to their units."""
        instances = {_instance(path.name, template) for path in UNITS.glob(f"{template}*")}
        instances |= {_instance(path.name, template) for path in UNITS.glob(f"*.wants/{template}*")}
        if folder and Path(folder).is_dir():
            instances |= {path.name for path in Path(folder).iterdir() if path.is_dir()} - {*keep}
        for name in sorted(instances - {*declared, ""}):
            self.retired.append(name)
            if self.check:
                continue
            unit = f"{template}{name}"
            for unit_name in (f"{unit}.timer", f"{unit}.service"):
                self._systemctl("disable", "--now", "--quiet", unit_name, must=False)
            for gone in (UNITS / f"{unit}.service", UNITS / f"{unit}.service.d"):
                _remove(gone)
            if folder:
                _remove(Path(folder) / name)
            self._systemctl("daemon-reload")

    def have(self, units: list[dict[str, Any]], restart: bool) -> None:
        """Start, enable, restart or stop."""
        if not units:
            return
        names = [_full(unit["name"]) for unit in units]
        started = [_full(name.removesuffix(".timer")) for name in names if name.endswith(".timer")]
        if not self.check and any(
            shown.get("NeedDaemonReload") == "yes" for shown in self._show(names + started)
        ):
            self._systemctl("daemon-reload")
        for unit, shown in zip(units, self._show(names), strict=True):
            runs = shown.get("ActiveState") in ("active", "activating", "reloading")
            enabled = shown.get("UnitFileState") == "enabled"
            name = unit["name"]
            if unit["state"] == "stopped":
                if runs or enabled:
                    self.stopped.append(name)
                    self._systemctl("disable", "--now", "--quiet", name)
                continue
            if not enabled:
                self._systemctl("enable", "--quiet", name)
            if not runs:
                self.started.append(name)
                self._systemctl("start", name, unit=name)
            elif _younger(unit["files"], _since(shown)):
                if restart:
                    self.restarted.append(name)
                    self._systemctl("restart", name, unit=name)
                else:
                    self.stale.append(name)
            elif not enabled:
                self.started.append(name)

    def await_ready(self, units: list[dict[str, Any]], seconds: int) -> None:
        """Wait until each answers; fail with the last lines of its journal."""
        deadline = time.monotonic() + seconds
        for unit in units if seconds and not self.check else ():
            while unit["metrics_port"] and unit["state"] == "started" and not _answers(unit["metrics_port"]):
                if time.monotonic() > deadline:
                    self._fail(unit["name"], f"{unit['name']} is not ready after {seconds} s.")
                time.sleep(0.2)

    def await_steady(self, units: list[dict[str, Any]], seconds: int, waits_for: list[str]) -> None:
        """Wait until each runs for so long; fail where one does not stay.

        One whose last error is in `waits_for` is noted in `waiting`.
        """
        deadline = time.monotonic() + seconds
        for unit in units if seconds and not self.check else ():
            name, port = unit["name"], unit["rounds_port"]
            if unit["state"] == "stopped" or name.endswith(".timer"):
                continue
            while True:
                [shown] = self._show([_full(name)])
                if has_failed(shown):
                    self._fail(name, f"{name} failed after its start ({shown.get('Result')}).")
                if runs_for(shown) >= seconds or (port and _has_rounds(port)):
                    break
                # A second more, because systemd starts it a moment after it was asked.
                if time.monotonic() > deadline + 1:
                    self._judge_unsteady(name, int(shown.get("NRestarts") or 0), waits_for)
                    break
                time.sleep(0.2)

    def _judge_unsteady(self, name: str, restarts: int, waits_for: list[str]) -> None:
        """Fail because a service does not stay, unless it waits for what others create."""
        times = "once" if restarts == 1 else f"{restarts} times"
        reason = f"{name} does not keep running: systemd has restarted it {times}. See journalctl -u {name}."
        if waits_for and last_error(self._journal(name, ERROR_LINES)) in waits_for:
            self.waiting.append(name)
            self.module.warn(
                "\n".join([f"[unit-waiting] {reason} The last lines of its journal:", *self._journal(name)])
            )
        else:
            self._fail(name, reason)

    def _show(self, names: list[str]) -> list[dict[str, str]]:
        properties = f"--property={','.join(PROPERTIES)}"
        output = self._run(["systemctl", "show", properties, "--", *names]).stdout
        return [dict(line.split("=", 1) for line in block.splitlines()) for block in output.split("\n\n")]

    def _systemctl(self, *arguments: str, unit: str = "", must: bool = True) -> None:
        if self.check:
            return
        process = self._run(["systemctl", *arguments])
        if process.returncode and must:
            self._fail(unit, f"systemctl {' '.join(arguments)} failed: {process.stderr.strip()}")

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        # As text, a carriage return would end a line: in the journal, it can be part of a name.
        process = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
        output, errors = (printed.decode(errors="replace") for printed in (process.stdout, process.stderr))
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def _fail(self, unit: str, reason: str) -> None:
        lines = self._journal(unit) if unit else []
        journal = [" The last lines of its journal:", *lines] if lines else []
        self.module.fail_json(msg=f"[unit-not-working] {reason}" + "\n".join(journal))

    def _journal(self, unit: str, lines: int = JOURNAL_LINES) -> list[str]:
        self._run(["journalctl", "--sync"])  # else it may lack the last lines
        show = ["journalctl", f"--unit={unit}", f"--lines={lines}", "--no-pager", "--output=cat"]
        output = self._run(show).stdout.removesuffix("\n")
        return output.split("\n") if output else []


def has_failed(shown: dict[str, str]) -> bool:
    """Return whether a service ended and systemd does not start it again."""
    return shown.get("ActiveState") in ("failed", "inactive")


def last_error(journal: list[str]) -> str:
    """Return the identifier of the last error that a verb of Aqueduct has ended with; empty if there is none.

    A traceback or an error without an identifier counts as the last one.
    """
    error_id = ""
    for line in journal:
        if error := re.match(r"aqueduct: (?:\[([a-z0-9-]+)\])?", line):
            error_id = error[1] or ""
        elif line.startswith("Traceback "):
            error_id = ""
    return error_id


def runs_for(shown: dict[str, str]) -> float:
    """Return the seconds since which a service is active; 0 if it is not."""
    if shown.get("ActiveState") not in ("active", "reloading"):
        return 0.0
    since = int(shown.get("ActiveEnterTimestampMonotonic") or 0)
    return time.clock_gettime(time.CLOCK_MONOTONIC) - since / 1e6


def _instance(name: str, template: str) -> str:
    """Return the instance in the name of a unit's file, link or drop-in folder; empty for the template."""
    return name.removeprefix(template).removesuffix(".d").removesuffix(".service").removesuffix(".timer")


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError), safe_files.folder(path.parent) as folder:
        folder.remove(path.name)


def _full(name: str) -> str:
    return name if name.endswith(".timer") else f"{name}.service"


def _since(shown: dict[str, str]) -> int:
    """Return when the last start of a unit began, in nanoseconds since 1970; 0 if systemd does not know."""
    started = int(shown.get(STARTED) or 0)
    booted = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return booted + started * 1000 if started else 0


def _younger(files: list[str], since: int) -> bool:
    """Return whether a file is younger than that."""
    return any(changed > since for file in files for changed in _change_times(Path(file)))


def _change_times(path: Path) -> Iterator[int]:
    """Yield when a file, or each file below a folder, was changed. No link of a service is followed."""
    try:
        with safe_files.folder(path):
            folders = [path]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        with safe_files.folder(path.parent) as folder:
            yield os.stat(path.name, dir_fd=folder.descriptor, follow_symlinks=False).st_mtime_ns
        return
    while folders:
        current = folders.pop()
        with safe_files.folder(current) as folder, os.scandir(folder.descriptor) as children:
            for entry in children:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(current / entry.name)
                elif entry.name != "client.properties":
                    yield entry.stat(follow_symlinks=False).st_mtime_ns


def _answers(port: int) -> bool:
    return _metrics(port) is not None


def _has_rounds(port: int) -> bool:
    return bool(re.search(r"^aqueduct_\w+_rounds_total [^0]", _metrics(port) or "", re.MULTILINE))


def _metrics(port: int) -> "str | None":
    def ask() -> str:
        with WITHOUT_PROXY.open(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_SECONDS) as answer:
            return str(answer.read(16 << 20).decode())

    try:
        return str(within(ANSWER_SECONDS, ask))
    except (urllib.error.URLError, OSError):
        return None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "files": {"type": "list", "elements": "path", "required": True},
                    "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
                    "metrics_port": {"type": "int"},
                    "rounds_port": {"type": "int"},
                },
            },
            "restart": {"type": "bool", "default": True},
            "ready_seconds": {"type": "int", "default": 0},
            "steady_seconds": {"type": "int", "default": 0},
            "waits_for": {"type": "list", "elements": "str", "default": []},
            "retire": {
                "type": "dict",
                "options": {
                    "template": {"type": "str", "required": True},
                    "folder": {"type": "path"},
                    "keep": {"type": "list", "elements": "str", "default": []},
                    "declared": {"type": "list", "elements": "str", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    systemd, given = Systemd(module), module.params
    try:
        if given["retire"]:
            systemd.retire(**given["retire"])
        systemd.have(given["units"], given["restart"])
    except safe_files.UnsafePath as error:
        module.fail_json(msg=f"[path-unsafe] {error}")
    systemd.await_ready(given["units"], given["ready_seconds"])
    systemd.await_steady(given["units"], given["steady_seconds"], given["waits_for"])
    changed = systemd.started + systemd.restarted + systemd.stopped + systemd.retired
    module.exit_json(
        changed=bool(changed),
        started=systemd.started,
        restarted=systemd.restarted,
        stopped=systemd.stopped,
        retired=systemd.retired,
        stale=systemd.stale,
        waiting=systemd.waiting,
    )


if __name__ == "__main__":
    main()
