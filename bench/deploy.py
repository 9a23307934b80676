"""python -m bench.deploy [--inventory FOLDER] [--keep]

How long `site.yml` takes on an estate of containers that has nothing yet, and again when there is nothing to
change: seconds by role, and tasks a host. A bare `ping` of all hosts is what one task costs at least.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.tell import machine, say, table

ROOT = Path(__file__).resolve().parents[1]
PLAYBOOKS = ROOT / "playbooks"
NO_ROLE = "(playbooks)"


@dataclass(frozen=True)
class Run:
    """One run of a playbook."""

    seconds: float
    by_role: Counter[str]  # seconds; tasks run one after another
    tasks: Counter[str]  # by host, those that ran
    changed: Counter[str]  # by host


def tool(name: str) -> str:
    """Find a command of this environment."""
    return str(Path(sys.executable).with_name(name))


def play(inventory: Path, playbook: str) -> Run:
    """Run a playbook; SystemExit with what it said where it fails."""
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        done = subprocess.run(  # noqa: S603
            [tool("ansible-playbook"), "--inventory", str(inventory), str(PLAYBOOKS / f"{playbook}.yml")],
            env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"},
            stdout=output,
            cwd=ROOT,
            check=False,
        )
        seconds = time.monotonic() - started
        output.seek(0)
        told = output.read().decode()
    if done.returncode:
        sys.exit(f"bench: playbooks/{playbook}.yml failed:\n{told[-3000:]}")
    # Modules of ours say before it what they wait for.
    seen = json.loads(told[told.index("{\n") :])
    return Run(seconds, _by_role(seen["plays"]), _counts(seen, "ok"), _counts(seen, "changed"))


def _by_role(plays: Iterable[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for task in (task for play in plays for task in play["tasks"]):
        named = task["task"]["name"].removeprefix("aqueduct.estate.").split(" : ")
        took = task["task"]["duration"]
        end = took.get("end") or took["start"]
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(took["start"])).total_seconds()
        found[named[0] if len(named) > 1 else NO_ROLE] += seconds  # type: ignore[assignment]
    return found


def _counts(seen: dict[str, Any], what: str) -> Counter[str]:
    return Counter({host: stats[what] for host, stats in seen["stats"].items()})


def ping(inventory: Path) -> float:
    """Return seconds of an ad-hoc ping of all hosts."""
    started = time.monotonic()
    subprocess.run(  # noqa: S603
        [tool("ansible"), "--inventory", str(inventory), "all", "--module-name", "ansible.builtin.ping"],
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        check=True,
    )
    return time.monotonic() - started


def report(pinged: float, first: Run, second: Run) -> str:
    """Write both tables."""
    roles = sorted(second.by_role | first.by_role, key=lambda role: -second.by_role[role])
    by_role = [[role, f"{first.by_role[role]:.1f}", f"{second.by_role[role]:.1f}"] for role in roles]
    by_role.append(["all, with Ansible's start", f"{first.seconds:.1f}", f"{second.seconds:.1f}"])
    by_role.append(["a bare ping of all hosts", "", f"{pinged:.1f}"])
    hosts = [
        [host, str(first.tasks[host]), str(second.tasks[host]), str(second.changed[host])]
        for host in sorted(second.tasks)
    ]
    return "\n\n".join(
        [
            table(["role", "first s", "second s"], by_role),
            table(["host", "tasks, first", "tasks, second", "changed, second"], hosts),
        ]
    )


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench/deploy")
    parser.add_argument("--inventory", type=Path, default=ROOT / "inventories/lab")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args(argv)
    say("taking the lab down, and bringing it up")
    play(given.inventory, "lab_down")
    play(given.inventory, "lab_up")
    pinged = ping(given.inventory)
    say("site.yml, on hosts that have nothing")
    first = play(given.inventory, "site")
    say(f"site.yml again, after {first.seconds:.0f} s")
    second = play(given.inventory, "site")
    if not given.keep:
        say("taking the lab down")
        down = time.monotonic()
        play(given.inventory, "lab_down")
        say(f"it took {time.monotonic() - down:.1f} s")
    print(f"{machine()}\n\n{report(pinged, first, second)}")


if __name__ == "__main__":
    main(sys.argv[1:])
