"""A link's life: clocks that are wrong, keys that are replaced, and records that cross without dedup."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from relay import Faults, Relay
from test_link import (  # noqa: F401  # fixtures
    Ends,
    assert_equal,
    bundle,
    consumed,
    dedup,
    ends,
    frames,
    gaps,
    raw,
    relay,
    sent_all,
    source,
    target,
    told_all,
    topic,
    wait_for,
    write,
)

from aqueduct.cli import main
from aqueduct.errors import ExitCode
from aqueduct.link import outlet
from servers.broker import Broker

HOUR = 3600
CLOCK = "import time\nright = time.time_ns\ntime.time_ns = lambda: right() + {} * 10**9\n"


def covered(broker: Broker, raw: str) -> int:  # noqa: F811
    """Return the number of offsets that arrived."""
    keys = [key.decode().rsplit("/", 3) for key in frames(broker, raw)]
    spans = [(int(number), int(first), int(last)) for _, number, first, last in keys]
    return len({(number, each) for number, first, last in spans for each in range(first, last + 1)})


def test_a_senders_clock_may_be_wrong_and_set_right(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    dedup: Callable[..., None],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Set the sending end's clock an hour ahead, then right: what comes after that looks old."""
    down = ends.downstream()
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/sitecustomize.py").write_text(CLOCK.format(HOUR))
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path / "wrong"))
        up = ends.upstream()
    write(source, topic, 300)
    wait_for(sent_all(source, topic, ends), "sending")
    ends.stop(up)
    assert "set back" not in ends.said("upstream")
    write(source, topic, 300, seed=1)
    up = ends.upstream()
    wait_for(lambda: covered(target, raw) == 600, "arriving")
    ends.stop(up)
    ends.stop(down)
    assert "clock was set back" in ends.said("upstream")
    dedup()
    assert assert_equal(source, target, topic) == 600


