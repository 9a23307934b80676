"""What runs the commands of the install guide in the scenario `installed`: blocks, folders, environment."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "molecule/installed"
PAGE = """# Guide
## Begin
1. Install:

```sh
install aqueduct-0.1.0
```

<!-- needs your hosts -->
```sh
deploy
```

```text
no command
```

```sh
one
two
```
## Go on
```sh
three
```
"""


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"installed_{name}", SCENARIO / f"tests/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


guide = module("guide")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    node = guide.ControlNode(tmp_path / "node")
    node.files.mkdir(parents=True)
    node.home.mkdir()
    for name in ("PYTHONPATH", "ANSIBLE_CONFIG", "AQUEDUCT_LAB_IMAGE", "VIRTUAL_ENV", guide.CACHE):
        monkeypatch.setenv(name, f"/of/the/checkout/{name}")
    return node


def block(number: int, commands: str) -> Any:
    return guide.Block(section="Begin", number=number, commands=commands)


def test_blocks_of_a_page() -> None:
    parsed = [(block.name, block.commands) for block in guide.parse_blocks(PAGE, "0.2.0")]
    assert parsed == [
        ("Begin 1", "install aqueduct-0.2.0\n"),
        ("Begin 3", "one\ntwo\n"),
        ("Go on 1", "three\n"),
    ]


def test_every_guide_command_runs_except_deployment_to_hosts() -> None:
    page = guide.PAGE.read_text()
    shown = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    run = [block.commands for block in guide.parse_blocks(page, "0.1.0")]
    assert len(run) > 12
    assert [commands for commands in shown if commands not in run] == []
    assert len(shown) == len(run) + 1
    playbooks = {name for commands in run for name in re.findall(r"aqueduct\.estate\.(\w+)", commands)}
    assert playbooks >= {"check", "lab_up", "site", "backup", "restore", "status", "lab_down"}
    assert [name for name in playbooks if not (ROOT / f"playbooks/{name}.yml").is_file()] == []


def test_the_deployment_comes_before_the_removal() -> None:
    names = [guide.block_with(commands).name for commands in (guide.DEPLOYMENT, guide.REMOVAL)]
    every = [block.name for block in guide.blocks()]
    assert len({*every}) == len(every)
    assert every.index(names[0]) < every.index(names[1])
    again = [block for block in guide.blocks() if block.commands == f"{guide.AGAIN}\n"]
    assert len(again) == 1
    assert guide.until(guide.block_with(guide.DEPLOYMENT))[-1].name == names[0]


def test_block_starts_in_folder_of_previous_block(node: Any) -> None:
    node.run(block(1, "mkdir own\ncd own\n"))
    assert node.run(block(2, "pwd")).output == f"{node.files}/own\n"
    assert node.run(block(1, "pwd")).output == f"{node.files}\n"
    assert node.runs()["Begin 2"].output == f"{node.files}/own\n"


def test_the_first_command_that_fails_ends_a_block(node: Any) -> None:
    for commands in ("false\necho more\n", "false | cat\necho more\n"):
        run = node.run(block(1, commands))
        assert (run.code, run.output) == (1, "")


def test_another_python_comes_before_that_of_debian(node: Any) -> None:
    node.put_python(Path(sys.executable))
    node.run(block(1, "python3 -m venv --without-pip environment\n"))
    version = node.run(block(2, "python -c 'import sys; print(*sys.version_info[:3])'\n"))
    assert version.output.split() == [str(number) for number in sys.version_info[:3]]
    assert node.run(block(3, "python3 -c 'import yaml'")).code == 1


def test_an_environment_stays_active(node: Any) -> None:
    node.run(block(1, "python3 -m venv --without-pip environment\n"))
    assert node.run(block(2, "command -v python")).output == f"{node.files}/environment/bin/python\n"


def test_commands_do_not_see_the_checkout(node: Any) -> None:
    assert guide.PAGE.is_file()
    assert node.run_commands(f"ls -A {ROOT}") == guide.Run(code=0, output="")
    assert node.run_commands(f"cat {guide.PAGE}").code == 1
    environment = dict(line.split("=", 1) for line in node.run_commands("env").output.splitlines())
    assert environment["HOME"] == str(node.home)
    inherited = [name for name, value in environment.items() if value.startswith("/of/the/checkout/")]
    assert inherited == [guide.CACHE]


def test_pip_is_constrained_to_the_locked_versions() -> None:
    lock = (ROOT / "locks/controller.txt").read_text()
    pins = [Requirement(line) for line in guide.pins(lock).splitlines()]
    assert len(pins) == len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE)) > 100
    assert all(len(pin.specifier) == 1 and str(pin.specifier).startswith("==") for pin in pins)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["controller"]]
    named = {canonicalize_name(Requirement(text).name) for text in declared}
    assert named <= {canonicalize_name(pin.name) for pin in pins}


def test_each_step_runs_the_program_that_has_it() -> None:
    program = (SCENARIO / "machine.py").read_text()
    for name, step in (("create", "build"), ("converge", "deploy"), ("destroy", "remove")):
        *_, play = yaml.safe_load((SCENARIO / f"{name}.yml").read_text())
        [task] = play["tasks"]
        assert task["ansible.builtin.command"]["argv"][1:] == ["{{ playbook_dir }}/machine.py", step]
        assert f"def {step}() -> int:" in program
