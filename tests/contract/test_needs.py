"""Hosts' needs, as roles declare them: read for every host of every inventory, and what the estate wants."""

import json
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.plugins.loader import action_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from kit import ansible_process

from aqueduct.estate.check.secrets import WITH_CERTIFICATE
from aqueduct.estate.model import principal, site_name

ROOT = Path(__file__).resolve().parents[2]
# The scenario `installed` has its sites in the inventory that it creates.
SCENARIOS = [path for path in ROOT.glob("molecule/*/inventory") if path.parent.name != "installed"]
INVENTORIES = [*ROOT.glob("inventories/*"), *SCENARIOS]
SERVICES = {
    path.parent.parent.name for path in ROOT.glob("roles/*/vars/main.yml") if "_needs:" in path.read_text()
}


@cache
def needs(inventory: Path) -> dict[str, Any]:
    """Ask for all hosts of an inventory; none is touched.

    The action runs in this process: in a playbook, a process for each host reads the files of all roles.
    """
    loader = DataLoader()
    manager = InventoryManager(loader, [str(inventory)])
    variables = VariableManager(loader, manager)
    HostVars(manager, variables, loader)  # which `variables` then has
    task = Task.load({"name": "Needs", "aqueduct.estate.host_needs": {"roles": str(ROOT / "roles")}})
    found = {}
    with TemporaryDirectory() as folder:
        for host in manager.get_hosts("all"):
            own = variables.get_vars(host=host) | {"certificates_directory": folder}
            action = action_loader.get(
                "aqueduct.estate.host_needs",
                task=task,
                connection=None,
                play_context=None,
                loader=loader,
                templar=Templar(loader, own),
                shared_loader_obj=None,
            )
            told = action.run(task_vars=own)["needs"]
            found[host.name] = {"needs": json.loads(json.dumps(told)), "groups": own["group_names"]}
    return found


@pytest.mark.parametrize("inventory", INVENTORIES[:2], ids=lambda path: str(path.relative_to(ROOT)))
def test_folders_of_configuration_are_root_s(inventory: Path) -> None:
    """A service that could write there could put a link in the place of a file that root writes."""
    found = [folder for told in needs(inventory).values() for folder in told["needs"]["folders"]]
    configuration = [folder for folder in found if folder["path"].startswith("/etc/")]
    assert len(configuration) > 5
    assert {folder["owner"] for folder in configuration} == {"root"}
    assert {folder["mode"] for folder in configuration if "group" in folder} == {"0750"}
    assert {folder["owner"] for folder in found if folder["path"].startswith("/var/lib/")} != {"root"}


def test_client_only_services_get_client_certificates() -> None:
    """The lab has a cluster of Spark at one site alone."""
    told = needs(ROOT / "inventories/lab")
    serves = {key["principal"]: key["serves"] for each in told.values() for key in each["needs"]["keys"]}
    clients = {name for name in serves if not serves[name]}
    sent = ("backup-", "dedup-", "land-", "reconcile-")
    assert {name for name in serves if name.startswith(("diode-", *sent))} <= clients
    assert not {name for name in clients if name.startswith(("kafka-", "connect-", "mirror-", "spark-"))}


# Sites of which one has a cluster of Spark, one uses that, and one has its own cores alone.
APPLICATIONS = """
all:
  vars: {backup_store_url: "file:///b", land_location: "file:///t", diode_downstream_nic: eth1}
  children:
    site_source: {hosts: {source-1: }}
    site_cluster:
      hosts: {cluster-1: , spark-1: }
      vars:
        diode_downstream_links:
          - {source: source, number: 1, topics: [a], address: 10.0.0.1, mac: "02:00:00:00:00:01"}
    site_guest:
      hosts: {guest-1: }
      vars:
        spark_master: spark://spark-1:7077
        diode_downstream_links:
          - {source: source, number: 2, topics: [a], address: 10.0.0.2, mac: "02:00:00:00:00:02"}
    site_local:
      hosts: {local-1: }
      vars:
        diode_downstream_links:
          - {source: source, number: 3, topics: [a], address: 10.0.0.3, mac: "02:00:00:00:00:03"}
    kafka:
      hosts:
        source-1: {kafka_node_id: 1}
        cluster-1: {kafka_node_id: 1}
        guest-1: {kafka_node_id: 1}
        local-1: {kafka_node_id: 1}
    applications: {hosts: {cluster-1: , guest-1: , local-1: }}
    backup: {children: {applications: }}
    dedup: {children: {applications: }}
    diode_downstream: {children: {applications: }}
    diode_upstream: {hosts: {source-1: }}
    land: {children: {applications: }}
    reconcile: {children: {applications: }}
    spark_master: {hosts: {spark-1: }}
    spark_worker: {hosts: {spark-1: }}
"""


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Path:
    inventory = tmp_path_factory.mktemp("applications") / "hosts.yml"
    inventory.write_text(APPLICATIONS)
    return inventory


