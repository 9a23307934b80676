"""`aqueduct dlq`: counted and shown as they are; and sent back, every letter once, whatever happens."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from kafka.errors import KafkaError
from kit import clients
from kit.cut_logs import cut_logs
from kit.identifiers import assert_printed, printed

from aqueduct.cli import main
from aqueduct.connect import replay as dead_letters
from aqueduct.connect import replay_ledger
from aqueduct.estate.acls import connect_acls
from aqueduct.estate.connectors import DeclaredConnector
from aqueduct.kafka import acls
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.admin.settings import setting
from aqueduct.kafka.batches.bodies import body
from aqueduct.kafka.batches.records import Record
from aqueduct.kafka.client_config import End
from aqueduct.kafka.produce import Retry, TransactionalProducer
from servers.broker import Broker

WAIT_SECONDS = 180
PARTITIONS = 2


@pytest.fixture
def topic(broker: Broker) -> str:
    """Create a topic, and that of its dead-letter records."""
    name = clients.unique("flights")
    make(broker, name)
    make(broker, dead(name))
    return name


def dead(topic: str) -> str:
    return f"{topic}-dead"


def make(broker: Broker, name: str) -> None:
    clients.create(broker, name, partitions=PARTITIONS)


def fill(broker: Broker, topic: str, letters: int, /, start: int = 0, **context: str) -> None:
    """Write dead-letter records to both partitions, as Connect does; each with its number as its value, and
    where {} is in its context.
    """
    producer = clients.idempotent(broker, **{"linger.ms": 20})
    for number in range(start, start + letters):
        of = {"topic": topic, "partition": str(number % PARTITIONS), "offset": str(number)}
        of |= {"connector.name": "sink", "exception.class.name": f"org.example.Bad{number % 3}"} | context
        headers: list[tuple[str, str | bytes | None]] = [("h", "1"), ("h", None), ("", b"")]
        headers += [(f"__connect.errors.{name}", value.format(number)) for name, value in of.items() if value]
        producer.produce(
            dead(topic), str(number), "k", number % 2, timestamp=1_700_000_000_000 + number, headers=headers
        )
    assert producer.flush(clients.SECONDS) == 0


def seen(broker: Broker, topic: str) -> list[Message]:
    """Read all partitions read-committed, up to their ends."""
    clients.settle(broker, topic, *range(PARTITIONS))
    return clients.read(broker, topic, *range(PARTITIONS))


def numbers(broker: Broker, topic: str) -> list[int]:
    return sorted(int(message.value() or b"") for message in seen(broker, topic))


def command(broker: Broker, topic: str, *options: str) -> list[str]:
    return ["dlq", "replay", "--bootstrap-server", broker.plaintext, "--dlq", dead(topic), *options]


def test_letters_are_what_they_were(broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(broker, topic, 10)
    assert main(command(broker, topic)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  records  connector  error",
        "        4  sink  org.example.Bad0",
        "        3  sink  org.example.Bad1",
        "        3  sink  org.example.Bad2",
        "10 dead-letter records sent back; 0 sent back before; 0 not selected.",
    ]
    found = seen(broker, topic)
    assert sorted(int(message.value() or b"") for message in found) == list(range(10))
    for message in found:
        number = int(message.value() or b"")
        assert (message.key(), message.partition()) == (b"k", number % PARTITIONS)
        assert message.timestamp()[1] == 1_700_000_000_000 + number
        assert message.headers() == [("h", b"1"), ("h", None), ("", b""), ("aqueduct.replay", b"1")]


def test_letters_are_chosen_and_the_others_stay(
    broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 30)
    report = tmp_path / "report.json"

    def replay(*options: str, code: int = 0) -> dict[str, Any]:
        assert main(command(broker, topic, *options, "--report", str(report))) == code
        return dict(json.loads(report.read_text()))

    told = replay("--error-class", "Bad1,org.example.Bad2", "--dry-run")
    assert sum(each["records"] for each in told["partitions"]) == 20
    assert "20 dead-letter records would be sent back" in capsys.readouterr().out
    assert numbers(broker, topic) == []

    told = replay("--error-class", "Bad1", "--from", "1700000000006", "--to-time", "1700000000020")
    assert (told["before"], told["not_chosen"]) == (0, 25)
    assert numbers(broker, topic) == [7, 10, 13, 16, 19]
    told = replay("--connector", "other", code=3)
    assert (told["not_chosen"], told["absent_names"]) == (25, ["other"])
    assert "[dead-letter-name-unknown] No dead-letter record in" in capsys.readouterr().err
    told = replay("--error-class", "Bad1")
    assert (told["before"], told["not_chosen"]) == (5, 20)
    assert replay()["before"] == 10
    assert numbers(broker, topic) == list(range(30))
    fill(broker, topic, 5, start=30)  # new ones
    assert replay()["before"] == 30
    assert numbers(broker, topic) == list(range(35))


def test_dead_letters_without_target_are_reported_and_stay(
    broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 4)
    fill(broker, topic, 3, start=4, topic="never.was")
    fill(broker, topic, 2, start=7, partition="9")
    fill(broker, topic, 1, start=9, offset="")
    report, unknown = tmp_path / "report.json", "dead-letter-target-unknown"
    for before in (0, 4):
        assert main(command(broker, topic, "--report", str(report))) == 3
        assert (
            f"{4 - before} dead-letter records sent back; {before} sent back before"
            in capsys.readouterr().out
        )
        assert json.loads(report.read_text())["left_out"] == [
            {
                "id": "dead-letter-origin-unknown",
                "what": "1 dead-letter record",
                "why": "the record has no headers with its origin",
            },
            {"id": unknown, "what": "2 dead-letter records", "why": f"topic {topic} has no partition 9"},
            {"id": unknown, "what": "3 dead-letter records", "why": "topic never.was does not exist"},
        ]
    other = f"{topic}-again"
    make(broker, other)
    assert main(command(broker, topic, "--to", other)) == 3  # the one that nothing is known of
    assert numbers(broker, other) == [4, 5, 6, 7, 8]
    assert numbers(broker, topic) == [0, 1, 2, 3]


def test_illegal_topic_name_skips_only_its_dead_letters(broker: Broker, topic: str, tmp_path: Path) -> None:
    names = ("no topic", "../x", "x" * 250, ".", "é")
    for number, name in enumerate(names):
        fill(broker, topic, 1, start=number, topic=name)
    fill(broker, topic, 4, start=10)
    report = tmp_path / "report.json"
    assert main(command(broker, topic, "--report", str(report))) == 3
    assert numbers(broker, topic) == [10, 11, 12, 13]
    found = json.loads(report.read_text())["left_out"]
    assert [each["what"] for each in found] == ["1 dead-letter record"] * len(names)
    assert {skipped["id"] for skipped in found} == {"dead-letter-target-unknown"}


def test_unauthorized_topic_skips_only_its_dead_letters(broker: Broker, topic: str, tmp_path: Path) -> None:
    """The principal of the replay may not describe one of the topics."""
    hidden = f"{topic}-hidden"
    make(broker, hidden)
    fill(broker, topic, 2, topic=hidden)
    fill(broker, topic, 2, start=10)
    name = f"replay-{topic}"
    config = str(broker.authority.client_config(name))
    replay = ["dlq", "replay", "--bootstrap-server", broker.tls, "--command-config", config]
    replay += ["--dlq", dead(topic), "--ledger", f"ledger-{topic}", "--report", str(tmp_path / "report.json")]
    rights = [("topic", dead(topic), "read"), ("topic", topic, "write")]
    rights += [("topic", f"ledger-{topic}", right) for right in ("create", "read", "write")]
    rights += [("transactional_id", f"aqueduct-dlq-{dead(topic)}", "write")]
    granted = tuple(
        Acl(principal=f"User:CN={name}", resource=what, name=at, pattern="literal", operation=right)
        for what, at, right in rights
    )
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(granted, ()))
    assert main(replay) == 3
    assert numbers(broker, topic) == [10, 11]
    [found] = json.loads((tmp_path / "report.json").read_text())["left_out"]
    assert (found["what"], hidden in found["why"]) == ("2 dead-letter records", True)


def test_replay_treats_recreated_dead_letter_topic_as_new(broker: Broker, topic: str) -> None:
    fill(broker, topic, 6)
    assert main(command(broker, topic)) == 0
    clients.recreate(broker, dead(topic), PARTITIONS)
    fill(broker, topic, 6)
    assert main(command(broker, topic)) == 0
    assert Counter(numbers(broker, topic)) == dict.fromkeys(range(6), 2)


def test_letters_at_offsets_that_were_cut_are_new(broker: Broker, topic: str) -> None:
    """One log ends before, and another one after what was sent back of it."""
    other = clients.unique("flights")
    make(broker, other)
    make(broker, dead(other))
    kept: dict[tuple[str, int], int] = {}
    sent: dict[str, int] = {}
    for each in (topic, other):
        fill(broker, each, 6)
        [kept[dead(each), 0]] = clients.ends(broker, dead(each))
        fill(broker, each, 4, start=6)
        assert main(command(broker, each)) == 0
        [sent[each]] = clients.ends(broker, dead(each))
    cut_logs(broker, kept)
    for each, more in ((topic, 2), (other, 8)):
        fill(broker, each, more, start=10)
        assert (clients.ends(broker, dead(each))[0] > sent[each]) is (each == other)
        for _ in range(2):
            assert main(command(broker, each)) == 0
            assert numbers(broker, each) == list(range(10 + more))


def test_replay_looks_up_commits_of_unknown_outcome(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every second transaction is in trouble: half of these were committed, and half of them not."""
    fill(broker, topic, 100)
    monkeypatch.setattr(dead_letters, "TRANSACTION_LETTERS", 10)
    commit, calls = TransactionalProducer.commit, []

    def troubled(producer: TransactionalProducer) -> None:
        calls.append(producer)
        if len(calls) % 4 == 1:
            producer.abort()
        else:
            commit(producer)
        if len(calls) % 2:
            producer._valid = False
            raise Retry("the coordinator is away")

    sleep = raw.Client.sleep

    def sleep_shorter(client: raw.Client, seconds: float) -> None:
        """Pause before the next attempt for less time: this trouble is over at once."""
        sleep(client, seconds / 20)

    monkeypatch.setattr(raw.Client, "sleep", sleep_shorter)
    monkeypatch.setattr(TransactionalProducer, "commit", troubled)
    assert main(command(broker, topic)) == 0
    assert len(calls) > 10
    assert "100 dead-letter records sent back; 0 sent back before; 0 not selected." in capsys.readouterr().out
    assert numbers(broker, topic) == list(range(100))


