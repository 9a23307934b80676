"""Checks of a site's HDFS and Hive: NameNode, DataNodes, replication, and metastores."""

from collections.abc import Iterator

from aqueduct.common.wording import count
from aqueduct.errors import Labelled
from aqueduct.estate import hadoop
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.valid_inventory import Sound


def check_hadoop(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    yield from _check_nodes(inventory, sound, site)
    yield from _check_metastores(inventory, sound, site)
    for host in inventory.members(site, "hive_server"):
        given = sound.value(host, "hive_server_metastore")
        if given is None and not inventory.members(site, "hive_metastore"):
            sentence = (
                f"site {site} has no metastore for {host}; put a host into the group "
                "hive_metastore, or set hive_server_metastore."
            )
            yield Finding(
                where=inventory.declared(host),
                what="hive_server",
                fault=Labelled("metastore-missing", sentence),
            )
        yield from check_metastore(inventory, sound, host, "hive_server_metastore")


def check_metastore(inventory: Inventory, sound: Sound, host: str, variable: str) -> Iterator[Finding]:
    """Check the addresses of metastores in a variable of a host."""
    for address in (sound.value(host, variable) or "").split(","):
        name, _, port = address.removeprefix("thrift://").rpartition(":")
        if address and not (address.startswith("thrift://") and name and port.isdecimal()):
            sentence = (
                f"{address} is not the address of a metastore; write thrift://HOST:9083, and separate "
                "several addresses with commas."
            )
            yield inventory.finding(host, variable, Labelled("address-form-wrong", sentence))
        elif name in inventory.hosts and name not in inventory.groups.get("hive_metastore", ()):
            sentence = f"{name} has no metastore; put it into the group hive_metastore, or use another host."
            yield inventory.finding(host, variable, Labelled("host-not-in-group", sentence))


def _check_nodes(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    hosts = inventory.members(site, "hdfs")
    roles = {host: sound.value(host, "hdfs_roles") or hadoop.DEFAULT_ROLES for host in hosts}
    namenodes, datanodes = (
        [host for host in hosts if role in roles[host]] for role in (hadoop.NAMENODE, hadoop.DATANODE)
    )
    if hosts and not namenodes:
        sentence = f"site {site} has no NameNode; add namenode to hdfs_roles of one host."
        yield Finding(
            where=inventory.declared(hosts[0]), what="hdfs", fault=Labelled("hdfs-role-missing", sentence)
        )
    if len(namenodes) > 1:
        sentence = (
            f"{some(namenodes)} would each have a separate HDFS; keep only one namenode in site {site}."
        )
        yield inventory.finding(namenodes[1], "hdfs_roles", Labelled("service-host-repeated", sentence))
    if hosts and not datanodes:
        sentence = (
            f"site {site} has no DataNode, so files cannot be written; add datanode to hdfs_roles of a host."
        )
        yield inventory.finding(hosts[0], "hdfs_roles", Labelled("hdfs-role-missing", sentence))
    for host in hosts:
        replicas = sound.value(host, "hdfs_replication") or 0
        if datanodes and replicas > len(datanodes):
            sentence = (
                f"a block cannot have {replicas} replicas on {count(len(datanodes), 'DataNode')}; "
                "lower this number."
            )
            yield inventory.finding(host, "hdfs_replication", Labelled("replicas-exceed-datanodes", sentence))


def _check_metastores(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    hosts = inventory.members(site, "hive_metastore")
    own = [host for host in hosts if not sound.value(host, "hive_metastore_database_url")]
    if len(hosts) > 1 and own:
        sentence = (
            f"{some(hosts)} would each have separate tables; keep only one of them, or set the "
            "same database for all in hive_metastore_database_url."
        )
        yield Finding(
            where=inventory.declared(own[-1]),
            what="hive_metastore",
            fault=Labelled("service-host-repeated", sentence),
        )
    for host in hosts:
        url = sound.value(host, "hive_metastore_database_url") or ""
        if url and not url.startswith("jdbc:postgresql://"):
            sentence = "only PostgreSQL is supported; write jdbc:postgresql://HOST/DATABASE."
            yield inventory.finding(
                host, "hive_metastore_database_url", Labelled("address-form-wrong", sentence)
            )
        if url and not sound.value(host, "hive_metastore_database_password"):
            sentence = "Aqueduct cannot create the password of an external database; set it in a vault."
            yield inventory.finding(
                host, "hive_metastore_database_password", Labelled("variable-required", sentence)
            )
