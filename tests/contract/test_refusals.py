"""Refusals of script/demo: one sentence, a fitting exit code, and nothing done."""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
SECONDS = 600  # a virtual environment is made first, which takes a minute on a slow machine


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a temporary folder below no other one, which somebody else may be given."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def tree(folder: Path) -> Path:
    """Return a fresh copy of the project, as git has it: without an environment."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    copy = folder / "aqueduct"
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return our environment, without what names our own virtual environment or index."""
    left_out = ("VIRTUAL_ENV", "PIP_", "UV_", "ANSIBLE_", "AQUEDUCT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"HOME": str(folder / "home"), "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"} | more


@contextmanager
def an_index_that_never_answers() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        yield server


def lesser(folder: Path) -> dict[str, Any]:
    """Return what makes a process somebody's who may not use the engine; the folder is theirs, too."""
    if os.geteuid():
        return {}
    subprocess.run(["chown", "-R", str(NOBODY), folder], check=True)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def test_without_a_network_the_remedy_is_said(tree: Path, folder: Path) -> None:
    with socket.socket() as nobody:  # who has the port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        run = subprocess.run(
            [tree / "script/demo"],
            env=environment(folder, PIP_INDEX_URL=f"http://127.0.0.1:{port}/simple"),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    assert run.returncode == 2, run.stdout + run.stderr
    [sentence] = run.stderr.strip().splitlines()
    assert sentence.startswith("demo: cannot create the Python environment: ")
    assert sentence.endswith("Check that this machine can reach a Python package index.")
    assert not (tree / ".venv/complete").exists()


@pytest.mark.parametrize(("mebibytes", "said"), [(1 << 40, True), (1, False)])
def test_demo_reports_too_little_memory_before_any_change(
    mebibytes: int, said: bool, tree: Path, folder: Path
) -> None:
    script = tree / "script/demo"
    changed, found = re.subn(r"^tell_memory \d+", f"tell_memory {mebibytes}", script.read_text(), flags=re.M)
    assert found == 1
    script.write_text(changed)
    run = subprocess.run(
        [script],
        env=environment(
            folder, DOCKER_HOST="unix:///nowhere/docker.sock", PIP_INDEX_URL="http://127.0.0.1:9/"
        ),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        **lesser(folder),
    )
    assert run.returncode == 2, run.stdout + run.stderr
    first = next((line for line in run.stdout.splitlines() if line.startswith("==>")), "")
    assert (f"uses up to {mebibytes} MiB" in first) == said, run.stdout


def test_an_interrupted_run_says_how_to_go_on(tree: Path, folder: Path) -> None:
    """While it fetches: a shell that is just about to start a program may lose a Ctrl-C (bash 5.2)."""
    with an_index_that_never_answers() as index:
        run = subprocess.Popen(
            [tree / "script/demo"],
            env=environment(folder, PIP_INDEX_URL=f"http://127.0.0.1:{index.getsockname()[1]}/simple"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell that starts these tests in the background has it ignored, in whatever they start.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        asking, _ = index.accept()
        with asking:
            os.killpg(run.pid, signal.SIGINT)  # as a terminal does
            out, said = run.communicate(timeout=SECONDS)
    assert "Creating the Python environment" in out
    assert run.returncode == 130, said
    assert "demo: interrupted. Nothing is damaged. Run the script again to resume" in said
    assert not (tree / ".venv/complete").exists()


def test_demo_without_root_or_container_engine_names_remedy(tree: Path, folder: Path) -> None:
    """Run as somebody who may not use the engine, if there is one, and may not start one."""
    run = subprocess.run(
        [tree / "script/demo"],
        env=environment(folder, DOCKER_HOST="unix:///nowhere/docker.sock"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        **lesser(folder),
    )
    assert run.returncode == 2, run.stdout + run.stderr
    [sentence] = run.stderr.strip().splitlines()
    assert sentence.startswith("demo: ")
    assert "Start Docker and add your user to its group, or run this script as root." in sentence
