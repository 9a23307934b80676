"""Who is let into the quorum of an ensemble: its servers, and no other certificate of the authority.

The intruder is a ZooKeeper that the authority has given a certificate for the same host, as each host of an
estate has one. As an observer it would get the whole tree, with what only brokers may read, and its clients
could write everything: a leader trusts an observer's word for who they are.
"""

import base64
import getpass
import hashlib
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl
from kit import clients, plugin_modules
from kit.ensembles import await_refusal, data_of, module, start, stop

from aqueduct.estate.zookeeper import Server, connect
from servers import zookeeper
from servers.pki import Authority
from servers.process import Process, free_ports
from servers.zookeeper import quorum_keys, trust_each_other

SECRET = b"a salted password of a user"
# The intruder's own word for who its client is.
SUPER = "super:of the intruder"
SUPER_DIGEST = f"super:{base64.b64encode(hashlib.sha1(SUPER.encode()).digest()).decode()}"  # noqa: S324
READY = plugin_modules.load("zookeeper_ready")  # called without a process each time
BROKER = [make_acl("x509", "CN=kafka-old", all=True)]
OBSERVER = """
tickTime=2000
initLimit=10
syncLimit=5
dataDir={home}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
peerType=observer
quorumListenOnAllIPs=true
sslQuorum=true
ssl.quorum.clientAuth=need
ssl.quorum.keyStore.location={key}
ssl.quorum.keyStore.type=PEM
ssl.quorum.trustStore.location={trusted}
ssl.quorum.trustStore.type=PEM
server.9=127.0.0.1:{quorum}:{election}:observer
"""


@dataclass(frozen=True)
class Ensemble:
    """Servers as an estate's role has them, with their folders and processes."""

    homes: dict[Server, Path]
    processes: dict[Server, Process]
    authority: Authority

    @property
    def servers(self) -> list[Server]:
        return [*self.homes]

    @property
    def connect(self) -> str:
        return connect(self.servers)

    def wait(self) -> dict[str, str]:
        """Wait until every server serves and one leads, and return the mode of each address."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(self.authority.issue("asking"))
        addresses = [server.address for server in self.servers]
        asked = {"own": addresses[0], "servers": addresses, "every": True}

        def serving() -> dict[str, str] | None:
            modes, wrong = READY.look(asked, context)
            return None if wrong else modes

        modes: dict[str, str] = clients.wait_for("servers that serve", serving)
        return modes

    def restart(self, server: Server) -> None:
        """Restart a server, and wait until all serve."""
        self.processes[server].stop()
        self.processes[server].start()
        self.wait()

    def leader(self) -> Server:
        modes = self.wait()
        return next(each for each in self.servers if modes[each.address] == "leader")


@contextmanager
def ensemble(directory: Path, authority: Authority, *, former: bool = False) -> Iterator[Ensemble]:
    """Yield three servers that serve; `former`: as the role had them, which trusted the authority."""
    servers = [
        Server(
            host=f"host-{n}",
            server_id=n,
            name="127.0.0.1",
            port=port,
            quorum_port=quorum_port,
            election_port=election_port,
        )
        for n, (port, quorum_port, election_port) in enumerate((free_ports(3) for _ in range(3)), start=1)
    ]
    homes = {server: directory / str(server.server_id) for server in servers}
    for server, home in homes.items():
        zookeeper.configure(server, servers, home, authority)
        if former:
            text = (home / "zoo.cfg").read_text()
            text = text.replace(str(home / "quorum/own.pem"), str(home / "service.pem"))
            text = text.replace(str(home / "quorum/trusted.pem"), str(authority.certificate))
            former_text = text.replace("sslQuorumReloadCertFiles=true\n", "")
            assert former_text != text
            (home / "zoo.cfg.new").write_text((home / "zoo.cfg").read_text())
            (home / "zoo.cfg").write_text(former_text)
            (home / "quorum/own.pem").unlink()
    if not former:
        trust_each_other(homes.values())
    with ExitStack() as stack:
        processes = {
            server: stack.enter_context(zookeeper.server_process(home).running())
            for server, home in homes.items()
        }
        found = Ensemble(homes, processes, authority)
        found.wait()
        yield found


@contextmanager
def observer(home: Path, key: str, victims: Sequence[Server], trusted: str) -> Iterator[tuple[Path, int]]:
    """Yield the folder and the port of a ZooKeeper that tries to observe the ensemble with this key."""
    home.mkdir()
    (home / "key.pem").write_text(key)
    (home / "trusted.pem").write_text(trusted)
    (home / "myid").write_text("9\n")
    port, quorum, election = free_ports(3)
    where = {"home": home, "key": home / "key.pem", "trusted": home / "trusted.pem"}
    text = OBSERVER.format(**where, port=port, quorum=quorum, election=election)
    (home / "zoo.cfg").write_text(
        text + "".join(f"server.{each.server_id}={each.peer}\n" for each in victims)
    )
    own_super = f"-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"
    command = zookeeper.java(
        "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg"), jvm=(own_super,)
    )
    with Process(command, home / "log", lambda: True).running():
        yield home, port


def observes(port: int) -> bool:
    return "Mode: observer" in zookeeper.said(port)


def is_refused(home: Path, victims: Sequence[Server]) -> bool:
    """Return whether each server has closed a connection of an observer to its election port."""
    refused = re.findall(r"Cannot open channel to (\d+) at election address", (home / "log").read_text())
    return {*refused} == {str(each.server_id) for each in victims}


def has_secret(home: Path) -> bool:
    contents = []
    for path in (home / "version-2").rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # ZooKeeper renames temporary files
            contents.append(path.read_bytes())
    return any(SECRET in content for content in contents)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    home = tmp_path_factory.mktemp("attacked")
    with ensemble(home / "ensemble", Authority(home / "pki")) as started:
        yield started


def test_another_certificate_of_the_authority_observes_nothing(attacked: Ensemble, tmp_path: Path) -> None:
    """The control is a key of the ensemble's own, with which the same program gets all."""
    authority = attacked.authority
    client = start(attacked.connect, authority.client_config("kafka-old"))
    client.create("/users", SECRET, acl=BROKER)
    stop(client)
    everybody = authority.certificate.read_text() + "".join(
        quorum_keys(home).certificates().used for home in attacked.homes.values()
    )
    captured = authority.issue("backup-pro1").read_text()
    with observer(tmp_path / "intruder", captured, attacked.servers, everybody) as (home, port):
        clients.wait_for("its end", lambda: observes(port) or is_refused(home, attacked.servers))
        assert not observes(port)
        assert not has_secret(home)
    leader = attacked.leader()
    for server in attacked.servers:
        await_refusal(server.election_port, home / "key.pem")
    await_refusal(leader.quorum_port, home / "key.pem")
    own = (attacked.homes[leader] / "quorum/own.pem").read_text()
    with observer(tmp_path / "control", own, attacked.servers, everybody) as (home, port):
        clients.wait_for("its mode", lambda: observes(port))
        clients.wait_for("the tree", lambda: has_secret(home))
        write_as_super(port, "/users", b"of the intruder")
    client = start(attacked.connect, authority.client_config("kafka-old"))
    assert data_of(client, "/users") == b"of the intruder"
    stop(client)


