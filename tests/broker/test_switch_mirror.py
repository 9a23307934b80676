"""A flow goes from MirrorMaker 2 to `batches` and back under data. librdkafka compares both ends."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from kit import clients
from kit.clients import unique
from kit.mirror_engine_flows import catch_up, started
from kit.mirrors import mirror_maker

from aqueduct.cli import main
from aqueduct.common.topic_names import TopicPartition
from aqueduct.kafka import client as raw
from aqueduct.kafka import groups
from aqueduct.kafka.client_config import End
from aqueduct.mirror.binding import Binding
from aqueduct.mirror.engine import switch as engine_switch
from aqueduct.mirror.positions import FlowPositions, source_logs
from aqueduct.mirror.status import SOURCE_CONNECTOR
from servers.broker import Broker

PARTITIONS = 3
PAUSE = 0.02  # between two records of each partition


class SwitchedFlow:
    """A flow of one topic that either engine may run."""

    def __init__(self, source: Broker, target: Broker, tmp_path: Path) -> None:
        self.source = source
        self.target = target
        self.name = unique("switched").replace(".", "-")
        self.topic = clients.create(source, unique("both"), PARTITIONS)
        self.folder = tmp_path
        self.report = tmp_path / "report.json"
        self.pattern = re.escape(self.topic)
        self.ends = [
            *("--source-bootstrap-server", source.plaintext),
            *("--target-bootstrap-server", target.plaintext),
        ]

    def switch(self, to: str, *more: str) -> int:
        options = ["--flow", self.name, "--to", to, "--topics-pattern", self.pattern, *self.ends]
        self.report.unlink(missing_ok=True)
        return main(["switch", *options, "--report", str(self.report), *more])

    def refused(self) -> dict[str, str]:
        """Return the identifiers of what the last plan cannot move."""
        return {of["what"]: of["id"] for of in json.loads(self.report.read_text())["refused"]}

    def next_offsets(self) -> dict[int, int]:
        """Return where the last switch moved each partition."""
        return {of["partition"]: of["next"] for of in json.loads(self.report.read_text())["moved"]}

    def inspect(self, *more: str) -> int:
        """Run `aqueduct mirror` of MirrorMaker 2, which binds positions to topic IDs."""
        return main(["mirror", "--flow", self.name, *self.ends, *more])

    def replicate(self, *more: str) -> int:
        """Run the engine `batches` until it has caught up."""
        options = ["--flow", self.name, "--topics-pattern", self.pattern, *self.ends]
        return catch_up("replicate", *options, *more)

    @contextmanager
    def mm2(self) -> Iterator[None]:
        """Run MirrorMaker 2, and kill it at the end."""
        folder = self.folder / unique("mm2")
        folder.mkdir()
        pattern = self.topic.replace(".", r"\.")
        with mirror_maker(self.source, self.target, folder, topics=pattern, flow=self.name):
            yield

    @contextmanager
    def batches(self) -> Iterator[None]:
        """Run the engine `batches` as a unit does, and kill it at the end."""
        options = ["--flow", self.name, "--topics-pattern", self.pattern, *self.ends]
        with started("replicate", *options, "--refresh", "1s", "--shared"):
            yield

    def await_more(self, number: int = 200) -> None:
        """Wait until as many more offsets are used at the target in each partition."""
        every = range(PARTITIONS)
        before = clients.ends(self.target, self.topic, *every) if self.arrived() else [0] * PARTITIONS
        clients.wait_for(
            "more records at the target",
            lambda: (
                self.arrived()
                and all(
                    end >= start + number
                    for start, end in zip(before, clients.ends(self.target, self.topic, *every), strict=True)
                )
            ),
        )

    def arrived(self) -> bool:
        return self.topic in clients.topics(self.target)

    def check_equal(self) -> None:
        """Compare both ends, partition by partition, with order."""
        for partition in range(PARTITIONS):
            sent, got = (
                [(key, value) for key, value, *_ in clients.records(broker, self.topic, partition)]
                for broker in (self.source, self.target)
            )
            doubled = [value for value, count in Counter(got).items() if count > 1]
            assert (doubled, [value for value in sent if value not in {*got}]) == ([], [])
            assert got == sent

    @contextmanager
    def data(self) -> Iterator[None]:
        """Write numbered records to all partitions meanwhile."""
        ending = Event()
        failures: list[Exception] = []

        def write() -> None:
            try:
                producer = clients.idempotent(self.source, **{"linger.ms": 5})
                number = 0
                while not ending.wait(PAUSE):
                    for partition in range(PARTITIONS):
                        values = [{"key": f"{number}", "value": f"{partition} {number}"}]
                        clients.write(producer, self.topic, values, partition)
                    number += 1
                assert producer.flush(clients.SECONDS) == 0
            except Exception as error:  # for the test's own thread
                failures.append(error)

        thread = Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
        assert failures == []

    def store_positions(self, next_: int) -> None:
        """Store positions of MirrorMaker 2, in a transaction and bound, as after its clean stop."""
        partitions = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        clients.create(self.target, f"mm2-offsets.{self.name}.internal", 25, cleanup_policy="compact")
        with (
            raw.connect(End("source", self.source.plaintext), "test") as source,
            raw.connect(End("target", self.target.plaintext), "test") as target,
        ):
            logs = source_logs(source, dict.fromkeys(partitions))
            bindings = {
                partition: Binding(topic_id=log.topic_id, next=next_, epoch=log.epoch)
                for partition, log in logs.items()
            }
            positions = FlowPositions(self.name, target)
            positions.refresh()
            assert positions.write(dict.fromkeys(partitions, next_), bindings)


@pytest.fixture
def flow(source: Broker, target: Broker, tmp_path: Path) -> SwitchedFlow:
    return SwitchedFlow(source, target, tmp_path)


def test_flow_goes_to_batches_and_back_under_data(
    flow: SwitchedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each engine is killed in the middle of its work, and another one continues. `batches` gets it twice."""

    def switch_to_batches() -> None:
        assert flow.switch("batches") == 0
        assert len(flow.next_offsets()) == PARTITIONS
        capsys.readouterr()
        assert flow.switch("batches") == 0
        assert "[mirror-switch-unneeded]" in capsys.readouterr().out
        assert flow.inspect("--before-start") == 2
        assert "[mirror-engine-differs]" in capsys.readouterr().err

    with flow.data():
        with flow.mm2():
            flow.await_more()
            flow.inspect()
            # A plan is made while the flow runs, and changes nothing.
            assert flow.switch("batches", "--dry-run") == 0
            flow.await_more()
        switch_to_batches()
        with flow.batches():
            flow.await_more()
        assert flow.switch("mm2") == 0
        assert len(flow.next_offsets()) == PARTITIONS
        assert flow.replicate("--first-start") == 2
        assert "[mirror-engine-differs]" in capsys.readouterr().err
        assert flow.inspect("--before-start") == 0
        with flow.mm2():
            flow.await_more()
        switch_to_batches()
        assert flow.replicate() == 0
    assert flow.replicate() == 0
    flow.check_equal()


