"""A role's variables: the ones that it documents are the ones that it has, and they do something."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())

Json = Mapping[str, Any]


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text())) if path.exists() else {}


def faults(role: str, options: Json, defaults: Json, code: str) -> Iterator[str]:
    """Yield the faults of a role's argument_specs and defaults; `code` is all that may use its variables."""
    required = {name for name, option in options.items() if option.get("required")}
    yield from (f"{name} has no default" for name in options.keys() - required - defaults.keys())
    yield from (f"{name} is required and has a default" for name in required & defaults.keys())
    yield from (f"{name} is not in argument_specs" for name in defaults.keys() - options.keys())
    for name in options:
        if not name.startswith(f"{role}_"):
            yield f"{name} does not begin with {role}_"
        if not re.search(rf"\b{name}\b", code):
            yield f"nothing uses {name}"
    yield from undescribed(options)


def undescribed(options: Json) -> Iterator[str]:
    for name, option in options.items():
        if not option.get("description") or "type" not in option:
            yield f"{name} lacks a description or a type"
        elif option["type"] == "list" and "elements" not in option:
            yield f"{name} does not say of what it is a list"
        yield from undescribed(option.get("options", {}))


def code_of(role: str) -> str:
    """Return a role's code as one text.

    Its tasks, templates and internal variables, its defaults' values, the playbooks, and the filters with
    what they read of the estate.
    """
    parts = ("tasks", "templates", "vars", "files", "handlers")
    files = [path for part in parts for path in (ROOT / "roles" / role / part).rglob("*") if path.is_file()]
    defaults = read(ROOT / "roles" / role / "defaults/main.yml")
    files += [
        *ROOT.glob("playbooks/*.yml"),
        *ROOT.glob("plugins/filter/*.py"),
        *ROOT.glob("aqueduct/estate/*.py"),
    ]
    texts = [path.read_text(errors="replace") for path in files]
    return "\n".join([*texts, *map(str, defaults.values())])


@pytest.mark.parametrize("role", ROLES)
def test_role_variables_are_declared_described_and_used(role: str) -> None:
    folder = ROOT / "roles" / role
    entry_points = read(folder / "meta/argument_specs.yml").get("argument_specs", {}).values()
    options = {name: option for each in entry_points for name, option in each.get("options", {}).items()}
    assert list(faults(role, options, read(folder / "defaults/main.yml"), code_of(role))) == []


PORT = {"kafka_port": {"type": "int", "description": "Port."}}


@pytest.mark.parametrize(
    ("options", "defaults", "expected"),
    [
        (PORT, {"kafka_port": 1}, []),
        (PORT, {}, ["kafka_port has no default"]),
        ({}, {"kafka_port": 1}, ["kafka_port is not in argument_specs"]),
        (
            {"kafka_port": PORT["kafka_port"] | {"required": True}},
            {"kafka_port": 1},
            ["kafka_port is required and has a default"],
        ),
        ({"port": PORT["kafka_port"]}, {"port": 1}, ["port does not begin with kafka_"]),
        (
            {"kafka_portal": PORT["kafka_port"]},
            {"kafka_portal": 1},
            ["nothing uses kafka_portal"],
        ),
        (
            {"kafka_port": PORT["kafka_port"] | {"options": {"name": {"type": "str"}}}},
            {"kafka_port": 1},
            ["name lacks a description or a type"],
        ),
        (
            {"kafka_port": {"type": "list", "description": "Ports."}},
            {"kafka_port": []},
            ["kafka_port does not say of what it is a list"],
        ),
    ],
)
def test_a_fault_is_found(options: Json, defaults: Json, expected: list[str]) -> None:
    assert list(faults("kafka", options, defaults, "{{ kafka_port }} {{ port }}")) == expected


OWN_KEYS = re.compile(r"\b_\w+_keys\b")  # names of lists of keys


def handed_out(tasks: Any) -> Iterator[Json]:
    """Yield the variables of each task that has a key for somebody who is no service of the host."""
    for task in every_task(tasks):
        variables = task.get("vars") or {}
        declared = variables.get("_certificates_keys")
        if isinstance(declared, list) or (declared and OWN_KEYS.search(declared)):  # else of a role's needs
            yield variables


def every_task(tasks: Any) -> Iterator[Json]:
    """Yield the tasks of a file, and those in its blocks."""
    for task in tasks or ():
        yield task
        for part in ("block", "always", "rescue"):
            yield from every_task(task.get(part))