LETTERS = 3_000
# Slowly, so that the test sees it at work however slow that is itself.
IN_SMALL_TRANSACTIONS = """
import sys, time
from aqueduct.cli import main
from aqueduct.connect import replay
from aqueduct.kafka.produce import TransactionalProducer
replay.TRANSACTION_LETTERS = 20
commit = TransactionalProducer.commit
def slowly(producer):
    time.sleep(0.1)
    commit(producer)
TransactionalProducer.commit = slowly
sys.exit(main(sys.argv[1:]))
"""


def ends(broker: Broker, topic: str) -> int:
    return sum(clients.ends(broker, topic, *range(PARTITIONS), isolation="read_committed"))


def test_replays_that_are_killed_double_nothing(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, LETTERS)
    progress = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", IN_SMALL_TRANSACTIONS, *command(broker, topic)])
        deadline = time.monotonic() + WAIT_SECONDS
        while (now := ends(broker, topic)) <= progress + 100:
            assert process.poll() is None, "it came to its end before it could be killed"
            assert time.monotonic() < deadline
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        progress = now
    assert main(command(broker, topic)) == 0
    printed = capsys.readouterr().out
    assert f"{LETTERS} dead-letter records sent back" not in printed
    assert numbers(broker, topic) == list(range(LETTERS))


