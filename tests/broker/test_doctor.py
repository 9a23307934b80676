"""A broker that came back with another id, and what `aqueduct doctor cluster` says of it."""

import json
import re
import shutil
import time
from pathlib import Path

import clients
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic

from aqueduct import cli, moments
from servers import broker
from servers.broker import Broker

OFFSETS = "__consumer_offsets"
GROUPS = [f"readers-{number}" for number in range(8)]
RECORDS = 50
GUIDE = Path(__file__).parents[2] / "docs/guides/inventory.md"
MOMENT = r"20\d\d-\d\d-\d\dT[\d:.]+Z"


def doctor(first: Broker, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    code = cli.main(["doctor", "cluster", "--bootstrap-servers", first.plaintext, *options])
    return code, capsys.readouterr().out.splitlines()


def assign(first: Broker, topic: str, brokers: list[int], **config: str) -> None:
    """Make a topic with a partition on each of these brokers."""
    asked = clients.admin(first)
    made = NewTopic(topic, len(brokers), replica_assignment=[[each] for each in brokers], config=config)
    asked.create_topics([made])[topic].result()


def test_a_broker_that_came_back_with_another_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its partitions and groups wait without an error; with its old id all is there again."""
    (tmp_path / "first").mkdir()
    with broker.running(tmp_path / "first", coordinators=2) as first:
        second = broker.joining(first, 2, tmp_path / "second")
        with second.running():
            assign(first, "lost", [1, 2])
            assign(first, OFFSETS, [1, 2], **{"cleanup.policy": "compact"})
            clients.produce(first, "lost", [f"record {n}" for n in range(RECORDS)], 1)
            began = time.time_ns() // 1_000_000
            asked = clients.admin(first)
            for number, group in enumerate(GROUPS):
                place = TopicPartition("lost", 0, number)
                [done] = asked.alter_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group, [place])]
                ).values()
                done.result()
            committed = time.time_ns() // 1_000_000
            assert doctor(first, capsys) == (0, ["Nothing is wrong."])
            before = clients.records(first, "lost", 1)

        changed = broker.joining(first, 12, tmp_path / "changed")
        with changed.running():
            clients.wait_for("the end of broker 2", lambda: "not run" in doctor(first, capsys)[1][0], 60)
            waiting = [group for group in GROUPS if clients.coordinated(first, group, "lost") is None]
            assert 0 < len(waiting) < len(GROUPS)
            report = tmp_path / "report.json"
            folder = tmp_path / "second/data"
            options = ("--groups", ",".join(GROUPS), "--data-folder", str(folder), "--report", str(report))
            code, said = doctor(first, capsys, *options)
            assert code == 3
            _, _, shown = GUIDE.read_text().partition("playbooks/doctor.yml` (`aqueduct doctor cluster`")
            example = shown.split("```")[1].removeprefix("text\n").splitlines()
            plain = [line.replace(str(folder), "/var/lib/kafka/log") for line in said if "fenced" not in line]
            assert without_moments(plain) == without_moments(example)
            assert said[1].endswith(f" named: {', '.join(waiting)}.")
            assert json.loads(report.read_text())["findings"] == said
            newest = [moments.parse(each) for each in re.findall(MOMENT, said[2])]
            assert len(newest) == len(waiting)
            assert all(began <= each <= committed for each in newest), (began, newest, committed)
            shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
            options = ("--groups", ",".join(GROUPS), "--data-folder", str(tmp_path / "copy"))
            assert doctor(first, capsys, *options)[1][2] == said[2].replace(
                str(folder), str(tmp_path / "copy")
            )
            assert doctor(first, capsys)[1][1].endswith(" Their brokers' --data-folder tells since when.")

        with broker.joining(first, 2, tmp_path / "second").running():
            clients.wait_for("broker 2", lambda: "lost-1" not in doctor(first, capsys)[1][0], 60)
            assert clients.records(first, "lost", 1) == before
            assert [clients.coordinated(first, group, "lost") for group in GROUPS] == [*range(len(GROUPS))]
            # Until its session ends at the controller, broker 12 is one that does not answer.
            clients.wait_for("broker 12 to be fenced", lambda: "fenced" in doctor(first, capsys)[1][0], 60)
            code, [fenced, unused] = doctor(first, capsys)
            assert (code, fenced.split(":")[0]) == (3, "Broker 12 is registered but fenced")
            assert unused.startswith("Nothing is assigned to broker 12, which does not run")


def without_moments(lines: list[str]) -> list[str]:
    return [re.sub(MOMENT, "MOMENT", line) for line in lines]


def test_a_broker_that_can_t_be_reached_where_it_says_that_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first").mkdir()
    with broker.running(tmp_path / "first") as first:
        second = broker.joining(first, 2, tmp_path / "second", advertised="nobody.invalid:9092")
        with second.running():
            clients.wait_for("broker 2", lambda: doctor(first, capsys)[0] == 3, 60)
            _, [sentence] = doctor(first, capsys)
            assert sentence.startswith("Broker 2 does not answer at nobody.invalid:9092, which it advertises")
