"""Backed up from one cluster and restored into another, as an independent client sees both."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_broker import Broker

from aqueduct.acls import Acl
from aqueduct.acls import Plan as AclPlan
from aqueduct.batches import produce as produce_batches
from aqueduct.cli import main
from aqueduct.client_config import ClientConfig, End
from aqueduct.errors import ExitCode
from aqueduct.io import kafka_admin
from aqueduct.io.kafka import client as raw
from aqueduct.io.kafka import groups
from aqueduct.io.kafka.produce import TransactionalProducer
from aqueduct.io.restore import records
from aqueduct.quotas import Quota

Record = tuple[bytes | None, bytes | None, Any, tuple[int, int]]  # key, value, headers, time with its type
Run = Callable[..., dict[str, Any]]
NOW = 1_700_000_000_000
CREATE_TIME = 1


@pytest.fixture
def source(brokers: list[Broker]) -> Broker:
    return brokers[0]


@pytest.fixture
def target(brokers: list[Broker]) -> Broker:
    return brokers[1]


@pytest.fixture
def name() -> str:
    return f"restore.{uuid4().hex[:8]}"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.fixture
def backup(source: Broker, store: str) -> Callable[..., None]:
    def run(*topics: str, code: ExitCode = ExitCode.DONE, groups_pattern: str | None = None) -> None:
        argv = ["backup", "--bootstrap-servers", source.plaintext, "--store", store]
        argv += ["--topics", ",".join(topics), "--segment-bytes", "3000"]
        argv += ["--groups-pattern", groups_pattern] if groups_pattern else []
        assert main(argv) == code

    return run


@pytest.fixture
def restore(target: Broker, store: str, tmp_path: Path) -> Run:
    def run(*argv: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        common = ["restore", "--bootstrap-servers", target.plaintext, "--store", store]
        assert main([*common, "--report", str(report), *argv]) == code
        return dict(json.loads(report.read_text())) if report.exists() else {}

    return run


def create(broker: Broker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.plaintext})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()


def settings(broker: Broker, topic: str) -> dict[str, str]:
    with kafka_admin.connect(broker.plaintext, ClientConfig()) as admin:
        return admin.topic_settings([topic])[topic]


def produce(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **config: Any) -> None:
    """Values, or arguments of produce; five records in a batch."""
    producer = Producer(
        {
            "bootstrap.servers": broker.plaintext,
            "enable.idempotence": True,  # or a batch that is sent again comes after the next one
            "linger.ms": 100,
            "batch.num.messages": 5,
            **config,
        }
    )
    for each in values:
        arguments = each if isinstance(each, Mapping) else {"value": str(each), "timestamp": NOW}
        producer.produce(topic, partition=partition, **arguments)
    producer.flush()


def transaction(
    broker: Broker, topic: str, values: Iterable[Any], *, commit: bool, partition: int = 0
) -> None:
    producer = Producer({"bootstrap.servers": broker.plaintext, "transactional.id": uuid4().hex})
    producer.list_topics()
    producer.init_transactions()
    producer.begin_transaction()
    for each in values:
        producer.produce(topic, str(each), partition=partition, timestamp=NOW)
    producer.flush()
    producer.commit_transaction() if commit else producer.abort_transaction()


def consumer(broker: Broker, group: str | None = None) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.plaintext,
            "group.id": group or uuid4().hex,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )


def read(broker: Broker, topic: str, partition: int = 0, start: int | None = None) -> list[Record]:
    return [record for _, record in numbered(broker, topic, partition, start)]


def numbered(
    broker: Broker, topic: str, partition: int = 0, start: int | None = None
) -> list[tuple[int, Record]]:
    client = consumer(broker)
    low, _ = client.get_watermark_offsets(TopicPartition(topic, partition))
    client.assign([TopicPartition(topic, partition, low if start is None else start)])
    found = []
    while (message := client.poll(30)) is not None:
        if message.error():
            client.close()
            return found
        record = message.key(), message.value(), message.headers(), message.timestamp()
        found.append((message.offset() or 0, record))
    raise AssertionError(f"nothing more came of {topic}-{partition}")


def commit(broker: Broker, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
    with raw.connect(End("source", broker.plaintext), "test") as client:
        groups.commit(client, group, {place: (offset, metadata) for place, offset in offsets.items()})


def committed(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    """As another client sees it."""
    admin = AdminClient({"bootstrap.servers": broker.plaintext})
    [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(each.topic, each.partition): each.offset for each in answer.result().topic_partitions or ()}


def end(broker: Broker, topic: str, partition: int = 0) -> int:
    return int(consumer(broker).get_watermark_offsets(TopicPartition(topic, partition))[1])


ODD_RECORDS: list[dict[str, Any]] = [
    {"key": b"twice", "value": b"a", "headers": [("h", b"1"), ("h", b"2"), ("g", b""), ("n", None)]},
    {"key": None, "value": b"no key"},
    {"key": b"", "value": b"empty key"},
    {"key": b"gone", "value": None},
    {"key": b"empty", "value": b""},
    {"key": None, "value": None},
    {"key": b"old", "value": b"1", "timestamp": 1_000},
    {"key": b"first", "value": b"2", "timestamp": 1},
    {"key": b"late", "value": b"3", "timestamp": NOW * 2},
    {"key": b"large", "value": bytes(range(256)) * 3000},
]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_kind_of_record_comes_back_as_it_was(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run, codec: str
) -> None:
    unlimited = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
    create(source, name, 2, **unlimited)
    odd = [{"timestamp": NOW - number, **each} for number, each in enumerate(ODD_RECORDS)]
    produce(source, name, odd * 3, **{"compression.type": codec})
    backup(name)
    report = restore("--topics", name)
    assert read(target, name) == read(source, name)
    assert len(read(target, name)) == 3 * len(ODD_RECORDS)
    assert read(target, name, 1) == []
    assert [each["records"] for each in report["partitions"]] == [30, 0]
    assert settings(target, name).keys() >= unlimited.keys()


def test_names_of_every_form(
    source: Broker, target: Broker, backup: Callable[..., None], restore: Run
) -> None:
    stem = uuid4().hex[:6]
    names = [f"{stem}.a-b_c", f"{stem}-", stem * 41 + "xyz", f"{stem}.snapshots"]
    assert max(map(len, names)) == 249
    for name in names:
        create(source, name)
        produce(source, name, [name])
    backup(*names)
    restore("--topics", ",".join(names))
    for name in names:
        assert [value for _, value, _, _ in read(target, name)] == [name.encode()]


def test_a_group_goes_on_at_its_very_next_record_wherever_it_stood(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    """With holes by markers and aborted transactions, in topics that have records already, renamed."""
    create(source, name)
    produce(source, name, range(12))
    transaction(source, name, range(12, 20), commit=True)
    transaction(source, name, ["never"] * 5, commit=False)
    produce(source, name, range(20, 23))
    transaction(source, name, range(23, 30), commit=True)
    there = numbered(source, name)
    last = end(source, name)
    for offset in range(last + 1):
        commit(source, f"{name}-{offset}", {(name, 0): offset}, f"at {offset}")
    renamed = f"{name}-renamed"
    create(target, renamed)
    transaction(target, renamed, ["before"] * 3, commit=True)
    transaction(target, renamed, ["gone"] * 3, commit=False)
    backup(name)
    report = restore("--topics", f"{name}:{renamed}", "--append")
    here = numbered(target, renamed)[3:]
    assert [record for _, record in here] == [record for _, record in there]
    offsets = [offset for offset, _ in here]
    for offset in range(last + 1):
        rank = sum(known < offset for known, _ in there)
        expected = offsets[rank] if rank < len(offsets) else end(target, renamed)
        assert committed(target, f"{name}-{offset}") == {(renamed, 0): expected}
    with raw.connect(End("target", target.plaintext), "test") as client:
        found = groups.committed(client, [f"{name}-3"])
    assert found == {f"{name}-3": {(renamed, 0): (offsets[3], "at 3")}}
    assert len(report["groups"]) == last + 1


def test_a_compacted_topic_and_its_groups(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    compaction = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "1", "delete_retention_ms": "0"}
    create(source, name, cleanup_policy="compact", **compaction)
    for number in range(6):
        produce(source, name, [{"key": f"{key}", "value": f"{number}"} for key in range(number, 10)])
        time.sleep(0.01)
    deadline = time.monotonic() + 60
    while len(numbered(source, name)) > 15:
        assert time.monotonic() < deadline
        produce(source, name, [{"key": "9", "value": uuid4().hex}])  # in a new segment: the last is cleaned
    last = end(source, name)
    for offset in range(last + 1):
        commit(source, f"{name}-{offset}", {(name, 0): offset})
    backup(name, groups_pattern=f"{name}-.*")
    there = numbered(source, name)
    restore("--topics", name, "--groups-pattern", f"{name}-.*")
    # Compaction may go on at both ends; but a group's next record is the next that the backup had.
    here = {record[:2]: offset for offset, record in numbered(target, name)}
    for offset in range(last + 1):
        following = [record for known, record in there if known >= offset]
        if following and following[0][:2] in here:
            assert committed(target, f"{name}-{offset}") == {(name, 0): here[following[0][:2]]}
    assert settings(target, name)["cleanup.policy"] == "compact"


def test_settings_come_back_and_retention_waits_for_leave(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    mine = {
        "retention.ms": "100000",
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "lz4",
        "max.message.bytes": "200000",
        "min.insync.replicas": "3",
    }
    create(source, name, **{**mine, "message.timestamp.type": "CreateTime", "retention.ms": "-1"})
    create(source, f"{name}.new")
    produce(source, name, range(10))
    with kafka_admin.connect(source.plaintext, ClientConfig()) as admin:
        admin.apply_topics(kafka_admin.topics.Plan((), {}, {name: mine}, ()))
    backup(name, f"{name}.new")
    report = restore("--topics", f"{name},{name}.new")
    assert report["held"] == {name: {"retention.ms": "100000"}}
    assert read(target, name) == read(source, name)
    lowered = {**mine, "min.insync.replicas": "1"}
    assert settings(target, name) == {**lowered, "retention.ms": "-1"}
    assert settings(target, f"{name}.new") == {}
    assert any("min.insync.replicas" in warning for warning in report["warnings"])
    again = restore("--topics", f"{name},{name}.new")
    assert again["finished_before"]
    assert again["held"] == report["held"]
    released = restore("--topics", f"{name},{name}.new", "--release-retention")
    assert released["held"] == {}
    assert settings(target, name) == lowered


def test_log_append_times_are_kept(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    create(source, name, message_timestamp_type="LogAppendTime")
    produce(source, name, range(10))
    backup(name)
    restore("--topics", name)
    there, here = read(source, name), read(target, name)
    assert [(*each[:3], each[3][1]) for each in here] == [(*each[:3], each[3][1]) for each in there]
    assert {each[3][0] for each in here} == {CREATE_TIME}
    assert settings(target, name) == {"message.timestamp.type": "LogAppendTime"}


def test_only_records_inside_the_window_come(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    create(source, name)
    times = [*range(NOW, NOW + 50), *range(NOW + 20, NOW + 40)]
    produce(source, name, [{"value": str(each), "timestamp": each} for each in times])
    for offset in range(len(times) + 1):
        commit(source, f"{name}-{offset}", {(name, 0): offset})
    backup(name)
    first, last = NOW + 17, NOW + 33
    report = restore("--topics", name, "--from-time", str(first), "--to-time", "2023-11-14T22:13:20.033Z")
    here = numbered(target, name)
    kept = [offset for offset, each in enumerate(times) if first <= each <= last]
    assert [int(record[1] or b"") for _, record in here] == [times[offset] for offset in kept]
    clamped = {each["old"] for each in report["groups"] if "window" in each.get("note", "")}
    for offset in range(len(times) + 1):
        rank = sum(known < offset for known in kept)
        expected = here[rank][0] if rank < len(kept) else end(target, name)
        assert committed(target, f"{name}-{offset}") == {(name, 0): expected}
        assert (offset in clamped) == (offset < len(times) and offset not in kept)


def test_what_is_in_the_way_is_refused_before_anything_is_written(
    source: Broker,
    target: Broker,
    name: str,
    backup: Callable[..., None],
    restore: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(source, name, 2)
    create(source, f"{name}.other")
    produce(source, name, range(3))
    produce(source, f"{name}.other", range(3))
    backup(name, f"{name}.other")
    create(target, name, 3)
    restore(code=ExitCode.REFUSED)
    assert f"{name} (3, in the backup 2)" in capsys.readouterr().err
    create(target, f"{name}.taken")
    produce(target, f"{name}.taken", ["mine"])
    restore("--topics", f"{name}.other:{name}.taken", code=ExitCode.REFUSED)
    assert f"{name}.taken-0" in capsys.readouterr().err
    assert [value for _, value, _, _ in read(target, f"{name}.taken")] == [b"mine"]
    restore("--topics", "absent", code=ExitCode.REFUSED)
    restore("--topics", name, "--instance", "g7", code=ExitCode.REFUSED)
    restore("--snapshot", "7", code=ExitCode.REFUSED)
    restore("--from-time", "yesterday", code=ExitCode.REFUSED)
    topics = AdminClient({"bootstrap.servers": target.plaintext}).list_topics().topics
    assert f"{name}.other" not in topics
    report = restore("--dry-run", "--topics", f"{name}.other")
    assert report["dry_run"]
    assert f"{name}.other" not in AdminClient({"bootstrap.servers": target.plaintext}).list_topics().topics


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_object_is_found_before_anything_is_written(
    source: Broker,
    target: Broker,
    name: str,
    backup: Callable[..., None],
    restore: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    harm: str,
) -> None:
    create(source, name)
    produce(source, name, range(50))
    backup(name)
    objects = sorted((tmp_path / "store" / "topics" / name).rglob("*.log.zst"))
    victim = objects[-1]
    data = bytearray(victim.read_bytes())
    victim.chmod(0o600)
    if harm == "remove":
        victim.unlink()
    else:
        data[len(data) // 2] ^= 1
        victim.write_bytes(data if harm == "flip" else data[:-1])
    restore("--topics", name, code=ExitCode.FAILED)
    assert victim.name in capsys.readouterr().err
    assert name not in AdminClient({"bootstrap.servers": target.plaintext}).list_topics().topics


def test_a_group_with_members_is_named_and_gets_its_offsets_later(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    create(source, name)
    produce(source, name, range(10))
    for group in ("live", "idle"):
        commit(source, f"{name}.{group}", {(name, 0): 4})
    backup(name)
    create(target, f"{name}.else")
    member = consumer(target, f"{name}.live")
    member.subscribe([f"{name}.else"])
    while not member.assignment():
        member.poll(0.2)
    report = restore("--topics", name, code=ExitCode.INCOMPLETE)
    assert [each["what"] for each in report["left_out"]] == [f"group {name}.live"]
    assert committed(target, f"{name}.idle") == {(name, 0): 4}
    assert restore("--topics", name, code=ExitCode.INCOMPLETE)["finished_before"]
    member.close()
    restore("--topics", name)
    assert committed(target, f"{name}.live") == {(name, 0): 4}
    assert committed(target, f"{name}.idle") == {(name, 0): 4}


def test_acls_and_quotas_come_if_asked_for(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    create(source, name)
    acl = Acl(f"User:{name}", "topic", name, "literal", "read")
    quota = Quota({"user": name}, {"consumer_byte_rate": 1e6})
    with kafka_admin.connect(source.plaintext, ClientConfig()) as admin:
        admin.apply_acls(AclPlan((acl,), ()))
        admin.apply_quotas([quota])
        while quota not in admin.quotas():
            pass
    backup(name)
    with kafka_admin.connect(target.plaintext, ClientConfig()) as admin:
        restore("--topics", name)
        assert acl not in admin.list_acls()
        restore("--topics", f"{name}:{name}.again", "--acls")
        assert acl in admin.list_acls()
        while quota not in admin.quotas():
            pass


# In a process of its own that sends itself a signal at the call of a function, before or after it is done.
SIGNALLED = """
import os, sys
from importlib import import_module
from aqueduct.batches import produce
from aqueduct.io.restore import records
produce.SMALL_BYTES, records.TRANSACTION_BYTES = 0, 500
number, module, owner, function, calls, when = sys.argv[1:7]
holder = import_module(module)
holder = getattr(holder, owner) if owner else holder
real, left = getattr(holder, function), [int(calls)]
def signalling(*arguments, **named):
    left[0] -= 1
    if not left[0] and when == "before":
        os.kill(os.getpid(), int(number))
    answer = real(*arguments, **named)
    if not left[0] and when == "after":
        os.kill(os.getpid(), int(number))
    return answer
