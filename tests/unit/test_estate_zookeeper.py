"""A site's ZooKeeper, worked out of the inventory alone."""

from typing import Any

from aqueduct.estate.zookeeper import Server, client_settings, connect, owners, servers, settings

DEFAULTS = {"zookeeper_port": 2182, "zookeeper_quorum_port": 2888, "zookeeper_election_port": 3888}
GROUPS = {
    "site_old": ["k1", "k2", "z1"],
    "site_lake": ["l1"],
    "kafka": ["k1", "k2", "l1"],
    "zookeeper": ["z1", "k2", "k1", "l1"],
}
HOSTVARS: dict[str, dict[str, Any]] = {
    "k1": {"zookeeper_id": 3, "zookeeper_host": "k1.example.com", "zookeeper_port": "12182"},
    "k2": {"zookeeper_id": "7"},
    "z1": {"zookeeper_id": 1},
    "l1": {"zookeeper_id": 1},
}
OLD = servers(GROUPS, HOSTVARS, "old", DEFAULTS)


def test_an_ensemble_is_the_site_s_servers() -> None:
    assert [(server.host, server.server_id) for server in OLD] == [("k1", 3), ("k2", 7), ("z1", 1)]
    assert connect(OLD) == "k1.example.com:12182,k2:2182,z1:2182"
    assert connect(()) == ""


def test_the_tree_is_the_brokers_of_this_site() -> None:
    assert owners(GROUPS, HOSTVARS, "old") == ["CN=kafka-old"]
    led_over = {**HOSTVARS, "k2": {"kafka_principal": "kafka"}}
    assert owners(GROUPS, led_over, "old") == ["CN=kafka-old", "CN=kafka"]


def of(number: int, ensemble: tuple[Server, ...]) -> dict[str, str]:
    return settings(
        number,
        ensemble,
        directory="/data",
        key="/key.pem",
        ca="/ca.pem",
        super_user="CN=zookeeper-old",
        quorum="/quorum",
    )


def test_server_has_one_client_port_requiring_certificate() -> None:
    found = of(3, OLD)
    assert found["secureClientPort"] == "12182"
    assert found["ssl.clientAuth"] == "need"
    assert found["4lw.commands.whitelist"] == "srvr"
    assert found["admin.serverAddress"] == "127.0.0.1"
    assert not {"clientPort", "clientPortAddress", "portUnification"} & found.keys()


def test_only_ensembles_have_peers_and_quorum_tls() -> None:
    found = of(7, OLD)
    peers = {name: value for name, value in found.items() if name.startswith("server.")}
    assert peers == {
        "server.3": "k1.example.com:2888:3888",
        "server.7": "k2:2888:3888",
        "server.1": "z1:2888:3888",
    }
    assert (found["sslQuorum"], found["ssl.quorum.clientAuth"]) == ("true", "need")
    assert found["ssl.quorum.keyStore.location"] == "/quorum/own.pem"
    assert found["ssl.quorum.trustStore.location"] == "/quorum/trusted.pem"
    assert found["ssl.trustStore.location"] == "/ca.pem"
    alone = of(1, OLD[2:])
    assert not [name for name in alone if name.startswith(("server.", "ssl.quorum", "sslQuorum"))]


def test_a_broker_keeps_its_znodes_for_itself() -> None:
    found = client_settings("z1:2182/kafka", "/key.pem", "/ca.pem")
    assert found["zookeeper.connect"] == "z1:2182/kafka"
    assert found["zookeeper.set.acl"] == "true"
    assert found["zookeeper.ssl.client.enable"] == "true"
