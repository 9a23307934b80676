"""`aqueduct reconcile` between real brokers: what it notices, what it leaves alone, and what it says."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation
from kit import clients
from kit.clients import End
from kit.identifiers import assert_printed, printed

from aqueduct import cli
from aqueduct.mirror.reconcile import reader
from aqueduct.mirror.reconcile import run as app
from servers.broker import Broker


@dataclass(frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = b"key"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 1_700_000_000_000
    partition: int = 0


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str
    report: dict[str, Any]


Reconcile = Callable[..., Run]

RECORDS = [
    Record(b"v%d" % n, b"k%d" % (n % 3), (("origin", b"EWR"), ("n", b"%d" % n)), 1_700_000_000_000 + n, n % 2)
    for n in range(100)
]
MIDDLE = 50  # offset 25 of partition 0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test has."""
    return "".join(each if each.isalnum() else "." for each in request.node.name)


@pytest.fixture
def reconcile(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Reconcile:
    """Return the verb, run in this process."""

    def run(*arguments: str) -> Run:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        code = cli.main(["reconcile", *arguments, "--report", str(report)])
        out, err = capsys.readouterr()
        return Run(code, out, err, json.loads(report.read_text()) if report.exists() else {})

    return run


def ends(source: Broker, target: Broker) -> list[str]:
    return ["--source-bootstrap-server", source.plaintext, "--target-bootstrap-server", target.plaintext]


def create(broker: Broker, topic: str, partitions: int = 2, **config: str) -> None:
    clients.create(broker, topic, partitions, **config)


def write(broker: Broker, topic: str, records: Iterable[Record]) -> None:
    clients.produce(broker, topic, map(arguments, records))


def arguments(record: Record) -> dict[str, Any]:
    return vars(record) | {"headers": list(record.headers)}


def transaction(broker: Broker, topic: str, records: Sequence[Record], end: End = "commit") -> Producer:
    return clients.transaction(broker, topic, map(arguments, records), end)


def changed(**fields: Any) -> list[Record]:
    return [*RECORDS[:MIDDLE], replace(RECORDS[MIDDLE], **fields), *RECORDS[MIDDLE + 1 :]]


def test_equal_ends(brokers: list[Broker], topic: str, reconcile: Reconcile) -> None:
    odd = [
        Record(None, None),
        Record(b"", b""),
        Record(b"x", headers=(("a", None), ("a", b""), ("a", b"1"), ("b", b"2"))),
    ]
    for broker in brokers:
        create(broker, topic)
        write(broker, topic, RECORDS + odd)
    run = reconcile(*ends(*brokers), "--topics", topic)
    assert run.code == 0
    assert run.out.splitlines()[-1] == "2 partitions, none unequal; 103 records in, 103 records out."
    assert [(each["partition"], each["equal"]) for each in run.report["partitions"]] == [(0, True), (1, True)]
    assert run.report["order"] == "partition"
    assert run.report["left_out"] == []


LACKS = "1 record of the source is not in the target, first at source offset 25"
HAS = "1 record of the target is not in the source, first at target offset"


@pytest.mark.parametrize(
    ("at_target", "sentence"),
    [
        pytest.param(
            RECORDS[:80],
            "10 records of the source are not in the target, first at source offset 40",
            id="tail missing",
        ),
        pytest.param(RECORDS[:MIDDLE] + RECORDS[MIDDLE + 1 :], LACKS, id="middle missing"),
        pytest.param([*RECORDS, RECORDS[MIDDLE]], f"{HAS} 50", id="doubled"),
        pytest.param(
            [*RECORDS[:MIDDLE], RECORDS[MIDDLE + 2], RECORDS[MIDDLE + 1], RECORDS[MIDDLE], *RECORDS[53:]],
            "the same records in another order, first at source offset 26",
            id="swapped",
        ),
        pytest.param(changed(value=b"other"), f"{LACKS}, and {HAS} 25", id="value"),
        pytest.param(changed(value=None), f"{LACKS}, and {HAS} 25", id="tombstone"),
        pytest.param(changed(key=None), f"{LACKS}, and {HAS} 25", id="null key"),
        pytest.param(changed(key=b""), f"{LACKS}, and {HAS} 25", id="empty key"),
        pytest.param(changed(timestamp=1), f"{LACKS}, and {HAS} 25", id="timestamp"),
        pytest.param(changed(headers=()), f"{LACKS}, and {HAS} 25", id="no headers"),
        pytest.param(
            changed(headers=RECORDS[MIDDLE].headers[::-1]), f"{LACKS}, and {HAS} 25", id="order of headers"
        ),
        pytest.param(
            changed(headers=(RECORDS[MIDDLE].headers[0], ("n", None))),
            f"{LACKS}, and {HAS} 25",
            id="null header",
        ),
    ],
)
def test_difference_is_named(
    brokers: list[Broker], topic: str, reconcile: Reconcile, at_target: list[Record], sentence: str
) -> None:
    source, target = brokers
    create(source, topic)
    write(source, topic, RECORDS)
    create(target, topic)
    write(target, topic, at_target)
    run = reconcile(*ends(source, target), "--topics", topic)
    assert run.code == 3
    assert f"{topic}-0: {sentence}" in run.out
    left_out = {each["what"]: each["why"] for each in run.report["left_out"]}
    assert sentence in left_out[f"{topic}-0"]
    other_is_equal = [r for r in at_target if r.partition] == [r for r in RECORDS if r.partition]
    assert (f"{topic}-1" not in left_out) == other_is_equal


def test_ranges_of_missing_records(brokers: list[Broker], topic: str, reconcile: Reconcile) -> None:
    source, target = brokers
    create(source, topic, partitions=1)
    write(source, topic, [replace(each, partition=0) for each in RECORDS])
    create(target, topic, partitions=1)
    write(
        target, topic, [replace(each, partition=0) for n, each in enumerate(RECORDS) if n % 10 > 1 or n == 40]
    )
    run = reconcile(*ends(source, target), "--topics", topic)
    (partition,) = run.report["partitions"]
    missing = [[n + (n == 40), n + 1] for n in range(0, 100, 10)]
    assert partition["sources"][0]["missing"] == {"records": 19, "ranges": missing}
    assert partition["target"]["extra"] == {"records": 0, "ranges": []}


def test_transactions_leave_no_trace(
    brokers: list[Broker], topic: str, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check markers, aborted records and the ranges that hold nothing else, also at the log's end."""
    monkeypatch.setattr(app, "TASK_OFFSETS", 7)
    monkeypatch.setattr(reader, "BATCH_RECORDS", 5)
    source, target = brokers
    create(source, topic)
    write(source, topic, RECORDS[:30])
    transaction(source, topic, RECORDS[30:32])
    transaction(source, topic, RECORDS[:40], "abort")
    transaction(source, topic, RECORDS[32:])
    transaction(source, topic, RECORDS[:40], "abort")
    create(target, topic)
    transaction(target, topic, RECORDS)
    run = reconcile(*ends(source, target), "--topics", topic)
    assert run.code == 0
    assert [each["source_records"] for each in run.report["partitions"]] == [50, 50]
    assert [each["sources"][0]["to"] for each in run.report["partitions"]] == [94, 94]


def test_open_transaction_is_not_read(brokers: list[Broker], topic: str, reconcile: Reconcile) -> None:
    source, target = brokers
    for broker in brokers:
        create(broker, topic)
        write(broker, topic, RECORDS)
    producer = transaction(source, topic, RECORDS, "leave")
    run = reconcile(*ends(source, target), "--topics", topic)
    producer.abort_transaction()
    assert run.code == 0
    assert [each["sources"][0]["to"] for each in run.report["partitions"]] == [50, 50]


def test_merged_sources(brokers: list[Broker], topic: str, reconcile: Reconcile) -> None:
    """Merge two sources with records of the same keys; the target has them as they came."""
    one, other = brokers
    of_one = [Record(b"1-%d" % n, b"k%d" % (n % 3), (("origin", b"EWR"),)) for n in range(50)]
    of_other = [Record(b"2-%d" % n, b"k%d" % (n % 3), (("origin", b"JFK"),)) for n in range(50)]
    merged = [*of_one[:20], *of_other[:45], *of_one[20:], *of_other[45:]]
    swapped = [*merged[:30], merged[31], merged[30], *merged[32:]]
    lost = [each for each in merged if each.value != b"2-7"]
    for broker, records in (one, of_one), (other, of_other):
        create(broker, topic)
        write(broker, topic, records)
    for name, records in (f"{topic}.m", merged), (f"{topic}.s", swapped), (f"{topic}.l", lost):
        create(one, name)
        write(one, name, records)
    both = ["--source-bootstrap-server", one.plaintext, *ends(other, one)]

    run = reconcile(*both, "--topics", f"{topic}:{topic}.m")
    assert (run.code, run.report["order"]) == (0, "source")
    assert "only within each source" in run.out

    run = reconcile(*both, "--topics", f"{topic}:{topic}.s")
    assert run.code == 3
    assert f"the same records in another order, first at source {other.plaintext} offset 11" in run.out

    run = reconcile(*both, "--topics", f"{topic}:{topic}.l")
    assert run.code == 3
    assert f"1 record of the source {other.plaintext} is not in the target, first at source" in run.out

    run = reconcile(*ends(one, one), "--topics", f"{topic}:{topic}.s", "--header", "origin=EWR")
    assert (run.code, run.report["order"]) == (0, "partition")

    run = reconcile(*ends(other, one), "--topics", f"{topic}:{topic}.s", "--header", "origin=JFK")
    assert run.code == 3
    assert "the same records in another order, first at source offset 11" in run.out


def test_absent_topic_and_partition(brokers: list[Broker], topic: str, reconcile: Reconcile) -> None:
    source, target = brokers
    create(source, topic)
    write(source, topic, RECORDS)
    pattern = ["--topics-pattern", topic.replace(".", "[.]")]
    run = reconcile(*ends(source, target), *pattern)
    assert run.code == 3
    assert (
        f"{topic}: this topic does not exist at the target; 100 records of the source are missing."
    ) in run.out

    create(target, f"pro1.{topic}", partitions=1)
    write(target, f"pro1.{topic}", [each for each in RECORDS if not each.partition])
    run = reconcile(*ends(source, target), *pattern, "--target-prefix", "pro1.")
    assert run.code == 3
    assert f"pro1.{topic}-1: this partition does not exist at the target; 50 records are missing." in run.out
    assert [each["equal"] for each in run.report["partitions"]] == [True, False]

    run = reconcile(*ends(target, source), "--topics", topic)
    assert run.code == 2
    assert_printed(run.err, "topic-unknown", topic, "--topics")
    assert run.err.count("\n") == 1


def test_times_set_by_the_target_are_not_compared(
    brokers: list[Broker], topic: str, reconcile: Reconcile
) -> None:
    source, target = brokers
    create(source, topic)
    write(source, topic, RECORDS)
    create(target, topic, message_timestamp_type="LogAppendTime")
    write(target, topic, RECORDS)
    run = reconcile(*ends(source, target), "--topics", topic)
    assert run.code == 0
    assert f"Timestamps were not compared in {topic}" in run.out
    assert [each["timestamps"] for each in run.report["partitions"]] == [False, False]

    write(target, topic, RECORDS[:1])
    assert reconcile(*ends(source, target), "--topics", topic).code == 3


def test_what_retention_deleted_at_the_source_is_extra(
    brokers: list[Broker], topic: str, reconcile: Reconcile
) -> None:
    source, target = brokers
    for broker in brokers:
        create(broker, topic)
        write(broker, topic, RECORDS)
    clients.delete_records(source, topic, 10)
    run = reconcile(*ends(source, target), "--topics", topic)
    assert run.code == 3
    assert "10 records of the target are not in the source, first at target offset 0" in run.out


class Attempts(tuple[int, ...]):
    """How long to wait for an end, attempt by attempt; those that were made."""

    made: ClassVar[list[int]] = []

    def __iter__(self) -> Iterator[int]:
        for seconds in super().__iter__():
            self.made.append(seconds)
            yield seconds


def test_least_rights_over_tls(
    brokers: list[Broker], topic: str, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read and describe of the topics is enough: no right on groups, nor on the cluster."""
    source, target = brokers
    for broker in brokers:
        create(broker, topic)
        write(broker, topic, RECORDS)
        clients.allow(broker, "reader", topic, AclOperation.READ, AclOperation.DESCRIBE)
        clients.allow(broker, "describer", topic, AclOperation.DESCRIBE)
    source_config = source.authority.client_config("reader")
    target_config = target.authority.client_config("reader")
    tls = [
        *("--source-bootstrap-server", source.tls),
        *("--target-bootstrap-server", target.tls),
        *("--topics", topic),
    ]
    run = reconcile(
        *tls,
        *("--source-command-config", str(source_config)),
        *("--target-command-config", str(target_config)),
    )
    assert run.code == 0

    attempts = Attempts(reader.REACH_SECONDS)
    monkeypatch.setattr(reader, "REACH_SECONDS", attempts)
    run = reconcile(*tls, "--command-config", str(source_config))
    assert run.code == 1
    assert printed(run.err) == ["cluster-unreachable"]
    assert f"The target {target.tls}" in run.err
    assert "SSL handshake failed" in run.err
    assert run.err.count("\n") == 1
    assert attempts.made[-1] < attempts[-1], "what trying again does not help was tried to the end"

    describer = source.authority.client_config("describer")
    run = reconcile(
        *tls, *("--source-command-config", str(describer)), *("--target-command-config", str(target_config))
    )
    assert run.code == 1
    assert printed(run.err) == ["cluster-request-failed"]
    assert f"The source {source.tls}" in run.err
    assert "Topic authorization failed" in run.err

    stranger = source.authority.client_config("stranger")
    run = reconcile(
        *tls, *("--source-command-config", str(stranger)), *("--target-command-config", str(target_config))
    )
    assert run.code == 2
    assert f"No source has a topic {topic} that its client may describe" in run.err


def test_unreachable_end(
    brokers: list[Broker], reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "REACH_SECONDS", (3, 3))
    run = reconcile(
        *("--source-bootstrap-server", "127.0.0.1:1"),
        "--target-bootstrap-server",
        brokers[0].plaintext,
        *("--topics", "any"),
    )
    assert run.code == 1
    reason = "Connect to ipv4#127.0.0.1:1 failed: Connection refused"
    assert run.err == f"aqueduct: [cluster-unreachable] The source 127.0.0.1:1 cannot be reached: {reason}.\n"
    assert run.report["error"]["message"] in run.err


def test_in_spark(brokers: list[Broker], topic: str, tmp_path: Path) -> None:
    """Reconcile as a user does: nothing but our words on stderr."""
    source, target = brokers
    for broker, records in (source, RECORDS), (target, RECORDS[:90]):
        create(broker, topic)
        write(broker, topic, records)
    command = [sys.executable, "-m", "aqueduct.cli", "reconcile", *ends(source, target)]
    spark = ["--topics", topic, "--master", "local[2]"]
    run = subprocess.run([*command, *spark], capture_output=True, text=True, timeout=1000)
    assert run.returncode == 3
    assert "5 records of the source are not in the target, first at source offset 45" in run.stdout
    progress = ("tasks done", "Waiting for local[2]")  # after five seconds, as on a busy machine
    assert [line for line in run.stderr.splitlines() if not any(each in line for each in progress)] == [
        "Reading 190 offsets of 2 partitions at both ends.",
        "Working on Spark, 2 cores of this host.",
        "Reading 2 partitions again to find the differences.",
    ]
