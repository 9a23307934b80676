"""Checks of a site's cluster (topics, replicas, ACLs), and of all Kafka versions."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, Path
from aqueduct.estate.check.valid_inventory import Item, Sound
from aqueduct.estate.model import ZOOKEEPER, principal

# Variables with a Kafka version, and whether it must have ZooKeeper and the classic mirror (None: either).
# For kafka_version, kafka_metadata decides.
VERSIONS = {
    "connect_version": False,
    "mirror_maker_version": None,
    "mirror_maker_classic_version": True,
    "zookeeper_kafka_version": True,
}
OF_CONNECT = {"connect_version", "mirror_maker_version"}


def check_cluster(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    hosts, nodes = inventory.members(site, "kafka"), sound.nodes(site)
    if not hosts:
        return
    brokers = sum("broker" in node.roles for node in nodes) if len(nodes) == len(hosts) else 0
    for declaration, path, fault in _topics(site, sound.items(site, "kafka_topics"), brokers):
        yield declaration.finding(fault, path)
    for declaration, path, fault in _acls(sound.items(site, "kafka_acls")):
        yield declaration.finding(fault, path)
    for fault in _revoked(site, sound.value(hosts[0], "kafka_revoked_principals") or ()):
        yield inventory.finding(hosts[0], "kafka_revoked_principals", fault)
    if brokers:
        for variable, fault in _replicas(site, sound, hosts[0], brokers):
            yield inventory.finding(hosts[0], variable, fault)


def _revoked(site: str, revoked: Iterable[str]) -> Iterator[Labelled]:
    for name in revoked:
        if name in ("admin", principal("kafka", site)):
            yield (
                Labelled(
                    "principal-not-revocable",
                    f"{name} is a super user and needs no ACL, so ACLs cannot revoke its rights; "
                    "to revoke its key, replace the authority (playbooks/authority.yml).",
                )
            )


def _topics(site: str, topics: Iterable[Item], brokers: int) -> Iterator[tuple[Item, Path, Labelled]]:
    """Check a site's topics. `brokers`: the number of brokers of the site; 0 if it is unknown."""
    seen: set[str] = set()
    # By name with _ for dots. Brokers refuse names that differ only in this, because metrics would collide.
    taken: dict[str, str] = {}
    for declaration in topics:
        topic, name = declaration.value, str(declaration.value["name"])
        like = taken.setdefault(name.replace(".", "_"), name)
        if not LEGAL_NAME.fullmatch(name):
            fault = Labelled(
                "topic-name-illegal",
                f'Kafka does not accept the topic name "{name}"; use up to 249 letters, digits, '
                "dots, - and _.",
            )
            yield declaration, ("name",), fault
        elif name in seen:
            yield (
                declaration,
                ("name",),
                Labelled(
                    "declaration-repeated",
                    f"topic {name} is declared twice at site {site}; remove one of the declarations.",
                ),
            )
        elif like != name:
            yield (
                declaration,
                ("name",),
                Labelled(
                    "topic-name-collides",
                    f"Kafka does not distinguish . and _ in topic names, so {name} and {like} "
                    "collide; rename one of them.",
                ),
            )
        seen.add(name)
        if int(topic["partitions"]) < 1:
            yield (
                declaration,
                ("partitions",),
                Labelled(
                    "number-out-of-range",
                    f"topic {name} must have at least one partition; set the number of partitions.",
                ),
            )
        replicas = int(topic.get("replication_factor", brokers or 1))
        in_sync = str(topic.get("config", {}).get("min.insync.replicas", 1))
        if replicas < 1:
            yield (
                declaration,
                ("replication_factor",),
                Labelled(
                    "number-out-of-range",
                    f"topic {name} must have at least one replica; set the number of replicas.",
                ),
            )
        elif brokers and replicas > brokers:
            yield (
                declaration,
                ("replication_factor",),
                Labelled("replicas-exceed-brokers", f"topic {name} {_too_many(replicas, brokers)}"),
            )
        elif brokers and in_sync.isdecimal() and int(in_sync) > replicas:
            yield (
                declaration,
                ("config", "min.insync.replicas"),
                Labelled("insync-replicas-exceed-replicas", f"topic {name} {_never_acknowledged(replicas)}"),
            )


