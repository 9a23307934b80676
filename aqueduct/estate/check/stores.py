"""The buckets of a site's object stores: can they be made?"""

import re
from collections.abc import Collection, Iterator, Mapping

from aqueduct.estate.check.inventory import Finding, Inventory
from aqueduct.estate.check.sound import Sound

VARIABLE = "object_store_buckets"
MOST_DAYS = 36_500  # a hundred years: nobody can take an object back before
LEGAL_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def check_buckets(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    for host in inventory.members(site, "object_store"):
        seen = set()
        for place, bucket in enumerate(sound.value(host, VARIABLE) or ()):
            name = bucket["name"]
            if not LEGAL_BUCKET.fullmatch(name):
                sentence = (
                    f'S3 takes no bucket named "{name}"; use 3 to 63 small letters, digits, dots and hyphens.'
                )
                yield inventory.finding(host, VARIABLE, sentence, (place, "name"))
            if not 0 <= (bucket.get("locked_days") or 0) <= MOST_DAYS:
                sentence = f"locked_days of bucket {name} must be from 0 to {MOST_DAYS}."
                yield inventory.finding(host, VARIABLE, sentence, (place, "locked_days"))
            if name in seen:
                sentence = f"bucket {name} is declared twice at {host}; leave one of them."
                yield inventory.finding(host, VARIABLE, sentence, (place, "name"))
            seen.add(name)


def store_of(inventory: Inventory, sound: Sound, host: str, variable: str) -> tuple[str, list[Finding]]:
    """Return the estate's store that a host uses, and what is wrong with it.

    It is the one that the variable names, or the first; empty: another's.
    """
    stores = inventory.groups.get("object_store", ())
    own = sound.value(host, variable)
    found = next(iter(stores), "") if own is None else own
    if not found or found in stores:
        return found, []
    sentence = f"{found} is not in the group object_store; name one of its hosts."
    return found, [inventory.finding(host, variable, sentence)]


def users_of(sound: Sound, store: str, bucket: str) -> Mapping[str, Collection[str]]:
    """Return who may read, write and delete in a bucket; empty if the store has none of that name."""
    return next((each for each in sound.value(store, VARIABLE) or () if each["name"] == bucket), {})
