"""Checks of a site's backup: its host, its patterns, its store and its rights in the store."""

import re
from collections.abc import Iterator

from aqueduct.errors import Labelled, Refused
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.stores import store_of, users_of
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.model import principal
from aqueduct.store import url

PATTERNS = ("backup_topics_pattern", "backup_exclude_topics_pattern", "backup_groups_pattern")
MOST_DAYS = 36_500  # of lifecycle rules


def check_backup(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    hosts = inventory.members(site, "backup")
    if not hosts:
        return
    if len(hosts) > 1:
        sentence = (
            f"{some(hosts)} would back up site {site} at the same time, which only one host may do; keep "
            "only one of them in backup."
        )
        yield Finding(
            where=inventory.declared(hosts[1]),
            what="backup",
            fault=Labelled("service-host-repeated", sentence),
        )
    if not inventory.members(site, "kafka"):
        sentence = f"site {site} has no Kafka to back up; remove {some(hosts)} from the group backup."
        yield Finding(
            where=inventory.declared(hosts[0]),
            what="backup",
            fault=Labelled("service-without-kafka", sentence),
        )
    host = hosts[0]
    if sound.value(host, "backup_topics") and sound.value(host, "backup_topics_pattern"):
        sentence = "backup_topics and backup_topics_pattern are both set; remove one of them."
        yield inventory.finding(host, "backup_topics_pattern", Labelled("values-conflict", sentence))
    for variable in PATTERNS:
        try:
            re.compile(sound.value(host, variable) or "")
        except re.error as error:
            sentence = f"{sound.value(host, variable)} does not compile: {error}; correct it."
            yield inventory.finding(host, variable, Labelled("pattern-invalid", sentence))
    yield from _check_store(inventory, sound, site, host)


def check_apart(inventory: Inventory, sound: Sound) -> Iterator[Finding]:
    """Check that no two clusters share a store.

    Otherwise, each of their backups would treat its topics as re-created after each run of the other one.
    """
    first_at: dict[str, str] = {}
    for site in inventory.sites:
        for host in inventory.members(site, "backup"):
            given = sound.value(host, "backup_store_url")
            first = first_at.setdefault(given, site) if given else site
            if first != site:
                sentence = f"site {first} stores its backups in {given}; give site {site} another prefix."
                yield inventory.finding(host, "backup_store_url", Labelled("backup-store-shared", sentence))


def _check_lifecycle(
    inventory: Inventory, sound: Sound, host: str, location: url.Location, *, own: bool
) -> Iterator[Finding]:
    lifecycle = sound.value(host, "backup_lifecycle")
    if not lifecycle:
        return
    pattern = lifecycle.get("topics_pattern") or ""
    try:
        re.compile(pattern)
    except re.error as error:
        sentence = f"topics_pattern {pattern} does not compile: {error}; correct it."
        yield inventory.finding(host, "backup_lifecycle", Labelled("pattern-invalid", sentence))
    if "days" not in lifecycle:
        fault = Labelled(
            "key-missing", "days is missing; set the number of days after which segments expire."
        )
        yield inventory.finding(host, "backup_lifecycle", fault)
        return
    if not 0 <= lifecycle["days"] <= MOST_DAYS:
        sentence = f"days must be from 0 to {MOST_DAYS}, not {lifecycle['days']}."
        yield inventory.finding(host, "backup_lifecycle", Labelled("number-out-of-range", sentence))
    if pattern and not lifecycle["days"]:
        sentence = (
            "topics_pattern selects the topics whose segments expire, but days is 0; remove "
            "topics_pattern or days."
        )
        yield inventory.finding(host, "backup_lifecycle", Labelled("values-conflict", sentence))
    if own or location.scheme != "s3":
        where = "the estate's own store" if location.scheme == "s3" else str(location)
        sentence = (
            f"{where} does not support lifecycle rules; remove this variable, and let "
            "backup_prune_keep remove old snapshots."
        )
        yield inventory.finding(host, "backup_lifecycle", Labelled("lifecycle-unsupported", sentence))


def _check_store(inventory: Inventory, sound: Sound, site: str, host: str) -> Iterator[Finding]:
    server, wrong = store_of(inventory, sound, host, "backup_object_store")
    given = sound.value(host, "backup_store_url")
    if given is None and "backup_store_url" in inventory.hosts[host]:
        return  # the value has another finding, or is known only when the playbook runs
    try:
        location = url.parse(given or f"s3://backup/{site}")
    except Refused as error:
        yield inventory.finding(host, "backup_store_url", Labelled(error.id, error.sentence))
        return
    if wrong:
        yield from wrong
    elif not server and given is None:
        sentence = (
            f"site {site} has no store for its backups; set this variable, or put a host into the "
            "group object_store."
        )
        yield Finding(
            where=inventory.declared(host), what="backup_store_url", fault=Labelled("store-missing", sentence)
        )
    yield from _check_lifecycle(inventory, sound, host, location, own=bool(server))
    if server and not wrong and location.scheme == "s3":
        user, users = principal("backup", site), users_of(sound, server, location.bucket, location.path)
        if user not in users.get("write", ()):
            sentence = (
                f"{user} has no right to write to bucket {location.bucket} of {server}; list it "
                'there under write, or set backup_object_store to "" if the backup uses another '
                "store."
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-missing", sentence)
            )
        pruner, deleters = principal("backup-prune", site), users.get("delete", ())
        if sound.value(host, "backup_prune_keep") and pruner not in deleters:
            sentence = (
                f"{pruner} has no right to delete objects in bucket {location.bucket} of {server}, so "
                "backup_prune_keep cannot remove old snapshots; list it there under delete."
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-missing", sentence)
            )
        if user in deleters:
            sentence = (
                f"{user} has the right to delete objects in bucket {location.bucket}, so a compromised "
                f"backup host could delete backups; remove it from delete: only {pruner} removes "
                "old backups."
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-excessive", sentence)
            )