setattr(holder, function, signalling)
from aqueduct.cli import main
sys.exit(main(sys.argv[7:]))
"""
PRODUCER = "aqueduct.io.kafka.produce", "TransactionalProducer"
POINTS = [
    (*PRODUCER, "send"),
    (*PRODUCER, "commit_offsets"),
    (*PRODUCER, "commit"),
    (*PRODUCER, "_end"),
    ("aqueduct.io.kafka_admin", "Admin", "apply_topics"),
    ("aqueduct.io.restore.topics", "", "remember"),
    ("aqueduct.io.kafka.groups", "", "commit"),
]


@pytest.mark.parametrize("seed", range(5))
def test_a_restore_that_is_killed_goes_on_and_doubles_nothing(
    source: Broker,
    target: Broker,
    name: str,
    backup: Callable[..., None],
    restore: Run,
    store: str,
    seed: int,
) -> None:
    create(source, name, 3, retention_ms="3600000", cleanup_policy="compact,delete")
    for partition in range(3):
        keyed = [{"key": f"{number}", "value": f"{number}"} for number in range(60)]
        produce(source, name, keyed, partition)
    commit(source, f"{name}.group", {(name, partition): 20 * partition for partition in range(3)})
    backup(name)
    command = ["restore", "--bootstrap-servers", target.plaintext, "--store", store, "--topics", name]
    dice = random.Random(seed)  # noqa: S311
    for _ in range(7):
        point, calls, when = dice.choice(POINTS), dice.randint(1, 4), dice.choice(["before", "after"])
        print(f"seed {seed}: {point}, call {calls}, {when}")
        arguments = [str(int(signal.SIGKILL)), *point, str(calls), when, *command]
        done = subprocess.run([sys.executable, "-c", SIGNALLED, *arguments], capture_output=True, text=True)
        assert done.returncode in (-9, 0, 2), done.stderr
        if (
            done.returncode != -9
        ):  # 2: the last one was killed at its very end, and this one would be the next
            break
        # A newer snapshot does not change what goes on.
        produce(source, name, [{"key": "x", "value": "newer"}])
        backup(name)
    else:
        assert main(command) == ExitCode.DONE
    keys = [[key for key, _, _, _ in read(target, name, partition)] for partition in range(3)]
    newer = len(keys[0]) - 60  # as many as there were before the first record was written
    expected = [f"{number}".encode() for number in range(60)]
    assert keys == [expected + [b"x"] * newer, expected, expected]
    assert restore("--topics", name, "--snapshot", str(newer + 1))["finished_before"]
    there = numbered(target, name, 2)
    assert committed(target, f"{name}.group")[name, 2] == there[40][0]
    assert settings(target, name) == {"retention.ms": "3600000", "cleanup.policy": "compact,delete"}


def test_a_run_that_is_still_alive_is_fenced_by_the_next(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run, store: str
) -> None:
    create(source, name, 2)
    for partition in range(2):
        produce(source, name, range(60), partition)
    backup(name)
    command = ["restore", "--bootstrap-servers", target.plaintext, "--store", store, "--topics", name]
    arguments = [str(int(signal.SIGSTOP)), *PRODUCER, "send", "7", "after", *command]
    with subprocess.Popen(
        [sys.executable, "-c", SIGNALLED, *arguments], stderr=subprocess.PIPE, text=True
    ) as stopped:
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)
        report = restore("--topics", name)
        stopped.send_signal(signal.SIGCONT)
        _, said = stopped.communicate(timeout=120)
    assert stopped.returncode == ExitCode.FAILED
    assert "is used by another process that was started later" in said
    assert [each["records"] for each in report["partitions"]] == [60, 60]
    for partition in range(2):
        assert read(target, name, partition) == read(source, name, partition)


def test_brokers_may_be_away_for_a_while(
    source: Broker,
    target: Broker,
    name: str,
    backup: Callable[..., None],
    restore: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(source, name)
    produce(source, name, range(200))
    backup(name)
    monkeypatch.setattr(produce_batches, "SMALL_BYTES", 0)
    monkeypatch.setattr(records, "TRANSACTION_BYTES", 500)
    sent = 0

    def send(producer: TransactionalProducer, *arguments: Any) -> None:
        nonlocal sent
        sent += 1
        if sent in (7, 23):
            target.process.kill()
            starting.submit(target.process.start)
        really_send(producer, *arguments)

    really_send = TransactionalProducer.send
    monkeypatch.setattr(TransactionalProducer, "send", send)
    with ThreadPoolExecutor(1) as starting:
        report = restore("--topics", name)
    assert [each["records"] for each in report["partitions"]] == [200]
    assert read(target, name) == read(source, name)


def test_fewer_brokers_are_told_of(
    source: Broker,
    target: Broker,
    name: str,
    backup: Callable[..., None],
    restore: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(source, name)
    backup(name)
    monkeypatch.setattr(kafka_admin.Admin, "default_replication_factor", lambda _: 3)
    told = restore("--topics", name, "--no-settings")["warnings"][0]
    assert told == f"{name}: the replication factor is 1, and was more; the target has 1 broker."


def test_what_was_there_before_the_topic_was_made_again(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    create(source, name)
    produce(source, name, ["old"])
    backup(name)
    admin = AdminClient({"bootstrap.servers": source.plaintext})
    admin.delete_topics([name])[name].result()
    while True:
        try:
            create(source, name)
            break
        except KafkaException:
            time.sleep(0.1)
    produce(source, name, ["new", "newer"])
    commit(source, f"{name}.group", {(name, 0): 1})
    backup(name)
    restore("--topics", name)
    assert [value for _, value, _, _ in read(target, name)] == [b"new", b"newer"]
    assert committed(target, f"{name}.group") == {(name, 0): 1}
    report = restore("--topics", f"{name}:{name}.old", "--instance", "passivate", code=ExitCode.INCOMPLETE)
    assert [value for _, value, _, _ in read(target, f"{name}.old")] == [b"old"]
    assert [each["what"] for each in report["left_out"]] == [f"groups' offsets of {name}.old"]


def test_a_group_beyond_the_snapshot_is_set_to_the_end_and_named(
    source: Broker, target: Broker, name: str, backup: Callable[..., None], restore: Run
) -> None:
    create(source, name)
    produce(source, name, range(3))
    commit(source, f"{name}.ahead", {(name, 0): 50}, "m")
    backup(name)
    report = restore("--topics", name)
    assert [(each["old"], each["new"], each["note"]) for each in report["groups"]] == [
        (50, end(target, name), "the snapshot ends at 3")
    ]
