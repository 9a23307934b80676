"""`aqueduct mirror` against a real MirrorMaker 2 that mirrors from one broker to the other."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from kit import clients
from kit.hanging_transactions import UNVERIFIED, hang
from kit.identifiers import assert_printed
from kit.mirrors import ANY_PORT, mirror_maker

from aqueduct.cli import main
from aqueduct.kafka.client import connect
from aqueduct.kafka.client_config import End
from servers import broker
from servers.broker import Broker

TOPIC = "flights-of.day"
PATTERN = r"flights-of\.day"
POSITIONS = 25  # partitions of the topic of a flow's positions


def test_mirror_status_reports_lag_missing_workers_and_losses(
    brokers: list[Broker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = brokers
    report = tmp_path / "report.json"
    ask = ["mirror", "--flow", "pro1", "--report", str(report)]
    ask += ["--source-bootstrap-server", source.plaintext, "--target-bootstrap-server", target.plaintext]

    def said(*more: str) -> tuple[int, str]:
        code = main([*ask, *more])
        return code, capsys.readouterr().out

    code, text = said()
    assert code == 3
    assert "no state of a mirror from pro1" in text

    clients.create(source, TOPIC, 2)
    clients.transaction(source, TOPIC, range(50), "commit")
    synchronised = "emit.checkpoints.enabled=true\npro1->lake.sync.group.offsets.enabled=true\n"
    synchronised += "pro1->lake.groups=misspelt-g.*\n"
    topics = rf"misspelt-.*,{PATTERN}"
    with mirror_maker(source, target, tmp_path, topics=topics, rest=ANY_PORT + synchronised):
        code, text = said("--wait", "600s", "--until-caught-up")
        first, unmatched, of_groups = text.splitlines()
        assert of_groups.startswith("[pattern-matches-nothing] misspelt-g.* in the groups")
        assert (code, first) == (3, "2 partitions, 0 of them behind by 0 records.")
        assert unmatched.startswith("[pattern-matches-nothing] misspelt-.* in the topics")
        assert said("--until-caught-up", "--started") == (0, first + "\n")
        on_a_host = subprocess.run(
            [*clients.BASE_ONLY, *ask, "--until-caught-up", "--started"],
            capture_output=True,
            text=True,
        )
        assert (on_a_host.returncode, on_a_host.stdout) == (0, first + "\n"), on_a_host.stderr
        assert unmatched in on_a_host.stderr
        first = json.loads(report.read_text())["partitions"][0]
        # The transaction's marker is the log's last offset, and no record that could be behind.
        assert (first["topic"], first["next"], first["to"], first["behind"]) == (TOPIC, 50, 51, 0)

    clients.produce(source, TOPIC, range(30))
    code, text = said("--until-caught-up")
    assert code == 3
    assert f"Not caught up: {TOPIC}-0 (31 records)." in text
    document = json.loads(said("--json")[1])
    assert "Task 0 of MirrorSourceConnector" in {task["task"] for task in document["tasks"]}
    told = document["partitions"]
    assert told[0]["seconds"] > 0
    assert [each["seconds"] for each in told[1:]] == [0]

    clients.delete_records(source, TOPIC, 60)
    # Its tasks stay RUNNING; the group forgets it after session.timeout.ms.
    code, text = clients.wait_for("no worker", lambda: (told := said()) and "No worker" in told[1] and told)
    assert code == 3
    assert f"deleted records before they were mirrored: {TOPIC}-0 (10 offsets from 50)" in text
    code, stopped = said("--started")
    assert code == 3
    assert "No worker" in stopped
    assert "before they were mirrored" not in stopped
    gap = {"topic": TOPIC, "partition": 0, "from": 50, "to": 60}
    assert json.loads(report.read_text())["gaps"] == [gap]

    clients.recreate(source, TOPIC, 2)
    clients.produce(source, TOPIC, range(3))
    code, text = said()
    assert code == 3
    # The mirror does not run. What it would read next is up to its consumer.
    assert f"{TOPIC}-0 (at most offsets 0 to 2)" in text
    ranges = [(each["kind"], each["from"], each["to"]) for each in json.loads(report.read_text())["ranges"]]
    assert ranges == [("lost", 0, 3)]


@pytest.mark.long
def test_restart_is_not_advised_for_hanging_transaction(
    source: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As MirrorMaker reads its positions, read-committed, before it joins its group."""
    for name in ("target", "before", "after"):
        (tmp_path / name).mkdir()
    with broker.running(tmp_path / "target", settings=UNVERIFIED) as target:
        ask = ["mirror", "--flow", "pro1", "--source-bootstrap-server", source.plaintext]
        ask += ["--target-bootstrap-server", target.plaintext]

        def said(*more: str) -> tuple[int, str]:
            code = main([*ask, *more])
            return code, capsys.readouterr().out

        if TOPIC not in clients.topics(source):
            clients.create(source, TOPIC, 2)
        with mirror_maker(source, target, tmp_path / "before", topics=PATTERN):
            assert said("--wait", "600s", "--until-caught-up")[0] == 0
        clients.wait_for("no worker", lambda: "No worker" in said()[1])
        positions = "mm2-offsets.pro1.internal"
        clients.settle(target, positions, *range(POSITIONS))
        with connect(End("target", target.plaintext), "test") as client:
            hang(client, target, positions, "pro1-mm2-MirrorSourceConnector-7", 3)

        with mirror_maker(source, target, tmp_path / "after", topics=PATTERN):
            code, text = said()
            assert code == 3
            assert f"{positions}-3 has a hanging transaction of producer " in text
            assert "Start mirror_maker@pro1" not in text
            assert "[mirror-waits-for-transaction]" in text
            [command] = re.findall(r"`aqueduct (transactions abort [^`]*)`", text)
            ending = [*command.split(), "--execute", "--bootstrap-server", target.plaintext]
            assert main(ending) == 0
            code, text = said("--wait", "600s", "--until-caught-up")
            assert code == 0, text


def test_a_cluster_that_does_not_answer_is_named(
    brokers: list[Broker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct.mirror.reading.CONNECT_SECONDS", 5)
    ask = ["mirror", "--flow", "pro1", "--source-bootstrap-server", "127.0.0.1:1"]
    assert main([*ask, "--target-bootstrap-server", brokers[1].plaintext]) == 1
    assert_printed(capsys.readouterr().err, "cluster-unreachable", "127.0.0.1:1")
