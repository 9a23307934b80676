"""A site's ZooKeeper ensemble: its servers, their addresses, and the settings of servers and clients.

Names of settings are those of ZooKeeper 3.8, which is part of Kafka 3.9. ZooKeeper passes other settings to
the JVM as properties with the prefix `zookeeper.` (QuorumPeerConfig.parseProperties).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqueduct.estate.model import Groups, HostVars, members, principal
from aqueduct.recovery.zookeeper.quorum_keys import KEY, TRUSTED

MAX_ID = 255  # of a server: with larger ids, two servers could create the same session id


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server of an ensemble. `name`: the host name that clients and other servers use."""

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
        """Return the value of `server.<id>` in the settings of all servers."""
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
    """Return the connection string `host:port,host:port` for brokers and `aqueduct zookeeper`."""
    return ",".join(server.address for server in ensemble)


def owners(groups: Groups, hostvars: HostVars, site: str) -> list[str]:
    """Return the distinguished names that own the znodes of a site's brokers."""
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
    """Return the settings of a server of an ensemble. Clients need a certificate of the CA.

    `key`: a PEM file with key and certificate. `super_user`: the distinguished name to which ACLs do not
    apply. `quorum`: the folder of `aqueduct.recovery.zookeeper.quorum_keys`; other servers need one of its
    certificates.
    """
    [own] = (server for server in ensemble if server.server_id == server_id)
    return {
        "dataDir": directory,
        "tickTime": "2000",
        "initLimit": "10",
        "syncLimit": "5",
        # There is no clientPort, so clients without a certificate cannot connect.
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
        # On the host itself, its own name may resolve to 127.0.1.1.
        "quorumListenOnAllIPs": "true",
        "sslQuorum": "true",
        "ssl.quorum.clientAuth": "need",
        # New certificates are trusted and used without a restart.
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
    """Return the settings of a broker of Kafka 3.9 for ZooKeeper. Only the broker can change its znodes."""
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
