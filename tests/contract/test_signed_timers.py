"""The timers that back up znodes and quorums sign, and their restores trust what was signed alone.

The roles' own tasks run on this machine, in folders of a test; what asks systemd is read instead.
"""

import json
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from kit import ansible_process
from kit.unit_files import arguments_of

from aqueduct.cli import build_parser, config_file
from aqueduct.store import signing

ROOT = Path(__file__).resolve().parents[2]
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
HOST = {"kafka_node_id": 1, "zookeeper_id": 1, "zookeeper_host": "localhost"}
CREDENTIALS = "/run/credentials"
Task = dict[str, Any]


def new_key() -> str:
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(PEM, PKCS8, serialization.NoEncryption()).decode()


OURS, FORMER = new_key(), new_key()


@dataclass(frozen=True)
class Timer:
    """A role's backup, and the playbook's restore from it."""

    role: str
    group: str
    unit: str
    variables: str  # how their names begin
    config: str  # the variable of its folder
    backup: str  # the file of tasks
    restore: str  # the same
    restore_unit: str
    given: dict[str, Any] = field(default_factory=dict)


TIMERS = [
    Timer(
        role="zookeeper",
        group="zookeeper",
        unit="zookeeper_backup",
        variables="zookeeper_backup",
        config="_zookeeper_backup_config",
        backup="backup",
        restore="restore",
        restore_unit="aqueduct-zookeeper-restore",
        given={"_zookeeper_inspected": [], "_zookeeper_restore_options": []},
    ),
    Timer(
        role="kafka_quorum",
        group="kafka",
        unit="quorum_backup",
        variables="kafka_quorum_backup",
        config="_kafka_quorum_config",
        backup="backup",
        restore="plan",
        restore_unit="aqueduct-quorum-plan",
        given={
            "_kafka_quorum_with_copies": False,
            "_kafka_quorum_confirmed": False,
            "_kafka_quorum_plan_options": [],
            "_kafka_quorum_inspections": ["--inspection=look.json"],
        },
    ),
]


def flattened(tasks: list[Task], variables: Task) -> Iterator[Task]:
    """Yield tasks with the variables of their blocks."""
    for task in tasks:
        given = variables | task.get("vars", {})
        if "block" in task:
            yield from flattened(task["block"] + task.get("always", []), given)
        else:
            yield task | {"vars": given}


