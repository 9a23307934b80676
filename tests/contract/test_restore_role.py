"""The order of a site's restore: what can be refused is refused before a service is stopped."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

ROOT = Path(__file__).resolve().parents[2]
Task = dict[str, Any]
VARIABLES = yaml.safe_load((ROOT / "roles/backup/vars/main.yml").read_text())


def flattened(tasks: list[Task]) -> Iterator[Task]:
    """Yield the tasks in the order in which they run where all goes well, with those of included files."""
    for task in tasks:
        if "block" in task:
            yield from flattened(task["block"])
            continue
        yield task
        included = task.get("ansible.builtin.include_tasks")
        if included:
            yield from flattened(yaml.safe_load((ROOT / "roles/backup/tasks" / included).read_text()))


def test_restore_is_checked_before_services_stop() -> None:
    text = (ROOT / "roles/backup/tasks/restore.yml").read_text()
    tasks = [*flattened(yaml.safe_load(text))]
    runs = [number for number, task in enumerate(tasks) if "aqueduct.estate.transient_unit" in task]
    services = [number for number, task in enumerate(tasks) if "ansible.builtin.systemd_service" in task]
    check, mirrors = (
        number
        for number, task in enumerate(tasks)
        if "--dry-run" in str(task.get("vars", {}).get("_backup_argv", ""))
    )
    assert check < runs[0] < mirrors < runs[1] < services[0] < runs[2]


def test_dry_run_reads_mirror_positions_before_services_stop() -> None:
    """Whoever has a mirror's key can write positions that cannot be read."""
    tasks = [*flattened(yaml.safe_load((ROOT / "roles/backup/tasks/restore.yml").read_text()))]
    with_readers = [
        number
        for number, task in enumerate(tasks)
        if "_backup_reader_options" in str(task.get("vars", {}).get("_backup_argv", ""))
    ]
    names = [task["name"] for task in tasks]
    listed = names.index("List the mirrors and links that read the restored topics")
    stopped = names.index("Stop the mirrors, links and the backup")
    checked, restored = with_readers
    assert listed < checked < stopped < restored
    assert "--dry-run" in tasks[checked]["vars"]["_backup_argv"]
    assert "when" not in tasks[listed]  # a dry run of the playbook reads them, too


def test_restore_stops_readers_and_restarts_those_that_ran() -> None:
    tasks = [*flattened(yaml.safe_load((ROOT / "roles/backup/tasks/restore.yml").read_text()))]
    names = [task["name"] for task in tasks]
    chosen = names.index("List the mirrors and links that read the restored topics")
    looked = next(number for number, task in enumerate(tasks) if "--property=ActiveState" in str(task))
    noted = names.index("Save the list of units to start")
    stopped = names.index("Stop the mirrors and links that read the restored topics")
    started = names.index("Start the mirrors and links that it stopped")
    asked = names.index("Check the started units")
    assert chosen < looked < noted < stopped < started < asked
    assert tasks[started]["vars"]["_backup_ready"] == "{{ _backup_to_start }}"


def test_the_administrators_key_is_for_the_driver_alone() -> None:
    """On a Spark cluster, whatever tasks connect with is on every worker; and a backup may be captured."""
    role = yaml.safe_load((ROOT / "roles/backup/vars/main.yml").read_text())
    keys = role["_backup_restore_keys"]
    folders = {key["principal"]: key["folder"] for key in keys}
    assert folders == {"admin": "{{ _backup_admin }}", "{{ _backup_task_principal }}": "{{ _backup_tasks }}"}
    assert [key["serves"] for key in keys] == [False, False]  # neither could listen in another's place
    assert {key["owner"] for key in keys} == {"{{ _backup_restore_user }}"}
    assert role["_backup_task_principal"] == "restore-{{ _backup_site }}"
    assert role["_backup_tasks"] == "{{ _backup_admin }}/tasks"
    options = role["_backup_restore_own_options"]
    assert options["command-config"] == "{{ _backup_admin }}/client.properties"
    assert options["task-command-config"] == "{{ _backup_tasks }}/client.properties"
    assert options["task-principal"] == "{{ _backup_task_principal }}"


MIRRORS = ["mirror_maker@pro1"] * 2
# In place of systemd, which containers of CI lack: the link was stopped by somebody.
SYSTEMCTL = """#!/bin/sh
case "$*" in *diode_upstream*) echo inactive;; *) echo active;; esac
"""


