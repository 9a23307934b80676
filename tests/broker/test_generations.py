"""Generations of compacted topics over ten periods, with backups, prunes and a clock that a test moves."""

from pathlib import Path

import pytest
from kit import clients

from aqueduct.cli import main
from aqueduct.common import timestamps
from servers.broker import Broker

PERIODS = 10
DAY = 86_400_000
Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("keep", [2, *(pytest.param(keep, marks=pytest.mark.long) for keep in (1, 3))])
def test_generations_are_few_and_one_is_always_complete(
    source: Broker,
    target: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Said,
    keep: int,
) -> None:
    busy = clients.create(source, clients.unique("busy"), cleanup_policy="compact")
    idle = clients.create(source, clients.unique("idle"), cleanup_policy="compact")
    clients.produce(source, idle, [{"key": b"k", "value": b"only"}])
    url = (tmp_path / "store").as_uri()
    began = timestamps.now()

    def back_up(at: int) -> str:
        monkeypatch.setattr(timestamps, "now", lambda: began + at)
        argv = ["backup", "--bootstrap-server", source.plaintext, "--store", url]
        argv += ["--topics", f"{busy},{idle}", "--compacted-generations", str(keep)]
        assert main(argv) == 0
        return capsys.readouterr().out

    def folders(topic: str) -> set[str]:
        folder = tmp_path / "store/topics" / topic
        return {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}

    written = {}
    for period in range(PERIODS):
        for half in (0, 1):
            key = b"k%d" % (period % 4)
            value = b"%d.%d" % (period, half)
            clients.produce(source, busy, [{"key": key, "value": value}])
            written[key] = value
            said = back_up(period * DAY + half * DAY // 2)
            new = f"{busy}: generation g{period + 1} is complete and ACTIVATE."
            assert (new in said) == (half == 0)
            unchanged = "1 compacted topic without a new generation" in said and f": {idle}." in said
            assert unchanged == (period > 0)
            assert main(["verify", "--store", url]) == 0
            argv = ["prune", "--store", url, "--keep-last", "1", "--execute"]
            assert main(argv) == 0
            # A snapshot of the period before may be what the newest builds on, with one generation more.
            assert len(folders(busy)) <= keep + 1
            assert {f"g{period + 1}"} <= folders(busy)
            assert folders(idle) == {"g1"}
            capsys.readouterr()
    argv = ["restore", "--bootstrap-server", target.plaintext, "--store", url, "--topics", f"{busy},{idle}"]
    assert main([*argv, "--no-groups"]) == 0
    latest = {message.key(): message.value() for message in clients.read(target, busy)}
    assert latest == written
    assert [message.value() for message in clients.read(target, idle)] == [b"only"]


def test_snapshots_tell_how_generations_took_turns(
    source: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    topic = clients.create(source, clients.unique("turns"), cleanup_policy="compact")
    url = (tmp_path / "store").as_uri()
    began = timestamps.now()
    for run in range(6):
        clients.produce(source, topic, [{"key": b"k", "value": b"%d" % run}])
        monkeypatch.setattr(timestamps, "now", lambda run=run: began + run * DAY // 2)
        assert (
            main(["backup", "--bootstrap-server", source.plaintext, "--store", url, "--topics", topic]) == 0
        )
    capsys.readouterr()
    assert main(["snapshots", "--store", url]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"{topic} g1: ACTIVATE 1 to 2, PASSIVATE 3 to 4",
        f"{topic} g2: ACTIVATE 3 to 4, PASSIVATE 5 to 6",
        f"{topic} g3: ACTIVATE 5 to 6",
    ]
