"""Aqueduct on a control node without the checkout: installed from the files of a release, in an empty folder.

Third-party packages are those of this environment, so that nothing is fetched.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import distribution, distributions
from pathlib import Path
from subprocess import CompletedProcess
from zipfile import ZipFile

import pytest
from kit import ansible_process, release_files
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

GUIDE = release_files.ROOT / "docs/guides/install.md"


def environment(folder: Path) -> Path:
    """Return the Python of a new environment that has this one's packages, but not Aqueduct."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python3.*/site-packages")
    [others] = Path(sys.prefix).glob("lib/python3.*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    return folder / "bin/python"


def commands(page: str) -> list[str]:
    """Return the commands of a page that has one block of them."""
    [block] = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return block.splitlines()


def requirements(wheel: Path) -> list[str]:
    """Return what the wheel requires, with and without extras."""
    with ZipFile(wheel) as archive:
        [metadata] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])


def needed(wheel: Path, extra: str) -> set[str]:
    """Return the distributions that pip would install for the wheel and its extra."""
    names: set[tuple[str, str]] = set()
    waiting = [(text, {"", extra}) for text in requirements(wheel)]
    while waiting:
        text, extras = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not any(requirement.marker.evaluate({"extra": own}) for own in extras):
            continue
        name = canonicalize_name(requirement.name)
        fresh = {(name, own) for own in {"", *requirement.extras}} - names
        names |= fresh
        if fresh:
            further = {"", *requirement.extras}
            waiting += [(required, further) for required in distribution(name).requires or ()]
    return {name for name, _ in names}


def top_level(name: str) -> Iterator[str]:
    """Yield the files and folders of a distribution below site-packages, but no programs."""
    for file in distribution(name).files or ():
        if file.parts[0] not in ("..", "__pycache__"):
            yield file.parts[0]


