"""Bytes that nobody of ours made end in a sentence; `script/fuzz NAME` goes on for ten minutes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import fuzz_bytes
import pytest
from fuzz_bytes import PARSERS, Parser

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "6" if os.environ.get("AQUEDUCT_ALL_SEEDS") else "2"


@pytest.mark.parametrize("name", PARSERS)
def test_mutated_bytes_yield_value_or_declared_error(name: str) -> None:
    """Run in a process of its own, whose memory is measured."""
    run = subprocess.run(
        [sys.executable, "tests/fuzz_bytes.py", name, "--seconds", SECONDS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.startswith(f"{name}: ")


def spin(data: bytes) -> None:
    enough = time.process_time() + 1.5 * fuzz_bytes.MOST_SECONDS
    while data.startswith(b"x") and time.process_time() < enough:
        pass


def grow(data: bytes) -> None:
    if data.startswith(b"x"):
        bytearray(os.urandom(1)) * fuzz_bytes.MOST_MEMORY * 2


def trip(data: bytes) -> None:
    if b"x" in data[1:]:
        raise KeyError


@pytest.mark.parametrize("parse", [spin, grow, trip])
def test_fuzzer_detects_slow_memory_hungry_or_failing_parser(parse: object) -> None:
    parser = Parser(parse, (ValueError,), [b"good", b"xx"])  # type: ignore[arg-type]
    with pytest.raises((AssertionError, KeyError)):
        fuzz_bytes.try_one(parser, b"xx", fuzz_bytes.memory())
