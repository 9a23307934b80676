"""Imports go one way, down the rooms of aqueduct/, and only modules that are listed here reach out.

A module is a *pure core* unless RUNNING names it: who adds one that asks a cluster, a store or another
process says so here.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The rooms, from the ground up, a floor a line. A module may import its own room and those of lower floors.
ROOMS = (
    ("errors", "messages"),
    ("common",),
    ("kafka.batches",),
    ("kafka",),
    ("store", "work"),
    ("mirror", "connect", "link.wire"),
    ("mirror.engine", "mirror.reconcile", "link.ledger"),
    ("link",),
    ("link.dedup", "land", "snapshots", "recovery"),
    ("snapshots.backup", "snapshots.importer", "recovery.broker_ids"),
    ("snapshots.prune",),
    ("snapshots.restore", "recovery.file_backup", "recovery.quorum", "recovery.zookeeper"),
    ("estate", "snapshots.export", "snapshots.drill"),
    ("control_node",),
    ("cli",),
)
# The modules that reach out of the process: clients, sockets, object stores, Spark, and whoever calls them.
RUNNING = {
    "cli",
    "common.prometheus",
    *(f"connect.{name}" for name in ("apply", "inspection", "letter_reading", "replay", "rest", "tls")),
    "control_node.artifacts",
    "control_node.release",
    "control_node.starter.repository",
    "control_node.starter.requirements",
    "control_node.status.scraping",
    *(f"kafka.{name}" for name in ("addresses", "client", "client_errors", "compacted_topics")),
    *(f"kafka.{name}" for name in ("fan_out", "fetch", "follow", "group_reading", "groups")),
    *(f"kafka.{name}" for name in ("lag_seconds", "offsets", "produce", "share_groups")),
    *(f"kafka.{name}" for name in ("share_messages", "tls", "transport")),
    *(f"kafka.admin.{name}" for name in ("acls", "asking", "cluster", "controllers", "features")),
    *(f"kafka.admin.{name}" for name in ("quotas", "reassign", "settings", "topics", "transactions")),
    *(f"land.{name}" for name in ("catalogue", "compact", "iceberg", "iceberg_codecs", "metastore")),
    *(f"land.{name}" for name in ("metrics", "open_tables", "registry", "replay", "reset", "run", "sql")),
    *(f"land.{name}" for name in ("status", "survey", "task", "verify", "watch")),
    *(f"link.{name}" for name in ("create", "downstream", "fd_store", "feed", "filter", "losses")),
    *(f"link.{name}" for name in ("metrics", "options", "outlet", "resend", "silence", "udp")),
    "link.upstream",
    *(f"link.dedup.{name}" for name in ("metrics", "retire", "run", "task")),
    "link.ledger.gap_topic",
    *(f"mirror.{name}" for name in ("classic_reading", "positions", "reading")),
    *(f"mirror.engine.{name}" for name in ("figures", "flow", "groups", "membership", "metrics", "reader")),
    *(f"mirror.engine.{name}" for name in ("reading", "run", "state", "switch", "task", "upkeep")),
    *(f"mirror.reconcile.{name}" for name in ("reader", "run", "store_reader")),
    "recovery.broker_ids.run",
    *(f"recovery.file_backup.{name}" for name in ("backup", "restore", "rsync")),
    "recovery.quorum.check",
    *(f"recovery.zookeeper.{name}" for name in ("backup", "brokers", "client", "connection")),
    *(f"recovery.zookeeper.{name}" for name in ("migration", "reading", "restore")),
    *(f"snapshots.backup.{name}" for name in ("commit", "metrics", "reading", "run", "survey", "verify")),
    "snapshots.backup.verify_metrics",
    *(f"snapshots.drill.{name}" for name in ("consume", "live", "metrics", "run", "scratch")),
    "snapshots.export.run",
    "snapshots.export.task",
    "snapshots.importer.run",
    "snapshots.prune.run",
    "snapshots.prune.sample",
    *(f"snapshots.restore.{name}" for name in ("continuation", "groups", "groups_only", "job", "links")),
    *(f"snapshots.restore.{name}" for name in ("mirrors", "planning", "positions", "records", "recount")),
    *(f"snapshots.restore.{name}" for name in ("rights", "run", "task_rights", "topics")),
    *(f"store.{name}" for name in ("backends", "bucket_admin", "hdfs", "lifecycle", "sessions")),
    *(f"work.{name}" for name in ("daemon", "environment", "leader", "metrics", "sampling", "session")),
    *(f"work.{name}" for name in ("shared_classes", "spark", "updates", "workers")),
}

# Also by the names under which pytest finds their modules: tests/kit/clients.py is `kit.clients`.
TESTS = {
    "tests",
    "molecule",
    "servers",
    "kit",
    *(path.stem for folder in ("tests", "molecule") for path in (ROOT / folder).rglob("[!_]*.py")),
}
# Parts of Python's own library that reach another process or machine, or import what can't be seen here.
REACHING_OUT = {
    *(
        "asyncio",
        "ftplib",
        "http",
        "imaplib",
        "importlib",
        "multiprocessing",
        "poplib",
        "select",
        "selectors",
    ),
    *("smtplib", "socket", "socketserver", "ssl", "subprocess", "urllib", "xmlrpc"),
}
# The only packages of others that pure cores need: arithmetic, checksums, ciphers, and the codecs of batches.
ARITHMETIC = {
    *("numpy", "xxhash", "google_crc32c", "lz4", "snappy", "zstandard"),
    *("cryptography", "pyarrow", "pyeclib"),
}
# What stands above the package, and what of it the package may not know.
ABOVE = {"spark_apps", "plugins", "demo", "bench", "ansible"}
OUTSIDE = {
    "spark_apps": {"plugins", "demo", "bench", "ansible"},
    "plugins": {"aqueduct.cli", "spark_apps", "demo", "bench"},
    "demo": {"bench"},
}


def name_of(path: Path) -> str:
    """Return the module's dotted name below aqueduct/; of a package, the package's."""
    return ".".join(path.with_suffix("").parts[1:]).removesuffix("__init__").removesuffix(".")


@cache
def modules() -> dict[str, Path]:
    found = (path.relative_to(ROOT) for path in (ROOT / "aqueduct").rglob("*.py"))
    return {name_of(path): path for path in found}


SOURCES = sorted(
    [*modules().values()]
    + [path.relative_to(ROOT) for folder in OUTSIDE for path in (ROOT / folder).rglob("*.py")]
)


def imported(source: str) -> Iterator[str]:
    """Yield dotted names of all imports in the source; of `from a import b`, a and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}.{each.name}" for each in node.names)


