"""A site's backup: has it something to read, and a place where it may write?"""

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
        sentence = f"{some(hosts)} would back up site {site} at once, and one of them in vain; leave one."
        yield Finding(
            where=inventory.declared(hosts[1]),
            what="backup",
            fault=Labelled("service-host-repeated", sentence),
        )
    if not inventory.members(site, "kafka"):
        sentence = f"site {site} has no Kafka that could be backed up; take {some(hosts)} out of backup."
        yield Finding(
            where=inventory.declared(hosts[0]),
            what="backup",
            fault=Labelled("service-without-kafka", sentence),
        )
    host = hosts[0]
    if sound.value(host, "backup_topics") and sound.value(host, "backup_topics_pattern"):
        sentence = "topics are named and told by a pattern; take one of the two out."
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

    They would take turns to be the one whose topics were recreated.
    """
    first_at: dict[str, str] = {}
    for site in inventory.sites:
        for host in inventory.members(site, "backup"):
            given = sound.value(host, "backup_store_url")
            first = first_at.setdefault(given, site) if given else site
            if first != site:
                sentence = f"site {first} has its backups in {given}; give site {site} another prefix."
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
        fault = Labelled("key-missing", "days are not set; say after how many segments go.")
        yield inventory.finding(host, "backup_lifecycle", fault)
        return
    if not 0 <= lifecycle["days"] <= MOST_DAYS:
        sentence = f"days must be from 0 to {MOST_DAYS}, not {lifecycle['days']}."
        yield inventory.finding(host, "backup_lifecycle", Labelled("number-out-of-range", sentence))
    if pattern and not lifecycle["days"]:
        sentence = "topics_pattern chooses what expires, and days are 0; take one of the two out."
        yield inventory.finding(host, "backup_lifecycle", Labelled("values-conflict", sentence))
    if own or location.scheme != "s3":
        where = "the estate's own store" if location.scheme == "s3" else str(location)
        sentence = (
            f"{where} has no lifecycle rules; leave it out, and let backup_prune_keep remove old snapshots."
        )
        yield inventory.finding(host, "backup_lifecycle", Labelled("lifecycle-unsupported", sentence))


def _check_store(inventory: Inventory, sound: Sound, site: str, host: str) -> Iterator[Finding]:
    server, wrong = store_of(inventory, sound, host, "backup_object_store")
    given = sound.value(host, "backup_store_url")
    if given is None and "backup_store_url" in inventory.hosts[host]:
        return  # another finding is about it, or it is known only when the playbook runs
    try:
        location = url.parse(given or f"s3://backup/{site}")
    except Refused as error:
        yield inventory.finding(host, "backup_store_url", Labelled(error.id, error.sentence))
        return
    if wrong:
        yield from wrong
    elif not server and given is None:
        sentence = (
            f"site {site} has no place to back up to; set it, or put a host into the group object_store."
        )
        yield Finding(
            where=inventory.declared(host), what="backup_store_url", fault=Labelled("store-missing", sentence)
        )
    yield from _check_lifecycle(inventory, sound, host, location, own=bool(server))
    if server and not wrong and location.scheme == "s3":
        user, users = principal("backup", site), users_of(sound, server, location.bucket, location.path)
        if user not in users.get("write", ()):
            sentence = (
                f"{user} may not write bucket {location.bucket} of {server}; name it there under write, "
                'or set backup_object_store to "" if the backup goes elsewhere.'
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-missing", sentence)
            )
        pruner, deleters = principal("backup-prune", site), users.get("delete", ())
        if sound.value(host, "backup_prune_keep") and pruner not in deleters:
            sentence = (
                f"{pruner} may not delete in bucket {location.bucket} of {server}, so backup_prune_keep can "
                "remove nothing; name it there under delete."
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-missing", sentence)
            )
        if user in deleters:
            sentence = (
                f"{user} may delete in bucket {location.bucket}, and so may whoever captures the backup; "
                f"take it out of delete: {pruner} is who removes old backups."
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-excessive", sentence)
            )
