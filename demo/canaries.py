"""Search for an estate's secrets where nobody may find them: on its hosts, and in what playbooks say.

The passwords and keys beside an inventory are random, so each of them is its own canary. `search` sends
this file to each host, where it runs as root.
"""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demo.lab import Lab

# The body of a private key begins with its algorithm, which is the same for all.
KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n.*\n(.*)\n")
# Where files are that services or people made, as opposed to software.
SEARCHED = ("/etc", "/home", "/root", "/run", "/srv", "/tmp", "/var", "/dev/shm")  # noqa: S108
# What anybody may list, or what is read by others than the service that a secret is for.
TOLD = re.compile(r"^/(tmp|var/tmp|dev/shm|var/log|etc/ansible|etc/systemd|run/systemd)/")
LARGEST = 64 << 20
# What stays on the control node.
NEVER_SENT = ("ca.key", "admin.key")


def secrets(pki: Path) -> dict[str, str]:
    """Return an estate's passwords and the bodies of its private keys, by the name of their file."""
    passwords = {path.name: path.read_text().split()[0] for path in pki.glob("passwords/*")}
    keys = {path.name: KEY.search(path.read_text()) for path in pki.glob("*/*.key")}
    return {**passwords, **{name: found[1] for name, found in keys.items() if found}}


def in_text(known: Mapping[str, str], text: str) -> list[str]:
    """Return the names of secrets that a text has."""
    return [name for name, value in known.items() if value in text]


def search(lab: "Lab", known: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the secrets that hosts of a lab keep for whom they are, and a sentence for each that is told."""
    script = Path(__file__).read_text()

    def look(host: str) -> Any:
        return json.loads(lab.run(host, "python3", "-c", script, stdin=json.dumps(known)).stdout)

    with ThreadPoolExecutor() as pool:
        found = dict(zip(lab.variables, pool.map(look, lab.variables), strict=True))
    told = [f"{host}: {fault}" for host, seen in found.items() for fault in seen["told"]]
    return sorted({name for seen in found.values() for name in seen["kept"]}), told


def look_here(known: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the secrets that files of this host keep, and where one is told."""
    kept: set[str] = set()
    told = []
    for path in files():
        try:
            content, mode = path.read_bytes(), path.stat().st_mode
        except OSError:  # gone meanwhile
            continue
        for name in named(known, content):
            if name in NEVER_SENT or TOLD.match(str(path)):
                told.append(f"{path} has the secret {name}")
            elif mode & (stat.S_IRWXG | stat.S_IRWXO):
                told.append(f"{path}, which others may read ({stat.filemode(mode)}), has the secret {name}")
            else:
                kept.add(name)
    for what, content in said():
        told += [f"{what} tells the secret {name}" for name in named(known, content)]
    return {"kept": sorted(kept), "told": told}


def named(known: Mapping[str, str], content: bytes) -> list[str]:
    return [name for name, value in known.items() if value.encode() in content]


def files() -> Iterator[Path]:
    for top in SEARCHED:
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                try:
                    status = path.lstat()
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
                    yield path


def said() -> Iterator[tuple[str, bytes]]:
    """Yield what anybody may ask a host for, and its journal."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield f"the command line of process {path.parent.name}", path.read_bytes()
        except OSError:
            continue
    for command in (
        ("systemctl", "show", "--all", "--no-pager", "*"),
        ("journalctl", "--no-pager", "--all", "--output=export"),
    ):
        run = subprocess.run(command, check=True, capture_output=True)
        yield command[0], run.stdout


if __name__ == "__main__":
    print(json.dumps(look_here(json.load(sys.stdin))))
