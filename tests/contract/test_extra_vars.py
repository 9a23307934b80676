"""Checks of --extra-vars, before a playbook touches a host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.plugins.loader import action_loader
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
# Playbook, and the command whose options its variables are.
VERBS = {
    "restore": ["restore"],
    "backup": ["backup"],
    "dlq_replay": ["dlq", "replay"],
    "restore_zookeeper": ["zookeeper", "restore"],
    "restore_quorum": ["quorum", "plan"],
}


def header(playbook: str) -> str:
    return (ROOT / "playbooks" / f"{playbook}.yml").read_text().split("- name:")[0]


def declared(playbook: str) -> dict[str, str]:
    """Return the variables that a playbook has, each with its kind."""
    plays = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text())
    places = [play.get("vars", {}) for play in plays]
    places += [task.get("vars", {}) for play in plays for task in play.get("tasks", ())]
    variables: dict[str, str] = next(place["_variables"] for place in places if "_variables" in place)
    return variables


def said(
    playbook: str = "restore", inventory: str = "inventories/lab", *options: str, **variables: str
) -> str:
    given = [f"--extra-vars={name}={value}" for name, value in variables.items()]
    path = ROOT / "playbooks" / f"{playbook}.yml"
    done = ansible_process.play(path, f"--inventory={inventory}", *options, *given)
    assert done.returncode == 2
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("misspelt", ["dryrun", "backup_dry_run"])
def test_a_misspelt_variable_is_refused(misspelt: str) -> None:
    assert f"has no variable {misspelt}. Nothing was done." in said(site="pro1", **{misspelt: "1"})


@pytest.mark.parametrize("playbook", VERBS)
def test_variables_are_options_of_the_command(playbook: str) -> None:
    """An option stands in the command line alone: a playbook's variable is given to it as it is."""
    text = subprocess.run(
        [Path(sys.executable).parent / "aqueduct", *VERBS[playbook], "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    options = set(re.findall(r"--[a-z-]+", text.replace("--[no-]settings", "--no-settings")))
    for name, kind in declared(playbook).items():
        option = f"--{name.replace('_', '-')}"
        assert kind in {"own", "value", "flag"}
        assert kind == "own" or option in options, f"{playbook}.yml: {name}"
        takes_value = re.search(rf"{option} [A-Z]", text) is not None
        assert kind == "own" or takes_value == (kind == "value"), f"{playbook}.yml: {name}"


@pytest.mark.parametrize("playbook", [*VERBS, "resend"])
def test_the_header_names_every_variable(playbook: str) -> None:
    assert set(declared(playbook)) <= set(re.findall(r"\w+", header(playbook)))


def test_restore_playbook_accepts_all_declared_variables() -> None:
    given = dict.fromkeys(declared("restore"), "true") | {"site": "nowhere"}
    assert "Sites with backups: pro1" in said(backup_timeout_seconds="5", **given)


@pytest.mark.parametrize("value", ["ture", ""])
def test_what_is_neither_true_nor_false_is_refused(value: str) -> None:
    assert f"dry_run={value}: must be true or false. Nothing was done." in said(site="pro1", dry_run=value)


@pytest.mark.parametrize("playbook", ["resend", "dlq_replay"])
def test_a_dry_run_that_is_misspelt_sends_nothing(playbook: str) -> None:
    assert "dry_run=ture: must be true or false. Nothing was done." in said(playbook, dry_run="ture")


def test_options_are_made_of_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "plugins/filter")
    import extra_vars

    given = {"topics": "a,b:c", "dry_run": True, "acls": "no", "append": "yes", "site": "pro1"}
    monkeypatch.setattr(extra_vars, "load_extra_vars", lambda _: given)
    assert extra_vars.extra_vars_options(declared("restore")) == ["--topics=a,b:c", "--append", "--dry-run"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sites": "old"}, "Pass -e site=<name>"),
        ({"site": "old", "to": "kraft", "confirm": "yes"}, "Pass -e site=<name>"),
        ({"site": "nowhere"}, "This inventory has no site nowhere with brokers."),
        ({"site": "lake", "to": "dual_write"}, "Site lake keeps its metadata in KRaft"),
        ({"site": "old", "kafka_version": "4.3.1"}, "[migration-broker-unfit] Kafka 4.3.1 "),
    ],
)
def test_zookeeper_migration_refuses_unsuitable_site_or_variables(
    given: dict[str, str], sentence: str
) -> None:
    refused = said("migrate_to_kraft", "molecule/old_estate/inventory", **given)
    assert sentence in refused
    assert "Nothing was done." in refused


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        ("old", "Site old keeps its metadata in ZooKeeper"),
        ("nowhere", "This inventory has no site nowhere with brokers."),
    ],
)
def test_features_are_those_of_a_site_with_kraft(site: str, sentence: str) -> None:
    assert sentence in said("upgrade_features", "molecule/old_estate/inventory", site=site)


