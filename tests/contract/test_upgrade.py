"""The older release of the scenario upgrade: what refuses a clone without it, and how it differs."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import control_node
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "molecule/upgrade"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"upgrade_{name}", SCENARIO / f"tests/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


releases = module("releases")


def git(folder: Path, *arguments: str | Path) -> str:
    own = ("-c", "safe.directory=*", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    run = subprocess.run(["git", "-C", folder, *own, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in range(2):
        (folder / "VERSION").write_text(f"0.{number}.0\n")
        (folder / "link").unlink(missing_ok=True)
        (folder / "link").symlink_to("VERSION")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"Release {number}")
    return folder


def test_a_shallow_clone_is_refused_with_the_remedy(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = git(repository, "rev-parse", "HEAD~1")
    monkeypatch.setattr(releases, "OLDER_COMMIT", older)
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    refused = releases.missing_commit(tmp_path / "shallow")
    assert refused.startswith("[older-commit-missing]")
    assert older in refused
    assert "git fetch --unshallow" in refused
    assert "\n" not in refused
    assert releases.missing_commit(repository) == ""


def test_a_clone_without_the_commit_is_refused(repository: Path) -> None:
    assert releases.missing_commit(repository).startswith("[older-commit-missing]")


def test_the_files_of_the_older_commit_are_exported(repository: Path, tmp_path: Path) -> None:
    tree = tmp_path / "release/tree"
    releases.export_commit(repository, "HEAD~1", tree)
    assert (tree / "link").read_text() == "0.0.0\n"
    assert [path.name for path in tree.parent.iterdir()] == ["tree"]


def test_changes_are_read_from_a_recap() -> None:
    recap = (
        "TASK [Print changed=7 ] ***\n"
        "PLAY RECAP *********\n"
        "lake-1                     : ok=44   changed=3    unreachable=0    failed=0\n"
        "pro1-1                     : ok=40   changed=0    unreachable=0    failed=0\n"
    )
    assert control_node.changes(recap) == {"lake-1": 3, "pro1-1": 0}


def test_both_steps_run_the_program_that_has_them() -> None:
    program = (SCENARIO / "control_nodes.py").read_text()
    for name, step in (("prepare", "install"), ("converge", "deploy")):
        [play] = yaml.safe_load((SCENARIO / f"{name}.yml").read_text())
        [task] = play["tasks"]
        assert task["ansible.builtin.command"]["argv"][1:] == ["{{ playbook_dir }}/control_nodes.py", step]
        assert f"def {step}() -> int:" in program


POSITION = """
from {package} import position
from {names} import TopicPartition
record = position.position_record(
    TopicPartition("crews", 0),
    position.Position(topic_id="a", next=7, target_topic_id="b", target_end=9),
)
print(record[1].decode())
"""
READ = """
import sys
from {package} import position
try:
    position.parse_position(b'["crews",0]', sys.argv[1].encode())
    print("read")
except position.UnreadablePosition as error:
    print(error.labelled)
"""
NAMES = {
    "older": {"package": "aqueduct.mirror_engine", "names": "aqueduct.names"},
    "newer": {"package": "aqueduct.mirror.engine", "names": "aqueduct.common.topic_names"},
}


# What follows needs the whole history.


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    assert releases.missing_commit(ROOT) == ""
    older = tmp_path_factory.mktemp("older") / "tree"
    releases.export_commit(ROOT, releases.OLDER_COMMIT, older)
    return {"older": older, "newer": ROOT}


@pytest.mark.long
def test_the_older_commit_is_in_the_history() -> None:
    git(ROOT, "merge-base", "--is-ancestor", releases.OLDER_COMMIT, "HEAD")


@pytest.mark.long
def test_the_inventory_has_only_variables_of_both(trees: dict[str, Path]) -> None:
    used = {
        name
        for path in (SCENARIO / "inventory").rglob("*.yml")
        for name in re.findall(r"^([a-z_]+): ", path.read_text(), re.MULTILINE)
    } - {"all"}
    assert len(used) > 10
    for tree in trees.values():
        declared = {
            name
            for specs in tree.glob("roles/*/meta/argument_specs.yml")
            for entry_point in yaml.safe_load(specs.read_text())["argument_specs"].values()
            for name in entry_point.get("options", {})
        }
        assert {name for name in used if not name.startswith(("ansible_", "lab_"))} <= declared


@pytest.mark.long
def test_a_unit_differs(trees: dict[str, Path]) -> None:
    units = {name: tree / "roles/kafka/templates/kafka.service.j2" for name, tree in trees.items()}
    assert {name: "MemoryMax" in unit.read_text() for name, unit in units.items()} == {
        "older": False,
        "newer": True,
    }


@pytest.mark.long
def test_a_setting_differs(trees: dict[str, Path]) -> None:
    settings = {
        name: yaml.safe_load((tree / "roles/kafka/vars/main.yml").read_text())["_kafka_node_properties"]
        for name, tree in trees.items()
    }
    buffers = {name: of.get("socket.send.buffer.bytes") for name, of in settings.items()}
    assert buffers == {"older": None, "newer": "-1"}


@pytest.mark.long
def test_a_stored_format_differs(trees: dict[str, Path]) -> None:
    """The newer release reads the older one's positions, and not the other way round."""
    written = {name: run_program(tree, POSITION.format(**NAMES[name])) for name, tree in trees.items()}
    assert {name: "source_end" in record for name, record in written.items()} == {
        "older": False,
        "newer": True,
    }
    newer, older = READ.format(**NAMES["newer"]), READ.format(**NAMES["older"])
    assert run_program(trees["newer"], newer, written["older"]) == "read"
    refused = run_program(trees["older"], older, written["newer"])
    assert refused.startswith("[mirror-position-unreadable]")


def run_program(tree: Path, program: str, *arguments: str, python: str | Path = sys.executable) -> str:
    """Run a program with a release's own package."""
    command = [python, "-c", program, *arguments]
    run = subprocess.run(command, cwd=tree, env={"PYTHONPATH": str(tree)}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.fixture(scope="module")
def control_nodes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Run the scenario's step that builds and installs both releases."""
    folder = tmp_path_factory.mktemp("molecule")
    environment = os.environ | {"MOLECULE_EPHEMERAL_DIRECTORY": str(folder)}
    command = [sys.executable, SCENARIO / "control_nodes.py", "install"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    older, newer = (releases.Release(folder / "releases" / name) for name in ("older", "newer"))
    return older, newer


@pytest.mark.long
def test_each_release_is_installed_on_separate_control_node(control_nodes: tuple[Any, Any]) -> None:
    program = "import aqueduct, pathlib; print(pathlib.Path(aqueduct.__file__).parent)"
    for release in control_nodes:
        package = Path(run_program(release.folder, program, python=release.programs / "python"))
        assert package.is_relative_to(release.folder / "environment")
        collection = release.repository / "collections/ansible_collections/aqueduct/estate"
        assert (package / "errors.py").read_text() == (collection / "aqueduct/errors.py").read_text()
        assert (release.repository / "ansible.cfg").is_file()
        assert (release.programs / "uv").is_file()


@pytest.mark.long
def test_each_release_accepts_the_inventory(control_nodes: tuple[Any, Any]) -> None:
    for release in control_nodes:
        run = release.play("check", SCENARIO / "inventory")
        assert run.returncode == 0, run.stdout
