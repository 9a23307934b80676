"""An ensemble with the role's settings: its quorum by TLS, who may change its tree, and what modules say."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kit.ensembles import await_refusal, data_of, let_in, module, ready, start, stop
from kit.identifiers import assert_printed

from aqueduct.cli import main
from aqueduct.estate.zookeeper import Server, connect
from servers import zookeeper
from servers.pki import Authority
from servers.process import Process

CLUSTER = "Mk3OEYBSD34fcwNTJENDM2"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "own")


@pytest.fixture(scope="module")
def servers(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Server, Process]]:
    with zookeeper.estates_ensemble(tmp_path_factory.mktemp("ensemble"), authority) as started:
        for server in started:
            assert not ready(started, authority, server, every=True).get("failed")
        yield started


@pytest.fixture(scope="module")
def configs(authority: Authority) -> Mapping[str, Path]:
    """Client properties, by principal."""
    return {name: authority.client_config(name) for name in ("zookeeper-old", "kafka-old", "stranger")}


@pytest.mark.long
def test_servers_find_a_quorum_and_outlive_their_leader(
    servers: Mapping[Server, Process], authority: Authority, configs: Mapping[str, Path]
) -> None:
    modes = {server: ready(servers, authority, server, every=True)["mode"] for server in servers}
    assert sorted(modes.values()) == ["follower", "follower", "leader"]
    leader = next(server for server, mode in modes.items() if mode == "leader")
    others = [server for server in servers if server != leader]
    client = start(connect([others[0]]), configs["kafka-old"])
    client.create("/kept", b"by most")
    servers[leader].kill()
    try:
        found = {server: ready(servers, authority, server) for server in others}
        assert sorted(said["mode"] for said in found.values()) == ["follower", "leader"]
        assert all(said["silent"] == [leader.address] for said in found.values())
        assert all(leader.address in str(said["warnings"]) for said in found.values())
        missed = ready(servers, authority, others[0], every=True, timeout_seconds=1)
        assert missed["failed"]
        assert f"{leader.address} is not ready" in missed["msg"]
        assert data_of(client, "/kept") == b"by most"
    finally:
        stop(client)
        servers[leader].start()
    assert ready(servers, authority, leader, every=True)["mode"] == "follower"


def test_a_stranger_is_none_of_the_quorum(
    servers: Mapping[Server, Process], authority: Authority, tmp_path: Path
) -> None:
    """Neither without a certificate, nor with one of any authority; test_quorum_keys has the control."""
    [first, *_] = servers
    await_refusal(first.election_port, authority.issue("another-service"))
    stranger = Authority(tmp_path / "stranger")
    for key in (None, stranger.issue("zookeeper-old")):
        await_refusal(first.election_port, key)
        await_refusal(first.port, key)


def test_the_control_of_that_is_let_in(servers: Mapping[Server, Process], authority: Authority) -> None:
    [first, *_] = servers
    key = authority.issue("zookeeper-old-too")
    assert let_in(first.port, key)


def test_znodes_belong_to_owners_from_the_start(
    servers: Mapping[Server, Process], configs: Mapping[str, Path]
) -> None:
    asked = {
        "connect": connect([*servers]),
        "client_config": str(configs["zookeeper-old"]),
        "owners": ["CN=kafka-old"],
    }
    first = module("zookeeper_owners", **asked)
    assert first["znodes"] == ["/", "/zookeeper", "/zookeeper/quota"], first
    assert module("zookeeper_owners", **asked)["changed"] is False
    clients_of = {name: start(connect([*servers]), path) for name, path in configs.items()}
    try:
        for path in ("/mine", "/zookeeper/mine", "/zookeeper/quota/mine"):
            with pytest.raises(NoAuthError):
                clients_of["stranger"].create(path)
        assert "zookeeper" in clients_of["stranger"].get_children("/")
        clients_of["kafka-old"].create("/of-brokers")
        clients_of["zookeeper-old"].delete("/of-brokers")
    finally:
        for client in clients_of.values():
            stop(client)
    failed = module(
        "zookeeper_owners", **{**asked, "client_config": str(configs["stranger"]), "owners": ["CN=stranger"]}
    )
    assert failed["failed"]
    assert "[zookeeper-access-refused] " in failed["msg"]


@pytest.fixture
def folder(
    servers: Mapping[Server, Process], configs: Mapping[str, Path], tmp_path: Path
) -> Iterator[tuple[Path, KazooClient, dict[str, Any]]]:
    """A data folder of broker 12, a client in a chroot of the test's own, and what a broker is asked with."""
    chroot = f"/{tmp_path.name}"
    client = start(connect([*servers]) + chroot, configs["zookeeper-old"])
    client.create("/cluster/id", json.dumps({"version": "1", "id": CLUSTER}).encode(), makepath=True)
    client.ensure_path("/brokers/ids")
    log = tmp_path / "log"
    log.mkdir()
    write_meta(log)
    asked = {
        "folders": [str(log)],
        "node_id": 12,
        "zookeeper": connect([*servers]) + chroot,
        "client_config": str(configs["kafka-old"]),
    }
    yield log, client, asked
    stop(client)


