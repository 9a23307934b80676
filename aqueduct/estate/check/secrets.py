"""Files that the inventory promises and that the controller must have."""

from collections.abc import Callable, Iterator

from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.sound import Sound
from aqueduct.estate.model import principal

WITH_CERTIFICATE = (
    *(
        "backup",
        "connect",
        "dedup",
        "diode_downstream",
        "diode_upstream",
        "drill",
        "hdfs",
        "hive_server",
        "kafka",
        "land",
    ),
    *(
        "mirror_maker",
        "monitoring",
        "object_store",
        "reconcile",
        "schema_registry",
        "spark_history",
        "spark_master",
        "spark_worker",
        "zookeeper",
    ),
)


def check_certificates(
    inventory: Inventory,
    sound: Sound,
    is_file: Callable[[str], bool],
    provided_fault: Callable[[str, str, str], str],
) -> Iterator[Finding]:
    """Check that provided certificates are there, the CA's and each service's, and can serve."""
    # Path, and the sentence before and after the hosts: the hosts.
    faults: dict[tuple[str, str, str], dict[str, None]] = {}
    for host, service, site in _presenting(inventory):
        if sound.value(host, "certificates_source") != "provided":
            continue
        owner = principal(service, site)
        folder, name = sound.value(host, "certificates_provided_directory"), f"{owner}.pem"
        if not folder:
            sentence = "certificates are provided, but not where; set certificates_provided_directory."
            yield inventory.finding(host, "certificates_source", sentence)
            continue
        has_authority = is_file(f"{folder}/ca.pem")
        if not has_authority:
            faults.setdefault((folder, "has no ca.pem for", "; put it there"), {})[host] = None
        file = next(filter(is_file, (f"{folder}/{host}/{name}", f"{folder}/{name}")), "")
        if not file:
            missing = f"has no {name} and no <host>/{name} for"
            faults.setdefault((folder, missing, "; put it there"), {})[host] = None
        elif has_authority and (fault := provided_fault(file, f"{folder}/ca.pem", owner)):
            remedy = f": {fault}; put one there that can"
            faults.setdefault((file, "can't serve", remedy), {})[host] = None
    for (path, predicate, remedy), hosts in faults.items():
        sentence = f"{path} {predicate} {some(list(hosts))}{remedy}."
        yield inventory.finding(next(iter(hosts)), "certificates_provided_directory", sentence)


def _presenting(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    for site in inventory.sites:
        for service in WITH_CERTIFICATE:
            for host in inventory.members(site, service):
                yield host, service, site