def _replicas(site: str, sound: Sound, host: str, brokers: int) -> Iterator[tuple[str, Labelled]]:
    """Check a site's default numbers of replicas against the number of its brokers."""
    replicas = int(sound.value(host, "kafka_default_replication_factor") or min(3, brokers))
    if replicas > brokers:
        yield (
            "kafka_default_replication_factor",
            Labelled("replicas-exceed-brokers", f"a topic of site {site} {_too_many(replicas, brokers)}"),
        )
    elif int(sound.value(host, "kafka_min_insync_replicas") or 1) > replicas:
        yield (
            "kafka_min_insync_replicas",
            Labelled(
                "insync-replicas-exceed-replicas", f"a topic of site {site} {_never_acknowledged(replicas)}"
            ),
        )


def _too_many(replicas: int, brokers: int) -> str:
    return (
        f"cannot have {replicas} replicas on {brokers} broker{'s' * (brokers != 1)}; lower this "
        "number, or add brokers."
    )


def _never_acknowledged(replicas: int) -> str:
    return (
        f"with {replicas} replica{'s' * (replicas != 1)} would reject every write with acks=all; lower "
        "this number."
    )


def _acls(acls: Iterable[Item]) -> Iterator[tuple[Item, Path, Labelled]]:
    for acl in acls:
        principal = str(acl.value["principal"])
        if principal.startswith("User:"):
            name = principal.removeprefix("User:")
            yield (
                acl,
                ("principal",),
                Labelled(
                    "acl-principal-wrong",
                    f"a principal is the CN of the certificate, without User:; write {name}.",
                ),
            )
        if acl.value["resource"] == "cluster" and acl.value["name"] != "kafka-cluster":
            yield (
                acl,
                ("name",),
                Labelled(
                    "acl-name-wrong",
                    "in every ACL, the name of the cluster is kafka-cluster; write this name.",
                ),
            )


def check_versions(
    inventory: Inventory, supported: Sequence[str], of_brokers: Collection[str], defaults: Mapping[str, Any]
) -> Iterator[Finding]:
    """Check that the repository has the digests of all Kafka versions, and that each version suits its use.

    With an archive, the inventory contains the digest. Versions `of_brokers` have no Connect and no mirror.
    """
    checked = set()
    for host, variables in inventory.hosts.items():
        for name, variable, value, zookeeper in _versions(variables, defaults):
            if not isinstance(value, str | float) or (name, id(value), zookeeper) in checked:
                continue
            checked.add((name, id(value), zookeeper))
            fitting = [
                version
                for version in supported
                if zookeeper in (None, has_zookeeper(version))
                and not (name in OF_CONNECT and version in of_brokers)
            ]
            from_archive = variables.get("artifact_kafka_source") == "archive"
            fits = zookeeper in (None, has_zookeeper(str(value)))
            if fits if from_archive else str(value) in fitting:
                continue
            fault = Labelled(
                "kafka-version-unsupported", f"Kafka {value} is not supported; use {' or '.join(fitting)}."
            )
            if name == "mirror_maker_classic_version" and not has_zookeeper(str(value)):
                fault = Labelled(
                    "kafka-version-unsupported",
                    f"Kafka {value} has no classic mirror; use {' or '.join(fitting)}.",
                )
            elif zookeeper and not has_zookeeper(str(value)):
                fault = Labelled(
                    "kafka-version-unsupported",
                    f"Kafka {value} does not support ZooKeeper; set {name}: {' or '.join(fitting)}.",
                )
            elif str(value) in supported and name == "kafka_version":
                fault = Labelled(
                    "kafka-version-unsupported",
                    f"Kafka {value} is only supported with kafka_metadata: zookeeper; use "
                    f"{' or '.join(fitting)}.",
                )
            yield inventory.finding(host, variable, fault)


def _versions(
    variables: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any, bool | None]]:
    """Yield a host's Kafka versions: name, variable for findings, version, and whether it needs ZooKeeper."""
    metadata = variables.get("kafka_metadata") == ZOOKEEPER
    for name, zookeeper in {**VERSIONS, "kafka_version": metadata}.items():
        if name in variables:
            yield name, name, variables[name], zookeeper
    if metadata and "kafka_version" not in variables:
        yield "kafka_version", "kafka_metadata", defaults.get("kafka_version"), True


def has_zookeeper(version: str) -> bool:
    """Return whether a Kafka version supports ZooKeeper. The last one is 3.9."""
    return version.startswith("3.")
