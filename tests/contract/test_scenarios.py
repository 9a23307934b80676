"""No scenario is green because nothing was tested: it has tests, each step has its playbook, none is skipped
(each of these was seen to pass), and each run of all tests says which ones it left out.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aqueduct.control_node.starter.inventory import inventory_files
from aqueduct.control_node.starter.sites import parse_sites

ROOT = Path(__file__).resolve().parents[2]
NO_SCENARIOS = {"conftest.py", "shared", "__pycache__"}
SCENARIOS = sorted(path for path in (ROOT / "molecule").iterdir() if path.name not in NO_SCENARIOS)
TEST_FILES = sorted(
    path
    for folder in ("tests", "molecule", "demo/tests")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__)
)

STEPS = {"create", "converge", "idempotence", "verify", "destroy"}
# Steps that need no playbook of their own: molecule runs converge's again, or pytest.
WITHOUT_PLAYBOOK = {"idempotence", "verify", "syntax", "dependency"}

Faults = Callable[[Path], list[str]]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Return a function that finds a scenario's faults, as molecule itself understands its configuration."""
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
    """Find what leaves a test out, as pytest and unittest call it."""
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
    folders = (ROOT / "tests", ROOT / "molecule", ROOT / "demo")
    assert [path for folder in folders for name in names for path in folder.rglob(name)] == []


REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one" time="1.5"/>
<testcase classname="tests.store.test_b" name="test_two" time="2"/>
</testsuite></testsuites>"""
FAILED_PLACE = "kit/helper.py:7: AssertionError"
FAILURE = f'<failure message="no">assert False\n\n{FAILED_PLACE}</failure>'
FAILED = REPORT.replace('time="2"/>', f'time="2">{FAILURE}</testcase>')
FAILED_TEST = "tests.store.test_b.test_two failed after 2 s: no"
NOTHING = "<testsuites><testsuite/></testsuites>"


def run_copy(
    tmp_path: Path,
    *arguments: str,
    fails: str = "none",
    reports: dict[str, str] | None = None,
    minutes: str = "",
    scenarios: tuple[str, ...] = ("restore",),
) -> tuple[int, list[str], list[str]]:
    """Return the real .ci/run and script/test, with scripts that only write down that they were called.

    `fails`: the call that ends with exit code 1; `reports`: what pytest reports of a call, if not REPORT.
    Returns the exit code, the calls and the lines that were printed.
    """
    for name in (".ci/run", "script/test", "tests/parts.py"):
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy)
    for scenario in scenarios:
        (tmp_path / "molecule" / scenario).mkdir(parents=True)
        (tmp_path / "molecule" / scenario / "molecule.yml").touch()
    (tmp_path / "molecule/shared").mkdir()
    for number, (call, report) in enumerate({"": "", **(reports or {})}.items()):
        (tmp_path / f"report-{number}").write_text(f"{call}\n{report}")
    (tmp_path / "report").write_text(REPORT)
    stub = f"""
