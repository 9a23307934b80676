"""Checks of the buckets of object stores, and of the separation of sites in buckets and by access keys."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from aqueduct.errors import Labelled, Refused
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.model import principal
from aqueduct.store import url
from aqueduct.store.bucket_policy import RIGHTS

VARIABLE = "object_store_buckets"
MOST_DAYS = 36_500  # a hundred years; a lock cannot be removed before its end
LEGAL_PREFIX = re.compile(r"[\w.-]+(/[\w.-]+)*")
# The data of sites in buckets: group, variable of the URL, variable of the server, default URL, and services.
KEPT = (
    ("backup", "backup_store_url", "backup_object_store", "s3://backup/{site}", ("backup", "backup-prune")),
    ("land", "land_location", "land_object_store", "s3://lake/{site}", ("land",)),
    ("kafka", "kafka_quorum_backup_store_url", "kafka_quorum_backup_object_store", "", ("kafka",)),
    ("zookeeper", "zookeeper_backup_store_url", "zookeeper_backup_object_store", "", ("zookeeper",)),
)
# Variables with access keys of a store outside the estate, by group.
ENVIRONMENTS = (
    ("backup", ("backup_environment", "backup_prune_environment")),
    ("drill", ("drill_environment",)),
    ("kafka", ("kafka_quorum_backup_environment",)),
    ("land", ("land_environment",)),
    ("zookeeper", ("zookeeper_backup_environment",)),
)
# The environment variables that identify an access key and its store.
ACCESS_KEYS = (
    ("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"),
    ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"),
    ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_ACCOUNT_NAME"),
    ("AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_ACCOUNT_NAME"),
    ("GOOGLE_SERVICE_ACCOUNT_KEY", ""),
)
LEGAL_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def check_buckets(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    for host in inventory.members(site, "object_store"):
        seen = set()
        for index, bucket in enumerate(sound.value(host, VARIABLE) or ()):
            name = bucket["name"]
            if not LEGAL_BUCKET.fullmatch(name):
                sentence = (
                    f'S3 does not accept the bucket name "{name}"; use 3 to 63 lower-case '
                    "letters, digits, dots and hyphens."
                )
                yield inventory.finding(host, VARIABLE, Labelled("name-illegal", sentence), (index, "name"))
            if not 0 <= (bucket.get("locked_days") or 0) <= MOST_DAYS:
                sentence = f"locked_days of bucket {name} must be from 0 to {MOST_DAYS}."
                yield inventory.finding(
                    host, VARIABLE, Labelled("number-out-of-range", sentence), (index, "locked_days")
                )
            if name in seen:
                sentence = f"bucket {name} is declared twice at {host}; remove one of the declarations."
                yield inventory.finding(
                    host, VARIABLE, Labelled("declaration-repeated", sentence), (index, "name")
                )
            seen.add(name)
            yield from _check_prefixes(inventory, host, index, bucket)


def _check_prefixes(
    inventory: Inventory, host: str, index: int, bucket: Mapping[str, Any]
) -> Iterator[Finding]:
    seen = set()
    for number, prefix in enumerate(bucket.get("prefixes") or ()):
        name, where = prefix["name"], (index, "prefixes", number, "name")
        if not LEGAL_PREFIX.fullmatch(name) or {".", ".."} & {*name.split("/")}:
            sentence = (
                f'prefix "{name}" of bucket {bucket["name"]} is not usable; write letters, digits, dots, '
                "hyphens and underscores, with slashes between them."
            )
            yield inventory.finding(host, VARIABLE, Labelled("name-illegal", sentence), where)
        if name in seen:
            sentence = (
                f"prefix {name} of bucket {bucket['name']} is declared twice; remove one of the declarations."
            )
            yield inventory.finding(host, VARIABLE, Labelled("declaration-repeated", sentence), where)
        seen.add(name)


def check_shared(inventory: Inventory, sound: Sound) -> Iterator[Finding]:
    """Check that no site has rights to the data of another site in the same bucket of the estate's store."""
    for (server, bucket), sites in _kept(inventory, sound).items():
        reaching = {
            user
            for (site, _), users in sites.items()
            for other, path in sites
            if other != site
            for user in users
            if any(user in allowed for allowed in users_of(sound, server, bucket, path).values())
        }
        if reaching:
            sentence = (
                f"{some(sorted(reaching))} can access data of another site in bucket {bucket} of "
                f"{server}; give each site a prefix policy: add its name to prefixes, and list its "
                "users there."
            )
            yield inventory.finding(server, VARIABLE, Labelled("bucket-shared-by-sites", sentence))
        yield from _check_drills(inventory, sound, server, bucket, sites)


