"""Positions of a real MirrorMaker 2 whose source topics are re-created, cut, and grow past them."""

import json
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaException
from kit import clients
from kit.cut_logs import cut_log
from kit.identifiers import assert_printed, has_fact
from kit.mirrors import mirror_maker

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.estate.acls import flow_acls
from aqueduct.estate.model import Flow
from aqueduct.kafka import acls
from aqueduct.kafka import client as raw
from aqueduct.kafka.acls import Acl
from aqueduct.kafka.admin.acls import apply_acls
from aqueduct.kafka.batches import produce as produce_batches
from aqueduct.kafka.client_config import End
from aqueduct.mirror.positions import FlowPositions
from aqueduct.mirror.status import SOURCE_CONNECTOR
from aqueduct.snapshots.restore import records
from servers.broker import Broker

CAUGHT_UP = "--wait", "300s", "--until-caught-up"
# A start of MirrorMaker takes as long as all else in a test. Without the last one, the stored position is
# proof.
GOES_ON = pytest.mark.parametrize("goes_on", [False, pytest.param(True, marks=pytest.mark.long)])
Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def flow() -> str:
    return clients.unique("site").replace(".", "-")


@pytest.fixture
def ask(flow: str, source: Broker, target: Broker, tmp_path: Path) -> Ask:
    """Return `aqueduct mirror` of the flow: its exit code and its report."""
    report = tmp_path / "report.json"

    def run(*more: str) -> tuple[int, dict[str, Any]]:
        code = main(
            [
                *("mirror", "--flow", flow, "--report", str(report)),
                *("--source-bootstrap-server", source.plaintext),
                *("--target-bootstrap-server", target.plaintext, *more),
            ]
        )
        return code, json.loads(report.read_text())

    return run


def ranges(report: dict[str, Any]) -> dict[tuple[str, str], tuple[int, int, bool]]:
    return {
        (each["topic"].partition(".")[0], each["kind"]): (each["from"], each["to"], each["at_most"])
        for each in report["ranges"]
    }


def values(broker: Broker, topic: str) -> list[str]:
    return [(value or b"").decode() for _, value, _, _ in clients.records(broker, topic)]


def write(broker: Broker, topic: str, name: str, number: int) -> list[str]:
    written = [f"{name}-{each}" for each in range(number)]
    clients.produce(broker, topic, written)
    return written


def topic_id(broker: Broker, topic: str) -> UUID | None:
    with raw.connect(End("source", broker.plaintext), "test") as client:
        found = client.topics([topic])
        return found[topic].id if topic in found else None


def recreate_under_a_reader(broker: Broker, topic: str) -> None:
    """Re-create a topic while a consumer reads it, whose requests may create it first."""
    before = topic_id(broker, topic)
    clients.forget(broker, topic)

    def is_another() -> bool:
        with suppress(KafkaException):
            clients.create(broker, topic)
        return topic_id(broker, topic) not in (None, before)

    clients.wait_for(f"another {topic}", is_another)
    clients.wait_for(f"the log of the other {topic}", lambda: clients.ends(broker, topic) == [0])


def store_position(target: Broker, flow: str, topic: str, following: int) -> None:
    """Write a position as MirrorMaker does."""
    key = json.dumps([SOURCE_CONNECTOR, {"cluster": flow, "partition": 0, "topic": topic}])
    position = {"key": key, "value": json.dumps({"offset": following - 1})}
    clients.produce(target, f"mm2-offsets.{flow}.internal", [position])


def store_sync(target: Broker, flow: str, topic: str, source_offset: int, target_offset: int) -> None:
    """Write an offset sync as MirrorMaker does."""
    name = topic.encode()
    sync = {
        "key": struct.pack(f">h{len(name)}si", len(name), name, 0),
        "value": struct.pack(">qq", source_offset, target_offset),
    }
    clients.produce(target, f"mm2-offset-syncs.{flow}.internal", [sync])


