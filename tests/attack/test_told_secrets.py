"""A secret that is written wrongly into an inventory: what a play says of it is not the secret."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

ROOT = Path(__file__).parents[2]
# Variables whose values are secrets, by their names; what stands in units, for everybody to read, says so.
SECRET = re.compile(r"_(secrets?|secret_keys|password|(signing|private|restore)_key|environment)$")
READ_BY_ALL = {"spark_environment"}
CANARY = "a-canary-that-nobody-may-hear"


def secrets() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield role, name and specification of each variable that is a secret."""
    for file in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(file.read_text())["argument_specs"].values():
            for name, spec in entry.get("options", {}).items():
                if SECRET.search(name) and name not in READ_BY_ALL:
                    yield file.parts[-3], name, spec


@pytest.mark.parametrize(("name", "spec"), [(name, spec) for _, name, spec in secrets()])
def test_a_secret_variable_is_never_logged(name: str, spec: dict[str, Any]) -> None:
    assert spec.get("no_log") is True, name


def played(folder: Path, book: Path, **environment: str) -> str:
    """Play a book that is refused with an inventory, on this machine; return all that is said of it."""
    done = ansible_process.play(
        *(book, "-vvv", f"--inventory={folder}/hosts.json", "--connection=local", "--check", "--diff"),
        f"--extra-vars=ansible_python_interpreter={sys.executable}",
        **environment,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_the_inventory_check_does_not_say_a_secret(tmp_path: Path) -> None:
    """It names what a variable has instead of a mapping, but for these."""
    wanted = [name for _, name, spec in secrets() if spec["type"] == "dict"]
    site = {"hosts": {"one": {}}, "vars": dict.fromkeys(wanted, CANARY)}
    services = {role: {"hosts": {"one": {}}} for role in {role for role, _, _ in secrets()}}
    inventory = {"all": {"children": {"site_one": site, **services}}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    said = played(tmp_path, ROOT / "playbooks/check.yml")
    for name in wanted:
        assert name in said, said[-3000:]
    assert CANARY not in said


def test_role_refuses_secret_without_logging_it(tmp_path: Path) -> None:
    """With -vvv; each role's judgement of its variables, which is given a text where it wants a mapping."""
    wanted = [(role, name) for role, name, spec in secrets() if spec["type"] == "dict"]
    assert {"connect_secrets", "object_store_secret_keys"} <= {name for _, name in wanted}
    for role in {role for role, _ in wanted}:
        (tmp_path / "roles" / role / "meta").mkdir(parents=True)
        (tmp_path / "roles" / role / "tasks").mkdir()
        (tmp_path / "roles" / role / "tasks/main.yml").write_text("[]\n")
        judged = tmp_path / "roles" / role / "meta/argument_specs.yml"
        judged.symlink_to(ROOT / "roles" / role / "meta/argument_specs.yml")
    hosts = {f"host-{name}": {"judged": role, name: CANARY} for role, name in wanted}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    tasks = [{"ansible.builtin.include_role": {"name": "{{ judged }}"}}]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    said = played(tmp_path, tmp_path / "play.yml", ANSIBLE_ROLES_PATH=str(tmp_path / "roles"))
    for _, name in wanted:
        assert re.search(rf"argument '{name}' is of type", said), said[-3000:]
    assert CANARY not in said
