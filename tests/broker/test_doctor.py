"""A broker that came back with another id, and what `aqueduct doctor cluster` says of it."""

import json
import re
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kit import clients

from aqueduct import cli
from aqueduct.common import timestamps
from aqueduct.kafka import addresses
from aqueduct.kafka.listeners import TIMES
from servers import broker
from servers.broker import Broker
from servers.process import QUICK, free_ports

OFFSETS = "__consumer_offsets"
GROUPS = [f"readers-{number}" for number in range(8)]
RECORDS = 50
ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/inventory.md"
MOMENT = r"20\d\d-\d\d-\d\dT[\d:.]+Z"


def doctor(first: Broker, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    code = cli.main(["doctor", "cluster", "--bootstrap-server", first.plaintext, *options])
    return code, capsys.readouterr().out.splitlines()


def headline(first: Broker, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the doctor's first line; nothing where it failed: brokers that start or end may not answer."""
    _, said = doctor(first, capsys)
    return said[0] if said else ""


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
            began = timestamps.now()
            for number, group in enumerate(GROUPS):
                clients.set_position(first, group, "lost", number)
            committed = timestamps.now()
            clients.wait_for("all to be well", lambda: doctor(first, capsys) == (0, ["Nothing is wrong."]))
            before = clients.records(first, "lost", 1)

        changed = broker.joining(first, 12, tmp_path / "changed")
        with changed.running():
            clients.wait_for("the end of broker 2", lambda: "not run" in headline(first, capsys))
            positions = clients.all_coordinated(first, GROUPS, "lost", seconds=8)  # some have none
            waiting = [group for group, at in zip(GROUPS, positions, strict=True) if at is None]
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
            assert said[1].endswith(f" in --groups: {', '.join(waiting)}.")
            assert [entry["sentence"] for entry in json.loads(report.read_text())["findings"]] == [
                line.partition("] ")[2] for line in said
            ]
            newest = [timestamps.parse(each) for each in re.findall(MOMENT, said[2])]
            assert len(newest) == len(waiting)
            assert all(began <= each <= committed for each in newest), (began, newest, committed)
            shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
            options = ("--groups", ",".join(GROUPS), "--data-folder", str(tmp_path / "copy"))
            assert doctor(first, capsys, *options)[1][2] == said[2].replace(
                str(folder), str(tmp_path / "copy")
            )
            assert doctor(first, capsys)[1][1].endswith(" with --data-folder.")

        with broker.joining(first, 2, tmp_path / "second").running():
            clients.wait_for("broker 2", lambda: "lost-1" not in (headline(first, capsys) or "lost-1"))
            assert clients.records(first, "lost", 1) == before
            every = [*range(len(GROUPS))]
            clients.wait_for("positions", lambda: clients.all_coordinated(first, GROUPS, "lost") == every)
            # Until its session ends at the controller, broker 12 is one that does not answer.
            clients.wait_for("broker 12 to be fenced", lambda: "fenced" in headline(first, capsys))
            code, [unused] = doctor(first, capsys)
            assert (code, unused.partition(" ")[0], "broker 12" in unused) == (3, "[broker-id-unused]", True)


def without_moments(lines: list[str]) -> list[str]:
    return [re.sub(MOMENT, "MOMENT", line) for line in lines]


def on_a_host(first: Broker, properties: str, log: Path) -> tuple[int, list[str]]:
    """Return what it says as the role runs it: with the base packages, and the lines that this takes."""
    [taken] = re.findall(r"--grep=(.*)", (ROOT / "roles/kafka/tasks/doctor.yml").read_text())
    journal = "".join(line for line in log.read_text().splitlines(keepends=True) if re.search(taken, line))
    asked = ["doctor", "cluster", "--bootstrap-server", first.plaintext, properties, "--log", "-"]
    done = subprocess.run([*clients.BASE_ONLY, *asked], input=journal, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_doctor_lists_listener_clients_and_reports_protocol_mismatches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By connections of this machine, and by what a broker logs as the role lets it log."""
    logging = tmp_path / "log4j2.yaml"
    shutil.copy(ROOT / "roles/kafka/templates/log4j2.yaml.j2", logging)
    (tmp_path / "first").mkdir()
    with (
        broker.running(tmp_path / "first", jvm=(*QUICK, f"-Dlog4j2.configurationFile={logging}")) as first,
        ExitStack() as stack,
    ):
        options = [f"--properties={tmp_path}/first/server.properties", f"--log={tmp_path}/first/broker.log"]
        sasl, tls, plaintext = (int(each.split(":")[1]) for each in (first.sasl, first.tls, first.plaintext))
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", sasl)))
        report = tmp_path / "report.json"
        code, said = doctor(first, capsys, *options, f"--report={report}")
        *listening, last = said
        assert (code, last) == (0, "Nothing is wrong.")
        assert f"Listener SASL (SASL_SSL, port {sasl}): 3 connections from 127.0.0.1 (3)." in listening
        assert f"Listener SSL (SSL, port {tls}): 0 connections." in listening
        assert len(listening) == 4
        assert json.loads(report.read_text())["listeners"] == listening

        trust = {"ssl_ca_location": str(first.authority.certificate)}
        with socket.create_connection(("127.0.0.1", tls)) as probe:
            probe.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert probe.recv(100), "an alert of TLS"
        assert doctor(first, capsys, *options)[0] == 0, "a probe is no client that waits"
        with ThreadPoolExecutor() as together:
            coming = [
                together.submit(clients.refused, first.tls, TIMES),
                together.submit(clients.refused, first.plaintext, TIMES, security_protocol="ssl", **trust),
                together.submit(clients.refused, first.sasl, TIMES, security_protocol="ssl", **trust),
            ]
            for each in coming:
                each.result()
        mismatch = "[client-protocol-mismatch] "

        def all_are_reported() -> bool:  # a client knows of its refusal before the broker logs it
            nonlocal code, said
            code, said = on_a_host(first, options[0], tmp_path / "first/broker.log")
            return sum(line.startswith(mismatch) for line in said) == 3

        clients.wait_for("all mismatches", all_are_reported)
        assert code == 3
        as_in_guide = {f"SSL (SSL, port {tls})": "CLIENT (SSL, port 9092)", "127.0.0.1": "10.0.0.9"}
        [client] = [line for line in said if line.startswith(mismatch) and f" SSL (SSL, port {tls})" in line]
        for here, there in as_in_guide.items():
            client = client.replace(here, there)
        assert re.sub(r"\([\d,]+\)", "(118)", client) in GUIDE.read_text().splitlines()
        found = [
            re.sub(r"127\.0\.0\.1 \([\d,]+\)", "HERE", line) for line in said if line.startswith(mismatch)
        ]
        facts = (
            (f"PLAINTEXT (PLAINTEXT, port {plaintext})", "TLS", "security.protocol=PLAINTEXT"),
            (f"SSL (SSL, port {tls})", "failed TLS handshakes", "security.protocol=SSL"),
            (f"SASL (SASL_SSL, port {sasl})", "SASL login", "security.protocol=SASL_SSL"),
        )
        for line, (listener, fault, remedy) in zip(found, facts, strict=True):
            assert f" {listener}" in line
            assert ": HERE. " in line
            assert fault in line
            assert remedy in line


def test_broker_unreachable_at_advertised_address_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first failure of each broker is reported at once, while the command goes on."""
    (tmp_path / "first").mkdir()
    with broker.running(tmp_path / "first") as first:
        (shut,) = free_ports(1)
        advertised = {2: "nobody.invalid:9092", 3: f"127.0.0.1:{shut}"}
        with ExitStack() as stack:
            for node, at in advertised.items():
                stack.enter_context(
                    broker.joining(first, node, tmp_path / str(node), advertised=at).running()
                )
            remedy = (
                "Correct advertised.listeners of the broker, or correct DNS, firewalls or TLS settings "
                "between this host and the broker."
            )
            reasons = {2: "the host name cannot be resolved", 3: "the connection was refused"}
            expected = [
                f"[broker-address-unreachable] Broker {node} does not answer at its advertised address "
                f"{advertised[node]} ({why}). {remedy}"
                for node, why in reasons.items()
            ]
            clients.wait_for(
                f"{expected}, and no other finding", lambda: doctor(first, capsys) == (3, expected)
            )
            monkeypatch.setattr(addresses, "_reached", set())  # as in a new process
            monkeypatch.setattr(addresses, "_reported", {})
            assert cli.main(["doctor", "cluster", "--bootstrap-server", first.plaintext]) == 3
            said = capsys.readouterr()
            assert {*said.out.splitlines()} >= {*expected}
            for node, why in reasons.items():
                where = f"Broker {node} cannot be reached at its advertised address {advertised[node]}"
                assert f"{where}: {why}" in said.err
