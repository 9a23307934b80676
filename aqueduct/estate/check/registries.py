"""Checks of a site's schema registry: it needs Kafka for its schemas, and runs on only one host."""

from collections.abc import Iterator

from aqueduct.errors import Labelled
from aqueduct.estate.check.inventory import Finding, Inventory, some


def check_registry(inventory: Inventory, site: str) -> Iterator[Finding]:
    hosts = inventory.members(site, "schema_registry")
    if not hosts:
        return
    if not inventory.members(site, "kafka"):
        sentence = (
            f"site {site} has no Kafka to store schemas in; remove {some(hosts)} from the group "
            "schema_registry."
        )
        yield Finding(
            where=inventory.declared(hosts[0]),
            what="schema_registry",
            fault=Labelled("service-without-kafka", sentence),
        )
    if len(hosts) > 1:
        sentence = (
            f"{some(hosts)} would each serve the schemas of site {site}; keep only one of them in the group "
            "schema_registry."
        )
        yield Finding(
            where=inventory.declared(hosts[1]),
            what="schema_registry",
            fault=Labelled("service-host-repeated", sentence),
        )
