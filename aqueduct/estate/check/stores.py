"""The buckets of a site's object stores: can they be made?"""

import re
from collections.abc import Iterator

from aqueduct.estate.check.inventory import Finding, Inventory
from aqueduct.estate.check.sound import Sound

VARIABLE = "object_store_buckets"
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
            if name in seen:
                sentence = f"bucket {name} is declared twice at {host}; leave one of them."
                yield inventory.finding(host, VARIABLE, sentence, (place, "name"))
            seen.add(name)
