"""What a restore's tasks have of it on a cluster: their own key, and rights for its topics alone."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit.identifiers import assert_printed, printed
from kit.restore_snapshot import SNAPSHOT

from aqueduct import cli
from aqueduct.common import job_files
from aqueduct.errors import ExitCode, Refused
from aqueduct.kafka import acls
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.restore import rights, run, task_rights
from aqueduct.snapshots.restore.job import Job
from aqueduct.snapshots.restore.order import RestoreOrder, TaskClient
from aqueduct.snapshots.restore.outcome import RestoreOutcome
from aqueduct.snapshots.restore.plan import plan
from aqueduct.snapshots.restore.progress import RestoreOrigin, TopicState
from aqueduct.snapshots.restore.request import Request
from aqueduct.work.workers import Workers
from servers.pki import Authority

ROOT = Path(__file__).resolve().parents[2]
KEY = re.compile(b"-----BEGIN PRIVATE " + b"KEY-----.*?-----END PRIVATE KEY-----", re.DOTALL)
TASKS = TaskClient(End("target", "b:9092"), "restore-pro1")
ORIGIN = RestoreOrigin(store="s", topic="t", instance=1, topic_id="of-t", first_time=0, last_time=9)
ENDED = TopicState(
    topic_id="id",
    snapshot=7,
    request="digest",
    back={},
    holds={},
    of_backup=True,
    done=True,
    origin=ORIGIN,
)


def job(task_client: TaskClient | None = TASKS) -> Job:
    order = RestoreOrder(
        end=End("target", "b:9092"), store="file:///s", request=Request(), task_client=task_client
    )
    wanted = plan(SNAPSHOT, Request((("t", "new"),)))
    return Job(
        order=order,
        id="digest-7",
        request="digest",
        snapshot=SNAPSHOT,
        plan=wanted,
        there={},
        known={},
        others={},
        groups=(),
        written={},
    )


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RestoreOrder]]:
    """Yield the orders of restores, which end before anything is asked for; `packed` is theirs then."""
    orders: list[RestoreOrder] = []

    def main(order: RestoreOrder, _: Workers) -> None:
        orders.append(order)
        with job_files.packed({}) as files:
            packed.append(b"".join(files.contents.values()))
        raise Refused("usage-error", "This is all that the test wants.")

    packed.clear()
    job_files.forget()  # what verbs of other tests left in this process
    monkeypatch.setattr(run, "main", main)
    yield orders
    job_files.forget()


packed: list[bytes] = []  # what each worker of a cluster would get, as bytes


def restore(*options: str) -> None:
    command = ["restore", "--bootstrap-server", "127.0.0.1:9092", "--store", "file:///s"]
    assert cli.main([*command, *options]) == ExitCode.REFUSED


@pytest.mark.usefixtures("sent")
def test_workers_get_no_key_but_that_of_tasks(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    files = {name: authority.client_config(name) for name in ("admin", "restore-pro1", "mirror-lake")}
    keys = {name: KEY.search((tmp_path / f"pki/{name}.pem").read_bytes())[0] for name in files}  # type: ignore[index]
    mirror = ["--mirror", "lake=127.0.0.1:9093", "--mirror-command-config", str(files["mirror-lake"])]
    restore(
        *("--command-config", str(files["admin"])),
        *("--task-command-config", str(files["restore-pro1"])),
        *mirror,
    )
    assert keys["restore-pro1"] in packed[-1]
    assert keys["admin"] not in packed[-1]
    assert keys["mirror-lake"] not in packed[-1]
    # Without a key for tasks they connect as the driver does; the mirror's lake is the driver's alone.
    restore("--command-config", str(files["admin"]), *mirror)
    assert keys["admin"] in packed[-1]
    assert keys["mirror-lake"] not in packed[-1]


def test_sent_key_of_driver_is_reported(tmp_path: Path, sent: list[RestoreOrder]) -> None:
    authority = Authority(tmp_path / "pki")
    files = {name: str(authority.client_config(name)) for name in ("admin", "restore-pro1")}
    copied = tmp_path / "copied.properties"
    copied.write_bytes(Path(files["admin"]).read_bytes())
    own = ["--task-command-config", files["restore-pro1"], "--task-principal", "restore-pro1"]
    for options in [
        ["--command-config", files["admin"]],
        [
            "--command-config",
            files["admin"],
            *("--task-command-config", str(copied)),
            *("--task-principal", "admin"),
        ],
        ["--command-config", files["admin"], "--task-command-config", files["restore-pro1"]],
        ["--command-config", files["admin"], *own],
        [],
    ]:
        restore(*options)
    warnings = [task_rights.key_sent(order) for order in sent]
    assert [warning and warning.id for warning in warnings] == ["restore-key-sent"] * 3 + [None] * 2


def test_key_warning_appears_only_with_remote_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only workers of a cluster are other hosts: a warning is printed before all else, and reported."""
    properties, report = tmp_path / "admin.properties", tmp_path / "report.json"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=admin\nsasl.password=secret\n"
    )
    wanted = job().plan
    monkeypatch.setattr(
        run, "main", lambda _order, _workers: RestoreOutcome(restore_id="digest-7", plan=wanted)
    )
    command = ["restore", "--bootstrap-server", "127.0.0.1:9092", "--store", f"file://{tmp_path}/store"]
    command += ["--command-config", str(properties), "--report", str(report)]
    for master, sent_ids in [
        ([], []),
        (["--master", "local[2]"], []),
        (["--master", "spark://s:7077"], ["restore-key-sent"]),
    ]:
        cli.main([*command, *master])
        assert [warning["id"] for warning in json.loads(report.read_text())["warnings"]] == sent_ids
        assert printed(capsys.readouterr().err) == sent_ids