@pytest.mark.parametrize("site", ["cluster", "guest", "local"])
def test_keys_for_spark_workers_are_client_certificates(applications: Path, site: str) -> None:
    """Every worker gets these keys: a captured one would listen in the place of a broker of that host."""
    keys = needs(applications)[f"{site}-1"]["needs"]["keys"]
    sent = {key["principal"]: key for key in keys if not key["principal"].startswith(("kafka-", "diode-"))}
    assert {*sent} == {f"backup-{site}", f"dedup-{site}.source", f"land-{site}", f"reconcile-{site}"}
    assert {name for name, key in sent.items() if key["serves"]} == set()
    assert {name for name, key in sent.items() if key.get("java_password")} == set(), "a server's stores"


DRIVER = """
- hosts: cluster-1, guest-1, local-1
  gather_facts: false
  vars_files: [{root}/roles/spark/defaults/main.yml, {root}/roles/spark/vars/main.yml]
  tasks:
    - write_text:
        text: "{{{{ {{'local': _spark_is_local, 'settings': _spark_settings}} | to_json }}}}"
        path: "{folder}/{{{{ inventory_hostname }}}}.json"
      vars:
        spark_settings: {{spark.cores.max: "2"}}
        spark_master: "{{{{ 'local[*]' if inventory_hostname == 'local-1' else 'spark://spark-1:7077' }}}}"
        role_path: {root}/roles/spark
        _spark_config: {folder}
        certificates_directory: {folder}
"""


def test_spark_driver_has_no_ui_or_tls_settings(applications: Path, tmp_path: Path) -> None:
    book = tmp_path / "driver.yml"
    book.write_text(DRIVER.format(root=ROOT, folder=tmp_path))
    played = ansible_process.play(f"--inventory={applications}", book)
    assert played.returncode == 0, played.stdout[-3000:]
    rendered = {
        host: json.loads((tmp_path / f"{host}.json").read_text()) for host in ("cluster-1", "guest-1")
    }
    for host, driver in rendered.items():
        settings = driver["settings"]
        assert not driver["local"], host
        assert settings["spark.ui.enabled"] is False, host
        assert not [name for name in settings if name.startswith("spark.ssl.")], host
        assert settings["spark.cores.max"] == "2"
        assert settings["spark.authenticate"]
    assert json.loads((tmp_path / "local-1.json").read_text())["local"]


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_keys_of_one_folder_agree_on_java_stores(inventory: Path) -> None:
    """Stores are removed from the folder of a key that has none."""
    for host, told in needs(inventory).items():
        folders: dict[str, set[bool]] = {}
        for key in told["needs"]["keys"]:
            folders.setdefault(key["folder"], set()).add(bool(key.get("java_password")))
        assert [folder for folder, has in folders.items() if len(has) > 1] == [], host


MIRRORS = """
all:
  children:
    site_source: {hosts: {source-1: }}
    site_old:
      hosts: {old-1: {mirror_maker_flows: [{source: source, topics: [a], engine: classic, start: latest}]}}
    site_batches: {hosts: {batches-1: {mirror_maker_flows: [{source: source, topics: [a], engine: batches}]}}}
    site_plain: {hosts: {plain-1: {mirror_maker_flows: [{source: source, topics: [a]}]}}}
    site_mixed:
      hosts:
        mixed-1:
          mirror_maker_flows:
            - {source: source, topics: [a], engine: batches}
            - {source: source, topics: [b], name: second}
    kafka:
      hosts:
        source-1: {kafka_node_id: 1}
        old-1: {kafka_node_id: 1}
        batches-1: {kafka_node_id: 1}
        plain-1: {kafka_node_id: 1}
        mixed-1: {kafka_node_id: 1}
    mirror_maker: {hosts: {old-1: , batches-1: , plain-1: , mixed-1: }}
"""