def _check_drills(
    inventory: Inventory, sound: Sound, server: str, bucket: str, sites: Collection[tuple[str, str]]
) -> Iterator[Finding]:
    """Check that drills can read only the data of sites whose backups they restore."""
    for site in inventory.sites:
        hosts, drill = inventory.members(site, "drill"), principal("drill", site)
        drilled = {sound.value(host, "drill_site") or site for host in hosts}
        others = {
            other
            for other, path in sites
            if other not in drilled
            and any(drill in allowed for allowed in users_of(sound, server, bucket, path).values())
        }
        if hosts and others:
            sentence = (
                f"{drill} restores backups of {some(sorted(drilled))}, but its rights in bucket "
                f"{bucket} of {server} include data of {some(sorted(others))}; list it under "
                "prefixes, in read of the sites whose backups it restores."
            )
            yield inventory.finding(server, VARIABLE, Labelled("drill-reads-other-sites", sentence))


def check_access_keys(inventory: Inventory, sound: Sound) -> Iterator[Finding]:
    """Check that no two sites use the same access key of a store outside the estate."""
    # By key, and by site: host, variable and environment variable.
    uses: dict[tuple[str, str, str], dict[str, tuple[str, str, str]]] = {}
    for site in inventory.sites:
        for group, variables in ENVIRONMENTS:
            for host in inventory.members(site, group):
                for variable in variables:
                    environment = sound.value(host, variable)
                    for name, store in ACCESS_KEYS if isinstance(environment, Mapping) else ():
                        key, endpoint = environment.get(name), environment.get(store) or ""
                        if isinstance(key, str) and key and isinstance(endpoint, str):
                            users = uses.setdefault((name, key, endpoint.rstrip("/")), {})
                            users.setdefault(site, (host, variable, name))
    for users in uses.values():
        for host, variable, name in users.values() if len(users) > 1 else ():
            sentence = (
                f"sites {some(sorted(users))} use one access key of the object store ({name}), so "
                "each can read and replace the data of the others; give each site its own key, "
                "with rights to its own prefix."
            )
            yield inventory.finding(host, variable, Labelled("access-key-shared-by-sites", sentence), (name,))


def _kept(
    inventory: Inventory, sound: Sound
) -> Mapping[tuple[str, str], Mapping[tuple[str, str], tuple[str, ...]]]:
    """Return the principals that use the estate's stores: by server and bucket, then by site and path."""
    kept: dict[tuple[str, str], dict[tuple[str, str], tuple[str, ...]]] = {}
    for site in inventory.sites:
        for group, variable, server_variable, default, services in KEPT:
            for host in inventory.members(site, group)[:1]:
                server, wrong = store_of(inventory, sound, host, server_variable)
                location = _location(inventory, sound, site, host, variable, default)
                if server and not wrong and location and location.scheme == "s3":
                    users = tuple(principal(service, site) for service in services)
                    paths = kept.setdefault((server, location.bucket), {})
                    # Several services of a site may use the same URL.
                    paths[site, location.path] = (*paths.get((site, location.path), ()), *users)
    return kept


def _location(
    inventory: Inventory, sound: Sound, site: str, host: str, variable: str, default: str
) -> url.Location | None:
    """Return the location of a site's data; None if it is unknown, or if it has another finding."""
    given = sound.value(host, variable)
    if given is None and (variable in inventory.hosts[host] or not default):
        return None
    if given is None and variable == "land_location" and inventory.members(site, "hdfs"):
        return None
    try:
        return url.parse(given or default.format(site=site)) if given or default else None
    except Refused:
        return None


def store_of(inventory: Inventory, sound: Sound, host: str, variable: str) -> tuple[str, list[Finding]]:
    """Return the host of the estate's store that a host uses, and the findings about it.

    It is the value of the variable, by default the first host of the group object_store. Empty: the store is
    outside the estate.
    """
    stores = inventory.groups.get("object_store", ())
    own = sound.value(host, variable)
    server = next(iter(stores), "") if own is None else own
    if not server or server in stores:
        return server, []
    sentence = f"{server} is not in the group object_store; use a host of this group."
    return server, [inventory.finding(host, variable, Labelled("host-not-in-group", sentence))]


def users_of(sound: Sound, store: str, bucket: str, path: str) -> Mapping[str, Collection[str]]:
    """Return the users below a path of a bucket by right (read, write, delete); none without the bucket."""
    buckets: Iterable[Mapping[str, Any]] = sound.value(store, VARIABLE) or ()
    declared = next((candidate for candidate in buckets if candidate["name"] == bucket), {})
    around = [
        prefix for prefix in declared.get("prefixes") or () if f"{path}/".startswith(f"{prefix['name']}/")
    ]
    return {
        right: [user for policy in (declared, *around) for user in policy.get(right) or ()]
        for right in RIGHTS
    }
