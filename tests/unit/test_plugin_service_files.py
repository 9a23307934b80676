"""The module service_files, run by Ansible itself: what it writes, what it leaves, what it shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OWNER = Path.home().owner()


def run(*files: dict[str, Any], secrets: tuple[str, ...] = (), check: bool = False) -> dict[str, Any]:
    """Run the module on this machine, as whoever runs the test."""
    given = {"files": [{"owner": OWNER, **file} for file in files], "secrets": secrets}
    asked = ["localhost", "-m", "aqueduct.estate.service_files", "-a", json.dumps(given)]
    command = ["ansible", *asked, "--diff", "-vvv"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:], *(["--check"] if check else [])],
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
    )
    said = done.stdout[done.stdout.index("{\n") :]
    found: dict[str, Any] = json.loads(said)["plays"][0]["tasks"][0]["hosts"]["localhost"]
    return found


def test_file_is_written_once_with_declared_mode(tmp_path: Path) -> None:
    file = {"dest": str(tmp_path / "worker.properties"), "content": "a=1\n", "mode": "0600"}
    assert run(file)["written"] == [file["dest"]]
    written = Path(file["dest"])
    assert written.read_text() == "a=1\n"
    assert written.stat().st_mode & 0o7777 == 0o600
    os.utime(written, (1, 1))
    assert not run(file)["changed"]
    assert written.stat().st_mtime == 1, "a unit would restart for it"

    written.chmod(0o644)
    assert run(file)["diff"][0]["before"].endswith("0644\n")
    assert written.stat().st_mode & 0o7777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["worker.properties"], "a scratch file was left"


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    file = {"dest": str(tmp_path / "key.pub"), "content": "Zürich\r\n"}
    assert run(file)["changed"]
    assert Path(file["dest"]).read_bytes() == "Zürich\r\n".encode()
    assert not run(file)["changed"], "its unit would restart in every run"


def test_empty_file_is_written_and_absent_one_removed(tmp_path: Path) -> None:
    empty = {"dest": str(tmp_path / "secrets.properties"), "content": ""}
    assert run(empty)["changed"]
    assert Path(empty["dest"]).read_text() == ""
    gone = {"dest": empty["dest"], "state": "absent"}
    assert run(gone)["changed"]
    assert not Path(empty["dest"]).exists()
    assert not run(gone)["changed"]


def test_a_check_shows_the_difference_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old hunter2\n")
    shown = run(
        {"dest": str(tmp_path / "a"), "content": "new hunter2\n"},
        {"dest": str(tmp_path / "b"), "content": "swordfish\n", "shown": False},
        {"dest": str(tmp_path / "nowhere/c"), "content": ""},
        secrets=("hunter2",),
        check=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert shown["changed"]
    assert "hunter2" not in str(shown)
    assert "swordfish" not in str(shown)
    before, after = shown["diff"][0]["before"], shown["diff"][0]["after"]
    assert before.startswith("old ") and after.startswith("new ")  # noqa: PT018
    assert before[4:] == after[4:]


def test_one_unwritable_file_prevents_all_writes(tmp_path: Path) -> None:
    good = {"dest": str(tmp_path / "a"), "content": "a"}
    refused = run(
        good, {"dest": str(tmp_path / "nowhere/b")}, {"dest": str(tmp_path / "c"), "owner": "nobody.here"}
    )
    assert refused["failed"]
    assert re.search(rf"\[host-folder-missing\] .*{tmp_path}/nowhere/b\b", refused["msg"])
    assert re.search(rf"\[host-user-missing\] .*{tmp_path}/c\b.* nobody\.here", refused["msg"])
    assert not list(tmp_path.iterdir())
