"""Imports go one way: from what runs (roles, command line, Spark) to io, and from there to pure cores.

A module of aqueduct/ is a pure core unless its folder is in LAYERS: who adds one need not declare it.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path.relative_to(ROOT)
    for folder in ("aqueduct", "spark_apps", "plugins", "demo")
    for path in (ROOT / folder).rglob("*.py")
)

# Also by the names under which pytest finds their modules: tests/kafka_broker.py is `kafka_broker`.
TESTS = {
    "tests",
    "molecule",
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
    *("cryptography", "pyeclib"),
}

# What a layer may not import, by folder.
LAYERS = {
    "aqueduct/io": {"aqueduct.diode", "aqueduct.cli", "spark_apps", "plugins", "demo", "ansible"},
    "aqueduct/cli": {"plugins", "demo", "ansible"},
    "aqueduct/diode": {"aqueduct.cli", "spark_apps", "plugins", "demo", "ansible"},
    "aqueduct": {
        *("aqueduct.io", "aqueduct.diode", "aqueduct.cli", "spark_apps", "plugins", "demo"),
        *REACHING_OUT,
    },
    "spark_apps": {"aqueduct.cli", "plugins", "demo", "ansible"},
    # The controller evaluates these for every host; modules alone run where a client may be needed.
    "plugins/action": {"aqueduct.io", "aqueduct.cli", "spark_apps", "demo"},
    "plugins/filter": {"aqueduct.io", "aqueduct.cli", "spark_apps", "demo"},
    "plugins": {"aqueduct.cli", "spark_apps", "demo"},
    "demo": set(),
}


def layer(path: Path) -> str:
    """The longest folder of LAYERS that holds the file."""
    return max((name for name in LAYERS if path.is_relative_to(name)), key=len)


def imported(source: str) -> Iterator[str]:
    """Dotted names of whatever is imported anywhere in the source; of `from a import b`, a and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}.{each.name}" for each in node.names)


def faults(path: Path, source: str) -> list[str]:
    here = layer(path)
    found = set()
    for name in imported(source):
        top = name.split(".")[0]
        if any(f"{name}.".startswith(f"{forbidden}.") for forbidden in LAYERS[here] | TESTS):
            found.add(f"{here} may not import {name}")
        elif not top:
            found.add(f"{name} is relative; write the whole name")
        elif here == "aqueduct" and top not in {"aqueduct", *sys.stdlib_module_names, *ARITHMETIC}:
            found.add(f"the pure core {path} may not import {name}")
    return sorted(found)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_go_one_way(path: Path) -> None:
    assert faults(path, (ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("aqueduct/new.py", "import socket"),
        ("aqueduct/new.py", "import kafka"),
        ("aqueduct/new.py", "import confluent_kafka.admin"),
        ("aqueduct/new/part.py", "from pyspark import SparkContext"),
        ("aqueduct/new.py", "from importlib import import_module"),
        ("aqueduct/new.py", "from aqueduct import io"),
        ("aqueduct/new.py", "from aqueduct.io.artifacts import kafka_jars"),
        ("aqueduct/new.py", "def late():\n    import requests"),
        ("aqueduct/reconcile/new.py", "from spark_apps import reconcile"),
        ("aqueduct/io/new.py", "from aqueduct.cli import main"),
        ("aqueduct/cli/new.py", "import demo"),
        ("aqueduct/cli/new.py", "from tests import pki"),
        ("aqueduct/cli/new.py", "from . import report"),
        ("spark_apps/new.py", "import kafka_broker"),
        ("plugins/filter/new.py", "from aqueduct.io import kafka_admin"),
        ("plugins/modules/new.py", "from aqueduct.cli import health"),
        ("demo/new.py", "from lab import Lab"),
    ],
)
def test_an_import_the_wrong_way_is_found(path: str, source: str) -> None:
    assert len(faults(Path(path), source)) >= 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("aqueduct/new.py", "import json, numpy as np\nfrom aqueduct.errors import Failed"),
        ("aqueduct/io/new.py", "import socket, kafka\nfrom aqueduct import topics"),
        ("aqueduct/cli/new.py", "from aqueduct.io import mirror\nfrom spark_apps import reconcile"),
        ("plugins/modules/new.py", "from aqueduct.io import kafka_admin"),
    ],
)
def test_an_import_the_right_way_is_none(path: str, source: str) -> None:
    assert faults(Path(path), source) == []
