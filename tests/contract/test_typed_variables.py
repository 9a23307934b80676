"""Variables of `-e name=value` are texts: what decides or calculates by one gives it its type first."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import nodes
from kit import ansible_process
from kit.typed_variables import PARSER, bare, decided

from aqueduct.estate.check.variables import faults
from servers.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
CONDITIONS = {"when", "that", "failed_when", "changed_when", "until"}
NUMBERS = {"int", "float"}


class _Loader(yaml.SafeLoader):
    pass


_Loader.add_multi_constructor("!", lambda *_: None)


def declared() -> dict[str, str]:
    """Return the types of all variables of the roles."""
    types = {}
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            types |= {name: each.get("type", "str") for name, each in entry.get("options", {}).items()}
    return types


def calculated(tree: nodes.Template) -> Iterator[nodes.Node]:
    """Yield what is calculated with or compared."""
    for each in tree.find_all((nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod)):
        yield from (each.left, each.right)
    for each in tree.find_all(nodes.Compare):
        yield from (each.expr, *(operand.expr for operand in each.ops))


def untyped(text: str, types: dict[str, str], *, condition: bool = False) -> set[str]:
    """Return the variables of an expression or a template that are used without their type."""
    tree = PARSER.parse(f"{{{{ {text} }}}}" if condition and "{{" not in text else text)
    truths = {bare(each) for each in decided(tree, condition=condition)}
    numbers = {bare(each) for each in calculated(tree)}
    wrong = {name for name in truths if name and types.get(name) == "bool"}
    return wrong | {name for name in numbers if name and types.get(name) in NUMBERS}


def texts(content: object, *, condition: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield each text of a YAML file, and whether it is a condition."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from texts(value, condition=key in CONDITIONS)
    elif isinstance(content, list):
        for each in content:
            yield from texts(each, condition=condition)
    elif isinstance(content, str):
        yield content, condition


@pytest.mark.parametrize("pattern", ["playbooks/*.yml", "roles/**/*.yml", "roles/**/*.j2"])
def test_variables_are_typed_in_decisions_and_calculations(pattern: str) -> None:
    types, found = declared(), {}
    paths = sorted(ROOT.glob(pattern))
    assert len(paths) > 30
    for path in paths:
        every: list[tuple[str, bool]] = [(path.read_text(), False)]
        if path.suffix == ".yml":
            every = [
                each for document in yaml.load_all(path.read_text(), _Loader) for each in texts(document)
            ]
        for text, condition in every:
            if names := untyped(text, types, condition=condition):
                found[str(path.relative_to(ROOT))] = names
    assert found == {}


@pytest.mark.parametrize(
    ("text", "condition", "wrong"),
    [
        ("flag", True, True),
        ("other and flag", True, True),
        ("flag | bool", True, False),
        ("not flag", True, True),
        ("flag | default(false)", True, True),
        ("{{ 'a' if flag else 'b' }}", False, True),
        ("{% if flag %}x{% endif %}", False, True),
        ("{{ flag }}", False, False),
        ("number > 3", True, True),
        ("number | int > 3", True, False),
        ("{{ number + 1 }}", False, True),
        ("{{ number }}", False, False),
    ],
)
def test_a_variable_without_its_type_is_found(text: str, condition: bool, wrong: bool) -> None:
    found = untyped(text, {"flag": "bool", "number": "int"}, condition=condition)
    assert bool(found) == wrong


PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: aqueduct.estate.kafka, tasks_from: restart_order}
    - ansible.builtin.debug: {msg: "order={{ groups.kafka_restart_last | default([]) | length }}."}
"""


@pytest.mark.parametrize(("given", "restarted"), [("true", 1), ("false", 0)])
def test_kafka_restart_all_accepts_text_booleans(
    source: Broker, tmp_path: Path, given: str, restarted: int
) -> None:
    """The tasks that choose the nodes, against a real cluster of one node, which is its active controller."""
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "client.properties").write_text("")
    variables = {
        "kafka_node_id": "1",
        "kafka_ready_seconds": "60",
        "_kafka_bootstrap_servers": source.plaintext,
        "_kafka_tls": str(tmp_path),
        "__kafka_unit": {"stale": [], "started": []},
        "ansible_python_interpreter": sys.executable,
        "_environment_python": sys.executable,
    }
    done = ansible_process.play(
        tmp_path / "play.yml",
        "--inventory=localhost,",
        f"--extra-vars={json.dumps(variables)}",
        f"--extra-vars=kafka_restart_all={given}",
    )
    assert done.returncode == 0, done.stdout
    assert f"order={restarted}." in done.stdout


def lines() -> list[tuple[str, str, str]]:
    """Return each documented setting of a playbook's variable: playbook, name and value."""
    found = set()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("playbooks/*.yml")]:
        for line in path.read_text().splitlines():
            # The playbook that was named last before it in the line, or whose header it is.
            playbook = path.stem if path.suffix == ".yml" and line.startswith("#") else ""
            for named, name, value in re.findall(r"playbooks/(\w+)\.yml|-e (\w+)=([^\s`),.;\"']+)", line):
                playbook = named or playbook
                if name and playbook and "<" not in value:
                    found.add((playbook, name, value))
    assert ("rolling_restart", "kafka_restart_all", "true") in found
    return sorted(found)


@pytest.mark.parametrize(("playbook", "name", "value"), lines())
def test_a_documented_variable_exists(playbook: str, name: str, value: str) -> None:
    own = (ROOT / f"playbooks/{playbook}.yml").read_text()
    types = declared()
    assert name in types or re.search(rf"\b{name}\b", own.split("- name:", 1)[1])
    if types.get(name) == "bool":
        assert value in {"true", "false"}


def lists(options: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each option that is a list, at any depth, with its spec."""
    for name, spec in options.items():
        if spec.get("type") == "list":
            yield (*path, name), spec
        yield from lists(spec.get("options", {}), (*path, name))


def test_text_for_list_is_finding_in_every_option() -> None:
    """Ansible takes it for a list of one, and templates take its letters."""
    options = {
        name: spec
        for path in ROOT.glob("roles/*/meta/argument_specs.yml")
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values()
        for name, spec in entry.get("options", {}).items()
    }
    found = dict(lists(options))
    assert {("mirror_maker_flows", "topics"), ("land_tables", "topics"), ("backup_topics",)} <= found.keys()
    for path, spec in found.items():
        [(_, said)] = faults("flights", spec)
        assert said.id == "value-type-wrong", path
