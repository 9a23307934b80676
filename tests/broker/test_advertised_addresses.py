"""A broker that cannot be reached at its advertised address: every verb identifies both."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import clients
import pytest
from identifiers import printed

from aqueduct.cli import main
from aqueduct.kafka import addresses
from servers import broker
from servers.broker import Broker
from servers.process import free_ports

UNKNOWN = "nobody.invalid:9092"
VERBS = {
    "backup": ("--store", "file://{tmp}/store", "--topics", "t"),
    "doctor cluster": (),
    "health": (),
    "land status": ("--declarations", "{tables}", "--location", "file://{tmp}/lake"),
    "land": ("--declarations", "{tables}", "--location", "file://{tmp}/lake", "--until-caught-up"),
    "dlq replay": ("--dlq", "dlq"),
    "transactions find-hanging": (),
}


@pytest.fixture(scope="module")
def unresolvable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker with a topic, restarted with a wrong address."""
    directory = tmp_path_factory.mktemp("unresolvable")
    with broker.running(directory) as started:
        clients.create(started, "t", 1)
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


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_identify_the_address(
    unresolvable: Broker, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = tmp_path / "tables.yml"
    tables.write_text("- {table: lake.t, topics: [t], columns: [{name: n, type: int}]}\n")
    options = (each.format(tables=tables, tmp=tmp_path) for each in VERBS[verb])
    code = main([*verb.split(), "--bootstrap-servers", unresolvable.plaintext, *options])
    said = capsys.readouterr()
    assert code in (1, 3), said
    warning, *_ = said.err.splitlines()
    assert printed(warning) == ["broker-address-unreachable"]
    assert f"Broker 1 cannot be reached at its advertised address {UNKNOWN}: the host name" in warning
    assert UNKNOWN in (said.out + said.err).replace(warning, "", 1)


def test_reconcile_identifies_the_address(unresolvable: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    at = unresolvable.plaintext
    # librdkafka may have its answers by the connection with which it began: the comparison succeeds, then.
    main(["reconcile", "--source", at, "--target", at, "--topics", "t"])
    assert UNKNOWN in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nobody.invalid:9092/2: Failed to resolve 'nobody.invalid:9092': Name or service not known",
            (2, "nobody.invalid:9092", "the host name is unknown"),
        ),
        (
            "sasl_ssl://[::1]:9092/3: Connect to ipv6#[::1]:9092 failed: Connection refused (after 0ms)",
            (3, "[::1]:9092", "the connection is refused"),
        ),
        ("b:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused", None),
        ("ssl://b:9092/1: SSL handshake failed: certificate verify failed", None),
        ("1/1 brokers are down", None),
    ],
)
def test_librdkafka_errors_are_understood(text: str, expected: tuple[int, str, str] | None) -> None:
    assert addresses.unreachable(text) == expected


def test_first_failure_is_reported_while_others_are_retried(tmp_path: Path) -> None:
    """Of two brokers one is unreachable: the verb goes on trying, and its first line says which one."""
    (tmp_path / "first").mkdir()
    (shut,) = free_ports(1)
    with (
        broker.running(tmp_path / "first") as first,
        broker.joining(first, 2, tmp_path / "2", advertised=f"127.0.0.1:{shut}").running(),
    ):
        command = [sys.executable, "-m", "aqueduct.cli", "doctor", "cluster"]
        done = subprocess.run(
            [*command, "--bootstrap-servers", first.plaintext],
            capture_output=True,
            text=True,
            env=dict(os.environ),
            check=False,
        )
    assert done.returncode == 3
    assert f"Broker 2 cannot be reached at its advertised address 127.0.0.1:{shut}: the conn" in done.stderr
    assert f"127.0.0.1:{shut}" in done.stdout
