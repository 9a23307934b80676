"""Somebody changes what is being restored while it is: no run may say that it is there."""

from collections.abc import Callable
from typing import Any

import pytest
from kit import clients
from kit.cut_logs import cut_log

from aqueduct.errors import ExitCode
from aqueduct.kafka.produce import Retry, TransactionalProducer
from aqueduct.snapshots.restore import groups, records
from servers.broker import Broker

Attack = Callable[[Broker, str], object]
Run = Callable[..., None]
Restore = Callable[..., dict[str, Any]]
Said = pytest.CaptureFixture[str]
RECORDS = 60


@pytest.fixture(autouse=True)
def many_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "TRANSACTION_BYTES", 500)


def after_commit(patch: pytest.MonkeyPatch, action: Callable[[], object], number: int = 2) -> None:
    """Do something when the restore has committed so many transactions, and goes on."""
    commit, left = TransactionalProducer.commit, [number]

    def committed(producer: TransactionalProducer) -> None:
        commit(producer)
        left[0] -= 1
        if not left[0]:
            action()

    patch.setattr(TransactionalProducer, "commit", committed)


def filled(broker: Broker, topic: str) -> None:
    clients.create(broker, topic)
    clients.produce(broker, topic, range(RECORDS), **{"batch.num.messages": 5, "linger.ms": 50})


def others_records(broker: Broker, topic: str) -> None:
    clients.produce(broker, topic, ["not of the backup"] * 2)


def others_transaction(broker: Broker, topic: str) -> None:
    clients.transaction(broker, topic, ["not of the backup"] * 2, "commit")


ATTACKS: dict[str, tuple[Attack, str]] = {
    "made again": (clients.recreate, "deleted and re-created"),
    "emptied": (lambda broker, topic: clients.delete_records(broker, topic, -1), "were deleted"),
    "first records gone": (lambda broker, topic: clients.delete_records(broker, topic, 7), "were deleted"),
    "cut": (lambda broker, topic: cut_log(broker, topic, 0), ""),  # it grows again by what follows
    "written to": (others_records, "2 records of another producer"),
    "written to in a transaction": (others_transaction, "2 records of another producer"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_topic_change_during_restore_fails_run(
    source: Broker,
    target: Broker,
    name: str,
    backup: Run,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
    attack: str,
) -> None:
    filled(source, name)
    backup(name)
    do, why = ATTACKS[attack]
    after_commit(monkeypatch, lambda: do(target, name))
    error = restore(name, code=ExitCode.FAILED)["error"]
    assert error["id"] == "target-changed"
    assert name in error["message"]
    assert why in error["message"]


def test_topic_change_during_offset_restore_fails_run(
    source: Broker,
    target: Broker,
    name: str,
    backup: Run,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filled(source, name)
    backup(name)
    set_offsets = groups.restore

    def late(*arguments: Any) -> Any:
        others_records(target, name)
        return set_offsets(*arguments)

    monkeypatch.setattr(groups, "restore", late)
    error = restore(name, code=ExitCode.FAILED)["error"]
    assert error["id"] == "target-changed"
    assert "2 records of another producer" in error["message"]


def test_append_restore_allows_records_of_other_producers(
    source: Broker,
    target: Broker,
    name: str,
    backup: Run,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filled(source, name)
    backup(name)
    clients.create(target, name)
    after_commit(monkeypatch, lambda: others_records(target, name))
    assert restore(name, "--append")["recount"] == {"partitions": 1, "read": 0}
    assert len(clients.read(target, name)) == RECORDS + 2


def test_aborted_transactions_of_restore_are_not_foreign_records(
    source: Broker,
    target: Broker,
    name: str,
    backup: Run,
    restore: Restore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice a transaction is given up in the middle; all is counted, and nothing is read for it."""
    filled(source, name)
    backup(name)
    commit_offsets, calls = TransactionalProducer.commit_offsets, []

    def troubled(producer: TransactionalProducer, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) < 3:
            producer.drain()
            producer._valid = False
            raise Retry("the network is away")
        commit_offsets(producer, *arguments)

    monkeypatch.setattr(TransactionalProducer, "commit_offsets", troubled)
    assert restore(name)["recount"] == {"partitions": 1, "read": 0}
    assert len(calls) >= 3
    assert [message.value() for message in clients.read(target, name)] == [
        b"%d" % number for number in range(RECORDS)
    ]
