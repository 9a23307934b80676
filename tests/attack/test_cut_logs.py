"""A log that lost its end and has grown past where it was backed up (KIP-320), or that is another one."""

import json
import re
import signal
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit import clients
from kit.cut_logs import await_markers
from kit.identifiers import assert_printed, has_fact
from kit.mirror_engine_flows import PATIENT, Flow

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from aqueduct.link.feed import Feed
from aqueduct.mirror.engine.names import positions_topic
from servers import broker
from servers.broker import Broker
from servers.process import suspend

HEADER = struct.Struct(">qi")  # of a batch: its first offset, and the bytes that follow


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker that may lose records: no other module uses it, and each test has its own topics."""
    with broker.running(tmp_path_factory.mktemp("own")) as found:
        yield found


def created(own: Broker, *names: str) -> list[str]:
    return [clients.create(own, clients.unique(name)) for name in names]


def write(own: Broker, topic: str, values: range) -> None:
    """Write each record as a batch of its own."""
    producer = clients.idempotent(own)
    clients.request_id(producer, topic)
    for value in values:
        clients.write(producer, topic, [value])
        assert producer.flush(clients.SECONDS) == 0


def lose(own: Broker, topic: str, offset: int) -> None:
    """Kill the broker, cut the topic's log at an offset, and start it: its leader has a new epoch."""
    own.process.kill()
    log = own.data / f"{topic}-0/00000000000000000000.log"
    data, position = log.read_bytes(), 0
    while HEADER.unpack_from(data, position)[0] < offset:
        position += HEADER.size + HEADER.unpack_from(data, position)[1]
    log.write_bytes(data[:position])
    own.process.start()
    clients.wait_for(f"the end {offset}", lambda: clients.ends(own, topic, 0) == [offset])