def position(target: Broker, flow: str, topic: str) -> int:
    """Return the next offset that the mirror reads."""
    with raw.connect(End("target", target.plaintext), "test") as client:
        positions = FlowPositions(flow, client)
        positions.refresh()
        return positions.stored[TopicPartition(topic, 0)].next


def write_behind_restored(source: Broker, topic: str) -> tuple[list[str], range]:
    """Write records after a restore; return them, and the positions of a mirror that reads them next."""
    clients.settle(source, topic)
    last_restored = clients.read(source, topic)[-1].offset()
    later = write(source, topic, "later", 5)
    first_later = clients.read(source, topic)[-len(later)].offset()
    assert last_restored is not None
    assert first_later is not None
    return later, range(last_restored + 1, first_later + 1)


def cut(source: Broker, sizes: dict[str, int]) -> None:
    """Cut logs to these sizes while the broker is down, as a disk does that lost its end."""
    source.process.kill()
    for topic, size in sizes.items():
        folder = source.data / f"{topic}-0"
        with (folder / f"{0:020}.log").open("r+b") as log:
            log.truncate(size)
        for each in (*folder.glob("*index"), *folder.glob("*.snapshot")):
            each.unlink()
    source.process.start()


def test_stopped_mirror_continues_without_losses_or_duplicates(
    flow: str, source: Broker, target: Broker, ask: Ask, tmp_path: Path
) -> None:
    """Topics of the source were re-created or truncated while the mirror was stopped."""
    suffix = clients.unique("x").partition(".")[2]
    names = ("same", "shorter", "regrown", "empty", "cut", "cutgrown")
    topic = {name: f"{name}.{suffix}" for name in names}
    sizes = {}
    first = {}
    for name in names:
        clients.create(source, topic[name])
        first[name] = write(source, topic[name], "a", 30)
        sizes[topic[name]] = (source.data / f"{topic[name]}-0" / f"{0:020}.log").stat().st_size
        first[name] += write(source, topic[name], "b", 20)
    pattern = rf".*\.{suffix}"
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        code, report = ask(*CAUGHT_UP)
        assert (code, report["ranges"]) == (0, [])

    later: dict[str, list[str]] = {name: [] for name in names}
    cut(source, {topic[name]: sizes[topic[name]] for name in ("cut", "cutgrown")})
    for name, number in (("shorter", 20), ("regrown", 80), ("empty", 0)):
        clients.recreate(source, topic[name])
        later[name] = write(source, topic[name], "new", number)
    for name in ("same", "cutgrown"):
        later[name] = write(source, topic[name], "new", 40)

    code, report = ask()
    assert code == 3
    assert ranges(report) == {
        ("shorter", "lost"): (0, 20, True),
        ("regrown", "lost"): (0, 50, True),
        ("empty", "misfit"): (0, 50, True),
        ("cut", "target_only"): (30, 50, False),
        ("cutgrown", "target_only"): (30, 50, False),
        ("cutgrown", "lost"): (30, 50, False),
    }
    code, report = ask("--before-start")
    assert code == 0
    moved = {line.partition(".")[0]: line for line in report["moved"]}
    assert moved.keys() == {"shorter", "regrown", "empty", "cut", "cutgrown"}
    assert ask("--before-start")[1]["moved"] == []
    later["empty"] = write(source, topic["empty"], "new", 10)

    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        code, report = ask(*CAUGHT_UP)
        assert (code, report["ranges"]) == (0, [])
    for name in names:
        assert values(target, topic[name]) == first[name] + later[name], name


