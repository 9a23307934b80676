"""Files that the inventory promises and that the controller must have."""

from collections.abc import Callable, Iterator

from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.sound import Sound
from aqueduct.estate.model import principal

WITH_CERTIFICATE = (
    *("backup", "connect", "dedup", "diode_downstream", "diode_upstream", "kafka", "mirror_maker"),
    *("object_store", "reconcile"),
)


def check_certificates(
    inventory: Inventory, sound: Sound, is_file: Callable[[str], bool]
) -> Iterator[Finding]:
    """Check that provided certificates are there: the CA's and each service's."""
    missing: dict[tuple[str, str], dict[str, None]] = {}  # folder and file: hosts that need it
    for host, service, site in _presenting(inventory):
        if sound.value(host, "certificates_source") != "provided":
            continue
        folder, name = sound.value(host, "certificates_provided_directory"), f"{principal(service, site)}.pem"
        if not folder:
            sentence = "certificates are provided, but not where; set certificates_provided_directory."
            yield inventory.finding(host, "certificates_source", sentence)
            continue
        if not is_file(f"{folder}/ca.pem"):
            missing.setdefault((folder, "ca.pem"), {})[host] = None
        if not is_file(f"{folder}/{host}/{name}") and not is_file(f"{folder}/{name}"):
            missing.setdefault((folder, f"{name} and no <host>/{name}"), {})[host] = None
    for (folder, name), hosts in missing.items():
        sentence = f"{folder} has no {name} for {some(list(hosts))}; put it there."
        yield inventory.finding(next(iter(hosts)), "certificates_provided_directory", sentence)


def _presenting(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    for site in inventory.sites:
        for service in WITH_CERTIFICATE:
            for host in inventory.members(site, service):
                yield host, service, site
