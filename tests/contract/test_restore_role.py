"""The order of a site's restore: what can be refused is refused before a service is stopped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
Task = dict[str, Any]


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


def test_a_restore_is_checked_before_a_service_is_stopped() -> None:
    text = (ROOT / "roles/backup/tasks/restore.yml").read_text()
    tasks = [*flattened(yaml.safe_load(text))]
    runs = [number for number, task in enumerate(tasks) if "transient_unit" in task]
    services = [number for number, task in enumerate(tasks) if "ansible.builtin.systemd_service" in task]
    (check,) = (
        number
        for number, task in enumerate(tasks)
        if "--dry-run" in str(task.get("vars", {}).get("_backup_argv", ""))
    )
    assert check < runs[0] < services[0] < runs[1]