def keys_of(file: Path, declared: list[dict[str, Any]] | str) -> list[dict[str, Any]]:
    """Return the keys that a task file asks for: its own, or lists of its facts or its role's variables."""
    if not isinstance(declared, str):
        return declared
    variables = yaml.safe_load((file.parents[1] / "vars/main.yml").read_text())
    for task in every_task(yaml.safe_load(file.read_text())):
        variables |= task.get("ansible.builtin.set_fact", {})
    return [key for name in OWN_KEYS.findall(declared) for key in keys_of(file, variables[name])]


def test_keys_issued_for_one_run_are_short_lived() -> None:
    """The administrator's for a restore, and that of a replay: who keeps a copy has little of it."""
    found = [
        (file, variables)
        for file in sorted(ROOT.glob("roles/*/tasks/*.yml"))
        for variables in handed_out(yaml.safe_load(file.read_text()))
    ]
    principals = [
        key["principal"]
        for file, variables in found
        for key in keys_of(file, variables["_certificates_keys"])
    ]
    assert "admin" in principals
    assert len(principals) >= 2
    for file, variables in found:
        assert variables.get("certificates_validity_days", 365) <= 2, file


# Of the database, which has no sandbox of ours.
OUTSIDE = {"postgres", "{{ _hive_metastore_dumper }}"}


def test_roles_run_as_service_user_only_in_sandbox() -> None:
    """A captured service could reach such a process, and write to the host by its /proc/PID/root."""
    users = [
        (str(path.relative_to(ROOT)), user)
        for part in ("tasks", "vars")
        for path in (ROOT / "roles").glob(f"*/{part}/*.yml")
        for user in re.findall(
            r'(?:become_user: |runuser, --user, |runuser.*--user[ =])"?([^",\n]+)', path.read_text()
        )
    ]
    assert len(users) > 2
    assert [(path, user) for path, user in users if user not in OUTSIDE] == []


# Where root alone makes files and folders. Below other folders a service may put a link in the place of one,
# so only service_files and service_content, which follow none, read and write there.
OF_ROOT = (
    *("/etc/", "/proc/", "/run/", "/sys/"),
    *("/var/lib/aqueduct-repair", "/var/lib/aqueduct-quorum", "/var/lib/aqueduct-restore-stopped.json"),
    "/var/lib/aqueduct-features-plan.json",
)
BY_PATH = {"copy": "dest", "template": "dest", "fetch": "src", "slurp": "src"}
BY_PATH |= {"file": "path", "lineinfile": "path", "blockinfile": "path"}
NOT_OF_HOSTS = {"lab"}


def touched(tasks: Any, variables: Json) -> Iterator[str]:
    """Yield the paths that tasks read or write by Ansible's own modules, as root."""
    for task in tasks:
        known = {**variables, **(task.get("vars") or {})}
        for part in ("block", "always", "rescue"):
            yield from touched(task.get(part) or (), known)
        for name, key in BY_PATH.items():
            given = task.get(f"ansible.builtin.{name}")
            if given and "become_user" not in task:
                path = given.get(key) or given["path"]
                items = task["loop"] if re.match(r"{{ item(\.path)? }}$", path) else [path]
                yield from (
                    resolved(item if isinstance(item, str) else item["path"], known) for item in items
                )


def resolved(path: str, variables: Json) -> str:
    """Replace the variables at the beginning of a path."""
    while (found := re.match(r"{{ (\w+) }}", path)) and isinstance(variables.get(found[1]), str):
        path = variables[found[1]] + path[found.end() :]
    return path


@pytest.mark.parametrize("role", sorted({*ROLES} - NOT_OF_HOSTS))
def test_ansible_file_modules_touch_only_root_owned_folders(role: str) -> None:
    """Below folders of services, a service could put a link in the place of a file."""
    folder = ROOT / "roles" / role
    variables = read(folder / "defaults/main.yml") | read(folder / "vars/main.yml")
    found = [
        (file.name, path)
        for file in sorted(folder.glob("tasks/*.yml"))
        for path in touched(yaml.safe_load(file.read_text()) or (), variables)
    ]
    assert [(name, path) for name, path in found if not path.startswith(OF_ROOT)] == []


PACKAGE = re.compile(r"^ +from aqueduct\b|^ +from kazoo\b", re.MULTILINE)
ENVIRONMENT = "plugins.plugin_utils.environments import EnvironmentAction"


