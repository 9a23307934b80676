"""`aqueduct completion zsh` in a real zsh on a terminal: what is typed, with Tab, is what runs."""

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The function of the command's name shows what zsh would have started.
SETTINGS = """
fpath=($PWD $fpath)
autoload -Uz compinit
compinit -u -d $PWD/.dump
aqueduct() { print -r -- "RUNS <$*>" }
PS1='READY '
"""


class Shell:
    """An interactive zsh that reads no settings but its folder's."""

    def __init__(self, folder: Path) -> None:
        terminal, end = pty.openpty()
        environment = {
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "HOME": str(folder),
            "ZDOTDIR": str(folder),
        }
        self.process = subprocess.Popen(
            ["zsh", "--no-globalrcs", "-i"],
            cwd=folder, env=environment, stdin=end, stdout=end, stderr=end, start_new_session=True,
        )  # fmt: skip
        os.close(end)
        self._terminal = io.FileIO(terminal, "r+")
        self._until_ready()

    def run(self, typed: str) -> str:
        """Type a line, and return the arguments with which the command was called."""
        self._terminal.write(f"{typed}\n".encode())
        shown = self._until_ready()
        [arguments] = re.findall(r"RUNS <(.*)>", shown)
        return str(arguments)

    def _until_ready(self) -> str:
        shown = b""
        while b"READY " not in shown:
            shown += self._terminal.read(1 << 12)
        return shown.decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._terminal.close()


@pytest.fixture(scope="module")
def zsh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("zsh")
    command = [str(Path(sys.executable).with_name("aqueduct")), "completion", "zsh"]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (folder / "_aqueduct").write_text(script)
    (folder / ".zshrc").write_text(SETTINGS)
    (folder / "client.properties").touch()
    shell = Shell(folder)
    yield shell
    shell.close()


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("rec\t", "reconcile"),
        ("diode ups\t", "diode upstream"),
        ("restore --sto\t", "restore --store"),
        ("completion z\t", "completion zsh"),
        ("backup --command-config cli\t", "backup --command-config client.properties"),
        ("no-such-verb\t", "no-such-verb"),
    ],
)
def test_tab_completes_verbs_options_values_and_files(zsh: Shell, typed: str, arguments: str) -> None:
    assert zsh.run(f"aqueduct {typed}") == arguments