def test_zookeeper_migration_refuses_limit_that_omits_broker() -> None:
    """A broker that is not led along would lead its partitions beside those that the others elect."""
    limit = "--limit=site_old:!old-kafka-2"
    refused = said("migrate_to_kraft", "molecule/old_estate/inventory", limit, site="old", to="zookeeper")
    assert "does not include old-kafka-2 of site old" in refused


PLAN = """
- hosts: kafka
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.include_role: {name: aqueduct.estate.kafka_quorum, tasks_from: restore}
      vars:
        _kafka_quorum_options: [--dry-run]
        _kafka_quorum_plan_options: []
        _kafka_quorum_with_copies: true
        _kafka_quorum_confirmed: false
"""
CONTROLLERS = """
all:
  vars: {ansible_connection: local, ansible_become: false, kafka_roles: [controller]}
  children:
    site_pro1: {hosts: {one: {kafka_node_id: 1}, two: {kafka_node_id: 2}, three: {kafka_node_id: 3}}}
    kafka: {children: {site_pro1: }}
"""


def test_no_quorum_begins_without_one_of_its_controllers(tmp_path: Path) -> None:
    """One that can't be reached may have its disk: two quorums could run, or its old log lead."""
    (tmp_path / "plan.yml").write_text(PLAN)
    (tmp_path / "hosts.yml").write_text(CONTROLLERS)
    refused = said(str(tmp_path / "plan"), str(tmp_path / "hosts.yml"), "--limit=!three", "--check")
    assert "cannot inspect three" in refused


FORMAT = """
- hosts: site_pro1
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: aqueduct.estate.kafka, tasks_from: format}
      when: inventory_hostname == 'controller'
"""
LOST = """
all:
  vars: {{ansible_connection: local, ansible_become: false, kafka_data_directory: {folder}/data}}
  children:
    site_pro1:
      hosts:
        controller: {{kafka_node_id: 1, kafka_roles: [controller]}}
        broker: {{kafka_node_id: 2, kafka_roles: [broker], kafka_settings: {settings}}}
    kafka: {{children: {{site_pro1: }}}}
"""


@pytest.mark.parametrize("setting", [None, "metadata.log.dir"])
def test_new_cluster_is_refused_beside_existing_broker_logs(tmp_path: Path, setting: str | None) -> None:
    state = tmp_path / ("apart" if setting else "data/log") / "__cluster_metadata-0/quorum-state"
    state.parent.mkdir(parents=True)
    state.write_text("{}")
    settings = f"{{{setting}: {tmp_path}/apart}}" if setting else "{}"
    (tmp_path / "format.yml").write_text(FORMAT)
    (tmp_path / "hosts.yml").write_text(LOST.format(folder=tmp_path, settings=settings))
    refused = said(str(tmp_path / "format"), str(tmp_path / "hosts.yml"), "--check")
    assert "The logs on broker belong" in refused
    assert "playbooks/restore_quorum.yml -e site=" in refused


PARTS = sorted(
    path.stem
    for path in (ROOT / "playbooks").glob("*.yml")
    if re.search(r"import_playbook: hosts\.yml\n  vars: \{_hosts: '(?!migrate)", path.read_text())
)


# None of the estate's, or no step of their own.
WITHOUT_HOSTS = {"check", "lab_down", "lab_image", "lab_up", "selected_hosts"}
PLAYBOOKS = sorted(path.stem for path in ROOT.glob("playbooks/*.yml"))


def test_every_part_begins_with_the_check() -> None:
    """What the check does is the same for all of them, so one of them is run."""
    assert "kafka" in PARTS
    for playbook in [*PARTS, "hosts", "rolling_restart", "connectors", "drill", "reconcile"]:
        first, *_ = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text())
        assert first["ansible.builtin.import_playbook"] == "check.yml", playbook