echo "$call" >>calls
report=${{PYTEST_ADDOPTS#--junitxml=}}
mkdir -p "$(dirname "$report")"
[ "$call" = script/lint ] || cp report "$report"
for other in report-*; do
    [ "$(head -n1 "$other")" != "$call" ] || tail -n+2 "$other" >"$report"
done
test "$call" != "{fails}"
"""
    (tmp_path / "bin").mkdir()
    (tmp_path / "newest/bin").mkdir(parents=True)
    for name in ("script/lint", "script/scenario", "bin/pytest", "newest/bin/python"):
        call = name.removeprefix("bin/")
        (tmp_path / name).write_text(f'#!/bin/sh\ncall="{call}${{*:+ $*}}"\n{stub}')
        (tmp_path / name).chmod(0o755)
    for test in ("broker/test_a.py", "store/test_b.py", "yarn/test_c.py"):
        (tmp_path / "tests" / test).parent.mkdir()
        (tmp_path / "tests" / test).touch()
    (tmp_path / "script/_setup.sh").write_text(
        f"source {ROOT}/script/_setup.sh\ncd {tmp_path}\n"
        "at_most() { echo 5; }\n"
        "have_controller() { :; }\nhave_test_software() { :; }\nhave_hive_metastore() { :; }\n"
        "have_schema_registry() { :; }\nhave_oldest_kafka() { :; }\nhave_newest_kafka() { :; }\n"
        "have_lab_image() { :; }\nhave_debian_13() { :; }\nhave_iceberg() { :; }\n"
        f"have_newest_python() {{ newest_python={tmp_path}/newest; }}\n"
        f"PATH={tmp_path}/bin:$PATH\n"
    )
    command = [tmp_path / "script/test", *arguments] if arguments else [tmp_path / ".ci/run"]
    environment = os.environ | ({"AQUEDUCT_TEST_MINUTES": minutes} if minutes else {})
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    return run.returncode, (tmp_path / "calls").read_text().splitlines(), run.stdout.splitlines()


APART = "--ignore=tests/yarn --ignore=tests/iceberg --ignore=tests/spark/cluster"
FOLDERS = "tests/unit tests/zookeeper tests/broker tests/store"  # and no other one of those that are there
TESTS = f"pytest {FOLDERS} {APART} --numprocesses 5 --dist loadfile --no-loadscope-reorder"
DEMO = "pytest demo/tests --capture=no --timeout=2400"
FAST = (
    "pytest tests/unit tests/broker/test_backup.py tests/broker/test_restore.py tests/batches tests/contract "
    "--numprocesses 5 --dist loadfile --no-loadscope-reorder"
)
CALLS = ["script/lint", TESTS, DEMO, "script/scenario restore"]


def assert_all_called(calls: list[str]) -> None:
    """Lint runs beside the tests, then the demo and a scenario side by side."""
    assert sorted(calls[:2]) == sorted(CALLS[:2])
    assert sorted(calls[2:]) == sorted(CALLS[2:])


def test_ci_runs_tests_and_two_labs(tmp_path: Path) -> None:
    code, calls, said = run_copy(tmp_path)
    assert code == 0
    assert_all_called(calls)
    table = [
        line.split()[:3] for line in said[said.index(next(line for line in said if "seconds" in line)) :]
    ]
    assert table[1 : table.index([])] == [
        ["demo", "2", "0"],
        ["tests/store", "1", "0"],
        ["tests/unit", "1", "0"],
        ["lint", "1", "0"],
        ["tests", "2", "0"],
        ["tests/store", "1", "0"],
        ["tests/unit", "1", "0"],
        ["molecule/restore", "2", "0"],
        ["tests/store", "1", "0"],
        ["tests/unit", "1", "0"],
    ]
    assert "      2 s  tests.store.test_b.test_two" in said
    assert said[-1] == "7 passed, 0 failed"


def test_fast_runs_what_needs_few_servers(tmp_path: Path) -> None:
    code, calls, said = run_copy(tmp_path, "--fast")
    assert (code, sorted(calls), said[-1]) == (0, [FAST, "script/lint"], "3 passed, 0 failed")


def test_other_scenarios_run_with_all_or_are_listed(tmp_path: Path) -> None:
    scenarios = ("cross", "restore", "upgrade")
    code, calls, output = run_copy(tmp_path, scenarios=scenarios)
    assert code == 0
    assert [call for call in calls if "scenario" in call] == ["script/scenario restore"]
    assert [line for line in output if line.startswith("NOT RUN")] == [
        "NOT RUN without --all: cross, upgrade"
    ]
    (tmp_path / "all").mkdir()
    code, calls, output = run_copy(tmp_path / "all", "--all", scenarios=scenarios)
    assert code == 0
    assert {call for call in calls if "scenario" in call} == {f"script/scenario {each}" for each in scenarios}
    assert [line for line in output if line.startswith("NOT RUN")] == []


def test_scenarios_of_each_run_exist() -> None:
    [names] = re.findall(r'^SCENARIOS="(.*?)"', (ROOT / "script/test").read_text(), re.MULTILINE)
    assert {*names.split()} - {scenario.name for scenario in SCENARIOS} == set() != {*names.split()}


def test_run_fails_if_labs_would_exceed_time_limit(tmp_path: Path) -> None:
    code, calls, said = run_copy(tmp_path, minutes="10")
    assert code == 1
    assert said[-1].endswith(" 0 failed, 2 labs not run")
    assert not [call for call in calls if "scenario" in call or "demo" in call]
    listed = [line for line in said if line.startswith("NOT RUN")]
    assert [sorted(line.partition(": ")[2].split(", ")) for line in listed] == [["demo", "restore"]]


@pytest.mark.parametrize(
    ("fails", "reports", "last", "why"),
    [
        (TESTS, {TESTS: FAILED}, "6 passed, 1 failed", FAILED_TEST),
        (TESTS, {}, "7 passed, 1 failed", "tests failed with exit code 1"),
        (DEMO, {DEMO: NOTHING}, "5 passed, 1 failed", "demo failed with exit code 1"),
        ("none", {DEMO: NOTHING}, "5 passed, 1 failed", "demo ran no test"),
        ("script/scenario restore", {}, "7 passed, 1 failed", "molecule/restore failed with exit code 1"),
        ("none", {"script/scenario restore": FAILED}, "6 passed, 1 failed", FAILED_TEST),
    ],
)
def test_failed_part_fails_ci_but_others_still_run(
    tmp_path: Path, fails: str, reports: dict[str, str], last: str, why: str
) -> None:
    code, calls, said = run_copy(tmp_path, fails=fails, reports=reports)
    assert code == 1
    assert_all_called(calls)
    assert said[-1] == last
    assert any(line.startswith(why) for line in said)
    assert (FAILED_PLACE in said) == (why == FAILED_TEST)


def test_failed_lint_ends_the_run(tmp_path: Path) -> None:
    code, calls, output = run_copy(tmp_path, fails="script/lint")
    assert (code, sorted(calls), output[-1]) == (1, [TESTS, "script/lint"], "2 passed, 1 failed")


def test_labs_run_side_by_side() -> None:
    """No two publish the same port of this machine, or have the same name or subnet."""
    taken = []
    for inventory in (*ROOT.glob("molecule/*/inventory"), ROOT / "inventories/lab"):
        text = "".join(path.read_text() for path in inventory.rglob("*.yml"))
        taken += re.findall(r"lab_published_port: (\d+)", text)
        taken += {name or subnet for name, subnet in re.findall(r"lab_name: (\S+)|subnet: ([\d./]+)", text)}
    # The scenario `installed` deploys what `aqueduct init` creates; its own inventory has the lab's name.
    starter = inventory_files(parse_sites("pro1,pro2,lake1"), is_lab=True)["hosts.yml"]
    taken += re.findall(r"lab_published_port: (\d+)", starter)
    settings = (ROOT / "aqueduct/control_node/starter/files/lab.yml").read_text()
    [name] = re.findall(r"^lab_name: (\S+)$", settings, re.MULTILINE)
    assert name in taken
    assert len(taken) > 20
    assert [each for each, times in Counter(taken).items() if times > 1] == []
