"""The repository is the collection aqueduct.estate: its content, and how it works where it is installed."""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from ansible.module_utils.compat.version import LooseVersion
from kit import release_files
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
# A new folder of the repository is in none of them until somebody decides whether users need it.
FILES = {"CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "VERSION", "pyproject.toml"}
FOLDERS = {"aqueduct", "artifacts", "docs", "inventories", "locks", "meta", "playbooks", "plugins", "roles"}
FOLDERS |= {"spark_apps"}
# What a checkout that was worked with has, too.
LEFT_BEHIND = (
    *("inventories/mine/pki/ca/ca.key", "inventories/mine/reports/status.json", "roles/kafka/files/own.pem"),
    *(".venv/bin/python", "plugins/filter/__pycache__/x.pyc", "roles/kafka/.cache/x", "build/lib/x.py"),
    *("dist/aqueduct.tar.gz", "aqueduct_estate.egg-info/PKG-INFO", ".vault-password"),
)
LARGEST = 300_000  # bytes of a file, none of which is data


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the collection from what git has, with what a run leaves behind."""
    folder = tmp_path_factory.mktemp("collection")
    tree = release_files.export(folder / "tree")
    for name in LEFT_BEHIND:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("left behind")
    return release_files.collection(tree, folder)


def test_tarball_contains_only_files_that_users_need(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        members = archive.getmembers()
    files = {member.name for member in members if member.isfile()}
    assert {name.partition("/")[0] for name in files} == FILES | FOLDERS
    assert files.isdisjoint(LEFT_BEHIND)
    assert [name for name in files if re.search(r"(^|/)\.|pki|reports/|\.(key|pem|p12)$", name)] == []
    assert {"inventories/example/hosts.yml", "locks/base.txt", "artifacts/files.sha256"} <= files
    assert "inventories/lab/hosts.yml" not in files
    assert [member.name for member in members if member.size > LARGEST] == []
    links = {member.name: member.linkname for member in members if member.issym() or member.islnk()}
    assert {name for name in links if not re.fullmatch(r"roles/\w+/templates/units", name)} == set()
    assert {*links.values()} == {"../../host/templates/units"}


def test_collection_has_package_version_and_accepts_locked_ansible() -> None:
    assert GALAXY["version"] == (ROOT / "VERSION").read_text().strip()
    takes = SpecifierSet(yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"])
    locked = re.findall(r"^ansible-core==(\S+)", (ROOT / "locks/controller.txt").read_text(), re.MULTILINE)
    assert locked
    assert all(version in takes for version in locked)


def test_required_collections_come_with_locked_ansible() -> None:
    used = {
        ".".join(name.split(".")[:2])
        for folder in ("roles", "playbooks")
        for path in (ROOT / folder).rglob("*.yml")
        for name in re.findall(r"\b(?:community|ansible)\.\w+\.\w+", path.read_text())
    } - {"ansible.builtin"}
    assert used == {*GALAXY["dependencies"]}
    done = release_files.tool("ansible-galaxy", "collection", "list", "--format=yaml", folder=ROOT)
    installed = yaml.safe_load(done.stdout).values()
    for name, versions in GALAXY["dependencies"].items():
        [found] = {each[name]["version"] for each in installed if name in each}
        assert LooseVersion(found) >= LooseVersion(versions.removeprefix(">="))


@pytest.fixture(scope="module")
def elsewhere(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the collection into a folder that has nothing of the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "ansible.cfg").write_text("[defaults]\ncollections_path = collections\n")
    install = (
        "collection",
        "install",
        "--offline",
        "--no-deps",
        "--collections-path",
        folder / "collections",
    )
    done = release_files.tool("ansible-galaxy", *install, tarball, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def play(folder: Path, *arguments: str | Path) -> CompletedProcess[str]:
    return release_files.tool("ansible-playbook", *arguments, folder=folder)


@pytest.mark.parametrize("inventory", ["example", pytest.param("lab", marks=pytest.mark.long)])
def test_an_installed_collection_checks_an_inventory(elsewhere: Path, inventory: str) -> None:
    done = play(elsewhere, "aqueduct.estate.check", f"--inventory={ROOT / 'inventories' / inventory}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long  # test_installed.py does this with the installed package, too
def test_an_installed_collection_refuses_a_broken_inventory(elsewhere: Path) -> None:
    broken = ROOT / "tests/contract/broken_inventories/no_broker.yml"
    done = play(elsewhere, "aqueduct.estate.site", f"--inventory={broken}")
    assert done.returncode == 2
    assert "no host was contacted" in done.stdout


def test_every_playbook_of_installed_collection_passes_syntax_check(elsewhere: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
    done = play(
        elsewhere,
        *("--syntax-check", f"--inventory={ROOT / 'inventories/lab'}"),
        *(f"aqueduct.estate.{name}" for name in names),
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^playbook: ", done.stdout, re.MULTILINE)) == len(names)


RENDERED = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ lookup('ansible.builtin.template', roles ~ '/land/templates/land_compact.timer.j2') }}"
      vars: {_land_site: pro1, land_compact_every_seconds: 600}
"""


def test_installed_role_finds_shared_unit_templates(elsewhere: Path) -> None:
    roles = elsewhere / "collections/ansible_collections/aqueduct/estate/roles"
    (elsewhere / "render.yml").write_text(RENDERED)
    done = play(elsewhere, "render.yml", "--inventory=localhost,", "--connection=local", f"-eroles={roles}")
    assert done.returncode == 0, done.stdout
    assert "OnUnitInactiveSec=600" in done.stdout
    links = [*roles.glob("*/templates/units")]
    assert {link.resolve() for link in links} == {roles / "host/templates/units"}
    assert len(links) == len([*(ROOT / "roles").glob("*/templates/units")])


OPERATIONS = """
- hosts: kafka
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: aqueduct.estate.kafka_migration, tasks_from: check}
"""
NODE = "{all: {children: {site_pro1: {hosts: {one: {kafka_node_id: 1}}}, kafka: {hosts: {one: }}}}}"


def test_installed_role_reads_variables_of_another_role(elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(OPERATIONS)
    (tmp_path / "hosts.yml").write_text(NODE)
    done = play(elsewhere, tmp_path / "play.yml", f"--inventory={tmp_path}/hosts.yml")
    assert done.returncode == 2, done.stdout
    assert "Set kafka_version: 3.9.2 for site pro1" in " ".join(done.stdout.split())


LOADED = """
import sys
from ansible.plugins.loader import callback_loader, init_plugin_loader
init_plugin_loader()
callback_loader.get("aqueduct.estate.steady")
print("aqueduct.estate.model" in sys.modules)
"""


def test_forked_tasks_inherit_loaded_filters() -> None:
    """Each of 100 short tasks took half a second of processor time where it imported them, now a tenth."""
    environment = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def own_filters() -> Iterator[str]:
    for path in ROOT.glob("plugins/filter/*.py"):
        spec = spec_from_file_location(f"own_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield from module.FilterModule().filters()


def test_own_plugins_and_roles_have_fully_qualified_names() -> None:
    """Ansible finds short names only where a setting says where they are."""
    filters = "|".join(own_filters())
    modules = "|".join({path.stem for path in ROOT.glob("plugins/[am][co]*/[!_]*.py")})
    roles = "|".join(path.name for path in ROOT.glob("roles/*"))
    short = re.compile(
        rf"\|\s*(?:{filters})\b|\b(?:map|select|reject)\(\s*['\"](?:{filters})['\"]"
        rf"|^\s*-? ?(?:{modules}):$|^\s+- (?:role: )?(?:{roles})$|(?:_role|_role:\n)\s+name: (?:{roles})$",
        re.MULTILINE,
    )
    files = [
        path
        for folder in ("roles", "playbooks", "molecule", "inventories/example", "inventories/lab")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".yml", ".j2")
    ]
    assert len(files) > 300
    found = [(path.name, found[0]) for path in files for found in short.finditer(path.read_text())]
    assert [each for each in found if each[1].strip() not in VARIABLES] == []


# Variables of inventories and a role that are called as a module is.
VARIABLES = {"connect_connectors:", "kafka_acls:", "kafka_topics:", "object_store_buckets:"}
VARIABLES |= {"zookeeper_owners:"}
