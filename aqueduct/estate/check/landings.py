"""Checks of a site's landings: tables, registries and metastores, and the store with its rights."""

from collections.abc import Iterator
from typing import Any

from aqueduct.errors import Labelled, Refused
from aqueduct.estate import schema_registry
from aqueduct.estate.check.hadoop import check_metastore
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.stores import store_of, users_of
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.model import principal
from aqueduct.land import declaration
from aqueduct.land.declaration import TableKind
from aqueduct.store import url

TABLES = "land_tables"


def check_landings(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    hosts = inventory.members(site, "land")
    if not hosts:
        declaring = [host for host in inventory.members(site) if inventory.hosts[host].get(TABLES)]
        if declaring and TABLES not in inventory.extra_variables:
            sentence = f"site {site} has no host that lands its tables; put one into the group land."
            yield inventory.finding(declaring[0], TABLES, Labelled("service-without-host", sentence))
        return
    if len(hosts) > 1:
        sentence = (
            f"{some(hosts)} would land the tables of site {site} at the same time; keep only one of "
            "them in the group land."
        )
        yield Finding(
            where=inventory.declared(hosts[1]), what="land", fault=Labelled("service-host-repeated", sentence)
        )
    if not inventory.members(site, "kafka"):
        sentence = f"site {site} has no Kafka with topics to land; remove {some(hosts)} from the group land."
        yield Finding(
            where=inventory.declared(hosts[0]), what="land", fault=Labelled("service-without-kafka", sentence)
        )
    yield from _check_tables(inventory, sound, site, hosts[0])
    yield from check_metastore(inventory, sound, hosts[0], "land_metastore")
    yield from _check_catalogue(inventory, sound, site, hosts[0])
    yield from _check_store(inventory, sound, site, hosts[0])


def check_apart(inventory: Inventory, sound: Sound) -> Iterator[Finding]:
    """Check that no two sites land tables of the same name at the same location."""
    first_at: dict[tuple[str, str], str] = {}
    for site in inventory.sites:
        for host in inventory.members(site, "land"):
            location = sound.value(host, "land_location")
            for index, table in enumerate(sound.value(host, TABLES) or ()):
                first = first_at.setdefault((location, str(table.get("table"))), site) if location else site
                if first != site:
                    sentence = (
                        f"site {first} also lands {table['table']} in {location}; use another location."
                    )
                    yield inventory.finding(
                        host, TABLES, Labelled("table-location-shared", sentence), (index,)
                    )


def _check_tables(inventory: Inventory, sound: Sound, site: str, host: str) -> Iterator[Finding]:
    right = []
    tables = sound.value(host, TABLES) or ()
    registry = sound.value(host, "land_registry")
    if registry is None:
        # Only its existence matters here.
        registry = next((f"https://{server}" for server in inventory.members(site, "schema_registry")), "")
    for index, table in enumerate(tables):
        schema = table.get("schema")
        if isinstance(schema, str) and not schema.lstrip().startswith("{"):
            sentence = (
                f"{schema} is a file; use its content, for example with lookup('ansible.builtin.file', ...)."
            )
            yield inventory.finding(
                host, TABLES, Labelled("schema-is-file-name", sentence), (index, "schema")
            )
            continue
        if schema_registry.wants(table) and not registry:
            sentence = (
                f"table {table.get('table')} needs a schema registry; put a host into the group "
                "schema_registry, or set registry here or land_registry."
            )
            yield inventory.finding(
                host, TABLES, Labelled("schema-registry-missing", sentence), (index, "format")
            )
            continue
        [known_here] = schema_registry.with_registry([table], registry, "")
        known_here.pop("registry_config", None)
        if faults := _faults([known_here]):
            for fault in faults:
                yield inventory.finding(host, TABLES, fault, (index,))
        else:
            right.append(known_here)
    if right and len(right) == len(tables):
        for fault in _faults(right):  # faults between tables
            yield inventory.finding(host, TABLES, fault)


def _faults(tables: list[dict[str, Any]]) -> list[Labelled]:
    return [
        Labelled(error.id, error.sentence.removeprefix(f"{TABLES}: "))
        for error in declaration.faults(tables, TABLES)
    ]


def _check_catalogue(inventory: Inventory, sound: Sound, site: str, host: str) -> Iterator[Finding]:
    given = sound.value(host, "land_metastore")
    if given or (given is None and inventory.members(site, "hive_metastore")):
        return
    for index, table in enumerate(sound.value(host, TABLES) or ()):
        if table.get("kind") == TableKind.ICEBERG:
            sentence = (
                f"{table.get('table')} is of the kind iceberg, which needs a metastore; put a host "
                "into the group hive_metastore, or set land_metastore."
            )
            yield inventory.finding(host, TABLES, Labelled("metastore-missing", sentence), (index, "kind"))


def _check_store(inventory: Inventory, sound: Sound, site: str, host: str) -> Iterator[Finding]:
    server, wrong = store_of(inventory, sound, host, "land_object_store")
    given = sound.value(host, "land_location")
    if given is None and inventory.members(site, "hdfs"):
        return  # the tables are in this HDFS
    try:
        location = url.parse(given or f"s3://lake/{site}")
    except Refused as error:
        yield inventory.finding(host, "land_location", Labelled(error.id, error.sentence))
        return
    names = location.bucket.partition(":")[0] if location.scheme == "hdfs" else ""
    if names in inventory.hosts and names not in inventory.groups.get("hdfs", ()):
        sentence = f"{names} has no HDFS; put it into the group hdfs, or use another host."
        yield inventory.finding(host, "land_location", Labelled("host-not-in-group", sentence))
    if wrong:
        yield from wrong
    elif not server and given is None:
        sentence = (
            f"site {site} has no location for its tables; set this variable, or put a host into "
            "the group hdfs or object_store."
        )
        yield Finding(
            where=inventory.declared(host), what="land_location", fault=Labelled("store-missing", sentence)
        )
    elif server and location.scheme == "s3":
        user, users = principal("land", site), users_of(sound, server, location.bucket, location.path)
        for right in ("write", "delete"):
            if user not in users.get(right, ()):
                sentence = (
                    f"{user} has no right to {right} in bucket {location.bucket} of {server}; list "
                    f'it there under {right}, or set land_object_store to "" if the tables are '
                    "in another store."
                )
                yield inventory.finding(
                    server, "object_store_buckets", Labelled("bucket-right-missing", sentence)
                )