@pytest.mark.parametrize("regrown", [pytest.param(False, marks=pytest.mark.long), True])
def test_running_mirror_lists_skipped_records_of_recreated_topic(
    flow: str, source: Broker, target: Broker, ask: Ask, tmp_path: Path, regrown: bool
) -> None:
    """Whatever Kafka's consumer does with such a position, the status agrees with what arrived."""
    topic = clients.create(source, clients.unique("running"))
    first = write(source, topic, "old", 50)
    with mirror_maker(source, target, tmp_path, topics=topic.replace(".", r"\."), flow=flow):
        assert ask(*CAUGHT_UP)[0] == 0
        recreate_under_a_reader(source, topic)
        new = write(source, topic, "new", 90 if regrown else 30)
        more = write(source, topic, "more", 10)
        clients.wait_for("the last record", lambda: more[-1] in values(target, topic))
        code, report = ask()
        arrived = Counter(values(target, topic))
        missing = [number for number, value in enumerate(new) if not arrived[value]]
        listed = ranges(report).get(("running", "lost"))
        if missing:
            assert code == 3
            assert listed is not None
            start, stop, at_most = listed
            skipped = missing[0], missing[-1] + 1
            assert start <= skipped[0] < skipped[1] <= stop if at_most else (start, stop) == skipped
        else:
            assert (code, listed) == (0, None)
    ask("--before-start")
    with mirror_maker(source, target, tmp_path, topics=topic.replace(".", r"\."), flow=flow):
        ask(*CAUGHT_UP)
        arrived = Counter(values(target, topic))
    assert {*first, *new, *more} <= arrived.keys()
    code, report = ask()
    doubled = [value for value in (*new, *more) if arrived[value] > 1]
    of = ranges(report).get(("running", "doubled"))
    assert (of is not None) == bool(doubled)
    if of:
        start, stop, _ = of
        assert {*doubled} <= {*(new + more)[start:stop]}
        assert ask("--accept-ranges")[1]["ranges"] == []


@pytest.fixture
def topic(source: Broker) -> str:
    return clients.create(source, clients.unique("rebuilt"))