def test_flow_that_began_with_batches_goes_to_mirrormaker(flow: SwitchedFlow) -> None:
    """MirrorMaker 2 finds positions that it has not written, and writes its own to the same partitions."""
    with flow.data():
        with flow.batches():
            flow.await_more()
        assert flow.switch("mm2") == 0
        with flow.mm2():
            flow.await_more()
    with flow.mm2():
        assert flow.inspect("--wait", "600s", "--until-caught-up") == 0
    flow.check_equal()
    topic = f"mm2-offsets.{flow.name}.internal"
    partitions: dict[bytes, set[int | None]] = {}
    for message in clients.read(flow.target, topic, *range(25)):
        key = message.key() or b""
        if SOURCE_CONNECTOR.encode() in key and flow.topic.encode() in key:
            partitions.setdefault(key, set()).add(message.partition())
    assert len(partitions) == PARTITIONS
    assert {len(of) for of in partitions.values()} == {1}


def copied(flow: SwitchedFlow, number: int) -> None:
    """Write records to both ends, as a flow has mirrored them."""
    clients.create(flow.target, flow.topic, PARTITIONS)
    for broker in (flow.source, flow.target):
        for partition in range(PARTITIONS):
            values = [{"key": f"{n}", "value": f"{partition} {n}"} for n in range(number)]
            clients.produce(broker, flow.topic, values, partition)