def test_of_two_replays_the_later_one_goes_on(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 50)
    monkeypatch.setattr(dead_letters, "TRANSACTION_LETTERS", 10)
    commit, calls = TransactionalProducer.commit, []

    def overtaken(producer: TransactionalProducer) -> None:
        calls.append(producer)
        if len(calls) == 2:  # before it commits, another one does it all
            monkeypatch.setattr(TransactionalProducer, "commit", commit)
            assert main(command(broker, topic)) == 0
            assert "40 dead-letter records sent back; 10 sent back before" in capsys.readouterr().out
        commit(producer)

    monkeypatch.setattr(TransactionalProducer, "commit", overtaken)
    assert main(command(broker, topic)) == 1
    error = capsys.readouterr().err
    assert_printed(error, "producer-fenced", f"aqueduct-dlq-{dead(topic)}")
    assert numbers(broker, topic) == list(range(50))


def test_these_rights_are_enough(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 4)
    config = str(broker.authority.client_config("replay"))
    replay = ["dlq", "replay", "--bootstrap-server", broker.tls, "--command-config", config]
    replay += ["--dlq", dead(topic), "--ledger", f"ledger-{topic}"]
    assert main(replay) == 1
    assert_printed(capsys.readouterr().err, "cluster-request-failed", broker.tls)
    rights = [("topic", dead(topic), "read"), ("topic", topic, "write")]
    rights += [("topic", f"ledger-{topic}", right) for right in ("create", "read", "write")]
    rights += [("transactional_id", f"aqueduct-dlq-{dead(topic)}", "write")]
    granted = tuple(
        Acl(principal="User:CN=replay", resource=what, name=name, pattern="literal", operation=right)
        for what, name, right in rights
    )
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(granted, ()))
    assert main(replay) == 0
    assert numbers(broker, topic) == [0, 1, 2, 3]


