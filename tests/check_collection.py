"""Check the collection as Galaxy does before it publishes one, and with `ansible-test sanity`.

Called by script/lint. Exit code: 0 nothing to correct, 1 findings, which are printed.

Nothing is fetched. ansible-test by itself fetches pip and the packages of each test, into one environment for
each. Here all tests have the packages of this environment, which locks/controller.txt has with digests.

The checks run on the files of the tarball, because a link to the checkout is not accepted, and users have no
other files. The settings of ansible-test are added to them.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from subprocess import CompletedProcess

from kit import release_files

# What others check better, over all files: ruff (pep8, pylint), mypy (pylint), script/lint (shellcheck).
# CHANGELOG.md is not made of fragments (changelog), and there is no PowerShell (pslint).
LEFT_OUT = ("changelog", "pep8", "pslint", "pylint", "shellcheck")
# The package, which most modules import, needs it.
CONFIGURATION = 'modules:\n  python_requires: ">=3.11"\n'
# Ansible's own modules are under the GPL; Aqueduct is under Apache-2.0.
OF_EACH_DOCUMENTATION = "validate-modules:missing-gplv3-license"
IGNORED = (
    # The action of this name has `dest`, and does not pass it to the module.
    "plugins/modules/service_content.py validate-modules:nonexistent-parameter-documented",
)
# ansible-test's sanity checks, in the environment of this Python.
SANITY = """
import sys
from ansible_test._internal import main
from ansible_test._internal.commands import sanity
from ansible_test._internal.host_configs import VirtualPythonConfig

def this_environment(args, python, name, coverage=False, minimize=False):
    return VirtualPythonConfig(version=python.version, path=sys.executable)

sanity.create_sanity_virtualenv = this_environment
sanity.check_sanity_virtualenv_yaml = lambda python: True
main()
"""
# script/lint runs ansible-lint with its own settings, and ansible-test runs ansible-doc.
IMPORTER = {"GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false", "GALAXY_IMPORTER_RUN_ANSIBLE_DOC": "false"}
# Galaxy shows the README of a role, and a description only if its metadata have one.
ACCEPTED = re.compile(r"WARNING: (?:Could not get role description|No role description found)")
FINDING = re.compile(r"^(?:WARNING|ERROR|CRITICAL): ")


def run(*command: str | Path, folder: Path, **settings: str) -> CompletedProcess[str]:
    """Run a program of this environment that has nothing of the user's settings of Ansible."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment | {"ANSIBLE_NOCOLOR": "1"} | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def failure(program: str, answer: CompletedProcess[str]) -> list[str]:
    """Return nothing for a program that succeeded, or else its output."""
    if not answer.returncode:
        return []
    return [*answer.stdout.splitlines(), f"{program} ended with exit code {answer.returncode}."]


def tarball(folder: Path) -> Path:
    """Build the collection. Galaxy requires an address of its repository, which has none before a release."""
    tree = release_files.export(folder / "tree")
    settings = tree / "galaxy.yml"
    if not re.search(r"^repository:", settings.read_text(), re.MULTILINE):
        settings.write_text(f"{settings.read_text()}repository: https://not-published.invalid\n")
    return release_files.collection(tree, folder)


def imported(collection: Path) -> list[str]:
    """Return the findings of Galaxy's importer."""
    answer = run("-m", "galaxy_importer.main", collection, folder=collection.parent, **IMPORTER)
    lines = answer.stdout.splitlines()
    findings = [line for line in lines if FINDING.match(line) and not ACCEPTED.match(line)]
    return findings or failure("galaxy-importer", answer)


def sane(collection: Path) -> list[str]:
    """Return the findings of ansible-test."""
    folder = collection.parent / "ansible_collections/aqueduct/estate"
    with tarfile.open(collection) as archive:
        archive.extractall(folder, filter="data")
    (folder / "tests/sanity").mkdir(parents=True)
    (folder / "tests/config.yml").write_text(CONFIGURATION)
    documented = [
        file.relative_to(folder) for file in sorted(folder.glob("plugins/*/*")) if _has_documentation(file)
    ]
    ignored = [*(f"{file} {OF_EACH_DOCUMENTATION}" for file in documented), *IGNORED]
    release = ".".join(version("ansible-core").split(".")[:2])
    (folder / f"tests/sanity/ignore-{release}.txt").write_text("".join(f"{line}\n" for line in ignored))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    left_out = (argument for name in LEFT_OUT for argument in ("--skip-test", name))
    answer = run("-c", SANITY, "sanity", "--python", python, *left_out, folder=folder)
    return failure("ansible-test", answer)


def _has_documentation(file: Path) -> bool:
    return bool(re.search(r"^DOCUMENTATION\b", file.read_text(), re.MULTILINE))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        collection = tarball(Path(folder))
        findings = [*imported(collection), *sane(collection)]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