def test_a_resending_hosts_clock_may_be_wrong_and_set_right(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    gaps: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    relay: Relay,  # noqa: F811
    dedup: Callable[..., None],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    down, up = ends.downstream(), ends.upstream()
    right = outlet._wall
    written = 0
    for number, wall in enumerate((lambda: right() + HOUR * 1000, right)):
        for seed, lose in enumerate((0, 1, 0)):
            relay.faults = Faults(lose=lose)
            write(source, topic, 100, seed=10 * number + seed)
            written += 100
            wait_for(sent_all(source, topic, ends), "sending")
        wait_for(lambda: covered(target, raw) == written - 100, "arriving")  # noqa: B023
        dedup()
        assert sum(len(each["gaps"]) for each in bundle(target, gaps, tmp_path)["results"]) == 2
        monkeypatch.setattr(outlet, "_wall", wall)
        argv = [f"--{name}={value}" for name, value in ends.sending.items()]
        assert main(["diode", "resend", *argv, "--resendFileName", str(tmp_path / "bundle.json")]) == 0
        wait_for(lambda: covered(target, raw) == written, "the resend")  # noqa: B023
        dedup()
        assert bundle(target, gaps, tmp_path)["results"] == []
    ends.stop(up)
    ends.stop(down)


def test_all_keys_are_replaced_while_records_cross(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    dedup: Callable[..., None],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Replace keys as the guide has it.

    First the receiving side knows both, then the sending side changes.
    """
    for kind, name in (("receiver", "down"), ("sender", "up")):
        for suffix in ("key", "pub"):
            (tmp_path / f"{name}.{suffix}").rename(tmp_path / f"{name}.old.{suffix}")
        assert main(["diode", "keygen", "--kind", kind, "--out", str(tmp_path), "--name", name]) == 0
    old = {"publicKeyFile": f"{tmp_path}/down.old.pub", "signingKeyFile": f"{tmp_path}/up.old.key"}
    both = {
        "privateKeyFiles": f"{tmp_path}/down.key,{tmp_path}/down.old.key",
        "senderPublicKeyFile": f"{tmp_path}/up.pub,{tmp_path}/up.old.pub",
    }
    steps = [(both, old), (both, {}), ({}, {})]
    for number, (receiving, sending) in enumerate(steps):
        down, up = ends.downstream(**receiving), ends.upstream(**sending)
        write(source, topic, 200, seed=number)
        wait_for(lambda: covered(target, raw) == 200 * (number + 1), "arriving")  # noqa: B023
        ends.stop(up)
        ends.stop(down)
    dedup()
    assert assert_equal(source, target, topic) == 200 * len(steps)


def test_a_sender_is_stopped_while_no_broker_answers(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    raw: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    dedup: Callable[..., None],  # noqa: F811
) -> None:
    down, up = ends.downstream(), ends.upstream()
    write(source, topic, 300)
    wait_for(sent_all(source, topic, ends), "sending")
    with source.process.silent():
        ends.stop(up)
    assert "will be sent again" in ends.said("upstream")
    write(source, topic, 300, seed=1)
    up = ends.upstream()
    wait_for(sent_all(source, topic, ends), "sending")
    ends.stop(up)
    wait_for(told_all(source, target, topic, raw), "telling all")
    ends.stop(down)
    dedup()
    assert assert_equal(source, target, topic) == 600


def test_records_cross_without_dedup_and_it_is_said_what_that_means(
    source: Broker,  # noqa: F811
    target: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    ends: Ends,  # noqa: F811
) -> None:
    down = ends.downstream(mode="record", rawTopic="")
    assert "at least once" in ends.said("downstream")
    up = ends.upstream()
    write(source, topic, 1000, **{"compression.type": "gzip"})

    def there(broker: Broker) -> list[list[str]]:
        return [sorted(map(repr, consumed(broker, topic, number))) for number in (0, 1)]

    expected = there(source)
    wait_for(lambda: sum(map(len, there(target))) >= 1000, "arriving")
    ends.stop(up)
    ends.stop(down)
    assert there(target) == expected


def test_a_resend_tells_of_all_that_it_was_asked_for(
    source: Broker,  # noqa: F811
    topic: str,  # noqa: F811
    ends: Ends,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    producer = Producer({"bootstrap.servers": source.plaintext})
    for number in range(20):
        producer.produce(topic, b"secret" if number % 2 else b"plain", partition=0)
    producer.flush()
    file = tmp_path / "bundle.json"

    def resend(**options: str) -> tuple[ExitCode, str, str]:
        told = ends.sending | {"topic": topic, "inputFilterRules": "deny:^secret"} | options
        code = main(["diode", "resend", *(f"--{name}={value}" for name, value in told.items())])
        return ExitCode(code), *capsys.readouterr()

    def of_bundle(kind: str, *spans: list[int]) -> tuple[ExitCode, str, str]:
        others = [("flights", [[0, 499]]), ("__consumer_offsets", [[3, 3]])]
        results = [{"topic": name, "partition": 0, "gaps": of} for name, of in [(topic, spans), *others]]
        file.write_text(json.dumps({"type": kind, "results": results}))
        return resend(resendFileName=str(file))

    code, out, err = of_bundle("all", [0, 9])
    assert (code, out) == (
        ExitCode.DONE,
        "10 offsets sent, with 5 records in them; the filter withheld 5 records.\n",
    )
    assert "501 offsets of 2 partitions of the bundle (flights-0, __consumer_offsets-0) left out" in err
    beyond = f"{topic}-0: {{}} can't be sent: beyond the source's last stable offset."
    code, out, _ = of_bundle("all", [18, 25], [600, 900])
    assert (code, out.splitlines()) == (
        ExitCode.INCOMPLETE,
        [
            "2 offsets sent, with 1 record in them; the filter withheld 1 record.",
            beyond.format("20 to 25"),
            beyond.format("600 to 900"),
        ],
    )
    code, out, _ = of_bundle("first", [5000, 5009])
    assert (code, beyond.format("5000 to 5009") in out) == (ExitCode.INCOMPLETE, True)
    code, out, err = resend(partition="0", offsetFrom="900")
    assert (code, beyond.format("900 to 900") in out) == (ExitCode.INCOMPLETE, True)
    assert "left out" not in err
    assert resend(partition="0", offsetFrom="18")[0] == ExitCode.DONE
    code, _, err = resend(topic="__consumer_offsets", partition="0")
    assert (code, "internal to Kafka" in err) == (ExitCode.REFUSED, True)