def lean_environment(folder: Path, wheel: Path, extra: str) -> Path:
    """Return the Python of a new environment that has the wheel and what its extra needs, and no more."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python3.*/site-packages")
    [ours] = Path(sys.prefix).glob("lib/python3.*/site-packages")
    names = needed(wheel, extra)
    others = {canonicalize_name(one.metadata["Name"]) for one in distributions(path=[str(ours)])} - names
    shared = {top for name in others for top in top_level(name)}
    for name in names:
        for file in distribution(name).files or ():
            top = file.parts[0]
            part = Path(*file.parts) if top in shared else Path(top)
            if top not in ("..", "__pycache__") and not (packages / part).exists():
                (packages / part).parent.mkdir(parents=True, exist_ok=True)
                (packages / part).symlink_to(ours / part)
    install = (
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        folder / "bin/python",
        wheel,
    )
    done = release_files.tool("uv", *install, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bin/python"


class ControlNode:
    """A folder with an environment, the collection, and the user's own repository."""

    def __init__(self, folder: Path) -> None:
        self.python = environment(folder / "environment")
        self.repository = folder / "own"
        tree = release_files.export(folder / "tree")
        self.wheel, self._tarball = release_files.wheel(tree, folder), release_files.collection(tree, folder)
        install = ("pip", "install", "--quiet", "--offline", "--no-deps", "--python", self.python, self.wheel)
        done = release_files.tool("uv", *install, folder=folder)
        assert done.returncode == 0, done.stderr

    def run(self, *command: str | Path, folder: Path | None = None) -> "CompletedProcess[str]":
        """Run a program with nothing of the environment but its path."""
        bare = {"PATH": f"{self.python.parent}:/usr/bin:/bin", "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
        where = folder or self.repository
        return subprocess.run(command, cwd=where, env=bare, capture_output=True, text=True, check=False)

    def init(self, *options: str) -> "CompletedProcess[str]":
        folder = self.repository.parent
        return self.run(self.python.with_name("aqueduct"), "init", self.repository, *options, folder=folder)

    def install_collection(self) -> "CompletedProcess[str]":
        install = ("install", "--force", "--offline", "--no-deps", "--collections-path", "collections")
        return self.run(self.python, "-m", "ansible", "galaxy", "collection", *install, self._tarball)

    def play(self, playbook: str, *options: str, python: Path | None = None) -> "CompletedProcess[str]":
        return self.run(python or self.python, "-m", "ansible", "playbook", playbook, *options)

    @property
    def collection(self) -> Path:
        return self.repository / "collections/ansible_collections/aqueduct/estate"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> ControlNode:
    node = ControlNode(tmp_path_factory.mktemp("node"))
    done = node.init("--sites=pro1,pro2,lake1")
    assert done.returncode == 0, done.stderr
    done = node.install_collection()
    assert done.returncode == 0, done.stdout + done.stderr
    return node


@pytest.fixture(scope="module")
def lean(node: ControlNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the extra `controller` alone."""
    return lean_environment(tmp_path_factory.mktemp("lean") / "environment", node.wheel, "controller")


IMPORTS = """
import importlib, pkgutil, sys
import aqueduct
from aqueduct import cli
missing = set()
for module in pkgutil.walk_packages(aqueduct.__path__, "aqueduct."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing.add(error.name.partition(".")[0])
for verb in cli.VERBS:
    try:
        cli.main([verb, "--help"])
    except SystemExit as end:
        assert not end.code, verb
print("missing:", *sorted(missing))
"""


def test_the_extra_controller_has_what_every_verb_imports(node: ControlNode, lean: Path) -> None:
    """Only PySpark is missing, with py4j: verbs import it for much work, and say how to install it."""
    done = node.run(lean, "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "missing: py4j pyspark"
    assert node.run(lean, "-c", "import pytest").returncode == 1


def test_the_extra_controller_has_what_playbooks_import(node: ControlNode, lean: Path) -> None:
    """And a new inventory passes the check."""
    done = node.play("aqueduct.estate.check", python=lean)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("verbose", [False, pytest.param(True, marks=pytest.mark.long)])
def test_retries_of_own_playbooks_are_hidden(node: ControlNode, tmp_path: Path, verbose: bool) -> None:
    """`ansible.cfg` of a new repository sets the callback of the installed collection."""
    playbook = ansible_process.waiting_playbook(tmp_path)
    done = node.play(str(playbook), "--inventory=localhost,", *(["-v"] if verbose else []))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "attempts").read_text().count("\n") == 3
    assert done.stdout.count("FAILED - RETRYING") == (2 if verbose else 0), done.stdout


def test_a_broken_inventory_is_refused_with_its_line(node: ControlNode) -> None:
    lake = node.repository / "inventories/estate/group_vars/site_lake1.yml"
    before = lake.read_text()
    lake.write_text(before.replace("source: pro2", "source: pro3"))
    try:
        done = node.play("aqueduct.estate.site")
    finally:
        lake.write_text(before)
    assert done.returncode == 2
    assert "site_lake1.yml:6: mirror_maker_flows[1].source" in done.stdout
    assert "no host was contacted" in done.stdout


def test_the_topic_of_the_guide_passes_the_check(node: ControlNode, tmp_path: Path) -> None:
    """Its block writes the file of a site; the scenario `installed` runs all of it."""
    [block] = re.findall(r"^```sh\n(cat >inventories.*?^END\n)", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    lab = tmp_path / "lab"
    node.run(node.python.with_name("aqueduct"), "init", lab, "--lab", "--sites=pro1,lake1", folder=tmp_path)
    run = node.run("/bin/bash", "-e", "-c", block, folder=lab)
    assert run.returncode == 0, run.stderr
    run = node.play("aqueduct.estate.check", f"--inventory={lab / 'inventories/estate'}")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_lab_passes_the_check(node: ControlNode, tmp_path: Path) -> None:
    program = node.python.with_name("aqueduct")
    done = node.run(program, "init", tmp_path / "lab", "--lab", "--sites=pro1,lake1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = node.play("aqueduct.estate.check", f"--inventory={tmp_path / 'lab/inventories/estate'}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_readme_of_lab_has_same_commands_for_installation(node: ControlNode, tmp_path: Path) -> None:
    program, texts = node.python.with_name("aqueduct"), []
    for name, options in (("estate", ()), ("lab", ("--lab",))):
        own = tmp_path / name
        run = node.run(program, "init", own, f"--from={node.wheel.parent}", *options, folder=tmp_path)
        assert run.returncode == 0, run.stderr
        files = [(own / file).read_text() for file in ("requirements.txt", "requirements.yml", "ansible.cfg")]
        texts.append([commands((own / "README.md").read_text())[:3], *files])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("options", [(), pytest.param(("--lab",), marks=pytest.mark.long)])
def test_the_readme_s_commands_install_files_and_check(
    node: ControlNode, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """pip installs the package alone, without an index. Ansible is that of the other environment."""
    own = tmp_path / "own"
    program = node.python.with_name("aqueduct")
    run = node.run(program, "init", own, f"--from={node.wheel.parent}", *options, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("galaxy", "playbook"):
        (programs / f"ansible-{name}").write_text(f'#!/bin/sh\nexec {node.python} -m ansible {name} "$@"\n')
        (programs / f"ansible-{name}").chmod(0o755)
    install, collection, check, *_ = commands((own / "README.md").read_text())
    script = "\n".join(
        [
            f"export PATH={programs}:$PATH PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_DISABLE_PIP_VERSION_CHECK=1",
            *(install, collection, check),
        ]
    )
    run = node.run("/bin/bash", "-e", "-c", script, folder=own)
    assert run.returncode == 0, run.stdout + run.stderr
    location = "import aqueduct, pathlib; print(pathlib.Path(aqueduct.__file__).parents[4])"
    run = node.run(own / ".venv/bin/python", "-c", location, folder=own)
    assert run.stdout.strip() == str(own / ".venv"), run.stderr
    assert (own / "collections/ansible_collections/aqueduct/estate/playbooks/site.yml").is_file()


@pytest.mark.parametrize("playbook", ["site", "restore", pytest.param("doctor", marks=pytest.mark.long)])
def test_a_collection_of_another_release_is_refused(node: ControlNode, playbook: str) -> None:
    module = node.collection / "aqueduct/common/durations.py"
    before = module.read_text()
    module.write_text(f"{before}\n# of another release\n")
    try:
        done = node.play(f"aqueduct.estate.{playbook}")
    finally:
        module.write_text(before)
    assert done.returncode == 2
    assert "[release-mismatch]" in done.stdout


@pytest.mark.parametrize("settings", ["", "enable_plugins", "enable_plugins and stdout_callback"])
def test_missing_python_package_is_reported_by_any_plugin(
    node: ControlNode, tmp_path: Path, settings: str
) -> None:
    """`settings` are without these: Ansible's own plugins are used instead."""
    config = node.repository / "ansible.cfg"
    before = config.read_text()
    lines = [line for line in before.splitlines() if line.partition(" = ")[0] not in (*settings.split(), "")]
    config.write_text("\n".join(lines))
    try:
        done = node.play("aqueduct.estate.check", python=environment(tmp_path / "without"))
    finally:
        config.write_text(before)
    assert done.returncode != 0
    assert "[python-package-missing]" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
