"""No scenario is green because nothing was tested: it has tests, each step has its playbook, none is skipped
(each of these was seen to pass), and CI runs them all.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = sorted(path for path in (ROOT / "molecule").iterdir() if path.name != "shared")
TEST_FILES = sorted(
    path
    for folder in ("tests", "molecule")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__)
)

STEPS = {"create", "converge", "idempotence", "verify", "destroy"}
# Steps that need no playbook of their own: molecule runs converge's again, or pytest.
WITHOUT_PLAYBOOK = {"idempotence", "verify", "syntax", "dependency"}

Faults = Callable[[Path], list[str]]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """What is wrong with the scenario of a folder, as molecule itself understands its configuration."""
    monkeypatch.setenv("ANSIBLE_FORCE_COLOR", "0")  # molecule would set it for all tests when it is imported
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MOLECULE_EPHEMERAL_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setenv("MOLECULE_PROJECT_DIRECTORY", str(ROOT))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.chdir(ROOT)
    return lambda scenario: list(_faults(scenario))


def _faults(scenario: Path) -> Iterator[str]:
    from molecule.config import Config

    file = scenario / "molecule.yml"
    if not file.is_file():
        yield "no molecule.yml, so script/test does not find it"
        return
    config = Config(str(file), {"base_config": [str(ROOT / ".config/molecule/config.yml")]})
    assert config.provisioner
    sequence = config.config_data["scenario"]["test_sequence"]
    yield from (f"its sequence leaves out {step}" for step in sorted(STEPS - set(sequence)))
    for step in dict.fromkeys(sequence):
        # Where a playbook is missing molecule warns, or takes one of its driver's.
        playbook = step not in WITHOUT_PLAYBOOK and getattr(config.provisioner.playbooks, step)
        if playbook is None or (playbook and not Path(playbook).is_relative_to(ROOT / "molecule")):
            yield f"{step} has no playbook"
    if (config.verifier.name, config.verifier.enabled) != ("testinfra", True):
        yield "its verifier is not testinfra"
    yield from untested(Path(config.verifier.directory))


def untested(folder: Path) -> Iterator[str]:
    files = sorted(folder.glob("test_*.py"))
    if not files:
        yield "it has no tests"
    for file in files:
        if not any(name.startswith("test_") for name in functions(file.read_text())):
            yield f"{file.name} has no test"


def functions(source: str) -> Iterator[str]:
    return (node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_is_whole(scenario: Path, faults: Faults) -> None:
    assert faults(scenario) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ["no molecule.yml, so script/test does not find it"]),
        ({"molecule.yml": "{}"}, ["it has no tests"]),
        ({"molecule.yml": "{}", "tests/test_it.py": "def check(): ..."}, ["test_it.py has no test"]),
        ({"molecule.yml": "{}", "tests/test_it.py": "def test_it(): ..."}, []),
        (
            {"molecule.yml": "verifier: {name: ansible}", "tests/test_it.py": "def test_it(): ..."},
            ["its verifier is not testinfra"],
        ),
        (
            {
                "molecule.yml": "scenario: {test_sequence: [create, prepare, converge, destroy]}",
                "tests/test_it.py": "def test_it(): ...",
            },
            [
                "its sequence leaves out idempotence",
                "its sequence leaves out verify",
                "prepare has no playbook",
            ],
        ),
        (
            {
                "molecule.yml": "ansible: {playbooks: {create: creat.yml}}",
                "tests/test_it.py": "def test_it(): ...",
            },
            ["create has no playbook"],
        ),
    ],
)
def test_a_scenario_that_would_pass_unseen_is_found(
    files: dict[str, str], expected: list[str], tmp_path: Path, faults: Faults
) -> None:
    for name, content in files.items():
        path = tmp_path / "broken" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert faults(tmp_path / "broken") == expected


SKIPS = {
    *("skip", "skipif", "xfail", "importorskip", "collect_ignore", "collect_ignore_glob"),
    *("SkipTest", "skipTest", "skipIf", "skipUnless", "expectedFailure"),
}


def skips(source: str) -> set[str]:
    """What leaves a test out, as pytest and unittest call it."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return SKIPS & (names | {node.id for node in nodes if isinstance(node, ast.Name)})


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_is_skipped(path: Path) -> None:
    assert skips(path.read_text()) == set()


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.skip\ndef test_it(): ...",
        "@pytest.mark.skipif(True, reason='')\ndef test_it(): ...",
        "pytestmark = pytest.mark.xfail",
        "def test_it(): pytest.skip('')",
        "docker = pytest.importorskip('docker')",
        "collect_ignore = ['test_it.py']",
    ],
)
def test_a_skip_is_found(source: str) -> None:
    assert len(skips(source)) == 1


def test_parameters_that_match_nothing_fail(tmp_path: Path) -> None:
    """A misspelt group in testinfra_hosts gives an empty list of hosts."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('host', [])\ndef test_it(host): ...\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(ROOT / "pytest.ini"), "."]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "Empty parameter set" in run.stdout


def test_no_other_configuration_of_pytest_hides_this_one() -> None:
    names = ("pytest.ini", ".pytest.ini", "pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
    folders = (ROOT / "tests", ROOT / "molecule")
    assert [path for folder in folders for name in names for path in folder.rglob(name)] == []


def run_copy(tmp_path: Path, *, fails: str = "none") -> tuple[int, list[str]]:
    """The real .ci/run and script/test, with scripts that only write down that they were called."""
    for name in (".ci/run", "script/test"):
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy)
    for scenario in ("one", "other"):
        (tmp_path / "molecule" / scenario).mkdir(parents=True)
        (tmp_path / "molecule" / scenario / "molecule.yml").touch()
    (tmp_path / "molecule/shared").mkdir()
    for name in ("script/lint", "script/scenario"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>calls\ntest "$*" != "{fails}"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "script/_setup.sh").write_text(
        f"source {ROOT}/script/_setup.sh\ncd {tmp_path}\n"
        "have_controller() { :; }\nhave_test_software() { :; }\n"
        'pytest() { echo "pytest $*" >>calls; }\n'
    )
    run = subprocess.run([tmp_path / ".ci/run"], capture_output=True, text=True, timeout=30)
    return run.returncode, (tmp_path / "calls").read_text().splitlines()


def test_ci_runs_everything(tmp_path: Path) -> None:
    code, calls = run_copy(tmp_path)
    assert code == 0
    pytest_ = "pytest tests --numprocesses 2 --dist loadfile --no-loadscope-reorder"
    assert calls == ["script/lint ", pytest_, "script/scenario one", "script/scenario other"]


def test_a_scenario_that_fails_fails_ci(tmp_path: Path) -> None:
    code, calls = run_copy(tmp_path, fails="one")
    assert code == 1
    assert calls[-1] == "script/scenario one"
