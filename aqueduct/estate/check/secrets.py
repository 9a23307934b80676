"""Checks of provided certificates, which the control node must have."""

from collections.abc import Callable, Iterator

from aqueduct.errors import Labelled
from aqueduct.estate.check.flows import declared_at
from aqueduct.estate.check.host_names import LISTENERS, VARIABLES
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.valid_inventory import Sound
from aqueduct.estate.model import SITE_PREFIX, Groups, HostVars, principal, site_names
from aqueduct.estate.provided_certificates import ServiceOfHost

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

# Services that accept no connections.
CLIENTS = ("backup", "dedup", "diode_downstream", "diode_upstream", "land", "reconcile")


def check_certificates(
    inventory: Inventory,
    sound: Sound,
    is_file: Callable[[str], bool],
    provided_fault: Callable[[str, str, str], str],
    unsuitable: Callable[[str, ServiceOfHost], Labelled | None],
) -> Iterator[Finding]:
    """Check that the provided certificates of the CA and of each service exist and are valid."""
    missing: dict[tuple[str, str], dict[str, None]] = {}  # hosts by folder and missing file
    unusable: dict[tuple[str, str], dict[str, None]] = {}  # hosts by file and fault
    faults: dict[Labelled, str] = {}  # the first host with each fault
    presented = _presented(inventory, sound)
    for host, service, site in _presenting(inventory):
        if sound.value(host, "certificates_source") != "provided":
            continue
        owner = _owner(sound, host, service, site)
        folder, name = sound.value(host, "certificates_provided_directory"), f"{owner}.pem"
        if not folder:
            sentence = (
                "certificates are provided, but their folder is not set; set certificates_provided_directory."
            )
            yield inventory.finding(host, "certificates_source", Labelled("variable-required", sentence))
            continue
        has_authority = is_file(f"{folder}/ca.pem")
        if not has_authority:
            missing.setdefault((folder, "no ca.pem"), {})[host] = None
        file = next(filter(is_file, (f"{folder}/{host}/{name}", f"{folder}/{name}")), "")
        if not file:
            missing.setdefault((folder, f"no {name} and no <host>/{name}"), {})[host] = None
        elif has_authority and (reason := provided_fault(file, f"{folder}/ca.pem", owner)):
            unusable.setdefault((file, reason), {})[host] = None
        elif has_authority and (misuse := unsuitable(file, presented(host, service, site))):
            faults.setdefault(misuse, host)
    for (folder, absent), hosts in missing.items():
        sentence = f"{folder} has {absent} for {some(list(hosts))}; copy the file to this folder."
        faults[Labelled("provided-certificate-missing", sentence)] = next(iter(hosts))
    for (file, reason), hosts in unusable.items():
        sentence = (
            f"{file} cannot be used for {some(list(hosts))}: {reason}; replace it with a suitable "
            "certificate."
        )
        faults[Labelled("provided-certificate-unusable", sentence)] = next(iter(hosts))
    for fault, host in faults.items():
        yield inventory.finding(host, "certificates_provided_directory", fault)


def holders(groups: Groups, hostvars: HostVars, owner: str) -> set[str]:
    """Return the hosts that use the certificate of a principal, also only while a playbook runs."""
    service_principal = owner.partition(".")[0]
    hosts = {host for host in groups.get("kafka", ()) if hostvars[host].get("kafka_principal") == owner}
    for site in site_names(groups):
        of_site = set(groups[SITE_PREFIX + site])
        named = {service: principal(service, site) for service in WITH_CERTIFICATE}
        presenting = {service for service, name in named.items() if name == service_principal}
        if service_principal in ("admin", f"restore-{site}"):
            presenting.add("backup")
        if service_principal == f"dlq-replay-{site}":
            presenting.add("connect")
        hosts |= {host for service in presenting for host in groups.get(service, ()) if host in of_site}
    return hosts


def _presented(inventory: Inventory, sound: Sound) -> Callable[[str, str, str], ServiceOfHost]:
    """Return a function that describes a service of a host for the check of its certificate."""
    names_by_host: dict[str, set[str]] = {host: {host} for host in inventory.hosts}
    for host, service, _ in _presenting(inventory):
        names_by_host[host].update(_names(sound, host, service))
    holders_by_owner: dict[str, set[str]] = {}

    def describe(host: str, service: str, site: str) -> ServiceOfHost:
        owner = _owner(sound, host, service, site)
        if owner not in holders_by_owner:
            holders_by_owner[owner] = holders(inventory.groups, inventory.hosts, owner)
        own_hosts = holders_by_owner[owner] | {host}
        own = {name for own_host in own_hosts for name in names_by_host[own_host]}
        return ServiceOfHost(
            principal=owner,
            serves=_serves(sound, service, site),
            names=tuple(_names(sound, host, service)),
            foreign_names=frozenset(
                name
                for other_host, names in names_by_host.items()
                if other_host not in own_hosts
                for name in names - own
            ),
        )

    return describe


def _owner(sound: Sound, host: str, service: str, site: str) -> str:
    """Return the principal of a service of a host."""
    declared = sound.value(host, "kafka_principal") if service == "kafka" else None
    return str(declared or principal(service, site))


def _names(sound: Sound, host: str, service: str) -> list[str]:
    """Return the names under which other hosts connect to a service; its role adds them to certificates."""
    if service == "drill":
        return ["localhost"]
    variable = VARIABLES.get(service)
    names = [host, str((variable and sound.value(host, variable)) or host)]
    if service == "kafka":
        listeners = sound.value(host, LISTENERS) or ()
        names += [str(listener["advertised_host"]) for listener in listeners]
    if service == "object_store":
        names += map(str, sound.value(host, "object_store_further_names") or ())
    return list(dict.fromkeys(names))


def _serves(sound: Sound, service: str, site: str) -> bool:
    """Return whether a service accepts connections."""
    if service == "mirror_maker":
        return any(mirror.flow.engine == "mm2" for mirror in declared_at(sound, site))
    return service not in CLIENTS


def _presenting(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    for site in inventory.sites:
        for service in WITH_CERTIFICATE:
            for host in inventory.members(site, service):
                yield host, service, site
