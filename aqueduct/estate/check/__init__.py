"""The inventory check. It contacts no host, and reports all findings in one run, one sentence each."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqueduct.errors import Labelled
from aqueduct.estate.check import (
    backups,
    clusters,
    connectors,
    drills,
    ensembles,
    file_backups,
    flows,
    hadoop,
    host_names,
    landings,
    links,
    registries,
    secrets,
    settings,
    sites,
    spark,
    stores,
)
from aqueduct.estate.check.inventory import Finding, Inventory
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.check.variables import Roles, check_variables
from aqueduct.estate.provided_certificates import ServiceOfHost


@dataclass(frozen=True, kw_only=True)
class Repository:
    """Facts of the repository and the control node that the check needs in addition to the inventory."""

    roles: Roles
    defaults: Mapping[str, Any]  # of roles/kafka, for `aqueduct.estate.model`
    supported_versions: Sequence[str]  # of Kafka
    is_file: Callable[[str], bool]  # on the control node
    # The fault of a provided file for a principal, by the file, ca.pem and the principal; empty without one.
    provided_fault: Callable[[str, str, str], str] = lambda _file, _ca, _principal: ""
    broker_versions: Collection[str] = ()  # of Kafka, published only for brokers
    # The fault of a provided file for a service of a host; None if it has none.
    unsuitable: Callable[[str, ServiceOfHost], Labelled | None] = lambda _file, _service: None
    definitions: Mapping[str, settings.Definitions] = field(default_factory=dict)  # by Kafka version


def check(inventory: Inventory, repository: Repository) -> list[Finding]:
    """Return all findings, sorted by file and line."""
    findings = {inventory.without_secrets(finding) for finding in _check(inventory, repository)}
    return sorted(findings, key=lambda finding: finding.place)


def _check(inventory: Inventory, repository: Repository) -> Iterator[Finding]:
    yield from sites.check_groups(inventory, repository.roles)
    yield from sites.check_group_files(inventory)
    yield from check_variables(inventory, repository.roles)
    yield from clusters.check_versions(
        inventory, repository.supported_versions, repository.broker_versions, repository.defaults
    )
    sound = Sound(inventory, repository.roles, repository.defaults)
    yield from settings.check_brokers(inventory, sound, repository.definitions)
    yield from secrets.check_certificates(
        inventory, sound, repository.is_file, repository.provided_fault, repository.unsuitable
    )
    right: list[flows.DeclaredFlow] = []
    for site in inventory.sites:
        if any(len(inventory.sites_of[host]) > 1 for host in inventory.members(site)):
            continue  # `sites.check_groups` reports this, and the other checks would report consequences
        yield from sites.check_site_wide(inventory, site)
        yield from host_names.check_host_names(inventory, sound, site)
        has_ensemble = ensembles.is_used(inventory, sound, site)
        yield from sites.check_nodes(inventory, site, sound.nodes(site), not has_ensemble)
        yield from ensembles.check_ensemble(inventory, sound, site, has_ensemble)
        yield from clusters.check_cluster(inventory, sound, site)
        yield from settings.check_topics(inventory, sound, site, repository.definitions)
        yield from stores.check_buckets(inventory, sound, site)
        yield from backups.check_backup(inventory, sound, site)
        yield from file_backups.check_file_backups(inventory, sound, site)
        yield from drills.check_drills(inventory, sound, site)
        yield from hadoop.check_hadoop(inventory, sound, site)
        yield from registries.check_registry(inventory, site)
        yield from landings.check_landings(inventory, sound, site)
        yield from spark.check_spark(inventory, sound, site)
        yield from links.check_links(inventory, sound, site)
        yield from connectors.check_connect(inventory, sound, site)
        arriving = []
        for mirror in flows.declared_at(sound, site):
            faults = list(flows.check_each(inventory, mirror))
            yield from faults or flows.check_unclear(mirror)
            arriving += [] if faults else [mirror]
        own_topics = [str(topic.value["name"]) for topic in sound.items(site, "kafka_topics")]
        yield from flows.check_hosts(inventory, site)
        for mirror in arriving:
            yield from flows.check_names(mirror, own_topics)
            yield from flows.check_made(mirror, own_topics)
        yield from flows.check_pairs(arriving)
        right += arriving
    yield from flows.check_loops(right)
    yield from backups.check_apart(inventory, sound)
    yield from landings.check_apart(inventory, sound)
    yield from stores.check_shared(inventory, sound)
    yield from stores.check_access_keys(inventory, sound)
