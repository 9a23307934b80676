"""`aqueduct completion`: its script, in a shell."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from aqueduct import cli
from aqueduct.cli import VERBS

ASK = """
source {script}
COMP_WORDS=({words}) COMP_CWORD={last}
_shtab_aqueduct
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "aqueduct"
    command = [Path(sys.executable).with_name("aqueduct"), "completion", "bash"]
    path.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return path


def completed(script: Path, *words: str, folder: Path) -> Sequence[str]:
    ask = ASK.format(script=script, words=" ".join(f"'{word}'" for word in words), last=len(words) - 1)
    done = subprocess.run(["bash", "-c", ask], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_verbs_commands_and_options_are_completed(script: Path, tmp_path: Path) -> None:
    assert completed(script, "aqueduct", "rec", folder=tmp_path) == ["reconcile"]
    assert {*completed(script, "aqueduct", "", folder=tmp_path)} >= {*VERBS}
    assert completed(script, "aqueduct", "diode", "ups", folder=tmp_path) == ["upstream"]
    assert "--store" in completed(script, "aqueduct", "restore", "--st", folder=tmp_path)
    assert completed(script, "aqueduct", "completion", "z", folder=tmp_path) == ["zsh"]


def test_files_are_completed_where_a_file_is_expected(script: Path, tmp_path: Path) -> None:
    (tmp_path / "client.properties").touch()
    words = ("aqueduct", "backup", "--command-config", "cli")
    assert completed(script, *words, folder=tmp_path) == ["client.properties"]


def test_zsh_has_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "zsh"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("#compdef aqueduct\n")
    assert [verb for verb in VERBS if f"\n        {verb}) _" not in printed] == []


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "fish"]) == 2
    assert "[usage-error]" in capsys.readouterr().err
