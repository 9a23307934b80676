"""Processes that are told to stop don't wait for a broker that answers nothing."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from kit.identifiers import raises

from aqueduct.cli import main
from aqueduct.errors import Failed
from aqueduct.kafka import client
from aqueduct.kafka.client import Stopped, connect
from aqueduct.kafka.client_config import End
from aqueduct.link import downstream, options, upstream
from aqueduct.link.options import Downstream, Upstream


@pytest.fixture
def silent() -> Iterator[End]:
    """Yield the end of a server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield End("source", f"127.0.0.1:{listening.getsockname()[1]}")


@pytest.fixture
def nobody() -> End:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return End("source", f"127.0.0.1:{closed.getsockname()[1]}")


@pytest.mark.parametrize("cluster", ["silent", "nobody"])
def test_a_stop_ends_the_waiting(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cluster: str
) -> None:
    monkeypatch.setattr(client, "STOP_SECONDS", 0.3)
    stopping, end = Event(), request.getfixturevalue(cluster)
    stop = Thread(target=lambda: stopping.wait(0.3) or stopping.set())
    stop.start()
    with raises(Stopped, "cluster-not-responding", end.bootstrap_servers), connect(end, "test", stopping):
        pass
    stop.join()


@pytest.mark.parametrize("cluster", ["silent", "nobody"])
def test_connection_attempt_without_stop_lasts_until_timeout(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cluster: str
) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 1)
    end = request.getfixturevalue(cluster)
    with (
        raises(Failed, "cluster-unreachable", end.bootstrap_servers, "1 s"),
        connect(end, "test", Event()),
    ):
        pass


def test_link_ends_stop_cleanly_while_broker_is_silent(
    silent: End,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Stop an end that has done nothing that must be done again: no failure."""
    monkeypatch.setattr(client, "STOP_SECONDS", 0.3)
    monkeypatch.setattr(logging.getLogger("aqueduct"), "propagate", True)
    for kind, name in (("receiver", "down"), ("sender", "up")):
        assert main(["diode", "keygen", "--kind", kind, "--out", str(tmp_path), "--name", name]) == 0
    stopping = Event()
    stopping.set()
    common = {"bootstrapServers": silent.bootstrap_servers, "targetIP": "127.0.0.1"}
    sending = {"topic": "t", "publicKeyFile": f"{tmp_path}/down.pub", "signingKeyFile": f"{tmp_path}/up.key"}
    receiving = {
        "rawTopic": "raw", "privateKeyFiles": f"{tmp_path}/down.key", "stateDir": str(tmp_path),
        "senderPublicKeyFile": f"{tmp_path}/up.pub",
    }  # fmt: skip
    upstream.run(options.build(Upstream, None, {}, common | sending, pytest.fail), stopping, pytest.fail)
    downstream.run(
        options.build(Downstream, None, {}, common | receiving, pytest.fail), stopping, pytest.fail
    )
    said = {record.name for record in caplog.records if "stopped answering" in record.message}
    assert said == {upstream.__name__, downstream.__name__}
