"""A bundle of a topic that was recreated since, or of another link."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer
from kafka_broker import Broker
from relay import Relay
from test_link import (  # noqa: F401  # fixtures
    Ends,
    end_of,
    ends,
    frames,
    raw,
    relay,
    source,
    target,
    topic,
    wait_for,
    write,
)

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.kafka import client as kafka
from aqueduct.kafka.client_config import End
from aqueduct.link import outlet, resend, udp


def test_what_is_missing_of_another_topic_is_not_sent_from_this_one(
    source: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(source, topic, 40)
    with kafka.connect(End("source", source.plaintext), "test") as client:
        now = str(client.topic(topic).id)
    before = str(UUID(int=7))

    def resend(*ids: str | None) -> tuple[ExitCode, str, str]:
        results = [
            {"topic": topic, "partition": number, "gaps": [[0, 4]]} | ({"topic_id": each} if each else {})
            for number, each in enumerate(ids)
        ]
        file = tmp_path / "bundle.json"
        file.write_text(json.dumps({"type": "all", "results": results}))
        options = ends.sending | {"topic": topic, "resendFileName": str(file)}
        code = main(["diode", "resend", *(f"--{name}={value}" for name, value in options.items())])
        return ExitCode(code), *capsys.readouterr()

    code, out, _ = resend(now, before)
    assert code == ExitCode.INCOMPLETE
    assert out.startswith("5 offsets sent, with 5 records in them.")
    assert f"Left out: {topic}-1 is of a topic that was made anew: what is missing was of that with" in out
    code, out, err = resend(before, before)
    assert (code, out) == (ExitCode.REFUSED, "")
    assert "Nothing of it fits the source" in err
    assert "Is the bundle of another link or cluster" in err
    assert resend(None, now)[0] == ExitCode.DONE


def crossed(target: Broker, raw: str) -> set[tuple[int, int]]:  # noqa: F811
    """Return partitions, by their numbers downstream, and offsets that frames in the raw topic cover."""

    def covered() -> Iterator[tuple[int, int]]:
        for key in frames(target, raw):
            _, partition, first, last = key.split(b"/")
            yield from ((int(partition), offset) for offset in range(int(first), int(last) + 1))

    return set(covered())


def test_each_of_two_clusters_sends_its_own_of_a_bundle_and_no_more_than_is_asked_for(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The source's partitions are 0 and 1 downstream, those of the other cluster 2 and 3."""
    for broker in (source, target):
        producer = Producer({"bootstrap.servers": broker.plaintext})
        for number in range(200):
            producer.produce(topic, b"x" * 100, partition=number % 2, timestamp=1_700_000_000_000 + number)
            producer.flush() if number % 20 == 19 else None
        assert producer.flush(30) == 0
    down = ends.downstream()
    one = {"partitionStartValue": "0", "partitionStopValue": "2"}
    other = {"partitionStartValue": "2", "partitionStopValue": "2", "bootstrapServers": target.plaintext}
    expected: set[tuple[int, int]] = set()

    def resend(new: set[tuple[int, int]], **options: str) -> str:
        """Resend, and return the output, once these records and no others have come as well."""
        expected.update(new)
        argv = [f"--{name}={value}" for name, value in (ends.sending | options).items()]
        assert main(["diode", "resend", *argv]) == ExitCode.DONE
        wait_for(lambda: len(crossed(target, raw)) >= len(expected), "what was sent again")
        assert crossed(target, raw) == expected
        return capsys.readouterr().err

    def bundle(kind: str, **gaps: list[list[int]]) -> str:
        results = [{"topic": topic, "partition": int(name[1:]), "gaps": each} for name, each in gaps.items()]
        (tmp_path / "bundle.json").write_text(json.dumps({"type": kind, "results": results}))
        return str(tmp_path / "bundle.json")

    everywhere = {f"p{number}": [[3, 5], [8, 8]] for number in range(4)}
    listed = (3, 4, 5, 8)
    file = bundle("all", **everywhere)
    said = resend({(p, o) for p in (0, 1) for o in listed}, resendFileName=file, **one)
    assert f"8 offsets of 2 partitions of the bundle ({topic}-2, {topic}-3) left out" in said
    said = resend({(p, o) for p in (2, 3) for o in listed}, resendFileName=file, **other)
    assert f"8 offsets of 2 partitions of the bundle ({topic}-0, {topic}-1) left out" in said
    # One partition, by its number downstream.
    resend(
        {(3, o) for o in range(20, 31)}, topic=topic, partition="3", offsetFrom="20", offsetTo="30", **other
    )
    # A window of time: record N of partition 0 is that of millisecond 2 * N.
    window = {"from": "1700000000080", "to": "1700000000090"}
    resend({(0, o) for o in range(40, 46)}, topic=topic, partition="0", **window, **one)
    # From the first gap on.
    file = bundle("first", p1=[[95, 96], [98, 98]])
    resend({(1, o) for o in range(95, 100)}, resendFileName=file, **one)
    ends.stop(down)


COARSE_SECONDS = 0.006  # of the clock that the sender allows for


class Clock:
    """A clock in place of the module time: only sleeping makes it go, so that a schedule is exact."""

    time_ns = staticmethod(time.time_ns)

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("limit", "per_second"), [("eps", 25), ("bitsPerSecond", 50_000)])
def test_no_more_is_sent_in_a_second_than_is_allowed(
    limit: str,
    per_second: int,
    source: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    relay: Relay,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Resend 250 records: at each moment, by the sender's clock, no more was sent than is allowed."""
    for seed in range(5):
        write(source, topic, 100, seed=seed)
    clock = Clock()
    sent: list[tuple[float, int]] = []  # when, and bits
    for module in (outlet, resend):
        monkeypatch.setattr(module, "time", clock)
    send = udp.SendingSocket.send

    def noted(to: udp.SendingSocket, pieces: Sequence[bytes], size: int) -> None:
        sent.append((clock.now, 8 * sum(map(len, pieces))))
        send(to, pieces, size)

    monkeypatch.setattr(udp.SendingSocket, "send", noted)
    relay.recorded = []
    options = ends.sending | {"topic": topic, "partition": "0", limit: str(per_second)}
    began = clock.now
    assert main(["diode", "resend", *(f"--{name}={value}" for name, value in options.items())]) == 0
    bits, seconds = sum(size for _, size in sent), clock.now - began
    assert bits > 300_000
    wait_for(lambda: 8 * sum(map(len, relay.recorded)) == bits, "what was sent at the other end")
    amount = 250 if limit == "eps" else bits
    # The session's beginning and end come on top.
    assert amount / per_second - 1 <= seconds < amount / per_second + 2
    if limit == "bitsPerSecond":
        first, before = sent[0][0], 0
        for at, size in sent:
            assert before <= per_second * (at - first + COARSE_SECONDS)
            before += size
