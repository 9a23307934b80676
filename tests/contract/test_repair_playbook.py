"""`playbooks/repair_broker_ids.yml` handles a lost one of several `log.dirs` as the command does by hand."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit import ansible_process

from aqueduct.cli import main

ROOT = Path(__file__).resolve().parents[2]
# In place of systemd, which containers of CI lack: it runs the command after `--`, with this `aqueduct`.
SYSTEMD_RUN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
exec {python} -m aqueduct.cli "$@"
"""

HOST = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
TWO_BROKERS = {
    "all": {
        "children": {
            "site_pro1": {
                "hosts": {f"kafka-{number}": HOST | {"kafka_node_id": number} for number in (1, 2)},
            },
            "kafka": {"children": {"site_pro1": None}},
        }
    }
}


def role_looks(tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the role's own inspection of a broker with two data directories; return its result."""
    playbook = yaml.safe_load((ROOT / "playbooks/repair_broker_ids.yml").read_text())
    tasks = yaml.safe_load((ROOT / "roles/kafka_broker_ids/tasks/repair.yml").read_text())[1:3]
    assert [task["name"] for task in tasks] == [
        "Inspect the logs of this broker",
        "Fail if the log directories cannot be read",
    ]
    runner = tmp_path / "systemd-run"
    runner.write_text(SYSTEMD_RUN.format(python=sys.executable))
    runner.chmod(0o755)
    (tmp_path / "look.json").unlink(missing_ok=True)
    shown = {"text": "{{ __kafka_broker_ids_inspection.stdout }}", "path": str(tmp_path / "look.json")}
    play = {
        "hosts": "kafka-2",
        "gather_facts": False,
        "environment": {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        "vars": {
            **next(play["vars"] for play in playbook if play["name"] == "Plan the repair"),
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "_kafka_log_directories": [f"{tmp_path}/one", f"{tmp_path}/two"],
        },
        "tasks": [*tasks, {"write_text": shown}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    run = ansible_process.play("-i", "kafka-2,", tmp_path / "play.yml", *arguments)
    look = tmp_path / "look.json"
    return run.returncode, json.loads(look.read_text()) if look.exists() else [{"output": run.stdout}]


def by_hand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> list[dict[str, Any]]:
    argv = ["repair", "inspect", "--data-folder", f"{tmp_path}/one", "--lost-folder", f"{tmp_path}/two"]
    assert main(argv) == 0
    return list(json.loads(capsys.readouterr().out))


def without_times(folders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in folder.items() if key != "time"} for folder in folders]


def test_playbook_inspects_lost_log_dir_like_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one/a-0").mkdir(parents=True)
    (tmp_path / "one/meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    # Another host's folder is not this one's.
    code, folders = role_looks(tmp_path, "-e", f"lost_folders=kafka-1:{tmp_path}/two")
    assert code != 0
    assert "lost_folders=kafka-2:<folder>" in folders[0]["output"]
    (tmp_path / "two/lost+found").mkdir(parents=True)  # a new disk
    code, folders = role_looks(tmp_path, "-e", f"lost_folders=kafka-1:/data,kafka-2:{tmp_path}/two")
    assert code == 0, folders
    assert without_times(folders) == without_times(by_hand(capsys, tmp_path))
    assert [folder["lost"] for folder in folders] == [False, True]


def test_log_dir_with_logs_cannot_be_declared_lost(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}/a-0").mkdir(parents=True)
    (tmp_path / "one/meta.properties").write_text("version=1\nnode.id=2\ncluster.id=C\n")
    code, folders = role_looks(tmp_path, "-e", f"lost_folders=kafka-2:{tmp_path}/two")
    assert code != 0
    assert "[lost-folder-invalid]" in folders[0]["output"]


# It reads the journal, as the doctor does.
ANSWERS = "#!/bin/sh\ncat >/dev/null\necho '{line}'\necho '{error}' >&2\nexit {code}\n"
UNUSED = "[broker-id-unused] No partition is assigned to broker 3."
LOST = "[partitions-lost] Nothing has a-0."


@pytest.mark.parametrize(
    ("code", "line", "error", "repaired", "succeeds"),
    [
        (0, "Nothing is wrong.", "", 0, True),
        (0, "Nothing is wrong.", "", 3, False),
        (3, UNUSED, "", 0, True),
        (3, LOST, "", 0, False),
        (1, "", "[cluster-unreachable] No broker answers.", 0, False),
    ],
    ids=["repaired", "partition_left", "unused", "finding", "unanswered"],
)
def test_repair_succeeds_only_without_findings(
    tmp_path: Path, code: int, line: str, error: str, repaired: int, succeeds: bool
) -> None:
    """The last play of the playbook, with a doctor that answers so on both brokers."""
    for name, text in {
        "systemd-run": ANSWERS.format(line=line, error=error, code=code),
        "journalctl": "#!/bin/sh\nexit 1\n",  # no line
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    last = yaml.safe_load((ROOT / "playbooks/repair_broker_ids.yml").read_text())[-1]
    assert last["name"] == "Check the result"
    repair = {"rc": repaired, "stdout_lines": ["[leader-not-elected] a-0 was skipped."] if repaired else []}
    last |= {
        "hosts": "kafka",
        "environment": {"PATH": f"{tmp_path}:/usr/bin:/bin"},
        "vars": {"__kafka_broker_ids_repair": repair, "site": "pro1"},
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([last], sort_keys=False))
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(TWO_BROKERS))
    run = ansible_process.play("-i", tmp_path / "hosts.yml", tmp_path / "play.yml")
    printed = " ".join(run.stdout.split())
    assert (run.returncode == 0) is succeeds, printed
    for sentence in (*repair["stdout_lines"], error, line if code == 3 else ""):
        assert sentence in printed


def test_playbook_with_diagnosis_fails_with_its_findings() -> None:
    """The task itself never fails: a host that does not answer is a finding."""
    asking = {
        path: [play for play in yaml.safe_load(path.read_text()) if "tasks_from: doctor" in yaml.dump(play)]
        for path in [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]
        if "tasks_from: doctor" in path.read_text()
    }
    assert {path.name for path in asking} == {"doctor.yml", "repair_broker_ids.yml"}
    for [play] in asking.values():
        assert play["ignore_unreachable"] is True
        last = play["tasks"][-1]
        assert "doctor_findings(hostvars)" in last["vars"]["_found"]
        conditions = last["ansible.builtin.assert"]["that"]
        assert re.search(r"_found( \| reject\('search', _unused\))? \| length == 0", str(conditions))
