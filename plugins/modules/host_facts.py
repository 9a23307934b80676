#!/usr/bin/python
"""Ansible module: gather in one go what a host knows about the state of its services."""

DOCUMENTATION = r"""
module: host_facts
short_description: Collect the state of a host's services
description:
  - Changes nothing. All queries run at the same time, each with a time limit. A query without an answer does
    not delay the others.
author: The Aqueduct project (!UNKNOWN)
options:
  units: {description: Names of systemd units., type: list, elements: str, default: []}
  folders: {description: Folders whose file systems are measured., type: list, elements: str, default: []}
  certificates:
    description: Patterns of files with certificates. Nothing else in them is returned.
    type: list
    elements: str
    default: []
  metrics: {description: "Ports on localhost that serve metrics, by name.", type: dict, default: {}}
  files: {description: "Files with metrics, by name.", type: dict, default: {}}
  commands: {description: "Commands that print JSON, by name.", type: dict, default: {}}
  seconds: {description: Time limit of each query., type: int, default: 6}
"""

EXAMPLES = r"""
- name: Ask for the state of a broker
  aqueduct.estate.host_facts:
    units: [kafka]
    folders: [/var/lib/kafka]
    metrics: {kafka: 9405}
  register: answer
"""

RETURN = r"""
facts: {description: The answers., type: dict, returned: success}
"""

import contextlib
import http.client
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.aqueduct.estate.plugins.module_utils import safe_files
from ansible_collections.aqueduct.estate.plugins.module_utils.bounded_commands import MOST, answer
from ansible_collections.aqueduct.estate.plugins.module_utils.deadlines import within

MOST_AT_ONCE = 32  # questions, so that silent services do not wait for each other
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\n?")
VERSION = re.compile(rb"/opt/aqueduct/[a-z_-]+-([0-9][0-9A-Za-z.]*)/")  # of what runs, in its command line
PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "Result", "MainPID", "StateChangeTimestamp"),
    "ExecMainExitTimestamp",
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "default": []},
            "folders": {"type": "list", "elements": "str", "default": []},
            "certificates": {"type": "list", "elements": "str", "default": []},
            "metrics": {"type": "dict", "default": {}},
            "files": {"type": "dict", "default": {}},
            "commands": {"type": "dict", "default": {}},
            "seconds": {"type": "int", "default": 6},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, facts=gather(module.params))


def gather(given: Mapping[str, Any]) -> dict[str, Any]:
    """Ask all questions at once."""
    seconds = given["seconds"]
    questions = len(given["commands"]) + len(given["metrics"]) + 2
    with ThreadPoolExecutor(max_workers=min(MOST_AT_ONCE, questions)) as asking:
        answers = {name: asking.submit(answer, argv, seconds) for name, argv in given["commands"].items()}
        pages = {name: asking.submit(page, int(port), seconds) for name, port in given["metrics"].items()}
        units = asking.submit(quietly, lambda: unit_states(given["units"], seconds), {})
        failed = asking.submit(quietly, lambda: failed_units(seconds), None)
        texts = {name: text(path) for name, path in given["files"].items()}
        metrics = {name: asked.result() for name, asked in pages.items()} | texts
        measured, unmeasured = disks(["/", *given["folders"]])
        facts = {
            "time": time.time(),
            "units": units.result(),
            "disks": measured,
            "unmeasured": unmeasured,
            "certificates": dict(certificates(given["certificates"])),
            "metrics": {
                name: metric_text for name, metric_text in metrics.items() if metric_text is not None
            },
            "answers": {name: asked.result() for name, asked in answers.items()},
        }
        if failed.result() is None:
            return facts
        return facts | {"failed_units": failed.result()}


def quietly(ask: Callable[[], Any], otherwise: Any) -> Any:
    """Return an answer, or what stands for none."""
    try:
        return ask()
    except (OSError, ValueError, subprocess.SubprocessError):
        return otherwise


def page(port: int, seconds: int) -> str | None:
    """Return a page of metrics of this host; None: it gives none."""

    def ask() -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            content = response.read(MOST)
            return content.decode(errors="replace") if response.status == http.HTTPStatus.OK else None

    try:
        return within(seconds, ask)  # type: ignore[no-any-return]
    except (OSError, http.client.HTTPException):
        return None