class Backup:
    def __init__(self, own: Broker, folder: Path) -> None:
        self._own, self._folder = own, folder

    def run(self, topic: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
        report = self._folder / "report.json"
        argv = ["backup", "--bootstrap-server", self._own.plaintext, "--topics", topic]
        argv += ["--store", f"file://{self._folder}/store", "--report", str(report)]
        assert main(argv) == code
        return dict(json.loads(report.read_text()))


@pytest.fixture
def backup(own: Broker, tmp_path: Path) -> Backup:
    return Backup(own, tmp_path)


def test_backup_reports_truncated_and_regrown_log(
    own: Broker, backup: Backup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, whole = created(own, "cut", "whole")
    for topic in (cut, whole):
        write(own, topic, range(10))
    backup.run(f"{cut},{whole}")
    lose(own, cut, 6)
    for topic in (cut, whole):
        write(own, topic, range(100, 110))
    for _ in range(2):  # each run says it again
        backup.run(f"{cut},{whole}", ExitCode.INCOMPLETE)
        said = capsys.readouterr()
        assert_printed(said.out + said.err, "partition-log-cut", f"{cut}-0", "at 6", "up to 10")
        assert f"{whole}-0" not in said.out + said.err
    assert "30 records" in stored(tmp_path, capsys)  # 10 of what was cut, and 20


@pytest.mark.long
def test_new_leaders_cut_nothing(
    own: Broker, backup: Backup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [topic] = created(own, "led")
    for start in (0, 10):
        write(own, topic, range(start, start + 10))
        backup.run(topic)
        backup.run(topic)
        own.process.kill()
        own.process.start()
    clients.wait_for("the broker", lambda: clients.ends(own, topic, 0) == [20])
    backup.run(topic)
    assert "20 records" in stored(tmp_path, capsys)


def stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `verify` says of a store."""
    assert main(["verify", "--store", f"file://{folder}/store"]) == 0
    return capsys.readouterr().out


def test_landing_skips_truncated_and_regrown_log(
    own: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declarations, report = tmp_path / "tables.yml", tmp_path / "land.json"
    cut, whole = created(own, "cut", "whole")
    declared = {"table": "lake.landed", "topics": [cut, whole], "columns": [{"name": "n", "type": "int"}]}
    declarations.write_text(json.dumps([declared]))

    def land(action: str = "--until-caught-up") -> tuple[int, dict[str, Any]]:
        argv = ["land", action, "--bootstrap-server", own.plaintext, "--report", str(report)]
        argv += ["--declarations", str(declarations), "--location", (tmp_path / "lake").as_uri()]
        code = main(argv)
        return code, json.loads(report.read_text())["tables"][0]

    def write_objects(topic: str, values: range) -> None:
        clients.produce(own, topic, [json.dumps({"n": value}) for value in values])

    for topic in (cut, whole):
        write_objects(topic, range(6))
        write_objects(topic, range(6, 10))
    code, landed = land()
    assert (code, landed["rows"]) == (0, 20)
    lose(own, cut, 6)
    for topic in (cut, whole):
        write_objects(topic, range(100, 110))
    for rows in (10, 0):  # each run reports it again
        code, landed = land()
        assert (code, landed["rows"]) == (3, rows)
        assert_printed(capsys.readouterr().out, "landed-topic-truncated", f"{cut}-0", "offset 6", "offset 10")
    for action in ("status", "verify"):
        code, found = land(action)
        assert code == 3
        assert [(each["id"], each["what"]) for each in found["left_out"]] == [
            ("landed-topic-truncated", f"{cut}-0")
        ]


@contextmanager
def feeding(own: Broker, topics: Collection[str], session: int = 1) -> Iterator[Feed]:
    end = End("source", own.plaintext)
    with connect(end, "sender") as client, connect(end, "sender") as following:
        yield Feed(
            client,
            following,
            f"link-{'-'.join(topics)}",
            lambda topic: topic in topics,
            session=session,
            shift=0,
            largest=1 << 20,
            from_time=None,
        )


def sent(feed: Feed, records: int) -> dict[str, list[tuple[int, int]]]:
    """Return the ranges of what a feed gives, by topic, until they are so many records."""
    found: dict[str, list[tuple[int, int]]] = {}
    deadline = time.monotonic() + clients.SECONDS
    while records > 0:
        assert time.monotonic() < deadline, found
        for frame, count in feed.poll(0.5):
            found.setdefault(frame.topic, []).append((frame.first, frame.last))
            records -= count
    return found


@pytest.mark.parametrize("restarted", [False, pytest.param(True, marks=pytest.mark.long)])
def test_link_sends_nothing_of_truncated_and_regrown_log(
    own: Broker, caplog: pytest.LogCaptureFixture, restarted: bool
) -> None:
    """Its sender is there all the time, or away and continues from what it committed."""
    cut, whole = created(own, "cut", "whole")
    for topic in (cut, whole):
        write(own, topic, range(10))

    def break_it() -> None:
        lose(own, cut, 6)
        for topic in (cut, whole):
            write(own, topic, range(100, 110))

    with feeding(own, [cut, whole]) as feed:
        sent(feed, 20)
        feed.commit(feed.reached())
        if not restarted:
            break_it()
            assert sent(feed, 10).keys() == {whole}
            assert_named(feed, cut, caplog)
    if restarted:
        break_it()
        with feeding(own, [cut, whole], session=2) as feed:
            assert sent(feed, 10).keys() == {whole}
            assert_named(feed, cut, caplog)


@pytest.mark.parametrize("restarted", [False, True])
def test_link_sends_recreated_topic_from_start(source: Broker, restarted: bool) -> None:
    """It has grown past what the sender committed of the former topic.

    Kafka deletes that position with the topic. A sender that was frozen meanwhile commits it again.
    """
    topic = clients.create(source, clients.unique("linked"))
    write(source, topic, range(10))
    with feeding(source, [topic]) as feed:
        assert sent(feed, 10)[topic][-1][1] == 9
        reached = feed.reached()
        feed.commit(reached)
        clients.recreate(source, topic)
        write(source, topic, range(100, 120))
        if restarted:
            feed.commit(reached)
        else:
            assert offsets(sent(feed, 20)[topic]) == [*range(20)]
    if restarted:
        with feeding(source, [topic], session=2) as feed:
            assert offsets(sent(feed, 20)[topic]) == [*range(20)]


def offsets(ranges: list[tuple[int, int]]) -> list[int]:
    return [offset for first, last in ranges for offset in range(first, last + 1)]


def assert_named(feed: Feed, cut: str, caplog: pytest.LogCaptureFixture) -> None:
    def noticed() -> bool:
        assert not list(feed.poll(0.5))
        return bool(feed.cut)

    clients.wait_for("the cut log", noticed)
    assert feed.cut == 1
    facts = (f"{cut}-0", "at 6", "offset 10")
    assert sum(all(has_fact(message, fact) for fact in facts) for message in caplog.messages) == 1


def test_batches_mirror_continues_where_log_was_truncated(
    own: Broker, target: Broker, tmp_path: Path
) -> None:
    [topic], report = created(own, "cut"), tmp_path / "mirror.json"
    argv = ["replicate", "--flow", topic, "--topics-pattern", topic.replace(".", "[.]"), "--until-caught-up"]
    argv += ["--source-bootstrap-server", own.plaintext, "--target-bootstrap-server", target.plaintext]
    argv += ["--report", str(report)]
    write(own, topic, range(10))
    assert main(argv) == ExitCode.DONE
    lose(own, topic, 6)
    write(own, topic, range(100, 110))
    assert main(argv) == ExitCode.INCOMPLETE
    values = [int(value or b"") for _, value, _, _ in clients.records(target, topic)]
    assert values == [*range(10), *range(100, 110)]
    [affected] = json.loads(report.read_text())["ranges"]
    assert (affected["kind"], affected["from"], affected["to"]) == ("target_only", 6, 10)


def test_running_batches_mirror_continues_where_log_was_truncated(
    own: Broker, target: Broker, tmp_path: Path
) -> None:
    """It continues its connection, and the broker answers a fetch with the offset at which it diverges."""
    name = clients.unique("running")
    cut, whole = (clients.create(own, f"{name}.{end}") for end in ("cut", "whole"))
    for topic in (cut, whole):
        write(own, topic, range(10))
    flow = Flow(own, target, cut, tmp_path, rf"{re.escape(name)}\..*")

    def arrived(topic: str) -> list[int]:
        if topic not in clients.topics(target):
            return []
        return [int(value or b"") for _, value, _, _ in clients.records(target, topic)]

    with flow.running("--tasks", "1", program=PATIENT):
        clients.wait_for("the first records", lambda: arrived(cut) == arrived(whole) == [*range(10)])
        lose(own, cut, 6)
        for topic in (cut, whole):
            write(own, topic, range(100, 110))
        expected = [*range(10), *range(100, 110)]
        clients.wait_for("the later records", lambda: arrived(cut) == arrived(whole) == expected)
    for _ in range(2):
        assert flow.catch_up() == ExitCode.INCOMPLETE
        [affected] = flow.reported()["ranges"]
        assert (affected["topic"], affected["kind"], affected["from"], affected["to"]) == (
            *(cut, "target_only"),
            *(6, 10),
        )
    assert flow.catch_up("--accept-ranges") == ExitCode.DONE
    assert arrived(cut) == expected


def test_running_batches_mirror_stores_lost_positions_again(
    own: Broker, source: Broker, tmp_path: Path
) -> None:
    """Its own topic loses its end, and the topic of the records does not: nothing arrives twice."""
    topic = clients.create(source, clients.unique("mirrored"), 2)
    flow = Flow(source, own, topic, tmp_path)

    def write(partition: int) -> None:
        clients.produce(source, topic, range(10), partition)
        clients.wait_for("the records", lambda: topic in clients.topics(own) and flow.is_equal(partition))

    with flow.running("--tasks", "1", program=PATIENT) as process:
        write(0)
        [end] = clients.settle(own, positions_topic(flow.name))
        write(0)
        write(1)
        suspend(process.pid)
        clients.settle(own, positions_topic(flow.name))
        await_markers(own)
        lose(own, positions_topic(flow.name), end)
        process.send_signal(signal.SIGCONT)
        write(1)  # the position of the other partition is stored again, too
        clients.settle(own, positions_topic(flow.name))
    assert flow.catch_up() == ExitCode.DONE
    assert flow.is_equal(0, 1)
    assert len(clients.records(own, topic, 0, 1)) == 40