@pytest.mark.parametrize(
    ("topics", "earlier", "stopped", "started"),
    [
        (["flights"], [], [*MIRRORS, "diode_upstream@enclave-pro1"], MIRRORS),
        (["other"], [], [], []),
        (["other"], ["diode_upstream@enclave-pro1"], [], ["diode_upstream@enclave-pro1"]),
        # A captured backup host chooses no unit that root starts on another one.
        (["other"], ["debug-shell", "diode_upstream@enclave-pro1"], [], ["diode_upstream@enclave-pro1"]),
    ],
)
def test_a_run_notes_what_it_is_to_start(
    tmp_path: Path, topics: list[str], earlier: list[str], stopped: list[str], started: list[str]
) -> None:
    """The role's own tasks, at the lab's inventory, without those that need systemd."""
    role = ROOT / "roles/backup/tasks"
    every = flattened(yaml.safe_load((role / "restore.yml").read_text()))
    [chooses] = [
        each for each in every if each["name"] == "List the mirrors and links that read the restored topics"
    ]
    tasks = yaml.safe_load((role / "stop_readers.yml").read_text())
    names = [each["name"] for each in tasks]
    looks = tasks[names.index("Find the running units")]
    looks["ansible.builtin.include_tasks"] = str(role / looks["ansible.builtin.include_tasks"])
    kept = [chooses, *tasks[: names.index("Save the list of units to start") + 1]]
    shown = {"text": "{{ _backup_readers | to_json }}\n", "path": str(tmp_path / "stopped.json")}
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    (tmp_path / "restore_check-pro1.json").write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0} for topic in topics]})
    )
    if earlier:
        noted = [{"host": "pro1-kafka-1", "unit": unit, "group": "g"} for unit in earlier]
        (tmp_path / "note.json").write_text(json.dumps(noted))
    play = {
        "hosts": "backup:&site_pro1",
        "gather_facts": False,
        "environment": {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        "vars": {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "backup_reports_directory": str(tmp_path),
            "_backup_site": "pro1",
            "_backup_dry": False,
            "_backup_note": str(tmp_path / "note.json"),
            "_backup_note_is_absent": VARIABLES["_backup_note_is_absent"],
        },
        "tasks": [
            {"ansible.builtin.set_fact": {"_backup_readers": [], "_backup_to_start": []}},
            *kept,
            {"write_text": shown},
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    done = ansible_process.play("-i", "inventories/lab", tmp_path / "play.yml")
    assert done.returncode == 0, done.stdout
    found = [each["unit"] for each in json.loads((tmp_path / "stopped.json").read_text())]
    assert found == stopped
    assert [each["unit"] for each in json.loads((tmp_path / "note.json").read_text())] == started


@pytest.mark.parametrize("note", ["absent", "list", "unreadable"])
def test_unreadable_note_fails_before_units_stop(tmp_path: Path, note: str) -> None:
    """It lists units that an earlier run stopped; they would stay stopped, and the list would be removed."""
    role = ROOT / "roles/backup/tasks"
    stops = yaml.safe_load((role / "stop_readers.yml").read_text())
    names = [task["name"] for task in stops]
    [block] = [task for task in yaml.safe_load((role / "restore.yml").read_text()) if "rescue" in task]
    [removes] = [task for task in block["rescue"] if "state" in task.get("ansible.builtin.file", {})]
    file, stopped = tmp_path / "note.json", tmp_path / "stopped"
    if note == "list":
        file.write_text("[]")
    elif note == "unreadable":
        file.mkdir()  # also for root
    play = {
        "hosts": "pro1-kafka-1",
        "gather_facts": False,
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "_backup_site": "pro1",
            "_backup_note": str(file),
            "_backup_refused": True,
            "_backup_note_is_absent": VARIABLES["_backup_note_is_absent"],
        },
        "tasks": [
            {
                "block": [
                    *stops[: names.index("Find the running units")],
                    {"write_text": {"text": "", "path": str(stopped)}},
                ],
                "always": [removes],
            }
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    done = ansible_process.play("-i", "inventories/lab", tmp_path / "play.yml")
    is_readable = note != "unreadable"
    assert (done.returncode == 0, stopped.exists()) == (is_readable, is_readable), done.stdout
    assert ("[restore-note-unreadable] " in done.stdout) == (not is_readable)
    assert file.exists() == (note != "absent")


@pytest.mark.parametrize(
    ("answer", "is_ill"),
    [
        ({"rc": 0}, False),
        ({"rc": 3, "stderr_lines": ["aqueduct: [mirror-not-well] x"]}, True),
        ({"failed": True, "msg": "no Python"}, True),
    ],
)
def test_mirror_whose_check_did_not_run_is_ill(tmp_path: Path, answer: Task, is_ill: bool) -> None:
    tasks = yaml.safe_load((ROOT / "roles/backup/tasks/ask_reader.yml").read_text())
    recorded = tasks[-1]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "_backup_reader": {"unit": "mirror_maker@pro1", "host": "a", "flow": "pro1"},
            "_backup_ill": [],
            "__backup_mirror": answer,
            "__backup_link": {"skipped": True, "changed": False},
        },
        "tasks": [
            recorded,
            {"write_text": {"text": "{{ _backup_ill | to_json }}", "path": str(tmp_path / "ill.json")}},
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    done = ansible_process.play("-i", "localhost,", tmp_path / "play.yml")
    assert done.returncode == 0, done.stdout
    assert bool(json.loads((tmp_path / "ill.json").read_text())) == is_ill


@pytest.mark.parametrize(
    ("store", "user"),
    [
        ("s3://backups/pro1", "aqueduct-restore"),
        ("hdfs://lake/b", "aqueduct-restore"),
        ("file:///b", "aqueduct-backup"),
    ],
)
def test_a_restore_has_a_user_of_its_own(tmp_path: Path, store: str, user: str) -> None:
    """The keys of `admin` and of recipients are its: not even a captured backup reads them."""
    play = [
        {
            "hosts": "pro1-kafka-1",
            "gather_facts": False,
            "tasks": [
                {"ansible.builtin.include_vars": {"file": f"{ROOT}/roles/spark/vars/main.yml"}},
                {"ansible.builtin.include_vars": {"file": f"{ROOT}/roles/backup/vars/main.yml"}},
                {
                    "write_text": {
                        "path": str(tmp_path / "found.json"),
                        "text": "{{ {'unit': _backup_restore_unit, 'argv': _backup_restore_argv, "
                        "'keys': _backup_restore_keys} | to_json }}",
                    },
                    "vars": {"_backup_restore_options": []},
                },
            ],
        }
    ]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    defaults = [
        yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text()) for role in ("spark", "backup")
    ]
    given = {**defaults[0], **defaults[1], "backup_store_url": store}
    done = ansible_process.play(
        "-i", ROOT / "inventories/lab", tmp_path / "play.yml", "--extra-vars", json.dumps(given)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["unit"]["User"] == user
    assert {key["owner"] for key in found["keys"]} == {user}
    assert ("/var/lib/aqueduct-backup" in found["unit"]["ReadWritePaths"]) == (user == "aqueduct-backup")
    assert "SPARK_CONF_DIR=/run/aqueduct-restore" in found["argv"]


@pytest.mark.parametrize(
    ("code", "identifiers", "resumes"),
    [
        (0, [], True),
        (3, ["append-origin-unknown", "append-origin-unknown"], True),
        (3, ["append-origin-unknown", "mirror-ahead"], False),
        (3, ["group-has-members"], False),
    ],
)
def test_backup_resumes_if_only_unknown_origins_were_skipped(
    tmp_path: Path, code: int, identifiers: list[str], resumes: bool
) -> None:
    """No run can complete such a restore, so the backup does not wait for it. The play fails all the same."""
    tasks = yaml.safe_load((ROOT / "roles/backup/tasks/restore.yml").read_text())
    names = [task["name"] for task in tasks]
    recorded = tasks[names.index("Record what the restore skipped")]
    block = tasks[names.index("Resume the backup, and list what the restore skipped")]
    block["block"][0] = {
        "write_text": {"text": "", "path": str(tmp_path / "resumed")},
        "when": block["block"][0]["when"],
    }
    report = {"left_out": [{"id": identifier} for identifier in identifiers]}
    (tmp_path / "restore-pro1.json").write_text(json.dumps(report))
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "backup_reports_directory": str(tmp_path),
            "backup_every_seconds": 60,
            "_backup_site": "pro1",
            "_backup_dry": False,
            "_backup_ill": [],
            "__backup_run": {"rc": code, "lines": ["SKIPPED-LINE"] if identifiers else [], "changed": True},
        },
        "tasks": [recorded, block],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    run = ansible_process.play("-i", "localhost,", tmp_path / "play.yml")
    assert (tmp_path / "resumed").exists() == resumes, run.stdout
    assert (run.returncode != 0) == (code == 3)
    assert ("SKIPPED-LINE" in run.stdout) == (code == 3)