def test_declared_rights_of_replay_are_sufficient_and_minimal(
    broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A letter says where it came from; whoever wrote it may have lied."""
    other = f"{topic}-of-others"
    make(broker, other)
    admin = clients.admin(broker)
    if replay_ledger.TOPIC not in admin.list_topics(timeout=30).topics:
        clients.create(broker, replay_ledger.TOPIC, cleanup_policy="compact")
    config = {"topics": topic, "errors.deadletterqueue.topic.name": dead(topic)}
    sink = DeclaredConnector.of({"name": "sink", "config": config})
    granted = tuple(
        Acl(
            principal=f"User:CN={each.principal}",
            resource=each.resource,
            name=each.name,
            pattern=each.pattern,
            operation=operation,
        )
        for each in connect_acls("lake", [sink])
        for operation in each.operations
    )
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(granted, ()))
    identity = str(broker.authority.client_config("dlq-replay-lake"))
    report = tmp_path / "report.json"
    replay = ["dlq", "replay", "--bootstrap-server", broker.tls, "--command-config", identity]
    replay += ["--dlq", dead(topic), "--report", str(report)]

    fill(broker, topic, 4)
    fill(broker, topic, 3, start=4, topic=other)
    fill(broker, topic, 2, start=7, partition="-1")
    fill(broker, topic, 1, start=9, topic="\x1b[2J" + "x" * 500)
    fill(broker, topic, 2, start=10)
    assert main([*replay, "--topic", topic]) == 3
    assert "6 dead-letter records sent back" in capsys.readouterr().out
    assert numbers(broker, topic) == [0, 1, 2, 3, 10, 11]
    assert numbers(broker, other) == []
    unknown, undeclared = (
        "dead-letter-target-unknown",
        "the record's header contains topic {}, which the connector does not read",
    )
    assert json.loads(report.read_text())["left_out"] == [
        {"id": unknown, "what": "1 dead-letter record", "why": undeclared.format(repr("\x1b[2J" + "x" * 76))},
        {"id": unknown, "what": "3 dead-letter records", "why": undeclared.format(other)},
        {"id": unknown, "what": "2 dead-letter records", "why": f"topic {topic} has no partition -1"},
    ]
    # Without being told what is declared, it is the cluster that refuses.
    assert main(replay) in (1, 3)
    assert main([*replay, "--to", other]) in (1, 3)
    assert numbers(broker, other) == []
    capsys.readouterr()
    assert main([*replay, "--topic", topic, "--to", other]) == 2
    error = capsys.readouterr().err
    assert (printed(error), other in error) == (["dead-letter-target-unread"], True)


def test_report_limits_entries_for_many_unknown_topics(broker: Broker, topic: str, tmp_path: Path) -> None:
    fill(broker, topic, 120, topic="other-{}")
    report = tmp_path / "report.json"
    options = ["--topic", topic, "--dry-run", "--report", str(report)]
    assert main(command(broker, topic, *options)) == 3
    left_out = json.loads(report.read_text())["left_out"]
    assert len(left_out) == dead_letters.MOST_REASONS + 1
    assert {
        "id": "dead-letter-target-unknown",
        "what": f"{120 - dead_letters.MOST_REASONS} dead-letter records",
        "why": "records for other topics, with reasons like these",
    } in left_out


def test_another_replay_that_is_not_over_hides_nothing(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that what is committed after the start of an open transaction can't be read before its end."""
    fill(broker, topic, 10)
    assert main(command(broker, topic, "--error-class", "Bad0")) == 0
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        other = TransactionalProducer(client, f"other-{topic}", 600)  # the coordinator must not abort it
        write = dead_letters._write

        def write_after_the_other(*given: Any) -> None:
            monkeypatch.setattr(dead_letters, "_write", write)
            other.begin()
            write(other, (replay_ledger.TOPIC, 0), [Record(0, 0, body(b"another/0/0", b"{}"))])
            other.drain()  # so that it is before what the replay writes
            write(*given)

        class AbortsTheOther(raw.Patience):
            def pause(self, error: KafkaError) -> None:
                if other._partitions:
                    other.abort()
                super().pause(error)

        monkeypatch.setattr(dead_letters, "_write", write_after_the_other)
        assert main(command(broker, topic, "--error-class", "Bad1")) == 0
        monkeypatch.setattr(dead_letters, "Patience", AbortsTheOther)
        assert main(command(broker, topic)) == 0
        assert not other._partitions
    assert numbers(broker, topic) == list(range(10))


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--dlq", "no.such"], 2, "has no topic no.such."),
        (
            ["--dlq", "a", "--to", "a"],
            2,
            "[option-conflict] --dlq, --to and --ledger must be different topics.",
        ),
        (
            ["--dlq", "a", "--ledger", "a"],
            2,
            "[option-conflict] --dlq, --to and --ledger must be different topics.",
        ),
        (
            ["--dlq", "a", "--topic", "b("],
            2,
            "b( does not compile: an opening parenthesis has no closing one",
        ),
        (
            ["--dlq", "a", "--topic", "b", "--to", "c"],
            2,
            "[dead-letter-target-unread] No connector reads c",
        ),
        (["--dlq", "a", "--from", "yesterday"], 2, "'yesterday' is not a time; write 2026-"),
        (
            ["--dlq", "a", "--from", "2026-01-02T00:00:00Z", "--to-time", "2026-01-01T00:00:00Z"],
            2,
            "[time-window-empty] --from is later than --to-time.",
        ),
    ],
)
def test_bad_input(
    broker: Broker, options: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--dry-run"]):
        assert main(["dlq", "replay", "--bootstrap-server", broker.plaintext, *options, *more]) == code
        assert sentence in capsys.readouterr().err


def test_the_ledger_is_compacted(broker: Broker, topic: str) -> None:
    fill(broker, topic, 1)
    assert main(command(broker, topic)) == 0
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        assert setting(client, [replay_ledger.TOPIC], "cleanup.policy") == {replay_ledger.TOPIC: "compact"}


def read_json(
    broker: Broker, capsys: pytest.CaptureFixture[str], code: int, what: str, *options: str
) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["dlq", what, "--bootstrap-server", broker.plaintext, "--json", *options]) == code
    return dict(json.loads(capsys.readouterr().out))