def content(path: str | Path) -> bytes:
    """Read a plain file. No link of a service is followed, also none in the folders of the path.

    UnsafePath for such a link, a pipe, which would be waited for, or a hard link.
    """
    file_path = Path(path)
    with (
        safe_files.folder(file_path.parent) as folder,
        folder.open(file_path.name) as descriptor,
        os.fdopen(os.dup(descriptor), "rb") as file,
    ):
        return file.read(MOST)


def text(path: str) -> str | None:
    """Return a text file; None: there is none; empty: it cannot be read."""
    try:
        return content(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    except (OSError, safe_files.UnsafePath):
        return ""


def certificates(patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the certificates of files, and nothing else that is in them."""
    for path in sorted({path for pattern in patterns for path in Path("/").glob(pattern.lstrip("/"))}):
        with contextlib.suppress(OSError, safe_files.UnsafePath):
            if pems := CERTIFICATE.findall(content(path)):
                yield str(path), b"".join(pems).decode("ascii")


def disks(folders: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure the file system of each folder once; return also the folders that cannot be measured."""
    disk_by_device: dict[int, dict[str, Any]] = {}
    unmeasured = []
    for folder in folders:
        try:
            with safe_files.folder(folder) as opened:
                device, of = os.fstat(opened.descriptor).st_dev, os.fstatvfs(opened.descriptor)
        except (OSError, safe_files.UnsafePath):
            unmeasured.append(folder)
            continue
        # Like df: space that is reserved for root, or cannot be used at all, is not part of the size.
        usable = of.f_blocks - of.f_bfree + of.f_bavail
        sizes = {"size": usable * of.f_frsize, "free": of.f_bavail * of.f_frsize}
        disk_by_device.setdefault(device, {"path": folder, **sizes})
    return list(disk_by_device.values()), unmeasured


def unit_states(units: Sequence[str], seconds: int) -> dict[str, Any]:
    """Return the state of each unit."""
    if not units:
        return {}
    argv = ["show", "--timestamp=unix", f"--property={','.join(PROPERTIES)}", "--", *units]
    output = systemctl(argv, seconds)
    blocks = [
        dict(line.partition("=")[::2] for line in paragraph.splitlines())
        for paragraph in output.split("\n\n")
    ]
    named = {block["Id"].removesuffix(".service"): state(block) for block in blocks if "Id" in block}
    return {unit: named[unit] for unit in units if unit in named}


def state(unit: Mapping[str, str]) -> dict[str, Any]:
    loaded = unit.get("LoadState", "")
    return {
        "state": "not installed" if loaded == "not-found" else unit.get("ActiveState", "unknown"),
        "result": unit.get("Result") or "success",
        "changed": moment(unit.get("StateChangeTimestamp", "")),
        "ended": moment(unit.get("ExecMainExitTimestamp", "")),
        "version": version(unit.get("MainPID", "")),
    }


def version(pid: str) -> str:
    """Return the version of our software that a process runs, which may be older than the installed one."""
    try:
        match = VERSION.search(Path("/proc", pid, "cmdline").read_bytes()) if int(pid) > 0 else None
    except (OSError, ValueError):
        return ""
    return match[1].decode() if match else ""


def moment(written: str) -> float:
    """Return the seconds of a time such as @1780000000; 0: never."""
    return float(written.removeprefix("@") or 0) if re.fullmatch(r"@\d+(\.\d+)?", written) else 0.0


def failed_units(seconds: int) -> list[str]:
    argv = ["list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"]
    return [line.split()[0] for line in systemctl(argv, seconds).split("\n") if line.strip()]


def systemctl(argv: Sequence[str], seconds: int) -> str:
    process = subprocess.run(  # noqa: S603
        ["systemctl", *argv],  # noqa: S607
        capture_output=True,
        check=True,
        timeout=seconds,
        text=True,
        errors="replace",
    )
    return process.stdout


if __name__ == "__main__":
    main()
