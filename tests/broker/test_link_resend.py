"""A bundle of a topic that was recreated since, or of another link."""

import json
from collections.abc import Sequence

import pytest
from kit import clients
from kit.clients import wait_for
from kit.cut_logs import cut_log
from kit.identifiers import assert_printed
from kit.links import Link

from aqueduct.errors import ExitCode
from aqueduct.kafka import client as kafka
from aqueduct.kafka.client_config import End
from aqueduct.link import outlet, resend, udp


def test_gaps_of_former_instance_are_not_resent(link: Link, capsys: pytest.CaptureFixture[str]) -> None:
    topic = link.topic

    def topic_id() -> str:
        with kafka.connect(End("source", link.source.plaintext), "test") as client:
            return str(client.topic(topic).id)

    before = topic_id()
    clients.recreate(link.source, topic, 2)
    link.write(40)
    now = topic_id()

    def resend(*ids: str | None) -> tuple[ExitCode, str, str]:
        results = [
            {"topic": topic, "partition": number, "gaps": [[0, 4]]} | ({"topic_id": each} if each else {})
            for number, each in enumerate(ids)
        ]
        link.bundle_file.write_text(json.dumps({"type": "all", "results": results}))
        return link.resend(topic=topic), *capsys.readouterr()

    code, out, _ = resend(now, before)
    assert code == ExitCode.INCOMPLETE
    assert out.startswith("5 offsets sent, with 5 records in them.")
    assert f"Skipped: {topic}-1 belongs to a re-created topic: " in out
    code, out, err = resend(before, before)
    assert (code, out) == (ExitCode.REFUSED, "")
    assert_printed(err, "bundle-mismatch", "source")
    assert resend(None, now)[0] == ExitCode.DONE


def test_truncated_offsets_are_reported_and_resent_once_rewritten(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of them arrived before, so whatever the log has there is not a duplicate."""
    topic = link.topic
    for first in (0, 5):
        clients.produce(link.source, topic, range(first, first + 5))
    with kafka.connect(End("source", link.source.plaintext), "test") as client:
        result = {"topic": topic, "partition": 0, "gaps": [[3, 8]], "topic_id": str(client.topic(topic).id)}
    link.bundle_file.write_text(json.dumps({"type": "all", "results": [result]}))
    down = link.downstream()
    cut_log(link.source, topic, 5)
    capsys.readouterr()
    assert link.resend() == ExitCode.INCOMPLETE
    printed_text = capsys.readouterr().out
    assert printed_text.startswith("2 offsets sent, with 2 records in them.")
    assert f"{topic}-0: 5 to 8 cannot be sent: beyond" in printed_text
    wait_for("what the log kept", lambda: link.covered() == {(0, 3), (0, 4)})
    clients.produce(link.source, topic, range(100, 120))
    assert link.resend() == ExitCode.DONE
    wait_for("what it has again", lambda: link.covered() == {(0, offset) for offset in range(3, 9)})
    link.stop(down)
    link.dedup()
    assert link.arrived(0) == link.sent(0)[3:9]


@pytest.mark.long
def test_each_cluster_resends_only_its_part_of_bundle(link: Link, capsys: pytest.CaptureFixture[str]) -> None:
    """The source's partitions are 0 and 1 downstream, those of the other cluster 2 and 3."""
    topic = link.topic
    for broker in (link.source, link.target):
        for first in range(0, 200, 20):  # each a batch of its own
            for partition in (0, 1):
                numbers = range(first + partition, first + 20, 2)
                values = [{"value": b"x" * 100, "timestamp": 1_700_000_000_000 + each} for each in numbers]
                clients.produce(broker, topic, values, partition)
    down = link.downstream()
    one = {"partitionStartValue": "0", "partitionStopValue": "2"}
    other = {"partitionStartValue": "2", "partitionStopValue": "2", "bootstrapServers": link.target.plaintext}
    expected: set[tuple[int, int]] = set()

    def resend(new: set[tuple[int, int]], **options: str) -> str:
        """Resend, and return the output, once these records and no others have come as well."""
        expected.update(new)
        assert link.resend(**options) == ExitCode.DONE
        wait_for("what was sent again", lambda: len(link.covered()) >= len(expected))
        assert link.covered() == expected
        return capsys.readouterr().err

    def bundle(kind: str, **gaps: list[list[int]]) -> None:
        results = [{"topic": topic, "partition": int(name[1:]), "gaps": each} for name, each in gaps.items()]
        link.bundle_file.write_text(json.dumps({"type": kind, "results": results}))

    everywhere = {f"p{number}": [[3, 5], [8, 8]] for number in range(4)}
    listed = (3, 4, 5, 8)
    bundle("all", **everywhere)
    said = resend({(p, o) for p in (0, 1) for o in listed}, **one)
    assert_printed(said, "bundle-partition-uncovered", 8, f"{topic}-2", f"{topic}-3")
    said = resend({(p, o) for p in (2, 3) for o in listed}, **other)
    assert_printed(said, "bundle-partition-uncovered", 8, f"{topic}-0", f"{topic}-1")
    # One partition, by its number downstream.
    resend(
        {(3, o) for o in range(20, 31)}, topic=topic, partition="3", offsetFrom="20", offsetTo="30", **other
    )
    # A window of time: record N of partition 0 is that of millisecond 2 * N.
    window = {"from": "1700000000080", "to": "1700000000090"}
    resend({(0, o) for o in range(40, 46)}, topic=topic, partition="0", **window, **one)
    # From the first gap on.
    bundle("first", p1=[[95, 96], [98, 98]])
    resend({(1, o) for o in range(95, 100)}, **one)
    link.stop(down)


COARSE_SECONDS = 0.006  # of the clock that the sender allows for


class Clock:
    """A clock in place of the module time: only sleeping makes it go, so that a schedule is exact."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("limit", "per_second"), [("eps", 25), ("bitsPerSecond", 50_000)])
def test_resend_never_exceeds_its_rate_limit(
    link: Link, limit: str, per_second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resend 250 records: at each moment, by the sender's clock, no more was sent than is allowed."""
    for seed in range(5):
        link.write(100, seed=seed)
    clock = Clock()
    sent: list[tuple[float, int]] = []  # when, and bits
    for module in (outlet, resend):
        monkeypatch.setattr(module, "time", clock)
    send = udp.SendingSocket.send

    def noted(to: udp.SendingSocket, pieces: Sequence[bytes], size: int) -> None:
        sent.append((clock.now, 8 * sum(map(len, pieces))))
        send(to, pieces, size)

    monkeypatch.setattr(udp.SendingSocket, "send", noted)
    link.relay.recorded = []
    began = clock.now
    assert link.resend(topic=link.topic, partition="0", **{limit: str(per_second)}) == ExitCode.DONE
    bits, seconds = sum(size for _, size in sent), clock.now - began
    assert bits > 300_000
    wait_for("what was sent at the other end", lambda: 8 * sum(map(len, link.relay.recorded or ())) == bits)
    amount = 250 if limit == "eps" else bits
    # The session's beginning and end come on top.
    assert amount / per_second - 1 <= seconds < amount / per_second + 2
    if limit == "bitsPerSecond":
        first, before = sent[0][0], 0
        for at, size in sent:
            assert before <= per_second * (at - first + COARSE_SECONDS)
            before += size