def test_letters_are_counted_by_connector_topic_and_cause(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 30)
    fill(broker, topic, 5, start=30, **{"connector.name": "other"})
    clients.produce(broker, dead(topic), ["no headers"])
    assert main(command(broker, topic, "--error-class", "Bad1")) == 3, "one cannot go back"
    document = read_json(broker, capsys, 0, "list", "--dlq", dead(topic))
    assert document["topics"] == [dead(topic)]
    found = {(each["connector"], each["topic"], each["error_class"]): each for each in document["causes"]}
    assert {key: (each["records"], each["sent_back"]) for key, each in found.items()} == {
        ("sink", topic, "org.example.Bad0"): (10, 0),
        ("sink", topic, "org.example.Bad1"): (10, 10),
        ("sink", topic, "org.example.Bad2"): (10, 0),
        ("other", topic, "org.example.Bad0"): (2, 0),
        ("other", topic, "org.example.Bad1"): (2, 2),
        ("other", topic, "org.example.Bad2"): (1, 0),
        (None, None, None): (1, 0),
    }
    one = found["sink", topic, "org.example.Bad1"]
    assert (one["oldest"], one["newest"]) == ("2023-11-14T22:13:20.001Z", "2023-11-14T22:13:20.028Z")

    chosen = ("--dlq", dead(topic), "--connector", "other", "--error-class", "Bad0")
    document = read_json(broker, capsys, 0, "list", *chosen)
    assert [each["records"] for each in document["causes"]] == [2]
    times = ("--from", "1700000000010", "--to-time", "1700000000019")
    document = read_json(broker, capsys, 0, "list", "--dlq", dead(topic), *times)
    assert sum(each["records"] for each in document["causes"]) == 10
    document = read_json(broker, capsys, 0, "list", "--dlq", dead(topic), "--newest", "3")
    assert sum(each["records"] for each in document["causes"]) == 3 * PARTITIONS
    assert document["older_offsets_not_read"] == 36 - 3 * PARTITIONS
    assert document["older_offsets_not_read_by_topic"] == {dead(topic): 36 - 3 * PARTITIONS}
    assert main(["dlq", "list", "--bootstrap-server", broker.plaintext, "--dlq", dead(topic)]) == 0
    assert "36 dead-letter records in 1 topic." in capsys.readouterr().out


