"""Two releases, each built from its sources and installed on a control node of its own.

The steps are those of docs/guides/install.md.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import control_node

# The commit from which the scenario upgrades. Three things differ from today's release:
# - a unit: kafka.service has no MemoryMax;
# - a setting: brokers have Kafka's own size of socket buffers, and not socket.send.buffer.bytes=-1;
# - a stored format: a position of the mirror engine `batches` has no source_end.
# tests/contract/test_upgrade.py checks them. A newer commit has to differ in one of each kind, too.
OLDER_COMMIT = "f5b054a8032163d6f338ac4d731564552c1fab55"
GIT = ("git", "-c", "safe.directory=*")
PLAY_SECONDS = 3600  # of what never ends by itself


def missing_commit(repository: Path) -> str:
    """Return why the scenario cannot run in this clone; empty if it has the older commit."""
    asked = (*GIT, "-C", repository, "cat-file", "-e", f"{OLDER_COMMIT}^{{commit}}")
    if subprocess.run(asked, capture_output=True).returncode == 0:
        return ""
    shallow = subprocess.run(
        (*GIT, "-C", repository, "rev-parse", "--is-shallow-repository"), capture_output=True, text=True
    )
    remedy = "git fetch --unshallow" if shallow.stdout.strip() == "true" else "git fetch origin"
    return (
        f"[older-commit-missing] {repository} lacks the commit {OLDER_COMMIT}, from which the scenario "
        f"upgrade deploys: run '{remedy}' in a clone of the whole history."
    )


def export_commit(repository: Path, commit: str, tree: Path) -> None:
    """Write the files of a commit to a new folder."""
    tree.mkdir(parents=True)
    archive = tree.with_suffix(".tar")
    command = (*GIT, "-C", repository, "archive", "--format=tar", f"--output={archive}", commit)
    subprocess.run(command, check=True)
    with tarfile.open(archive) as content:
        content.extractall(tree, filter="data")
    archive.unlink()


@dataclass(frozen=True)
class Release:
    """A release and its control node, in one folder."""

    folder: Path

    @property
    def tree(self) -> Path:
        """Return the folder of the sources."""
        return self.folder / "tree"

    @property
    def repository(self) -> Path:
        """Return the operator's own repository, with ansible.cfg and the collection."""
        return self.folder / "own"

    @property
    def programs(self) -> Path:
        return self.folder / "environment/bin"

    def install(self, wheel: Path, tarball: Path) -> None:
        """Install the package with its locked dependencies, and the collection."""
        uv, python = Path(sys.executable).with_name("uv"), self.programs / "python"
        self._run(sys.executable, "-m", "venv", self.programs.parent)
        lock = self.tree / "locks/controller.txt"
        self._run(uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", lock)
        self._run(uv, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel)
        self._run(self.programs / "aqueduct", "init", self.repository, "--sites=pro1,lake1")
        galaxy = (python, "-m", "ansible", "galaxy", "collection", "install", "--offline", "--no-deps")
        self._run(*galaxy, "--collections-path", self.repository / "collections", tarball)

    def play(self, playbook: str, inventory: Path, *options: str) -> CompletedProcess[str]:
        """Run a playbook of the collection. The output has errors, too."""
        program = (self.programs / "python", "-m", "ansible", "playbook", f"aqueduct.estate.{playbook}")
        return subprocess.run(
            [*program, "--inventory", inventory, *options],
            cwd=self.repository,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PLAY_SECONDS,
        )

    def _run(self, *command: str | Path) -> None:
        """Run a program; the process ends with what it printed if it fails."""
        run = subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{' '.join(map(str, command))} failed with {run.returncode}: {run.stdout}{run.stderr}")

    @property
    def _environment(self) -> dict[str, str]:
        return control_node.environment(f"{self.programs}{os.pathsep}{os.environ['PATH']}")


def installed() -> tuple[Release, Release]:
    """Return the older and the newer release, in the folder that molecule removes with the lab."""
    folder = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "releases"
    return Release(folder / "older"), Release(folder / "newer")


def remove_installed() -> None:
    """Remove what an earlier run of molecule's step left."""
    for release in installed():
        shutil.rmtree(release.folder, ignore_errors=True)