def within(name: str, place: str) -> bool:
    return f"{name}.".startswith(f"{place}.")


def floor(name: str) -> int:
    """Return how high the room stands that holds a module of aqueduct/."""
    places = {room: height for height, rooms in enumerate(ROOMS) for room in rooms if within(name, room)}
    return places[max(places, key=len)]


def room(name: str) -> str:
    return max((each for rooms in ROOMS for each in rooms if within(name, each)), key=len)


def is_running(name: str) -> bool:
    return any(within(name, each) for each in RUNNING)


def faults(path: Path, source: str) -> list[str]:
    """List the imports that the file may not have."""
    top_folder = path.parts[0]
    found = set()
    for name in imported(source):
        top = name.split(".")[0]
        if not top:
            found.add(f"{name} is relative; write the whole name")
        elif top in TESTS:
            found.add(f"{path} may not import {name}, which only tests have")
        elif top_folder != "aqueduct":
            if any(within(name, forbidden) for forbidden in OUTSIDE[top_folder]):
                found.add(f"{top_folder} may not import {name}")
            # The controller evaluates these for every host; modules alone run where a client may be needed.
            inner = name.removeprefix("aqueduct.")
            # An action runs on the control node, and may fetch what it brings.
            here = path.parts[:2]
            fetches = here == ("plugins", "action") and within(inner, "control_node")
            if here in (("plugins", "action"), ("plugins", "filter")) and is_running(inner) and not fetches:
                found.add(f"{path} may not import {name}, which runs")
        elif top == "aqueduct":
            found.update(_down(name_of(path), name.removeprefix("aqueduct.")))
        elif top in ABOVE:
            found.add(f"{path} may not import {name}, which stands above it")
        elif not is_running(name_of(path)) and _reaches(name):
            found.add(f"the pure core {path} may not import {name}")
    return sorted(found)


def _down(importer: str, name: str) -> Iterator[str]:
    """Tell whether a module of aqueduct/ may import another one."""
    if (
        importer
        and name not in ("aqueduct", "")
        and any(within(name, each) for rooms in ROOMS for each in rooms)
    ):
        if is_running(name) and not is_running(importer):
            yield f"the pure core {importer} may not import {name}, which runs"
        if floor(name) > floor(importer) or (floor(name) == floor(importer) and room(name) != room(importer)):
            yield f"{importer} may not import {name}, which stands beside or above it"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_go_one_way(path: Path) -> None:
    assert faults(path, (ROOT / path).read_text()) == []


def test_every_module_has_a_room() -> None:
    homeless = [
        name for name in modules() if name and not any(within(name, r) for rooms in ROOMS for r in rooms)
    ]
    assert homeless == []


def test_what_runs_is_there_and_runs() -> None:
    """A name that is gone, or that does nothing but compute any more, leaves the list."""
    assert sorted(name for name in RUNNING if name not in modules()) == []
    idle = [name for name in sorted(RUNNING) if not any(map(_reaches, imported(_source(name))))]
    assert idle == []


def _source(name: str) -> str:
    return (ROOT / modules()[name]).read_text()


def _reaches(imported_name: str) -> bool:
    """Tell if an importer of this runs: of others' packages, parts of Python that reach out, what runs."""
    top = imported_name.split(".")[0]
    if top == "aqueduct":
        return is_running(imported_name.removeprefix("aqueduct."))
    known = top in sys.stdlib_module_names | ARITHMETIC
    return not known or any(within(imported_name, each) for each in REACHING_OUT)