def test_changed_engine_without_switch_is_refused(
    flow: SwitchedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    copied(flow, 20)
    flow.store_positions(20)
    for option in ((), ("--first-start",)):
        assert flow.replicate(*option) == 2
        assert "[mirror-engine-differs]" in capsys.readouterr().err
        assert clients.ends(flow.target, flow.topic) == [20]
    assert flow.switch("batches") == 0
    assert flow.replicate() == 0
    assert flow.inspect("--before-start") == 2
    assert "[mirror-engine-differs]" in capsys.readouterr().err
    flow.check_equal()


def test_unproven_position_moves_nothing(flow: SwitchedFlow, capsys: pytest.CaptureFixture[str]) -> None:
    """A position that was written outside a transaction, such as by hand, proves nothing."""
    copied(flow, 20)
    flow.store_positions(20)
    key = json.dumps(
        [SOURCE_CONNECTOR, {"cluster": flow.name, "partition": 1, "topic": flow.topic}], separators=(",", ":")
    )
    topic = f"mm2-offsets.{flow.name}.internal"
    stored = [
        message for message in clients.read(flow.target, topic, *range(25)) if message.key() == key.encode()
    ]
    position = {"key": key, "value": json.dumps({"offset": 9})}
    clients.produce(flow.target, topic, [position], stored[0].partition() or 0)
    assert flow.switch("batches", "--dry-run") == 3
    assert flow.refused() == {f"{flow.topic}-1": "mirror-position-unproven"}
    assert flow.switch("batches") == 2
    assert "[mirror-switch-refused]" in capsys.readouterr().err
    assert flow.inspect("--before-start") == 0  # MirrorMaker has the flow still


def test_running_worker_is_refused(
    flow: SwitchedFlow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine_switch, "LEAVING_SECONDS", 1)
    with flow.data(), flow.batches():
        flow.await_more(10)
        assert flow.switch("mm2") == 1
        assert "[mirror-workers-running]" in capsys.readouterr().err
        flow.await_more(10)


def test_group_skips_no_record_after_a_switch(flow: SwitchedFlow) -> None:
    """A group behind the switch keeps its offset at the target. Later ones are translated exactly."""
    copied(flow, 20)
    flow.store_positions(20)
    names = {offset: f"{flow.name}-{offset}" for offset in (5, 20, 25)}
    assert flow.switch("batches") == 0
    for partition in range(PARTITIONS):
        values = [{"key": f"{n}", "value": f"{partition} {n}"} for n in range(20, 30)]
        clients.produce(flow.source, flow.topic, values, partition)
    with raw.connect(End("source", flow.source.plaintext), "test") as client:
        for offset, group in names.items():
            groups.commit(client, group, {TopicPartition(flow.topic, 0): (offset, "")})
    with raw.connect(End("target", flow.target.plaintext), "test") as client:
        groups.commit(client, names[5], {TopicPartition(flow.topic, 0): (3, "")})
    assert flow.replicate("--groups-pattern", f"{flow.name}-.*") == 3  # names[5] is listed as inexact
    assert clients.committed(flow.target, names[5]) == {(flow.topic, 0): 3}
    for offset in (20, 25):
        [(_, start)] = clients.committed(flow.target, names[offset]).items()
        following = clients.records(flow.target, flow.topic, start=start)
        assert following[0][1] == f"0 {offset}".encode()
    flow.check_equal()