def test_every_playbook_checks_command_line_variables() -> None:
    unchecked = {
        path.stem
        for path in (ROOT / "playbooks").glob("*.yml")
        if not re.search(r"import_playbook: check\.yml|aqueduct\.estate\.extra_vars:", path.read_text())
    }
    assert unchecked == WITHOUT_HOSTS


# Tasks that refuse a collection and a Python package of different releases.
COMPARES_RELEASES = ("aqueduct.estate.extra_vars", "aqueduct.estate.release_fit")


def first_step(playbook: str) -> str:
    """Return the role or the module of a playbook's first step, which an imported playbook may have.

    selected_hosts.yml is no step: it has nothing but a module of Ansible.
    """
    plays = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text())
    play, *_ = (each for each in plays if each.get("ansible.builtin.import_playbook") != "selected_hosts.yml")
    if imported := play.get("ansible.builtin.import_playbook"):
        return first_step(Path(imported).stem)
    if roles := play.get("roles"):
        return str(roles[0]["role"] if isinstance(roles[0], dict) else roles[0])
    return str(next(name for name in play["tasks"][0] if "." in name))


@pytest.mark.parametrize(
    "playbook", [name for name in PLAYBOOKS if name not in {"lab_down", "selected_hosts"}]
)
def test_playbook_compares_releases_before_any_other_step(playbook: str) -> None:
    """A lab can be removed by any release: lab_down contacts no host of an estate, and installs nothing."""
    step = first_step(playbook)
    if step == "aqueduct.estate.inventory_check":
        task, *_ = yaml.safe_load((ROOT / "roles/inventory_check/tasks/main.yml").read_text())
        step = next(name for name in task if "." in name)
    assert step in COMPARES_RELEASES


@pytest.mark.parametrize("action", COMPARES_RELEASES)
def test_an_action_refuses_a_collection_of_another_release(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "VERSION").write_text("7.8.9\n")
    (tmp_path / "aqueduct").mkdir()
    plugin = action_loader.get(
        action,
        task=Task.load({"name": "Check", action: {"variables": {}} if "vars" in action else {}}),
        connection=None,
        play_context=None,
        loader=DataLoader(),
        templar=None,
        shared_loader_obj=None,
    )
    monkeypatch.setattr(sys.modules[type(plugin).__module__], "COLLECTION", tmp_path)
    with pytest.raises(AnsibleActionFail, match=r"\[release-mismatch\].*7\.8\.9"):
        plugin.run(task_vars={})


# The others begin with the same check: see test_every_part_begins_with_the_check.
@pytest.mark.parametrize(
    "playbook",
    ["kafka", *(pytest.param(each, marks=pytest.mark.long) for each in ("hosts", "rolling_restart"))],
)
def test_partial_playbook_checks_inventory_and_variables_first(playbook: str) -> None:
    broken = "tests/contract/broken_inventories/key_unknown_or_missing.yml"
    assert "no host was contacted" in said(playbook, broken)
    refused = said(playbook, kafka_restart_al="true")
    assert "No role has the variable kafka_restart_al" in refused
    assert "Nothing was done." in refused


def test_the_whole_checks_the_inventory_once() -> None:
    done = ansible_process.play(ROOT / "playbooks/site.yml", "--inventory=inventories/lab", "--list-hosts")
    assert done.returncode == 0, done.stderr
    hosts = re.findall(r"\(\S+\): Check the inventory.*\n.*\n\s+hosts \((\d+)\)", done.stdout)
    assert len(hosts) > len(PARTS)
    assert [each != "0" for each in hosts] == [True] + [False] * (len(hosts) - 1)


def test_service_variable_may_be_set_for_all_hosts(tmp_path: Path) -> None:
    """Sites without the service have it, too, and are not at fault."""
    tables = yaml.safe_load((ROOT / "inventories/lab/group_vars/site_dwpro1.yml").read_text())["land_tables"]
    given = tmp_path / "given.yml"
    given.write_text(yaml.safe_dump({"land_tables": tables}))
    options = ("--inventory=inventories/lab", f"--extra-vars=@{given}")
    done = ansible_process.play(ROOT / "playbooks/check.yml", *options)
    assert done.returncode == 0, done.stdout