def test_mirror_without_rest_server_gets_client_certificate(tmp_path: Path) -> None:
    """Whoever reads its key could listen in the place of its host otherwise."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(MIRRORS)
    keys = [(host, key) for host, told in needs(inventory).items() for key in told["needs"]["keys"]]
    serves = {host: key["serves"] for host, key in keys if key["principal"].startswith("mirror-")}
    assert serves == {"old-1": False, "batches-1": False, "plain-1": True, "mixed-1": True}


def test_there_is_something_to_look_at() -> None:
    assert len(SERVICES) > 8
    assert len(INVENTORIES) > 5


def test_all_services_that_speak_tls_have_a_certificate() -> None:
    """Landings speak only plain Thrift; backups of files use ssh, those of quorums the key of the node."""
    assert SERVICES - {*WITH_CERTIFICATE} == {"hive_metastore", "file_backup", "kafka_quorum"}


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_host_gets_service_keys_and_owning_users(inventory: Path) -> None:
    for host, told in needs(inventory).items():
        groups, said = told["groups"], told["needs"]
        services = SERVICES & set(groups) & {*WITH_CERTIFICATE}
        wanted = {principal(service, site_name(groups)) for service in services}
        principals = {key["principal"] for key in said["keys"]}
        assert {each.partition(".")[0] for each in principals} == wanted, host
        assert all(("." in each) == each.startswith("dedup-") for each in principals), "one of each source"
        users = {user["name"] for user in said["users"]}
        assert users - {key["owner"] for key in said["keys"]} <= {
            "hive_metastore",
            "hive_server",
            "aqueduct-files",
        }, host
        assert {key["owner"] for key in said["keys"]} <= users, host
        assert {folder["owner"] for folder in said["folders"]} <= users | {"root"}, host
        names = {key["principal"]: key["names"] for key in said["keys"]}
        elsewhere = {principal for principal in names if host not in names[principal]}
        assert elsewhere <= {f"drill-{site_name(groups)}"}, host
        assert "{{" not in json.dumps(said)


RENDER = """
- hosts: hive_server
  gather_facts: false
  tasks:
    - write_text:
        text: "{{{{ {{'units': units, 'client': client}} | to_json }}}}"
        path: "{folder}/{{{{ inventory_hostname }}}}.json"
      vars:
        units: "{{{{ dict(_hive_server_units | map(attribute='name') | zip(rendered)) }}}}"
        client: "{{{{ _hive_server_client }}}}"
        rendered: >-
          {{%- set texts = [] -%}}
          {{%- for item in _hive_server_units -%}}
          {{%- set _ = texts.append(lookup('ansible.builtin.template', root ~ template,
                                           template_vars={{'item': item}})) -%}}
          {{%- endfor -%}}
          {{{{ texts }}}}
        root: {root}/roles/hive_server
        template: /templates/hive_server.service.j2
        role_path: "{{{{ root }}}}"
"""


def test_who_runs_programs_of_sql_owns_no_key(tmp_path: Path) -> None:
    """A client of SQL runs programs as hive_server, also outside of the sandbox that hides the key."""
    inventory = ROOT / "molecule/land/inventory"
    book = tmp_path / "render.yml"
    book.write_text(RENDER.format(root=ROOT, folder=tmp_path))
    files = ("roles/hive_server/vars/main.yml", "roles/hive_server/defaults/main.yml")
    extra = (f"--extra-vars=@{ROOT / file}" for file in files)
    own = f"--extra-vars=certificates_directory={tmp_path}"
    played = ansible_process.play(f"--inventory={inventory}", book, *extra, own)
    assert played.returncode == 0, played.stdout[-3000:]
    [written] = tmp_path.glob("*.json")
    rendered = json.loads(written.read_text())
    users = {
        name: re.findall(r"^(?:User|Group)=(.*)$", unit, re.MULTILINE)
        for name, unit in rendered["units"].items()
    }
    assert users == {"hive_server": ["hive_server"] * 2, "hive_server_tls": ["hive_server_tls"] * 2}
    told = needs(inventory)[written.stem]["needs"]
    [key] = [key for key in told["keys"] if key["principal"].startswith("hive-server-")]
    assert key["owner"] == "hive_server_tls"
    assert {"name": key["owner"], "home": "/nonexistent", "groups": []} in told["users"]
    # Root runs beeline with these stores; systemd hides them from programs of SQL as well.
    assert f"-Djavax.net.ssl.trustStore={key['folder']}/trust.p12" in rendered["client"]
    parent = str(Path(key["folder"]).parent)
    assert f"InaccessiblePaths={parent}" in rendered["units"]["hive_server"].splitlines()
    [folder] = [folder for folder in told["folders"] if folder["path"] == parent]
    assert (folder["owner"], folder["mode"]) == ("root", "0755"), "the other user reaches its own folder"


def test_the_user_of_executors_shares_no_event_logs() -> None:
    """Executors run as `spark`, and the history server as another user, wherever both are on one host."""
    found = needs(ROOT / "molecule/restore/inventory")
    groups = {
        (host, user["name"]): {
            each
            for named in told["needs"]["users"]
            if named["name"] == user["name"]
            for each in named["groups"]
        }
        for host, told in found.items()
        for user in told["needs"]["users"]
    }
    assert {user for (_, user), shared in groups.items() if "spark_events" in shared} >= {"spark_history"}
    executors = [shared for (_, user), shared in groups.items() if user == "spark"]
    assert executors
    assert not any("spark_events" in shared for shared in executors)
