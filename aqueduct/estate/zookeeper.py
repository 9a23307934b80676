"""A site's ZooKeeper: its servers, where clients find them, and the settings that a server runs with.

Names of settings are those of ZooKeeper 3.8, which Kafka 3.9 brings. What it doesn't know by itself becomes a
property of the JVM with `zookeeper.` in front (QuorumPeerConfig.parseProperties).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqueduct.estate.model import Groups, HostVars, members, principal
from aqueduct.recovery.zookeeper.quorum_keys import KEY, TRUSTED

MAX_ID = 255  # of a server: 256 and more make sessions' ids of two servers the same


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server of an ensemble, by the name under which clients and other servers reach it."""

    host: str
    server_id: int
    name: str
    port: int
    quorum_port: int
    election_port: int

    @property
    def address(self) -> str:
        return f"{self.name}:{self.port}"

    @property
    def election_address(self) -> str:
        return f"{self.name}:{self.election_port}"

    @property
    def peer(self) -> str:
        """Return it as the others' settings name it."""
        return f"{self.name}:{self.quorum_port}:{self.election_port}"


def servers(groups: Groups, hostvars: HostVars, site: str, defaults: Mapping[str, Any]) -> tuple[Server, ...]:
    """Return a site's servers. `defaults`: the plain values of roles/zookeeper/defaults/main.yml."""
    return tuple(_server(host, hostvars[host], defaults) for host in members(groups, site, "zookeeper"))


def _server(host: str, variables: Mapping[str, Any], defaults: Mapping[str, Any]) -> Server:
    def port(name: str) -> int:
        return int(variables.get(name, defaults[name]))

    return Server(
        host=host,
        server_id=int(variables["zookeeper_id"]),
        name=variables.get("zookeeper_host") or host,
        port=port("zookeeper_port"),
        quorum_port=port("zookeeper_quorum_port"),
        election_port=port("zookeeper_election_port"),
    )


def connect(ensemble: Sequence[Server]) -> str:
    """Return `host:port,host:port`, as brokers and `aqueduct zookeeper` take it."""
    return ",".join(server.address for server in ensemble)


def owners(groups: Groups, hostvars: HostVars, site: str) -> list[str]:
    """Return whose certificate may change what a site's brokers keep there, as distinguished names."""
    hosts = members(groups, site, "kafka")
    named = [hostvars[host].get("kafka_principal") or principal("kafka", site) for host in hosts]
    return [f"CN={name}" for name in dict.fromkeys(named)]


def settings(
    server_id: int,
    ensemble: Sequence[Server],
    *,
    directory: str,
    key: str,
    ca: str,
    super_user: str,
    quorum: str,
) -> dict[str, str]:
    """Return what a server of an ensemble runs with. Clients come with a certificate of the authority.

    `key`: a PEM file with key and certificate; `super_user`: the distinguished name of a certificate whose
    owner no ACL stops; `quorum`: the folder of `aqueduct.recovery.zookeeper.quorum_keys`, whose certificates
    alone the other servers come with.
    """
    [own] = (server for server in ensemble if server.server_id == server_id)
    return {
        "dataDir": directory,
        "tickTime": "2000",
        "initLimit": "10",
        "syncLimit": "5",
        # Without clientPort there is no port for who has no certificate.
        "secureClientPort": str(own.port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "X509AuthenticationProvider.superUser": super_user,
        "ssl.clientAuth": "need",
        **_stores("ssl", key, ca),
        "4lw.commands.whitelist": "srvr",
        "admin.serverAddress": "127.0.0.1",
        **(_quorum(ensemble, quorum) if len(ensemble) > 1 else {}),
    }


def _quorum(ensemble: Sequence[Server], folder: str) -> dict[str, str]:
    return {
        **{f"server.{server.server_id}": server.peer for server in ensemble},
        # A host's own name may stand for 127.0.1.1 there.
        "quorumListenOnAllIPs": "true",
        "sslQuorum": "true",
        "ssl.quorum.clientAuth": "need",
        # A new certificate is trusted, and used, without a restart.
        "sslQuorumReloadCertFiles": "true",
        **_stores("ssl.quorum", f"{folder}/{KEY}", f"{folder}/{TRUSTED}"),
    }


def _stores(prefix: str, key: str, ca: str) -> dict[str, str]:
    return {
        f"{prefix}.keyStore.location": key,
        f"{prefix}.keyStore.type": "PEM",
        f"{prefix}.trustStore.location": ca,
        f"{prefix}.trustStore.type": "PEM",
    }


def client_settings(connect: str, key: str, ca: str) -> dict[str, str]:
    """Return the settings by which a broker of Kafka 3.9 keeps its metadata there, for itself alone."""
    return {
        "zookeeper.connect": connect,
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": key,
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.truststore.location": ca,
        "zookeeper.ssl.truststore.type": "PEM",
    }