def test_no_modules_import_each_other_in_a_circle() -> None:
    arrows = {
        name: {each.removeprefix("aqueduct.") for each in imported(_source(name)) if within(each, "aqueduct")}
        - {name}
        for name in modules()
    }
    while ends := {name for name, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in ends}
    assert sorted(arrows) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    """The packages right below aqueduct/ have an order, whatever their parts are."""
    arrows: dict[str, set[str]] = {}
    for importer in filter(None, modules()):
        targets = arrows.setdefault(importer.split(".")[0], set())
        names = (name.split(".")[1] for name in imported(_source(importer)) if name.startswith("aqueduct."))
        targets.update(names)
    arrows = {top: targets - {top} for top, targets in arrows.items()}
    while ends := {top for top, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {top: targets for top, targets in arrows.items() if top not in ends}
    assert sorted(arrows) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("aqueduct/common/offset_ranges.py", "import socket"),
        ("aqueduct/common/offset_ranges.py", "import kafka"),
        ("aqueduct/store/names.py", "import confluent_kafka.admin"),
        ("aqueduct/link/wire/part.py", "from pyspark import SparkContext"),
        ("aqueduct/snapshots/backup/plan.py", "from importlib import import_module"),
        ("aqueduct/snapshots/backup/plan.py", "from aqueduct.kafka import client"),
        ("aqueduct/snapshots/backup/plan.py", "from aqueduct.snapshots.backup.run import back_up"),
        ("aqueduct/snapshots/backup/plan.py", "def late():\n    import requests"),
        ("aqueduct/kafka/client.py", "from aqueduct.store import names"),
        ("aqueduct/link/upstream.py", "from aqueduct.link.dedup import task"),
        ("aqueduct/snapshots/backup/run.py", "from aqueduct.snapshots.restore import plan"),
        ("aqueduct/mirror/reconcile/run.py", "from aqueduct.snapshots.backup import plan"),
        ("aqueduct/snapshots/restore/run.py", "from aqueduct.cli import main"),
        ("aqueduct/snapshots/restore/run.py", "from spark_apps import restore"),
        ("aqueduct/cli/new.py", "import demo"),
        ("aqueduct/cli/new.py", "from tests import clients"),
        ("aqueduct/cli/new.py", "from . import report_file"),
        ("spark_apps/new.py", "from servers import broker"),
        ("plugins/filter/new.py", "from aqueduct.kafka.admin import acls"),
        ("plugins/modules/new.py", "from aqueduct.cli import health"),
        ("demo/new.py", "from lab import Lab"),
    ],
)
def test_an_import_the_wrong_way_is_found(path: str, source: str) -> None:
    assert len(faults(Path(path), source)) >= 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("aqueduct/snapshots/backup/plan.py", "import json, numpy as np\nfrom aqueduct.errors import Failed"),
        ("aqueduct/kafka/admin/acls.py", "import socket, kafka\nfrom aqueduct.kafka import topics"),
        (
            "aqueduct/snapshots/restore/run.py",
            "from aqueduct.snapshots.backup import verify\nfrom aqueduct.link.wire import position",
        ),
        ("aqueduct/cli/new.py", "from aqueduct.mirror import reading"),
        ("spark_apps/backup.py", "from aqueduct.cli import main"),
        ("plugins/modules/new.py", "from aqueduct.kafka.admin import acls"),
        ("plugins/filter/new.py", "from aqueduct.estate import acls"),
    ],
)
def test_an_import_the_right_way_is_none(path: str, source: str) -> None:
    assert faults(Path(path), source) == []


# Also those of programs that a test has as text, which no linter reads.
OURS = re.compile(r"^\s*(?:from (aqueduct[\w.]*) import \(?([\w, ]*)|import (aqueduct[\w.]*))", re.MULTILINE)
SOURCES = sorted(
    path
    for folder in ("tests", "molecule", "bench", "demo", "plugins")
    for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_imported_of_us_is_there(path: Path) -> None:
    if path != Path(__file__):
        assert list(not_there(path.read_text())) == []


def not_there(source: str) -> Iterator[str]:
    for module, names, whole in OURS.findall(source):
        try:
            there = import_module(module or whole)
        except ModuleNotFoundError:
            yield module or whole
            continue
        for name in filter(None, (each.split(" as ")[0].strip() for each in names.split(","))):
            if not hasattr(there, name) and not find_spec(f"{there.__name__}.{name}"):
                yield f"{module}.{name}"


@pytest.mark.parametrize(
    "source",
    ["from aqueduct.io.restore import records", "from aqueduct.kafka import topic", "import aqueduct.iron"],
)
def test_what_is_imported_and_not_there_is_found(source: str) -> None:
    assert len(list(not_there(f'PROGRAM = """\n{source}\n"""'))) == 1
