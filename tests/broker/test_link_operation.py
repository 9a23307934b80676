"""A link's life: clocks that are wrong, keys that are replaced, and records that cross without dedup."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import clients
from kit.clients import wait_for
from kit.identifiers import assert_printed
from kit.links import PARTITIONS, Link
from kit.relay import Faults

from aqueduct.common import timestamps
from aqueduct.errors import ExitCode
from aqueduct.link import outlet
from servers.broker import Broker

HOUR = 3600
CLOCK = "import time\nright = time.time_ns\ntime.time_ns = lambda: right() + {} * 10**9\n"


def test_link_works_after_sender_clock_is_set_back(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set the sending end's clock an hour ahead, then right: what comes after that looks old."""
    down = link.downstream()
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/sitecustomize.py").write_text(CLOCK.format(HOUR))
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path / "wrong"))
        up = link.upstream()
    link.write(300)
    link.wait_until_sent()
    link.stop(up)
    assert "set back" not in link.said("upstream")
    link.write(300, seed=1)
    up = link.upstream()
    wait_for("arriving", lambda: len(link.covered()) == 600)
    link.stop(up, down)
    assert "clock of this host was set back" in link.said("upstream")
    link.dedup()
    link.assert_equal(600)


def test_session_is_stored_before_sending_begins(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill a sending end at once whose clock is an hour ahead: no position of what it sent is committed."""
    link.downstream()
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/sitecustomize.py").write_text(CLOCK.format(HOUR))
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path / 'wrong'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        up = link.upstream()
    wait_for("a session", lambda: link.counted("sessions"))
    link.kill(up)
    link.write(10)
    before = link.said("upstream").count("sending to")
    link.upstream()
    wait_for("a sender with a right clock", lambda: link.said("upstream").count("sending to") > before)
    assert "clock of this host was set back" in link.said("upstream")
    wait_for("what it sends", lambda: len(link.covered()) == 10)


@pytest.mark.long
def test_resend_works_after_clock_is_set_back(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    down, up = link.downstream(), link.upstream()
    right = timestamps.now
    written = 0
    for number, wall in enumerate((lambda: right() + HOUR * 1000, right)):
        for seed, lose in enumerate((0, 1, 0)):
            link.relay.faults = Faults(lose=lose)
            link.write(100, seed=10 * number + seed)
            written += 100
            link.wait_until_sent()
        wait_for("arriving", lambda: len(link.covered()) == written - 100)  # noqa: B023
        link.dedup()
        assert sum(len(each["gaps"]) for each in link.bundle()["results"]) == 2
        monkeypatch.setattr(outlet, "timestamps", SimpleNamespace(now=wall))
        assert link.resend() == ExitCode.DONE
        wait_for("the resend", lambda: len(link.covered()) == written)  # noqa: B023
        assert link.filled()
    link.stop(up, down)


def test_all_keys_are_replaced_while_records_cross(link: Link) -> None:
    """Replace keys as the guide has it.

    First the receiving side knows both, then the sending side changes.
    """
    folder = link.folder
    for kind, name in (("receiver", "down"), ("sender", "up")):
        for suffix in ("key", "pub"):
            (folder / f"{name}.{suffix}").rename(folder / f"{name}.old.{suffix}")
        link.keys(kind, name)
    old = {"publicKeyFile": f"{folder}/down.old.pub", "signingKeyFile": f"{folder}/up.old.key"}
    both = {
        "privateKeyFiles": f"{folder}/down.key,{folder}/down.old.key",
        "senderPublicKeyFile": f"{folder}/up.pub,{folder}/up.old.pub",
    }
    steps = [(both, old), (both, {}), ({}, {})]
    for number, (receiving, sending) in enumerate(steps):
        down, up = link.downstream(**receiving), link.upstream(**sending)
        link.write(200, seed=number)
        wait_for("arriving", lambda: len(link.covered()) == 200 * (number + 1))  # noqa: B023
        link.stop(up, down)
    link.dedup()
    link.assert_equal(200 * len(steps))


def test_a_sender_is_stopped_while_no_broker_answers(link: Link) -> None:
    down, up = link.downstream(), link.upstream()
    link.write(300)
    link.wait_until_sent()
    with link.source.process.silent():
        link.stop(up)
    assert "will be sent again" in link.said("upstream")
    link.write(300, seed=1)
    link.finish(down, link.upstream())
    link.assert_equal(600)


def test_records_cross_without_dedup_at_least_once(link: Link) -> None:
    down = link.downstream(mode="record", rawTopic="")
    assert "at least once" in link.said("downstream")
    up = link.upstream()
    link.write(1000, **{"compression.type": "gzip"})

    def there(broker: Broker) -> list[list[str]]:
        return [sorted(map(repr, clients.records(broker, link.topic, number))) for number in PARTITIONS]

    expected = there(link.source)
    wait_for("arriving", lambda: sum(map(len, there(link.target))) >= 1000)
    link.stop(up, down)
    assert there(link.target) == expected


def test_resend_reports_result_for_every_requested_offset(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = link.topic
    clients.produce(link.source, topic, ["plain", "secret"] * 10)

    def resend(**options: str) -> tuple[ExitCode, str, str]:
        told = {"topic": topic, "inputFilterRules": "deny:^secret"} | options
        return link.resend(**told), *capsys.readouterr()

    def of_bundle(kind: str, *spans: list[int]) -> tuple[ExitCode, str, str]:
        others = [("flights", [[0, 499]]), ("__consumer_offsets", [[3, 3]])]
        results = [{"topic": name, "partition": 0, "gaps": of} for name, of in [(topic, spans), *others]]
        link.bundle_file.write_text(json.dumps({"type": kind, "results": results}))
        return resend()

    code, out, err = of_bundle("all", [0, 9])
    assert (code, out) == (
        ExitCode.DONE,
        "10 offsets sent, with 5 records in them; the filter withheld 5 records.\n",
    )
    assert_printed(err, "bundle-partition-uncovered", 501, "flights-0", "__consumer_offsets-0")
    beyond = f"{topic}-0: {{}} cannot be sent: beyond the last stable offset of the source."
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
    assert "bundle-partition-uncovered" not in err
    assert resend(partition="0", offsetFrom="18")[0] == ExitCode.DONE
    code, _, err = resend(topic="__consumer_offsets", partition="0")
    assert (code, "internal topic of Kafka" in err) == (ExitCode.REFUSED, True)
