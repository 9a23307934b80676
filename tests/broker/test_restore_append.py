"""`restore --append` of a newer snapshot writes what an earlier restore of the store lacks, exactly once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit.clients import committed, create, unique

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode, Failed
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.batches import produce as produce_batches
from aqueduct.kafka.client_config import End
from aqueduct.snapshots.restore import progress, records
from servers.broker import Broker

Backup = Callable[..., None]
Run = Callable[..., dict[str, Any]]
TIME = 1_700_000_000_000


@pytest.fixture
def backup(source: Broker, tmp_path: Path) -> Backup:
    def run(*topics: str) -> None:
        argv = ["--bootstrap-server", source.plaintext, "--store", f"file://{tmp_path}/store"]
        argv += ["--topics", ",".join(topics), "--segment-bytes", "3000"]
        assert main(["backup", *argv]) == ExitCode.DONE

    return run


@pytest.fixture
def restore(target: Broker, tmp_path: Path) -> Run:
    def run(*argv: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        common = ["--bootstrap-server", target.plaintext, "--store", f"file://{tmp_path}/store"]
        assert main(["restore", *common, "--report", str(report), *argv]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    return run


@pytest.fixture
def topic(source: Broker) -> str:
    return create(source, unique("appended"))


def write(broker: Broker, topic: str, *numbers: int, time: int = TIME) -> None:
    """Write records in a transaction, so that offsets change in a restore."""
    values = [{"value": str(number), "timestamp": time + number} for number in range(*numbers)]
    clients.transaction(broker, topic, values, "commit")


def values(broker: Broker, topic: str) -> list[int]:
    return [int(message.value() or b"") for message in clients.read(broker, topic)]


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    with raw.connect(End("c", broker.plaintext), "test") as client:
        groups.commit(client, group, {TopicPartition(topic, 0): (offset, "")})


def forget(broker: Broker, *names: str) -> None:
    with raw.connect(End("c", broker.plaintext), "test") as client:
        groups.delete(client, names)


def test_newer_snapshots_are_appended_exactly_once(
    source: Broker,
    target: Broker,
    topic: str,
    backup: Backup,
    restore: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(source, topic, 0, 10)
    backup(topic)
    first = restore("--topics", topic)
    write(source, topic, 10, 25)
    backup(topic)
    restore("--topics", topic, code=ExitCode.REFUSED)
    assert "writes only the records that those restores lack" in capsys.readouterr().err
    planned = restore("--topics", topic, "--append", "--dry-run")
    assert planned["partitions"][0]["records"] == 15
    second = restore("--topics", topic, "--append")
    assert second["continues"] == {topic: [first["restore_id"]]}
    assert [each["records_now"] for each in second["partitions"]] == [15]
    assert values(target, topic) == list(range(25))
    again = restore("--topics", topic, "--append")
    assert again["finished_before"]
    write(source, topic, 25, 30)
    backup(topic)
    restore("--topics", topic, "--append")
    restore("--topics", topic, "--append", "--snapshot", "1")
    assert values(target, topic) == list(range(30))


def test_groups_get_offsets_of_records_from_any_restore(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run
) -> None:
    write(source, topic, 0, 10)
    backup(topic)
    restore("--topics", topic)
    clients.produce(target, topic, ["1000"])
    write(source, topic, 10, 20)
    offsets = {0: 0, 4: 4, 10: 10, 11: 10, 15: 14, 22: 20}  # of the source, by the next record's value
    for offset in offsets:
        commit(source, f"{topic}.{offset}", topic, offset)
    backup(topic)
    restore("--topics", topic, "--append")
    assert values(target, topic) == [*range(10), 1000, *range(10, 20)]
    found = {}
    for offset in offsets:
        at = committed(target, f"{topic}.{offset}")[topic, 0]
        following = clients.read(target, topic, start=at)
        found[offset] = int(following[0].value() or b"") if following else 20
    assert found == offsets


def test_restore_of_more_topics_continues_those_that_exist(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run
) -> None:
    other = create(source, unique("appended"))
    for each in (topic, other):
        write(source, each, 0, 10)
    backup(topic, other)
    restore("--topics", f"{topic}:{topic}.copy")
    for each in (topic, other):
        write(source, each, 10, 20)
    backup(topic, other)
    restore("--topics", f"{topic}:{topic}.copy,{other}", "--append")
    assert values(target, f"{topic}.copy") == values(target, other) == list(range(20))


def test_windows_that_overlap_are_refused_and_others_appended(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run
) -> None:
    write(source, topic, 0, 20)
    backup(topic)
    restore("--topics", topic, "--to-time", str(TIME + 9))
    for window in ((), ("--from-time", str(TIME + 9)), ("--to-time", str(TIME + 12))):
        restore("--topics", topic, "--append", *window, code=ExitCode.REFUSED)
    restore("--topics", topic, "--append", "--from-time", str(TIME + 10))
    assert values(target, topic) == list(range(20))


def test_interrupted_append_resumes(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, topic, 0, 10)
    backup(topic)
    restore("--topics", topic)
    for start in range(10, 60, 10):
        write(source, topic, start, start + 10)
    backup(topic)
    commits = 0
    real = records._Task._commit

    def breaking(task: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 3:
            raise Failed("The test ended this run.")
        real(task)

    with monkeypatch.context() as patched:
        patched.setattr(produce_batches, "SMALL_BYTES", 0)
        patched.setattr(records, "TRANSACTION_BYTES", 1)
        patched.setattr(records._Task, "_commit", breaking)
        restore("--topics", topic, "--append", code=ExitCode.FAILED)
    assert 10 < len(values(target, topic)) < 60
    restore("--topics", topic, "--append")
    assert values(target, topic) == list(range(60))


def test_forgotten_progress_is_read_from_snapshot(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run
) -> None:
    write(source, topic, 0, 10)
    backup(topic)
    first = restore("--topics", topic)
    forget(target, progress.group(first["restore_id"]))
    write(source, topic, 10, 20)
    backup(topic)
    restore("--topics", topic, "--append")
    assert values(target, topic) == list(range(20))


def test_generation_is_never_appended_to_another_generation(
    source: Broker, target: Broker, backup: Backup, restore: Run, tmp_path: Path
) -> None:
    """Both have the same records of the source, and keys may have been deleted in between."""
    topic = create(source, unique("compacted"), cleanup_policy="compact")
    store = ["--bootstrap-server", source.plaintext, "--store", f"file://{tmp_path}/store"]
    for _ in range(2):
        clients.produce(source, topic, [{"key": "k", "value": "1"}])
        argv = ["backup", *store, "--topics", topic, "--compacted-generation-hours", "0.000001"]
        assert main(argv) == ExitCode.DONE
    restore("--topics", topic, "--instance", "g1")
    restore("--topics", topic, "--append", "--instance", "g2", code=ExitCode.REFUSED)


def all_values(broker: Broker, topic: str) -> list[int]:
    return sorted(int(message.value() or b"") for message in clients.read(broker, topic, 0, 1))


def skipped(report: dict[str, Any], key: str) -> set[str]:
    return {omission["what"] for omission in report["left_out"] if omission["id"] == key}


def test_append_after_forgotten_restore_is_refused(
    source: Broker,
    target: Broker,
    topic: str,
    backup: Backup,
    restore: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(source, topic, 0, 10)
    backup(topic)
    first = restore("--topics", topic)["restore_id"]
    forget(target, progress.group(first), progress.plan_group(first))
    write(source, topic, 10, 20)
    backup(topic)
    restore("--topics", topic, "--append", code=ExitCode.REFUSED)
    assert "[append-origin-unknown]" in capsys.readouterr().err
    assert values(target, topic) == list(range(10))


def test_append_skips_only_partitions_of_unknown_origin(
    source: Broker, target: Broker, backup: Backup, restore: Run
) -> None:
    topic = create(source, unique("appended"), partitions=2)
    for partition in (0, 1):
        value = {"value": str(partition), "timestamp": TIME, "partition": partition}
        clients.transaction(source, topic, [value], "commit")
    backup(topic)
    first = restore("--topics", topic)["restore_id"]
    forget(target, progress.group(first), progress.plan_group(first))
    clients.delete_records(target, topic, 2)
    with raw.connect(End("c", source.plaintext), "test") as client:
        groups.commit(client, f"{topic}.group", {TopicPartition(topic, 1): (0, "")})
    backup(topic)
    report = restore("--topics", topic, "--append", code=ExitCode.INCOMPLETE)
    assert skipped(report, "append-origin-unknown") == {
        f"records of {topic}-1",
        f"group {topic}.group, {topic}-1",
    }
    assert all_values(target, topic) == [0, 1]
    again = restore("--topics", topic, "--append", code=ExitCode.INCOMPLETE)
    assert f"records of {topic}-1" in skipped(again, "append-origin-unknown")
    for number in (0, 1):
        value = {"value": str(2 + number), "timestamp": TIME, "partition": number}
        clients.transaction(source, topic, [value], "commit")
    backup(topic)
    newer = restore("--topics", topic, "--append", code=ExitCode.INCOMPLETE)
    assert f"records of {topic}-1" in skipped(newer, "append-origin-unknown")
    assert all_values(target, topic) == [0, 1, 2]


def test_topic_of_unknown_origin_does_not_stop_others(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run
) -> None:
    other = create(source, unique("appended"))
    for name in (topic, other):
        write(source, name, 0, 10)
    backup(topic, other)
    first = restore("--topics", topic)["restore_id"]
    forget(target, progress.group(first), progress.plan_group(first))
    clients.produce(target, topic, ["1000"])
    for _ in range(2):
        report = restore("--topics", f"{topic},{other}", "--append", code=ExitCode.INCOMPLETE)
        assert skipped(report, "append-origin-unknown") == {f"records of {topic}-0"}
    assert values(target, topic) == [*range(10), 1000]
    assert values(target, other) == list(range(10))


def test_append_beside_writing_clients_is_exact(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients write before each of its transactions ends; nothing of theirs or ours is lost or doubled."""
    group, written = f"{topic}.group", list[int]()
    write(source, topic, 0, 10)
    backup(topic)
    restore("--topics", topic)
    for start in range(10, 60, 10):
        write(source, topic, start, start + 10)
    commit(source, group, topic, 38)  # of 35, for a marker follows each ten records
    backup(topic)
    real = records._Task._commit

    def beside(task: Any) -> None:
        number = 1000 + len(written)
        if number % 2:
            clients.produce(target, topic, [number])
        else:
            clients.transaction(target, topic, [{"value": str(number)}], "commit")
        written.append(number)
        real(task)

    with monkeypatch.context() as patched:
        patched.setattr(produce_batches, "SMALL_BYTES", 0)
        patched.setattr(records, "TRANSACTION_BYTES", 1)
        patched.setattr(records._Task, "_commit", beside)
        report = restore("--topics", topic, "--append")
    assert report["partitions"][0]["records_now"] == 50

    def is_exact(number: int) -> None:
        found = values(target, topic)
        assert [value for value in found if value < 1000] == list(range(number))
        assert [value for value in found if value >= 1000] == written

    assert len(written) > 5
    is_exact(60)
    following = clients.read(target, topic, start=committed(target, group)[topic, 0])
    assert int(following[0].value() or b"") == 35
    # The next one tells its own records from theirs, too.
    write(source, topic, 60, 70)
    backup(topic)
    restore("--topics", topic, "--append", "--no-groups")
    is_exact(70)


def test_append_after_later_transactions_of_clients_writes_all(
    source: Broker, target: Broker, topic: str, backup: Backup, restore: Run
) -> None:
    write(source, topic, 0, 10)
    backup(topic)
    create(target, topic)
    write(target, topic, 1000, 1005, time=TIME + 100)
    restore("--topics", topic, "--append")
    assert values(target, topic) == [*range(1000, 1005), *range(10)]