def write_meta(log: Path, broker: int = 12, cluster: str = CLUSTER) -> None:
    (log / "meta.properties").write_text(f"version=0\nbroker.id={broker}\ncluster.id={cluster}\n")


Folder = tuple[Path, KazooClient, dict[str, Any]]


def judged(asked: Mapping[str, Any]) -> str:
    """Return why the role refuses to go on with a broker, as it asks; empty if it goes on."""
    properties = Path(asked["folders"][0]).with_name("judged.properties")
    properties.write_text(
        f"broker.id={asked['node_id']}\nzookeeper.connect={asked['zookeeper']}\n"
        f"log.dirs={','.join(asked['folders'])}\nlisteners=CLIENT://not-yet:9092\n"
    )
    command = [sys.executable, "-m", "aqueduct.cli", "doctor", "broker", "--running"]
    command += [f"--properties={properties}", f"--command-config={asked['client_config']}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout if done.returncode else ""


def test_fitting_or_new_data_folder_is_accepted(folder: Folder) -> None:
    log, _, asked = folder
    assert judged(asked) == ""
    (log / "meta.properties").unlink()
    assert judged(asked) == ""
    unmade = {**asked, "zookeeper": f"{asked['zookeeper']}/not-made-yet"}
    assert judged(unmade) == ""


def test_folder_of_other_broker_or_cluster_is_refused(folder: Folder) -> None:
    log, client, asked = folder
    write_meta(log, broker=13)
    assert "broker 13, but this host is configured as broker 12." in judged(asked)
    write_meta(log, cluster="AnotherClusterThatWas1")
    assert f"belongs to the cluster {CLUSTER}. Use the data folder of this host" in judged(asked)
    write_meta(log)
    client.delete("/cluster/id")
    lost = judged(asked)
    assert "contains no cluster. Restore its znodes first (aqueduct zookeeper restore)" in lost


def test_logs_that_nobody_owns_are_refused(folder: Folder) -> None:
    log, _, asked = folder
    (log / "meta.properties").unlink()
    (log / "flights-3").mkdir()
    (log / "lost+found").mkdir()
    sentence = f"{log} contains logs (1, for example flights-3) but no meta.properties"
    assert judged(asked).startswith(f"[broker-cannot-start] {sentence}")
    write_meta(log)
    assert judged(asked) == ""


def test_new_host_cannot_take_id_of_running_broker(folder: Folder) -> None:
    log, client, asked = folder
    (log / "meta.properties").unlink()
    there = {"endpoints": ["CLIENT://old-kafka-9:9092"]}
    client.create("/brokers/ids/12", json.dumps(there).encode(), ephemeral=True)
    assert_printed(judged(asked), "broker-cannot-start", "Broker 12", "CLIENT://old-kafka-9:9092")
    write_meta(log)  # it is that broker itself
    assert judged(asked) == ""


def test_doctor_checks_broker_folder_and_id_before_start(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, client, asked = folder
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"broker.id=12\nzookeeper.connect={asked['zookeeper']}\nlog.dirs={log}, {log}-new\n"
    )
    command = ["doctor", "broker", f"--properties={properties}", f"--command-config={asked['client_config']}"]

    def said() -> tuple[int, str]:
        code = main(command)
        told = capsys.readouterr()
        return code, told.out + told.err

    assert said() == (0, "Nothing is wrong.\n")
    # Another host has a copy of the folder; this one is told by where it is.
    there = {"endpoints": ["CLIENT://Old-Kafka-9:9092", "MORE://old-kafka-9:9094"]}
    client.create("/brokers/ids/12", json.dumps(there).encode(), ephemeral=True)
    start = properties.read_text()
    for more, code in (
        ("advertised.listeners=CLIENT://old-kafka-8:9092\n", 3),
        ("listeners=CLIENT://old-kafka-9:9095\n", 3),
        ("listeners=CLIENT://:9095\n", 3),
        ("listeners=CLIENT://0.0.0.0:9092\nadvertised.listeners=CLIENT://old-kafka-9:9092\n", 0),
        ("listeners=CLIENT://:9095, MORE://:9094\n", 0),
        ("", 0),
    ):
        properties.write_text(start + more)
        assert said()[0] == code, more
        if code:
            assert "Broker 12 runs at CLIENT://Old-Kafka-9:9092, MORE://old-kafka-9:9094, but" in said()[1]
    client.delete("/brokers/ids/12")
    client.delete("/cluster/id")
    code, told = said()
    assert code == 3
    assert "contains no cluster. Restore its znodes first (aqueduct zookeeper restore)" in told
    (log / "meta.properties").unlink()
    assert said() == (0, "Nothing is wrong.\n")
    properties.write_text(f"node.id=12\nlog.dirs={log}\n")
    assert said() == (
        2,
        f"aqueduct: [broker-properties-invalid] {properties} is not server.properties of a broker with "
        "ZooKeeper: it lacks zookeeper.connect, log.dirs, or a number as its broker.id.\n",
    )
