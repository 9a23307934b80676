"""The files of a release, built from the files of this checkout that git tracks or would add."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str, *arguments: str | Path, folder: Path) -> CompletedProcess[str]:
    """Run a program of this environment in a folder, without the Ansible settings of the checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_NOCOLOR": "1", "PYTHONPATH": ""}
    command = [Path(sys.executable).with_name(name), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def export(folder: Path) -> Path:
    """Copy the files to a new folder."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def collection(tree: Path, out: Path) -> Path:
    """Build the collection's tarball."""
    done = tool("ansible-galaxy", "collection", "build", "--output-path", out, tree, folder=out)
    assert done.returncode == 0, done.stderr
    [tarball] = out.glob("aqueduct-estate-*.tar.gz")
    return tarball


def wheel(tree: Path, out: Path) -> Path:
    """Build the package's wheel."""
    build = ("-m", "build", "--no-isolation", "--wheel", "--outdir", out, tree)
    done = tool("python", *build, folder=out)
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = out.glob("aqueduct_estate-*.whl")
    return built
