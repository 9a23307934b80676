"""Every script tells what it does, and does nothing else when it is asked for that."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path.relative_to(ROOT)
    for folder in ("script", "bench")
    for path in (ROOT / folder).iterdir()
    if path.is_file() and not path.suffix and not path.name.startswith("_")
)
# What a script may call to print its help. Nothing else is there to be called.
COMMANDS = ("bash", "env", "dirname", "basename", "sed", "cut")


def faults(script: Path, folder: Path) -> Iterator[str]:
    """Yield the faults of a script's --help. A copy runs, in a folder with nothing that it could harm."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    for parent in {script.parent, script.parents[1] / "script"}:
        shutil.copytree(parent, folder / "tree" / parent.name)
    for command in COMMANDS:
        (commands / command).symlink_to(str(shutil.which(command)))
    before = files(folder)
    run = subprocess.run(
        [folder / "tree" / script.parent.name / script.name, "--help"],
        env={"PATH": str(commands), "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    if run.returncode:
        yield f"exit code {run.returncode}"
    if run.stderr:
        yield run.stderr
    if len(run.stdout.split()) < 5:
        yield "it says too little"
    if files(folder) != before:
        yield "it changes files"


def files(folder: Path) -> dict[Path, float]:
    return {path: path.lstat().st_mtime for path in folder.rglob("*")}


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_script_help_prints_usage_and_changes_nothing(script: Path, tmp_path: Path) -> None:
    assert list(faults(ROOT / script, tmp_path)) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("echo this is what it does", []),
        ("echo this is what it does; exit 1", ["exit code 1"]),
        ("echo this is what it does; touch changed || true", ["touch: command not found"]),
        ("echo usage", ["it says too little"]),
        ('echo this is what it does; echo >"${0}.changed"', ["it changes files"]),
    ],
)
def test_a_faulty_help_is_found(body: str, expected: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script/careless"
    script.parent.mkdir()
    script.write_text(f"#!/usr/bin/env bash\n{body}\n")
    script.chmod(0o755)
    found = list(faults(script, tmp_path / "run"))
    assert len(found) == len(expected)
    assert all(text in fault for text, fault in zip(expected, found, strict=True))


def test_every_script_can_be_run() -> None:
    assert len(SCRIPTS) > 5
    assert [name for name in SCRIPTS if not os.access(ROOT / name, os.X_OK)] == []
