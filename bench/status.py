"""python -m bench.status [--hosts N --partitions N] [--runs N] [--ansible]

What the control node needs to evaluate the answers of all hosts: each command runs in a process of its own.
The machine that evaluates is this one. Hosts are not contacted: bench/host_answers.py has their answers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from bench.tell import machine, say, table

ROOT = Path(__file__).resolve().parents[1]
REGION_HOSTS = 30  # bench.regions needs Ansible, which would count as memory of the commands
SIZES = {30: 1_000, 300: 10_000, 990: 100_000}  # partitions by hosts
REGISTERED = "__status_answer"  # the variable of roles/status with the answer of a host
INVENTORY, FACTS, PAGE = "inventory", "facts.json", "status.html"


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a process used."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int  # the largest


@dataclass(frozen=True, kw_only=True)
class OpenedPage:
    """How a browser opened a page. `search_seconds`: from a key to the changed layout."""

    rows: int
    seconds: float
    search_seconds: float


def make(folder: Path, hosts: int, partitions: int) -> None:
    """Write an inventory, and the file of facts that the playbook would write of it."""
    from aqueduct.control_node.status import report
    from aqueduct.control_node.status.model import StatusLimits
    from aqueduct.control_node.status.objects import declared_objects
    from bench.host_answers import HostAnswers
    from bench.regions import load_inventory, write_inventory

    write_inventory(folder / INVENTORY, hosts // REGION_HOSTS)
    inventory = load_inventory(folder / INVENTORY)
    declared = declared_objects(inventory.groups, inventory.hostvars, inventory.kafka_defaults)
    now = time.time()
    answers = HostAnswers(declared=declared, partitions=partitions, now=now).gather()
    facts = report.facts_document(declared, answers, int(now * 1000), asdict(StatusLimits()), [])
    (folder / FACTS).write_text(json.dumps(facts))


def evaluate(folder: Path) -> Usage:
    """Run the playbook's last task, with the answers in Ansible's variables as earlier tasks leave them."""
    from aqueduct.control_node.status.model import StatusLimits
    from bench.regions import load_inventory
    from plugins.action.estate_status import ActionModule

    inventory = load_inventory(folder / INVENTORY)
    answers = json.loads((folder / FACTS).read_text())["hosts"]
    for host, facts in answers.items():
        inventory.variables.set_nonpersistent_facts(host, {REGISTERED: {"changed": False, "facts": facts}})
    arguments = {
        "hosts": [*answers],
        "answers": REGISTERED,
        "roles": str(ROOT / "roles"),
        "directory": str(folder / "reports"),
        **asdict(StatusLimits()),
    }
    task = SimpleNamespace(args=arguments, async_val=0, check_mode=False, diff=False)
    action = ActionModule(cast(Any, task), *cast(Any, [None] * 5))
    began, used = time.perf_counter(), time.process_time()
    action.run(task_vars={"groups": inventory.groups, "hostvars": inventory.hostvars})
    seconds, used = time.perf_counter() - began, time.process_time() - used
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    return Usage(seconds=seconds, cpu_seconds=used, memory_bytes=int(peak) * 1024)


def command(*arguments: str) -> Usage:
    """Run `aqueduct status`. It ends with 3, as the estate has faults."""
    code, usage = measured([sys.executable, "-m", "aqueduct.cli", "status", *arguments])
    if code != 3:
        sys.exit(f"bench: aqueduct status {' '.join(arguments)} ended with {code}")
    return usage


def measured(argv: Sequence[str]) -> tuple[int, Usage]:
    """Run a command; return its exit code, and what it and the processes that it waited for used.

    The memory is that of the largest of them. It includes this process's own, which is smaller.
    """
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=ROOT)  # noqa: S603
    _, state, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(state)
    return process.returncode, Usage(
        seconds=time.perf_counter() - began,
        cpu_seconds=used.ru_utime + used.ru_stime,
        memory_bytes=used.ru_maxrss * 1024,
    )


def in_child(*arguments: str) -> str:
    """Run a step of this program in a process of its own, and return the last line that it prints."""
    step = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "bench.status", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return step.stdout.strip().split("\n")[-1]


def fastest(runs: int, measure: Callable[[], Usage]) -> Usage:
    """Return the least time of several runs, as other programs on the machine can only add to it."""
    usages = [measure() for _ in range(runs)]
    return Usage(
        seconds=min(usage.seconds for usage in usages),
        cpu_seconds=min(usage.cpu_seconds for usage in usages),
        memory_bytes=max(usage.memory_bytes for usage in usages),
    )


def opened(page: Path) -> OpenedPage:
    """Open a page in Chromium, and search in it."""
    from playwright.sync_api import sync_playwright

    search = """() => {
        const field = document.getElementById("search"), began = performance.now();
        field.value = "kafka-1 well";
        field.dispatchEvent(new Event("input"));
        document.body.getBoundingClientRect();
        return (performance.now() - began) / 1000;
    }"""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=os.environ["AQUEDUCT_CHROMIUM"], args=["--no-sandbox"], timeout=300_000
        )
        shown = chromium.new_page(viewport={"width": 1280, "height": 900})
        shown.set_default_timeout(300_000)
        began = time.perf_counter()
        shown.goto(page.as_uri())
        shown.evaluate("document.body.getBoundingClientRect().height")
        seconds = time.perf_counter() - began
        rows = shown.locator("tbody tr").count()
        searches = [float(shown.evaluate(search)) for _ in range(3)]
        chromium.close()
    return OpenedPage(rows=rows, seconds=seconds, search_seconds=min(searches))


def rows_of(folder: Path, hosts: int, partitions: int, runs: int) -> tuple[list[list[str]], list[str]]:
    """Measure one estate; return the rows of its commands, and the row of its page."""
    say(f"Making an estate of {hosts:,} hosts and {partitions:,} partitions")
    in_child("--make", str(folder), "--hosts", str(hosts), "--partitions", str(partitions))
    facts, page = ["--facts", str(folder / FACTS)], folder / PAGE
    measures: dict[str, Callable[[], Usage]] = {
        "text": lambda: command(*facts),
        "`--json`": lambda: command(*facts, "--json"),
        "`--html`": lambda: command(*facts, "--html", str(page)),
        "last task of the playbook": lambda: Usage(**json.loads(in_child("--evaluate", str(folder)))),
    }
    rows = []
    for name, measure in measures.items():
        say(name)
        usage = fastest(runs, measure)
        rows.append(
            [
                f"{hosts:,}",
                f"{partitions:,}",
                name,
                f"{usage.seconds:.1f}",
                f"{usage.cpu_seconds:.1f}",
                f"{usage.memory_bytes / 1e6:,.0f}",
            ]
        )
    say("the page")
    browser = opened(page)
    sizes = [f"{file.stat().st_size / 1e6:.2f}" for file in (folder / FACTS, page)]
    times = [f"{browser.seconds:.1f}", f"{browser.search_seconds:.2f}"]
    return rows, [f"{hosts:,}", f"{browser.rows:,}", *sizes, *times]


def ask_this_machine(folder: Path, hosts: int) -> dict[str, Usage]:
    """Run the role status with a local connection, beside a bare ping.

    Each host is this machine, which has none of the services: their queries end at once.
    """
    in_child("--make", str(folder), "--hosts", str(hosts), "--partitions", "0")
    status = {
        "role": "aqueduct.estate.status",
        "vars": {"_status_hosts": "{{ ansible_play_hosts_all }}"},
    }
    play = {"hosts": "all", "gather_facts": False, "roles": [status]}
    (folder / "play.yml").write_text(json.dumps([play]))
    variables = {
        "ansible_connection": "local",
        "ansible_become": False,
        "status_reports_directory": str(folder / "reports"),
    }
    programs = Path(sys.executable).parent
    options = [f"--inventory={folder / INVENTORY}", f"--extra-vars={json.dumps(variables)}"]
    code, pinged = measured([f"{programs}/ansible", *options, "all", "--module-name=ansible.builtin.ping"])
    _, asked = measured([f"{programs}/ansible-playbook", *options, str(folder / "play.yml")])
    state = folder / "reports/status.json"
    if code or not state.exists() or json.loads(state.read_text())["hosts"]["answered"] != hosts:
        sys.exit("bench: not all hosts answered")
    return {"a bare ping": pinged, "the role status": asked}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/status")
    parser.add_argument("--hosts", type=int)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ansible", action="store_true")
    for step in ("--make", "--evaluate"):
        parser.add_argument(step, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(args.make, args.hosts, args.partitions)
    elif args.evaluate:
        print(json.dumps(asdict(evaluate(args.evaluate))))
    else:
        with tempfile.TemporaryDirectory(prefix="aqueduct-status-") as name:
            print(machine())
            measure_all(Path(name), args)


def measure_all(folder: Path, args: argparse.Namespace) -> None:
    if args.ansible:
        hosts = args.hosts or REGION_HOSTS
        rows = [
            [f"{hosts:,}", name, f"{usage.seconds:.1f}", f"{usage.cpu_seconds:.1f}"]
            for name, usage in ask_this_machine(folder, hosts).items()
        ]
        print(table(["hosts", "what", "s", "CPU s"], rows))
        return
    sizes = {args.hosts: args.partitions} if args.hosts else SIZES
    measured = [
        rows_of(folder / str(hosts), hosts, partitions, args.runs) for hosts, partitions in sizes.items()
    ]
    head = ["hosts", "partitions", "what", "s", "CPU s", "memory MB"]
    print(table(head, [row for rows, _ in measured for row in rows]))
    head = ["hosts", "rows", "facts MB", "page MB", "opens in s", "a search s"]
    print(f"\n{table(head, [page for _, page in measured])}")


if __name__ == "__main__":
    main()