def test_the_mirror_s_own_rights_are_enough(
    flow: str, topic: str, source: Broker, target: Broker, tmp_path: Path
) -> None:
    """The unit runs the check as the mirror. Without its rights no position can be checked: exit code 1."""
    clients.create(target, f"mm2-offsets.{flow}.internal", cleanup_policy="compact")
    clients.create(target, f"mm2-offset-syncs.{flow}.internal")
    write(source, topic, "old", 30)
    store_position(target, flow, topic, 30)
    report = tmp_path / "report.json"
    command = ["mirror", "--flow", flow, "--report", str(report)]
    for end, broker in (("source", source), ("target", target)):
        config = broker.authority.client_config("mirror-lake")
        command += [f"--{end}-bootstrap-server", broker.tls, f"--{end}-command-config", str(config)]
    assert main([*command, "--before-start"]) == 1
    declared = Flow(source=flow, target="lake", topics=(topic.replace(".", r"\."),))
    for site, broker in ((flow, source), ("lake", target)):
        granted = tuple(
            Acl(
                principal=f"User:CN={each.principal}",
                resource=each.resource,
                name=each.name,
                pattern=each.pattern,
                operation=operation,
            )
            for each in flow_acls(site, [declared])
            for operation in each.operations
        )
        with raw.connect(End(site, broker.plaintext), "test") as client:
            apply_acls(client, acls.AclChanges(granted, ()))
    done = subprocess.run(
        [*clients.BASE_ONLY, *command, "--before-start"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    clients.recreate(source, topic)
    write(source, topic, "new", 40)
    assert main(command) == 3
    assert ranges(json.loads(report.read_text())) == {("rebuilt", "lost"): (0, 30, True)}
    done = subprocess.run(
        [*clients.BASE_ONLY, *command, "--before-start"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("continues at offset 0")) == (0, 1), done.stderr


@pytest.mark.parametrize(
    ("sync", "lost"),
    [
        ((29, 129), (0, 30, True)),  # of the last record before the check: MirrorMaker sent it late
        ((29, 130), (0, 29, False)),  # of the new topic's record 29, where the mirror began
    ],
)
def test_a_late_sync_is_no_new_begin(
    sync: tuple[int, int],
    lost: tuple[int, int, bool],
    flow: str,
    topic: str,
    source: Broker,
    target: Broker,
    ask: Ask,
) -> None:
    """Binding and positions fit; the sync for the last mirrored record comes after both (KAFKA-14797)."""
    clients.create(target, f"mm2-offsets.{flow}.internal", cleanup_policy="compact")
    clients.create(target, f"mm2-offset-syncs.{flow}.internal")
    write(source, topic, "old", 30)
    store_sync(target, flow, topic, 0, 100)
    store_position(target, flow, topic, 30)
    assert ask("--before-start")[0] == 0
    store_sync(target, flow, topic, *sync)
    clients.recreate(source, topic)
    write(source, topic, "new", 40)
    code, report = ask()
    assert (code, ranges(report)) == (3, {("rebuilt", "lost"): lost})


@pytest.mark.parametrize("attack", ["recreated", "cut and grown again"])
def test_groups_of_other_log_are_unknown_until_accepted(
    attack: str, flow: str, topic: str, source: Broker, target: Broker, ask: Ask
) -> None:
    for name in ("offsets", "configs"):
        clients.create(target, f"mm2-{name}.{flow}.internal", cleanup_policy="compact")
    clients.create(target, f"mm2-offset-syncs.{flow}.internal")
    synchronised = {"properties": {"sync.group.offsets.enabled": "true", "groups": ".*"}}
    connector = {"key": "connector-MirrorCheckpointConnector", "value": json.dumps(synchronised)}
    clients.produce(target, f"mm2-configs.{flow}.internal", [connector])
    write(source, topic, "old", 20)
    write(source, topic, "more", 10)
    store_position(target, flow, topic, 30)
    assert ask("--before-start")[0] == 0

    def unknown(*more: str) -> int:
        code, report = ask(*more)
        assert code == 3, "no worker runs"
        assert {*report["unknown"]} <= {*report["findings"]}
        return sum("[synchronised-groups-unchecked]" in sentence for sentence in report["unknown"])

    assert unknown() == 0
    if attack == "recreated":
        clients.recreate(source, topic)
    else:
        cut_log(source, topic, 20)
        write(source, topic, "fewer", 5)
        assert unknown("--json") == 1, "the log ends before the position; nothing of this look is stored"
    write(source, topic, "new", 40)
    assert unknown() == 1
    assert ask("--before-start")[0] == 0
    assert unknown() == unknown() == 1, "the mirror continues elsewhere, and its groups are as they were"
    assert unknown("--accept-ranges") == 0
    assert unknown() == 0


@pytest.fixture
def rebuild(
    flow: str, topic: str, source: Broker, target: Broker, tmp_path: Path
) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Return backup and restore of the topic at its own site, with the mirror that reads it."""
    report, store = tmp_path / "verb.json", (tmp_path / "store").as_uri()

    def run(verb: str, *more: str) -> tuple[int, dict[str, Any]]:
        report.unlink(missing_ok=True)
        at = ("--bootstrap-server", source.plaintext, "--store", store, "--topics", topic)
        code = main([verb, *at, "--report", str(report), *more])
        return code, json.loads(report.read_text()) if report.exists() else {}

    return run


@GOES_ON
def test_append_is_refused_until_mirror_has_caught_up(
    goes_on: bool,
    flow: str,
    topic: str,
    source: Broker,
    target: Broker,
    ask: Ask,
    rebuild: Ask,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After that, the mirror neither loses nor doubles a record."""
    pattern = topic.replace(".", r"\.")
    every = write(source, topic, "old", 100)
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        assert ask(*CAUGHT_UP)[0] == 0
    assert rebuild("backup")[0] == 0
    clients.recreate(source, topic)
    every += write(source, topic, "new", 20)
    mirror = "--mirror", f"{flow}={target.plaintext}"

    def refusal() -> str:
        """Return the sentence of the refusal without --append; no form of it says to delete anything."""
        code, report = rebuild("restore", *mirror)
        error = report["error"]
        assert (code, error["id"]) == (2, "target-not-empty")
        assert not has_fact(error["message"], "Delete")
        return str(error["message"])

    # Neither this nor --append is right while the mirror holds a position before these records.
    assert "--append" not in refusal()
    assert has_fact(refusal(), flow)
    assert has_fact(refusal(), "--until-caught-up")
    capsys.readouterr()
    assert rebuild("restore", "--append", *mirror)[0] == 2
    assert_printed(capsys.readouterr().err, "mirror-has-unread-records", flow, f"{topic}-0")
    code, report = rebuild("restore")
    assert (code, has_fact(report["error"]["message"], "--mirror")) == (2, True)

    ask("--before-start")
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        assert ask(*CAUGHT_UP)[0] == 0
    assert "--append" in refusal()
    code, report = rebuild("restore", "--append", *mirror)
    assert (code, report["left_out"]) == (0, [])
    later, next_positions = write_behind_restored(source, topic)
    assert ask("--before-start")[1]["moved"] == []
    assert position(target, flow, topic) in next_positions
    if goes_on:
        with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
            assert ask(*CAUGHT_UP)[0] == 0
    assert values(target, topic) == every + (later if goes_on else [])


def test_append_reports_records_doubled_by_writing_clients(
    flow: str,
    topic: str,
    source: Broker,
    target: Broker,
    ask: Ask,
    rebuild: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stored position is proof of what the mirror copies next: it is written as MirrorMaker does."""
    clients.create(target, f"mm2-offsets.{flow}.internal", cleanup_policy="compact")
    clients.create(target, f"mm2-offset-syncs.{flow}.internal")
    restored = [value for name in "abc" for value in write(source, topic, name, 10)]
    store_position(target, flow, topic, 30)
    assert ask("--before-start")[0] == 0
    assert rebuild("backup")[0] == 0
    clients.recreate(source, topic)
    new = write(source, topic, "new", 5)
    ask("--before-start")
    store_position(target, flow, topic, 5)
    commits = 0
    real = records._Task._commit

    def beside(task: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            write(source, topic, "live", 1)
        real(task)

    mirror = "--mirror", f"{flow}={target.plaintext}"
    with monkeypatch.context() as patched:
        patched.setattr(produce_batches, "SMALL_BYTES", 0)
        patched.setattr(records, "TRANSACTION_BYTES", 1)
        patched.setattr(records._Task, "_commit", beside)
        code, report = rebuild("restore", "--append", *mirror)
    assert code == 3
    assert [(skipped["id"], skipped["what"]) for skipped in report["left_out"]] == [
        ("mirror-ahead", f"mirror {flow}")
    ]
    everything = {
        message.offset() or 0: (message.value() or b"").decode() for message in clients.read(source, topic)
    }
    assert sorted(everything.values()) == sorted([*restored, *new, "live-0"])
    start = position(target, flow, topic)
    copied = [value for offset, value in everything.items() if offset >= start]
    assert "live-0" in copied
    doubled = {value for value in copied if value in restored}
    assert 0 < len(doubled) < len(restored)
    [entry] = report["ranges"]
    assert (entry["flow"], entry["kind"], entry["log"]) == (f"mirror {flow}", "doubled", "topic")
    listed = {value for offset, value in everything.items() if entry["from"] <= offset < entry["to"]}
    assert listed - {"live-0"} == doubled
    again = rebuild("restore", "--append", *mirror)
    assert (again[0], again[1]["ranges"]) == (3, [entry])
    assert ranges(ask()[1]) == {("rebuilt", "doubled"): (entry["from"], entry["to"], False)}


@GOES_ON
def test_topic_recreated_mirrored_and_deleted_is_restored_once(
    goes_on: bool,
    flow: str,
    topic: str,
    source: Broker,
    target: Broker,
    ask: Ask,
    rebuild: Ask,
    tmp_path: Path,
) -> None:
    """Nothing looks at the flow between the disaster and the restore."""
    pattern = topic.replace(".", r"\.")
    every = write(source, topic, "old", 60)
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        assert ask(*CAUGHT_UP)[0] == 0
        every += write(source, topic, "unseen", 40)
        clients.wait_for("the old records", lambda: len(values(target, topic)) == 100)
        assert rebuild("backup")[0] == 0
        recreate_under_a_reader(source, topic)
        write(source, topic, "new", 10)
        clients.wait_for("the new ones", lambda: "new-9" in values(target, topic))
    arrived = values(target, topic)
    clients.delete(source, topic)
    code, report = rebuild("restore", "--mirror", f"{flow}={target.plaintext}")
    assert code == 3
    [left_out] = report["left_out"]
    assert left_out["what"] == f"mirror {flow}"
    assert "10 offsets" in left_out["why"]
    # The target alone has the records of the topic that is gone; a repeated run reports them again.
    [entry] = report["ranges"]
    assert (entry["flow"], entry["topic"], entry["kind"]) == (f"mirror {flow}", topic, "ahead")
    assert (entry["from"], entry["to"], entry["log"]) == (0, 10, "earlier")
    assert rebuild("restore", "--mirror", f"{flow}={target.plaintext}")[1]["ranges"] == [entry]
    later, next_positions = write_behind_restored(source, topic)
    assert ask("--before-start")[1]["moved"] == []
    assert position(target, flow, topic) in next_positions
    if goes_on:
        with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
            assert ask(*CAUGHT_UP)[0] == 0
    assert values(target, topic) == arrived + (later if goes_on else [])


@GOES_ON
def test_second_restore_of_same_snapshot_is_mirrored_once(
    goes_on: bool,
    flow: str,
    topic: str,
    source: Broker,
    target: Broker,
    ask: Ask,
    rebuild: Ask,
    tmp_path: Path,
) -> None:
    """All restores have one id, so a former one's mark at the mirror's target must not end the next."""
    pattern, mirror = topic.replace(".", r"\."), ("--mirror", f"{flow}={target.plaintext}")
    arrived = write(source, topic, "old", 60)
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        assert ask(*CAUGHT_UP)[0] == 0
    assert rebuild("backup")[0] == 0
    clients.delete(source, topic)
    code, first = rebuild("restore", *mirror)
    assert (code, first["left_out"]) == (0, [])

    def check_restore(code_: int, ids: list[str]) -> None:
        """Restore the snapshot again, twice; the last run only reports what the one before found."""
        code, again = rebuild("restore", *mirror)
        assert again["restore_id"] == first["restore_id"]
        assert (code, [skipped["id"] for skipped in again["left_out"]]) == (code_, ids)
        repeated = rebuild("restore", *mirror)[1]
        assert (repeated["left_out"], repeated["ranges"]) == (again["left_out"], again["ranges"])
        assert [lost["kind"] for lost in again["ranges"]] == ["ahead"] * len(ids)

    ask("--before-start")
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        arrived += write(source, topic, "live", 3)
        assert ask(*CAUGHT_UP)[0] == 0
    assert values(target, topic) == arrived
    # The topic is re-created empty. The start of the unit binds the position to it, and reports the
    # re-created topic, so the restore does not report it again.
    clients.recreate(source, topic)
    [moved] = ask("--before-start")[1]["moved"]
    assert topic in moved
    check_restore(0, [])

    arrived += write(source, topic, "next", 5)
    ask("--before-start")
    with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
        assert ask(*CAUGHT_UP)[0] == 0
        assert values(target, topic) == arrived
        # Nothing binds the position to this topic, which is deleted before the next restore.
        recreate_under_a_reader(source, topic)
        arrived += write(source, topic, "new", 10)
        clients.wait_for("the new ones", lambda: "new-9" in values(target, topic))
    assert values(target, topic) == arrived
    clients.delete(source, topic)
    check_restore(3, ["mirror-ahead"])

    later, next_positions = write_behind_restored(source, topic)
    ask("--before-start")
    assert position(target, flow, topic) in next_positions
    if goes_on:
        with mirror_maker(source, target, tmp_path, topics=pattern, flow=flow):
            assert ask(*CAUGHT_UP)[0] == 0
    assert values(target, topic) == arrived + (later if goes_on else [])