def test_modules_that_import_package_run_in_environment() -> None:
    """Its action says in which, so no task needs another interpreter."""
    modules = {
        path.stem for path in (ROOT / "plugins/modules").glob("*.py") if PACKAGE.search(path.read_text())
    }
    actions = {
        path.stem for path in (ROOT / "plugins/action").glob("*.py") if ENVIRONMENT in path.read_text()
    }
    assert len(modules) > 8
    assert actions == modules
    tasks = [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("playbooks/*.yml")]
    assert {path.name for path in tasks if "ansible_python_interpreter" in path.read_text()} == {
        "lab_image.yml"
    }


# `{% set _ = list.append(...) %}`, `{{ list.append(...) }}`.
PROGRAM = re.compile(r"{%-?\s*set\s+_\s*=|\.(?:append|extend|insert|update|setdefault)\(")


def test_no_template_is_a_program() -> None:
    """A list or a mapping that grows in a template belongs in a filter, which has types and tests."""
    files = [
        path
        for folder in ("roles", "playbooks", "inventories", "molecule")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".yml", ".j2"} and path.is_file()
    ]
    assert len(files) > 300
    assert [path.relative_to(ROOT) for path in files if PROGRAM.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("text", "grows"),
    [
        ("{%- set _ = files.append(1) -%}", True),
        ("{% set _ = x %}", True),
        ("{{- found.extend(lines) -}}", True),
        ("{% set unit_properties = _drill_unit %}", False),
        ("{{ files | combine(more) }}", False),
    ],
)
def test_growing_list_in_a_template_is_detected(text: str, *, grows: bool) -> None:
    assert bool(PROGRAM.search(text)) == grows


def test_configuration_is_readable_by_service_or_root_only() -> None:
    """Other services of its host may be captured; scenarios look at the same in the labs they have."""
    found = [(role, path, file) for role in ROLES for path, file in configured(ROOT / "roles" / role)]
    assert len(found) > 30
    open_to_all = [
        f"{role}: {path}" for role, path, file in found if "owner" not in file and file.get("mode") != "0600"
    ]
    assert open_to_all == []


@pytest.mark.parametrize("role", ["kafka_quorum", "zookeeper"])
def test_removing_backup_declaration_leaves_no_files(role: str) -> None:
    folder = ROOT / "roles" / role
    variables = read(folder / "defaults/main.yml") | read(folder / "vars/main.yml")

    def files(tasks: str) -> Iterator[str]:
        for task in every_task(yaml.safe_load((folder / f"tasks/{tasks}.yml").read_text())):
            for file in task.get("aqueduct.estate.service_files", {}).get("files", []):
                yield resolved(str(file["dest"]), variables)

    written, removed = {*files("backup")}, {*files("no_backup")}
    assert len(written) > 3
    kept = {path for path in written - removed if str(Path(path).parent) not in removed}
    assert kept == set()
    tasks = yaml.safe_load((folder / "tasks/no_backup.yml").read_text())
    [unit] = tasks[0]["aqueduct.estate.service_units"]["units"]  # before its files go
    assert (unit["name"].endswith(".timer"), unit["state"]) == (True, "stopped")


def configured(folder: Path) -> Iterator[tuple[str, Json]]:
    """Yield what a role writes to folders of /etc/aqueduct, with its path."""
    variables = read(folder / "defaults/main.yml") | read(folder / "vars/main.yml")
    for path in sorted(folder.glob("tasks/*.yml")):
        for task in every_task(yaml.safe_load(path.read_text())):
            files = task.get("aqueduct.estate.service_files", {}).get("files", [])
            for file in files if isinstance(files, list) else ():  # else a template
                where = resolved(str(file["dest"]), variables)
                if "content" in file and re.match("/etc/aqueduct/.+/", where):
                    yield where, file


def test_roles_with_metrics_declare_exporter_targets() -> None:
    """What Prometheus collects is what roles declare (plugins/action/exporter_targets.py)."""
    serving = [role for role in ROLES if f"{role}_metrics_port" in defaults_of(role)]
    assert len(serving) > 5
    undeclared = [
        role
        for role in serving
        if f"{role}_metrics_port" not in declared_targets(read(ROOT / "roles" / role / "vars/main.yml"), role)
    ]
    assert undeclared == []


def defaults_of(role: str) -> Json:
    return read(ROOT / "roles" / role / "defaults/main.yml")


def declared_targets(variables: Json, role: str) -> str:
    """Return what declares the ports of a role's metrics, with the variables that it refers to."""
    status = variables.get(f"_{role}_status", {}).get("metrics", "")
    texts = f"{variables.get(f'_{role}_exporters', '')} {status}"
    return texts + "".join(str(variables[name]) for name in re.findall(r"\w+", texts) if name in variables)
