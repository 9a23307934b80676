"""A broker that cannot be reached at its advertised address: every verb identifies both."""

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kit import clients
from kit.hanging_transactions import UNVERIFIED, hang
from kit.identifiers import printed
from kit.silent_address import silent_address

from aqueduct.cli import build_parser, main
from aqueduct.kafka import addresses, client_config, offsets, produce
from aqueduct.kafka import client as raw
from aqueduct.kafka.client_config import End
from aqueduct.mirror.reconcile import reader
from servers import broker
from servers.broker import Broker
from servers.process import free_ports

# Options by which a verb gets its brokers: the last one is that of reconcile.
BROKERS = {"--bootstrap-server", "--source-bootstrap-server", "--target-bootstrap-server"}
ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = "nobody.invalid:9092"
SOURCE_AND_TARGET = ("--source-bootstrap-server", "{at}", "--target-bootstrap-server", "{at}")
# A verb, with an option that makes another one of it.
VERBS = {
    "backup": ("--store", "file://{tmp}/store", "--topics", "t"),
    "doctor cluster": (),
    "health": (),
    "land status": ("--declarations", "{tables}", "--location", "file://{tmp}/lake"),
    "land": ("--declarations", "{tables}", "--location", "file://{tmp}/lake", "--until-caught-up"),
    "dlq replay": ("--dlq", "dlq"),
    "transactions find-hanging": (),
    "transactions finish": (),
    "restore": ("--store", "file://{kept}/store", "--topics", "t:u"),
    "restore --groups-only": ("--store", "file://{kept}/store"),
    "restore --mirror": ("--store", "file://{kept}/store", "--topics", "t", "--mirror", "m={at}"),
    "drill": ("--store", "file://{kept}/store"),
    "dedup": ("--raw-topics", "t", "--gap-topic", "gaps", "--until-caught-up"),
    "diode create": ("--topic", "gaps"),
    "diode lost": ("--topic", "gaps"),
    "diode resend": (
        *("--topic", "t", "--partition", "0", "--offset-from", "0", "--offset-to", "1", "--mtu", "1500"),
        *("--target-ip", "127.0.0.1", "--group-id", "up", "--from", "2026-01-01T00:00:00Z"),
        *("--public-key-file", "{kept}/down.pub", "--signing-key-file", "{kept}/up.key"),
    ),
    "dlq list": ("--dlq", "dlq"),
    "dlq show": ("--dlq", "dlq"),
    "doctor connect": ("--worker-config", "{kept}/worker", "--connector", "{kept}/sink", "--no-probe"),
    "groups": (),
    "replicate": ("--flow", "f", *SOURCE_AND_TARGET, "--topics-pattern", "t", "--until-caught-up"),
    "transactions abort": ("--topic", "t", "--partition", "0", "--start-offset", "0"),
    "transactions commit": ("--topic", "t", "--partition", "0", "--start-offset", "0"),
    "mirror": ("--flow", "m", *SOURCE_AND_TARGET),
    "mirror --before-start": ("--flow", "m", *SOURCE_AND_TARGET),
    "mirror --group": ("--flow", "m", *SOURCE_AND_TARGET, "--group", "g", "--topics-pattern", "t"),
    "switch": ("--flow", "m", *SOURCE_AND_TARGET, "--to", "batches", "--topics-pattern", "t"),
    "repair plan": ("--inspection", "{kept}/look"),
    "repair assign": ("--inspection", "{kept}/look"),
    "repair elect": ("--inspection", "{kept}/look"),
    "quorum check": ("--inspection", "{kept}/look", "--seed", "{kept}/seed"),
    "reconcile": ("--source-bootstrap-server", "{at}", "--target-bootstrap-server", "{at}", "--topics", "t"),
}
# Verbs and options with brokers of which one drops packets.
DROPPED = {
    "backup": ("--store", "file://{tmp}/store", "--topics", "away"),
    "restore": ("--store", "file://{kept}/store", "--topics", "spread:spread-again"),
    "land": ("--declarations", "{tables}", "--location", "file://{tmp}/lake", "--until-caught-up"),
    "replicate": (
        *("--flow", "f", *SOURCE_AND_TARGET, "--topics-pattern", "away", "--target-prefix", "copy."),
        *("--first-start", "--until-caught-up"),
    ),
    "mirror": ("--flow", "m", *SOURCE_AND_TARGET, "--group", "readers", "--topics-pattern", "away"),
}
SERVICES = {
    "upstream": {"topic": "t", "targetIP": "127.0.0.1", "publicKeyFile": "down.pub"}
    | {"signingKeyFile": "up.key", "groupID": "up"},
    "downstream": {"rawTopic": "t", "targetIP": "127.0.0.1", "privateKeyFiles": "down.key"}
    | {"senderPublicKeyFile": "up.pub", "stateDir": "."},
}