def write_as_super(port: int, path: str, data: bytes) -> None:
    """Write a znode through the intruder, as the super user that it alone knows."""
    client = KazooClient(f"127.0.0.1:{port}", auth_data=[("digest", SUPER)])
    client.start(clients.SECONDS)
    client.set(path, data)
    stop(client)


def switch(attacked: Ensemble, server: Server) -> None:
    """Take a server's new key, as the role does: the others are asked before whether they trust it."""
    said = module(
        "zookeeper_quorum_keys",
        folder=str(attacked.homes[server] / "quorum"),
        owner=getpass.getuser(),
        take=True,
        ask=[each.election_address for each in attacked.servers if each != server],
        timeout_seconds=300,
    )
    assert said.get("changed"), said


def test_running_servers_replace_keys_and_refuse_old_ones(attacked: Ensemble, tmp_path: Path) -> None:
    """Another authority has signed the new ones. After each of them a server restarts, and finds the others.

    The service's certificates have ended, as where no run of the playbook came in time: a quorum goes on.
    """
    authority, following = attacked.authority, Authority(tmp_path / "following")
    client = start(attacked.connect, authority.client_config("zookeeper-old"))
    client.create("/kept", b"as it was")
    former = {}
    for server, home in attacked.homes.items():
        former[server] = tmp_path / f"former-{server.server_id}.pem"
        former[server].write_text((home / "quorum/own.pem").read_text())
        (home / "service.new").write_bytes(following.issue("zookeeper-old", days=-1).read_bytes())
        assert quorum_keys(home).offer(home / "service.new", in_use=False)
    untrusted = attacked.servers[0]
    said = module(
        "zookeeper_quorum_keys",
        folder=str(attacked.homes[untrusted] / "quorum"),
        owner=getpass.getuser(),
        take=True,
        ask=[each.election_address for each in attacked.servers if each != untrusted],
        timeout_seconds=1,
    )
    assert said["failed"]
    assert "do not trust the new certificate of this server after 1 s" in said["msg"]
    trust_each_other(attacked.homes.values())
    for server in attacked.servers:
        switch(attacked, server)
        attacked.restart(server)
    trust_each_other(attacked.homes.values())
    for server in attacked.servers:
        for key in former.values():
            await_refusal(server.election_port, key)
    attacked.restart(attacked.leader())
    assert data_of(client, "/kept") == b"as it was"
    stop(client)


@pytest.mark.long
def test_ensemble_of_former_version_migrates_server_by_server(tmp_path: Path) -> None:
    """Until then, any certificate of the authority gets the tree, with what only brokers may read."""
    authority = Authority(tmp_path / "pki")
    with ensemble(tmp_path / "ensemble", authority, former=True) as attacked:
        captured = authority.issue("backup-pro1")
        client = start(attacked.connect, authority.client_config("kafka-old"))
        client.create("/users", SECRET, acl=BROKER)
        stop(client)
        with observer(
            tmp_path / "intruder", captured.read_text(), attacked.servers, authority.certificate.read_text()
        ) as (home, port):
            clients.wait_for("its mode", lambda: observes(port))
            clients.wait_for("the tree, which is the fault of those versions", lambda: has_secret(home))
        for home in attacked.homes.values():
            assert quorum_keys(home).offer(home / "service.pem", in_use=True)
        trust_each_other(attacked.homes.values(), authority.certificate.read_text())
        for server, home in attacked.homes.items():
            (home / "zoo.cfg.new").replace(home / "zoo.cfg")
            attacked.restart(server)
        for server in attacked.servers:
            switch(attacked, server)
        trust_each_other(attacked.homes.values())
        for server in attacked.servers:
            await_refusal(server.election_port, captured)
            attacked.restart(server)
