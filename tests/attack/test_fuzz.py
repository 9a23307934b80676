"""Bytes that nobody of ours made end in a sentence; `script/fuzz NAME` goes on for ten minutes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fuzz_bytes
import pytest
from fuzz_bytes import PARSERS, Parser

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "6" if os.environ.get("AQUEDUCT_ALL_SEEDS") else "2"
# Forks for each parser, because the import of all parsers takes a second.
SERVER = """
import os, sys
import fuzz_bytes
for request in sys.stdin:
    name, seconds, *files = request.rstrip("\\n").split("\\t")
    if not (child := os.fork()):
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.exit(fuzz_bytes.main([name, "--seconds", seconds]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator["subprocess.Popen[str]"]:
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    pipe, command = subprocess.PIPE, [sys.executable, "-c", SERVER]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **paths}, stdin=pipe, stdout=pipe, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", PARSERS)
def test_mutated_bytes_yield_value_or_declared_error(
    server: "subprocess.Popen[str]", tmp_path: Path, name: str
) -> None:
    """Run in a process of its own, whose memory is measured."""
    assert server.stdin
    assert server.stdout
    out, err = tmp_path / "out", tmp_path / "err"
    print(name, SECONDS, out, err, sep="\t", file=server.stdin, flush=True)
    code = server.stdout.readline().strip()
    assert code == "0", err.read_text()[-3000:]
    assert out.read_text().startswith(f"{name}: ")


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
