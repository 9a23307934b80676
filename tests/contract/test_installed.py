"""Aqueduct on a control node without the checkout: installed from the files of a release, in an empty folder.

Third-party packages are those of this environment, so that nothing is fetched.
"""

import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import built
import pytest


def environment(folder: Path) -> Path:
    """Return the Python of a new environment that has this one's packages, but not Aqueduct."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python3.*/site-packages")
    [others] = Path(sys.prefix).glob("lib/python3.*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    return folder / "bin/python"


class ControlNode:
    """A folder with an environment, the collection, and the user's own repository."""

    def __init__(self, folder: Path) -> None:
        self.python = environment(folder / "environment")
        self.repository = folder / "own"
        tree = built.export(folder / "tree")
        wheel, self._tarball = built.wheel(tree, folder), built.collection(tree, folder)
        install = ("pip", "install", "--quiet", "--offline", "--no-deps", "--python", self.python, wheel)
        done = built.tool("uv", *install, folder=folder)
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


def test_a_new_inventory_passes_the_check(node: ControlNode) -> None:
    done = node.play("aqueduct.estate.check")
    assert done.returncode == 0, done.stdout + done.stderr


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
    assert "no host was touched" in done.stdout


def test_a_lab_passes_the_check(node: ControlNode, tmp_path: Path) -> None:
    program = node.python.with_name("aqueduct")
    done = node.run(program, "init", tmp_path / "lab", "--lab", "--sites=pro1,lake1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = node.play("aqueduct.estate.check", f"--inventory={tmp_path / 'lab/inventories/estate'}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("playbook", ["site", "restore", "doctor"])
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
def test_a_missing_package_is_reported_whatever_plugin_needs_it(
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