def keep(started: Broker, directory: Path) -> None:
    """Keep in files what verbs need that begin with something which was made before."""
    clients.produce(started, "t", range(3))
    clients.set_position(started, "readers", "t", 0)
    store = ("--store", f"file://{directory}/store")
    assert main(["backup", "--bootstrap-server", started.plaintext, *store, "--topics", "t"]) == 0
    for name, verb in {"look": "repair inspect", "copy": "quorum copy"}.items():
        with (directory / name).open("w") as file, redirect_stdout(file):
            assert main([*verb.split(), "--data-folder", str(directory / "data")]) == 0
    (directory / "worker").write_text("bootstrap.servers=localhost:9092\ngroup.id=connect\n")
    (directory / "sink").write_text("name=sink\nconnector.class=FileStreamSink\ntopics=t\n")
    for kind, name in (("receiver", "down"), ("sender", "up")):
        assert main(["diode", "keygen", "--kind", kind, "--out", str(directory), "--name", name]) == 0
    made = ["--copy", str(directory / "copy"), "--inspection", str(directory / "look"), "--seed"]
    assert main(["quorum", "plan", *made, str(directory / "seed")]) in (0, 3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the broker, and of what is kept of it."""
    return tmp_path_factory.mktemp("unresolvable")


@pytest.fixture(scope="module")
def unresolvable(directory: Path) -> Iterator[Broker]:
    """Yield a broker with a topic, restarted with a wrong address."""
    with broker.running(directory) as started:
        clients.create(started, "t", 1)
        keep(started, directory)
        started.process.kill()
        with (directory / "server.properties").open("a") as properties:
            properties.write(f"advertised.listeners=PLAINTEXT://{UNKNOWN}\n")
        started.process.start()
        yield started


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which addresses this process has reached and reported."""
    monkeypatch.setattr(addresses, "_reached", set())
    monkeypatch.setattr(addresses, "_reported", {})


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verbs wait shorter for answers that do not come."""
    monkeypatch.setattr(addresses, "UNREACHED_SECONDS", 0.3)
    monkeypatch.setattr(reader, "OFFSETS_SECONDS", 5)
    monkeypatch.setattr(reader, "STALL_SECONDS", 5)


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each command, with its options."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield name, {option for action in parser._actions for option in action.option_strings}
    for action in nested:
        for command, of_command in action.choices.items():
            yield from commands(of_command, f"{name} {command}".strip())


def test_all_verbs_that_talk_to_brokers_are_tested() -> None:
    talking = {name for name, options in commands(build_parser()) if options & BROKERS}
    tested = {verb.partition(" --")[0] for verb in VERBS} | {f"diode {end}" for end in SERVICES}
    assert talking - tested == set()


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_identify_the_address(
    unresolvable: Broker, directory: Path, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = tmp_path / "tables.yml"
    tables.write_text("- {table: lake.t, topics: [t], columns: [{name: n, type: int}]}\n")
    at = unresolvable.plaintext
    places = {"tables": tables, "tmp": tmp_path, "kept": directory, "at": at}
    options = [each.format(**places) for each in VERBS[verb]]
    if not BROKERS.intersection(options):
        options += ["--bootstrap-server", at]
    name, mode = verb.partition(" --")[::2]
    options += [f"--{mode}"] if mode and f"--{mode}" not in options else []
    code = main([*name.split(), *options])
    said = capsys.readouterr()
    assert code in (1, 3), said
    warning, *_ = (line for line in said.err.splitlines() if printed(line))
    assert printed(warning) == ["broker-address-unreachable"]
    assert f"Broker 1 cannot be reached at its advertised address {UNKNOWN}: the host name" in warning
    assert UNKNOWN in (said.out + said.err).replace(warning, "", 1)


@pytest.mark.parametrize("end", SERVICES)
def test_both_ends_of_a_link_identify_the_address(unresolvable: Broker, end: str, tmp_path: Path) -> None:
    for kind, name in (("receiver", "down"), ("sender", "up")):
        assert main(["diode", "keygen", "--kind", kind, "--out", str(tmp_path), "--name", name]) == 0
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    given = SERVICES[end] | {"link": "7", "targetPort": str(port), "mtu": "1500"}
    given["bootstrapServers"] = unresolvable.plaintext
    options = [f"--{name}={value}" for name, value in given.items()]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "aqueduct.cli", "diode", end, *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )
    try:
        clients.wait_for("the address", lambda: UNKNOWN in (tmp_path / "log").read_text())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nobody.invalid:9092/2: Failed to resolve 'nobody.invalid:9092': Name or service not known",
            (2, "nobody.invalid:9092", "the host name cannot be resolved"),
        ),
        (
            "sasl_ssl://[::1]:9092/3: Connect to ipv6#[::1]:9092 failed: Connection refused (after 0ms)",
            (3, "[::1]:9092", "the connection was refused"),
        ),
        ("b:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused", None),
        ("ssl://b:9092/1: SSL handshake failed: certificate verify failed", None),
        ("1/1 brokers are down", None),
    ],
)
def test_librdkafka_errors_are_understood(text: str, expected: tuple[int, str, str] | None) -> None:
    assert addresses.unreachable(text) == expected


@pytest.fixture(scope="module")
def half_silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """Yield the first of two brokers, and the address of the second one, which drops packets.

    On the first one, the topic `here` has a hanging transaction. The second one leads the topic `away`, and a
    partition of `spread`; both are in a backup beside the first one's data.
    """
    directory, of_second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    with silent_address() as silent, broker.running(directory, settings=UNVERIFIED) as first:
        clients.produce(first, clients.create(first, "here"), range(2))
        clients.set_position(first, "readers", "here", 2)
        with raw.connect(End("cluster", first.plaintext), "test") as client:
            hang(client, first, "here", "shop")
        asked = clients.admin(first)
        # With its own address at first: a client may ask any broker to create a topic.
        with broker.joining(first, 2, of_second).running():
            asked.create_topics([NewTopic("away", 1, replica_assignment=[[2]])])["away"].result()
            asked.create_topics([NewTopic("spread", 2, replica_assignment=[[1], [2]])])["spread"].result()
            clients.wait_for("its leader", lambda: clients.led(asked, "away", 1))
            clients.wait_for("other leaders", lambda: clients.led(asked, "spread", 2))
            clients.produce(first, "away", range(3))
            for partition in (0, 1):
                clients.produce(first, "spread", range(3), partition)
            store = ("--store", f"file://{directory}/store", "--topics", "away,spread")
            assert main(["backup", "--bootstrap-server", first.plaintext, *store]) == 0
        with broker.joining(first, 2, of_second, advertised=silent).running():
            clients.wait_for("its leader", lambda: clients.led(clients.admin(first), "away", 1))
            yield first, silent


@pytest.mark.parametrize("verb", ["doctor cluster", "transactions find-hanging", "transactions finish"])
def test_unreachable_broker_is_reported_and_others_are_searched(
    half_silent: tuple[Broker, str], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One broker's advertised address drops packets, so a client gets no answer there."""
    first, silent = half_silent
    assert main([*verb.split(), "--bootstrap-server", first.plaintext]) == 3
    said = capsys.readouterr()
    warning, *_ = (line for line in said.err.splitlines() if printed(line))
    assert printed(warning) == ["broker-address-unreachable"]
    assert (
        f"Broker 2 cannot be reached at its advertised address {silent}: the connection timed out"
    ) in warning
    assert "here-0 has a hanging transaction" in said.out
    assert "group readers" in said.out
    assert (silent if verb == "doctor cluster" else "away-0") in said.out  # what is not known


def test_comparison_reports_an_address_that_drops_packets(
    half_silent: tuple[Broker, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, silent = half_silent
    monkeypatch.setattr(client_config, "CONNECTION_SETUP_MILLISECONDS", 2_000)
    at_both = ["--source-bootstrap-server", first.plaintext, "--target-bootstrap-server", first.plaintext]
    assert main(["reconcile", *at_both, "--topics", "away"]) == 1
    said = capsys.readouterr().err
    warning, *_ = (line for line in said.splitlines() if printed(line))
    assert printed(warning) == ["broker-address-unreachable"]
    assert (
        f"Broker 2 cannot be reached at its advertised address {silent}: the connection timed out"
    ) in warning
    assert silent in said.replace(warning, "", 1)
    for limit in ("OFFSETS_SECONDS", "STALL_SECONDS"):
        monkeypatch.setattr(reader, limit, 400)
    assert main(["reconcile", *at_both, "--topics", "here"]) == 0


@pytest.mark.parametrize("verb", DROPPED)
def test_verbs_report_address_that_drops_packets(
    half_silent: tuple[Broker, str],
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The warning comes with the first failure, before the verb ends with what it could not do."""
    first, silent = half_silent
    monkeypatch.setattr(addresses, "CONNECT_MILLISECONDS", 2_000)
    monkeypatch.setattr(raw, "STALL_SECONDS", 5)
    monkeypatch.setattr(offsets, "STALL_SECONDS", 5)
    monkeypatch.setattr(produce, "RETRY_SECONDS", 5)
    tables = tmp_path / "tables.yml"
    tables.write_text("- {table: lake.t, topics: [away], columns: [{name: n, type: int}]}\n")
    places = {"tables": tables, "tmp": tmp_path, "kept": first.data.parent, "at": first.plaintext}
    options = [option.format(**places) for option in DROPPED[verb]]
    if not BROKERS.intersection(options):
        options += ["--bootstrap-server", first.plaintext]
    code = main([verb, *options])
    said = capsys.readouterr()
    assert code in (1, 3), said
    warning, *_ = (line for line in said.err.splitlines() if printed(line))
    assert printed(warning) == ["broker-address-unreachable"]
    assert (
        f"Broker 2 cannot be reached at its advertised address {silent}: the connection timed out" in warning
    )
    assert silent in (said.out + said.err).replace(warning, "", 1), said