def test_list_finds_dead_letter_topics_by_name(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{clients.unique('sink')}-dlq"
    clients.create(broker, name)
    document = read_json(broker, capsys, 0, "list")
    assert name in document["topics"]
    assert not [each for each in document["causes"] if each["dlq"] == name]


def test_newest_letters_of_a_cause_are_shown(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 30, **{"exception.message": "line 1\nline {} \x1b[2J"})
    chosen = ("--dlq", dead(topic), "--error-class", "Bad1", "--records", "3")
    document = read_json(broker, capsys, 0, "show", *chosen)
    assert [each["offset"] * 2 + each["partition"] for each in document["letters"]] == [28, 25, 22]
    assert document["matching"] == 10
    [letter, *_] = document["letters"]
    assert (letter["key"], letter["sent_back"], "value" in letter) == (
        {"text": "k", "bytes": 1},
        False,
        False,
    )
    pairs = [(each["name"], each["value"]["text"]) for each in letter["headers"]]
    assert pairs[:3] == [("h", "1"), ("h", None), ("", "")]
    assert dict(pairs)["__connect.errors.offset"] == "28"
    document = read_json(broker, capsys, 0, "show", *chosen, "--values", "--bytes", "4")
    [letter, *_] = document["letters"]
    assert letter["value"] == {"text": "28", "bytes": 2}
    cut = {each["name"]: each["value"] for each in letter["headers"]}["__connect.errors.topic"]
    assert cut == {"text": topic[:4], "bytes": len(topic)}

    capsys.readouterr()
    assert main(["dlq", "show", "--bootstrap-server", broker.plaintext, *chosen]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "line 1\\nline 28" in shown


def test_names_that_no_letter_has_are_reported(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 4)
    for what in ("list", "show"):
        for option in ("--connector", "--topic"):
            options = ["--bootstrap-server", broker.plaintext, "--dlq", dead(topic), option, "other"]
            assert main(["dlq", what, *options]) == 3, option
            assert "[dead-letter-name-unknown]" in capsys.readouterr().err
        unknown = ["--bootstrap-server", broker.plaintext, "--dlq", f"{topic}-none"]
        assert main(["dlq", what, *unknown]) == 3
        assert_printed(capsys.readouterr().err, "topic-unknown", f"{topic}-none")


def test_letters_without_rights_are_unknown(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker, topic, 4)
    name = clients.unique("watcher")
    listing = ["dlq", "list", "--bootstrap-server", broker.tls, "--json"]
    listing += ["--command-config", str(broker.authority.client_config(name))]
    assert main(listing) == 3
    assert "[dead-letter-topics-unknown]" in capsys.readouterr().err
    granted = [
        Acl(
            principal=f"User:CN={name}",
            resource="topic",
            name=dead(topic),
            pattern="literal",
            operation="describe",
        )
    ]
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(tuple(granted), ()))
    assert main([*listing, "--dlq", dead(topic)]) == 3
    document = json.loads(capsys.readouterr().out)
    assert "dead-letters-unreadable" in {each["id"] for each in document["unknown"]}
    granted = [
        Acl(
            principal=f"User:CN={name}",
            resource="topic",
            name=dead(topic),
            pattern="literal",
            operation="read",
        )
    ]
    with raw.connect(End("cluster", broker.plaintext), "test") as client:
        apply_acls(client, acls.AclChanges(tuple(granted), ()))
    hidden = f"{topic}-ledger"
    clients.create(broker, hidden)
    assert main([*listing, "--dlq", dead(topic), "--ledger", hidden]) == 3
    document = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in document["unknown"]] == ["dead-letter-ledger-unknown"]
    assert {each["sent_back"] for each in document["causes"]} == {None}
    assert sum(each["records"] for each in document["causes"]) == 4
