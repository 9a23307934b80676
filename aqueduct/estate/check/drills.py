"""Checks of a site's drills: the backup to restore, its store, and the rights in the store."""

from collections.abc import Iterator

from aqueduct.errors import Labelled, Refused
from aqueduct.estate.check.inventory import Finding, Inventory
from aqueduct.estate.check.stores import store_of, users_of
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.model import principal
from aqueduct.store import url


def check_drills(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    for host in inventory.members(site, "drill"):
        of = sound.value(host, "drill_site") or site
        if of not in inventory.sites:
            sentence = f"site {of} does not exist; set a site that has a backup."
            yield inventory.finding(host, "drill_site", Labelled("site-unknown", sentence))
        elif not inventory.members(of, "backup") and "drill_store_url" not in inventory.hosts[host]:
            sentence = (
                f"site {of} has no backup for a drill; put one of its hosts into the group backup, "
                "or set another site (drill_site)."
            )
            yield Finding(
                where=inventory.declared(host), what="drill", fault=Labelled("drill-without-backup", sentence)
            )
        else:
            yield from _check_store(inventory, sound, site, of, host)


def _check_store(inventory: Inventory, sound: Sound, site: str, of: str, host: str) -> Iterator[Finding]:
    given = sound.value(host, "drill_store_url")
    hosts = inventory.members(of, "backup")
    pairs = [(host, "drill_store_url"), *((backup_host, "backup_store_url") for backup_host in hosts)]
    if any(
        name in inventory.hosts[backup_host] and sound.value(backup_host, name) is None
        for backup_host, name in pairs
    ):
        return  # the value has another finding, or is known only when the playbook runs
    backups = [sound.value(backup_host, "backup_store_url") for backup_host in hosts]
    backup_url = next((backup for backup in backups if backup), f"s3://backup/{of}")
    try:
        location = url.parse(given or f"s3://backup/{of}")
    except Refused as error:
        yield inventory.finding(host, "drill_store_url", Labelled(error.id, error.sentence))
        return
    if backups and (given or f"s3://backup/{of}").rstrip("/") != backup_url.rstrip("/"):
        sentence = (
            f"site {of} stores its backups in {backup_url}, which this drill does not use; set "
            "drill_store_url to this URL."
        )
        yield Finding(
            where=inventory.declared(host), what="drill", fault=Labelled("drill-store-differs", sentence)
        )
        return
    server, wrong = store_of(inventory, sound, host, "drill_object_store")
    if wrong:
        yield from wrong
    elif server and location.scheme == "s3":
        user, users = principal("drill", site), users_of(sound, server, location.bucket, location.path)
        if user not in users.get("read", ()):
            sentence = (
                f"{user} has no right to read bucket {location.bucket} of {server}; list it there "
                'under read, or set drill_object_store to "" if the backup is in another store.'
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-missing", sentence)
            )
        if user in users.get("delete", ()):
            sentence = (
                f"{user} has the right to delete objects in bucket {location.bucket}, but a drill only "
                "reads; remove this right."
            )
            yield inventory.finding(
                server, "object_store_buckets", Labelled("bucket-right-excessive", sentence)
            )