class Applied:
    """What a role's tasks have made."""

    def __init__(self, folder: Path, timer: Timer, given: Task) -> None:
        self.folder, self.timer = folder, timer
        self.config, self._systemd = folder / "config", folder / "systemd"
        for path in (self.config, self._systemd):
            path.mkdir(exist_ok=True)
        self._make_role()
        hosts = {"localhost": HOST}
        groups = {"site_one": {"hosts": dict.fromkeys(hosts)}, timer.group: {"hosts": hosts}}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
        import_variables = {
            "name": f"aqueduct.estate.{timer.group}",
            "tasks_from": "variables",
            "public": True,
        }
        play = {"hosts": "all", "gather_facts": False, "roles": [timer.role]}
        if timer.group != timer.role:
            play["pre_tasks"] = [{"ansible.builtin.import_role": import_variables}]
        (folder / "play.yml").write_text(yaml.safe_dump([play]))
        variables = {
            f"{timer.variables}_store_url": "s3://bucket/one",
            f"{timer.variables}_object_store": "",
            timer.config: str(self.config),
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            **dict.fromkeys(("_kafka_quorum_made", "_kafka_quorum_read"), str(folder)),
            **timer.given,
            **{f"{timer.variables}_{name}": value for name, value in given.items()},
        }
        self._run(variables)

    def _make_role(self) -> None:
        """Copy the role, with the tasks of its backup and restore that run without systemd."""
        role, own = self.folder / "roles" / self.timer.role, ROOT / "roles" / self.timer.role
        (role / "tasks").mkdir(parents=True, exist_ok=True)
        for part in ("defaults", "meta", "templates", "vars"):
            if not (role / part).exists():
                (role / part).symlink_to(own / part)
        for file in own.glob("tasks/*store.yml"):
            (role / "tasks" / file.name).write_text(file.read_text())
        backup, restore = (
            yaml.safe_load((own / "tasks" / f"{name}.yml").read_text())
            for name in (self.timer.backup, self.timer.restore)
        )
        tasks = [task for task in backup if "aqueduct.estate.service_units" not in task]
        [restores] = [task for task in flattened(restore, {}) if "aqueduct.estate.transient_unit" in task]
        variables = restores["vars"] | {"_asked": restores["aqueduct.estate.transient_unit"]}
        shown = {"text": "{{ _asked | to_json }}", "path": str(self.folder / "restore.json")}
        tasks.append({"name": "Show", "write_text": shown, "vars": variables})
        text = yaml.safe_dump(tasks, sort_keys=False).replace("/etc/systemd/system", str(self._systemd))
        text = text.replace("owner: kafka\n", "owner: root\n")  # this machine has no such user
        (role / "tasks/main.yml").write_text(text)

    def _run(self, variables: Task) -> None:
        hosts, book = self.folder / "hosts.yml", self.folder / "play.yml"  # beside its roles
        done = ansible_process.play(f"--inventory={hosts}", f"--extra-vars={json.dumps(variables)}", book)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "PRIVATE KEY" not in done.stdout

    @property
    def unit(self) -> str:
        return (self._systemd / f"{self.timer.unit}.service").read_text()

    @property
    def credentials(self) -> dict[str, str]:
        """Return what systemd gives the backup of its keys, by name."""
        lines = [line.removeprefix("LoadCredential=") for line in self.unit.splitlines() if "LoadCre" in line]
        every = dict(line.split(":", 1) for line in lines)
        return {name: every[name] for name in ("signing.pem", "trusted.pem") if name in every}

    @property
    def backup(self) -> Any:
        """Return the options of the unit's command, those of its file included."""
        given = f"--config={CREDENTIALS}/{self.timer.unit}.service"
        return parse([word.replace(given, f"--config={self.config}") for word in arguments_of(self.unit)])

    @property
    def restore(self) -> Task:
        return dict(json.loads((self.folder / "restore.json").read_text()))


def parse(arguments: list[str]) -> Any:
    return build_parser().parse_args(config_file.expanded(build_parser(), arguments))


@pytest.mark.parametrize("timer", TIMERS, ids=lambda timer: timer.role)
def test_timer_signs_and_restore_trusts_only_declared_keys(timer: Timer, tmp_path: Path) -> None:
    given = {
        "signing_key": OURS,
        "trusted_keys": [signing.public_pem(FORMER)],
        "unsigned_before": 7,
    }
    applied = Applied(tmp_path, timer, given)
    private, trusted = applied.config / "signing.pem", applied.config / "trusted.pem"
    assert applied.credentials == {"signing.pem": str(private), "trusted.pem": str(trusted)}
    for path in (private, trusted):
        found = path.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, 0), path
    keys = {signing.signing_key(private).public}
    (tmp_path / "former.pem").write_text(signing.public_pem(FORMER))
    assert signing.trust([trusted]).keys == keys | signing.trust([tmp_path / "former.pem"]).keys

    backup = applied.backup
    folder = Path(CREDENTIALS, f"{timer.unit}.service")
    assert backup.signing_key == folder / "signing.pem"
    assert (backup.trusted_key, backup.unsigned_before) == ([folder / "trusted.pem"], 7)

    assert applied.restore["name"] == timer.restore_unit
    assert applied.restore["properties"]["LoadCredential"] == f"trusted.pem:{trusted}"
    restore = parse(applied.restore["argv"][1:])
    folder = Path(CREDENTIALS, f"{timer.restore_unit}.service")
    assert (restore.trusted_key, restore.unsigned_before) == ([folder / "trusted.pem"], 7)

    # Without a key, the same hosts sign nothing, and the former key is removed.
    applied = Applied(tmp_path, timer, {})
    assert applied.credentials == {}
    assert not [*applied.config.glob("*.pem")]
    backup, restore = applied.backup, parse(applied.restore["argv"][1:])
    assert (backup.signing_key, backup.trusted_key, restore.trusted_key) == (None, [], [])
    assert "LoadCredential" not in applied.restore["properties"]
