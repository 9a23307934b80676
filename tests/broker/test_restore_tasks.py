"""Tasks of a restore with a key of their own: what it may do while the restore runs, and afterwards."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)
from kit import clients, scram
from kit.identifiers import printed

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode, Failed
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import USER as TYPE
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import list_acls
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.restore import records, task_rights
from aqueduct.snapshots.restore.outcome import Written
from aqueduct.snapshots.restore.records import RestoreShare
from servers.broker import PASSWORD, USER, Broker

Run = Callable[..., dict[str, Any]]
TASKS = "restore-tasks"
NUMBER = 20  # of records in each partition
INTERRUPTED = 130


def properties(broker: Broker, path: Path, user: str, mechanism: str, login: str) -> str:
    path.write_text(
        "security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={broker.authority.certificate}\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{login}LoginModule required "
        f'username="{user}" password="{PASSWORD}";\n'
    )
    return str(path)


@pytest.fixture
def topic(source: Broker) -> str:
    return clients.numbered(source, "tasks", 2, NUMBER)


@pytest.fixture
def restore(source: Broker, target: Broker, topic: str, tmp_path: Path) -> Iterator[Run]:
    """Yield a restore of the topic, whose driver is a super user; its tasks are no such user."""
    store = f"file://{tmp_path}/store"
    argv = ["backup", "--bootstrap-server", source.plaintext, "--store", store, "--topics", topic]
    assert main(argv) == ExitCode.DONE
    scram.add_user(target, TASKS, ScramMechanism.SCRAM_SHA_256)
    driver = properties(target, tmp_path / "driver.properties", USER, "PLAIN", "plain.Plain")
    tasks = properties(target, tmp_path / "tasks.properties", TASKS, "SCRAM-SHA-256", "scram.Scram")

    def run(principal: str = TASKS, code: int = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        command = ["restore", "--bootstrap-server", target.sasl, "--store", store, "--topics", topic]
        command += ["--command-config", driver, "--task-command-config", tasks, "--task-principal", principal]
        assert main([*command, "--report", str(report)]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    yield run
    assert rights(target) == set()


def rights(broker: Broker, principal: str = TASKS) -> set[Acl]:
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        return {acl for acl in list_acls(client) if acl.principal == f"{TYPE}{principal}"}


def client(share: RestoreShare, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a client of somebody who has read what a task has."""
    return {
        "bootstrap.servers": share.end.bootstrap_servers,
        "log_level": 0,
        **share.end.client_config.librdkafka(),
        **more,
    }


def write(share: RestoreShare, topic: str) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer = Producer(client(share, {}))
    producer.produce(topic, b"forged", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(clients.SECONDS) == 0
    return errors[0]


def code(future: Any) -> int | None:
    try:
        future.result(clients.SECONDS)
    except KafkaException as error:
        return int(error.args[0].code())
    return None


def test_task_rights_cover_only_restored_topics_until_end(
    restore: Run, target: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rights of the tasks are revoked when the restore ends."""
    other = clients.create(target, clients.unique("not-restored"), 1)
    own, tried = records.restore, []

    def captured(share: RestoreShare) -> dict[TopicPartition, Written]:
        """Do what a captured worker would, and then the work."""
        if not tried:
            admin = AdminClient(client(share, {}))
            name = clients.unique("captured")
            grant = AclBinding(
                ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, f"{TYPE}{TASKS}", "*",
                AclOperation.ALL, AclPermissionType.ALLOW,
            )  # fmt: skip
            tried.append(share)
            refused = {
                "create": code(admin.create_topics([NewTopic(name, 1, 1)])[name]),
                "delete": code(admin.delete_topics([topic])[topic]),
                "grant": code(admin.create_acls([grant])[grant]),
                "write": write(share, other).code(),  # type: ignore[union-attr]
            }
            assert refused == {
                "create": KafkaError.TOPIC_AUTHORIZATION_FAILED,
                "delete": KafkaError.TOPIC_AUTHORIZATION_FAILED,
                "grant": KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                "write": KafkaError.TOPIC_AUTHORIZATION_FAILED,
            }
            group = f"aqueduct-restore-{share.restore_id}"
            assert {(acl.resource, acl.name, acl.operation) for acl in rights(target)} == {
                ("group", group, "read"),
                ("transactional_id", f"{group}-", "write"),
                ("topic", topic, "read"),
                ("topic", topic, "write"),
            }
        return own(share)

    monkeypatch.setattr(records, "restore", captured)
    report = restore()
    assert report["left_out"] == []
    assert sum(len(clients.read(target, topic, partition)) for partition in (0, 1)) == 2 * NUMBER
    error = write(replace(tried[0], lanes=()), topic)  # the key was copied, and the restore has ended
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    again = restore()  # and again: there is nothing to write, and nothing is left
    assert {each["records_now"] for each in again["partitions"]} == {0}


def test_next_run_revokes_rights_of_killed_restore(
    restore: Run, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(task_rights, "_revoke", lambda *_: [])  # which a killed run never comes to
        patched.setattr(records, "restore", killed)
        restore(code=INTERRUPTED)
    assert rights(target)
    restore()
    assert rights(target) == set()


def test_a_restore_that_fails_revokes_what_it_granted(
    restore: Run, target: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: RestoreShare) -> None:
        raise Failed("target-changed", "A task failed.")

    with monkeypatch.context() as patched:
        patched.setattr(records, "restore", fail)
        restore(code=ExitCode.FAILED)
    assert "target-changed" in printed(capsys.readouterr().err)
    assert rights(target) == set()
    restore()


def test_principal_mismatch_of_tasks_has_specific_error(
    restore: Run, target: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(task_rights, "SETTLE_SECONDS", 1)
    restore(principal="somebody-else", code=ExitCode.FAILED)
    assert "task-principal-mismatch" in printed(capsys.readouterr().err)
    assert rights(target, "somebody-else") == set()