def test_task_descriptions_contain_no_driver_password(tmp_path: Path, sent: list[RestoreOrder]) -> None:
    for name in ("admin", "tasks"):
        (tmp_path / name).write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={name}\nsasl.password=secret-of-{name}\n"
        )
    restore("--command-config", str(tmp_path / "admin"), "--task-command-config", str(tmp_path / "tasks"))
    [order] = sent
    assert (order.end.client_config.login, order.tasks_end.client_config.login) != (None, None)
    assert "tasks" in str(order.tasks_end.client_config.login)
    # All that a restore's tasks are told is made in its modules, whose only uses of its end are these.
    uses = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "aqueduct/snapshots/restore").glob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\b(order|self)\.end\b", line)
    ]
    assert uses == [
        "job.py: return connect(order.end, CLIENT)",
        "order.py: return self.task_client.end if self.task_client else self.end",
        "task_rights.py: elif credentials == _credentials(order.end.client_config):",  # for a warning
    ]


def test_tasks_get_rights_for_restored_topics_only() -> None:
    assert task_rights.needed(job()) == (
        Acl(
            principal="User:restore-pro1",
            resource="group",
            name="aqueduct-restore-digest-7",
            pattern="literal",
            operation="read",
        ),
        Acl(
            principal="User:restore-pro1",
            resource="transactional_id",
            name="aqueduct-restore-digest-7-",
            pattern="prefixed",
            operation="write",
        ),
        Acl(principal="User:restore-pro1", resource="topic", name="new", pattern="literal", operation="read"),
        Acl(
            principal="User:restore-pro1", resource="topic", name="new", pattern="literal", operation="write"
        ),
    )


def test_a_topic_that_is_complete_is_only_read() -> None:
    again = replace(job(), known={"new": ENDED})
    assert {acl.operation for acl in task_rights.needed(again) if acl.resource == "topic"} == {"read"}


@pytest.mark.parametrize("task_client", [None, replace(TASKS, principal=None)])
def test_without_a_principal_nothing_is_granted(task_client: TaskClient | None) -> None:
    asked = job(task_client)
    assert task_rights.needed(asked) == ()
    with task_rights.granted(asked) as left:  # nor is the cluster asked, which does not exist
        assert left == []


def test_task_rights_are_not_restored_from_backup() -> None:
    """A backup that was made during a restore has them."""
    person = Acl(principal="User:anna", resource="topic", name="t", pattern="literal", operation="read")
    of_tasks = replace(person, principal="User:restore-pro1", operation="write")
    stored = frozenset({person, of_tasks})
    order = replace(job().order, acls=True, acls_within=acls.parse([]))
    may, left_out = rights.allowed(order, stored)
    assert may == frozenset()
    assert [each.what for each in left_out] == ["1 ACL of User:anna"]
    assert rights.allowed(replace(order, acls_within=None), stored) == ({person}, ())
    # Nor where they are listed, as those that the snapshot has.
    assert rights.allowed(replace(order, acls_of=frozenset({"restore-pro1"})), stored) == (may, left_out)


@pytest.mark.parametrize("name", ["", "User:restore-pro1"])
def test_a_principal_is_written_without_its_type(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    restore("--task-command-config", "x", f"--task-principal={name}")
    assert printed(capsys.readouterr().err) == ["usage-error"]


def test_a_principal_without_a_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    restore("--task-principal", "restore-pro1")
    assert_printed(capsys.readouterr().err, "option-required", "--task-principal", "--task-command-config")
