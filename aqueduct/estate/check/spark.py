"""Checks of a site's Spark cluster, and of the master and settings of its applications."""

from collections.abc import Iterator

from aqueduct.errors import Labelled
from aqueduct.estate import spark
from aqueduct.estate.check.inventory import Finding, Inventory, some
from aqueduct.estate.check.valid_inventory import Sound

APPLICATIONS = ("backup", "dedup", "land", "reconcile")
LIMITS = {"spark.cores.max", "spark.dynamicAllocation.enabled"}


def check_spark(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    yield from _check_cluster(inventory, sound, site)
    yield from _check_shares(inventory, sound, site)
    for host in inventory.members(site):
        faults = [*_faults_of_master(inventory, sound, host)]
        yield from faults
        if any(host in inventory.members(site, service) for service in APPLICATIONS):
            yield from _faults_of_settings(inventory, sound, host)
        if faults:
            break  # other hosts have the same variable


def _check_cluster(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    masters, workers = inventory.members(site, "spark_master"), inventory.members(site, "spark_worker")
    if workers and not masters:
        sentence = f"site {site} has no master for {some(workers)}; put a host into the group spark_master."
        yield Finding(
            where=inventory.declared(workers[0]),
            what="spark_worker",
            fault=Labelled("spark-cluster-incomplete", sentence),
        )
    if masters and not workers:
        sentence = f"the master of site {site} has no workers; put a host into the group spark_worker."
        yield Finding(
            where=inventory.declared(masters[0]),
            what="spark_master",
            fault=Labelled("spark-cluster-incomplete", sentence),
        )
    for host in inventory.members(site, "spark_history"):
        if sound.value(host, "spark_event_log_directory") == "":
            sentence = (
                f"{host} would show the logs of Spark applications, but no folder for them is set; "
                "set one, or remove the host from the group spark_history."
            )
            yield inventory.finding(
                host, "spark_event_log_directory", Labelled("variable-required", sentence)
            )
    for host in masters:
        recovery = sound.value(host, "spark_master_recovery") or "file"
        if len(masters) > 1 and recovery != "zookeeper":
            sentence = (
                f"{some(masters)} would all become leaders; set this variable to zookeeper, or keep "
                "only one master."
            )
            yield inventory.finding(
                host, "spark_master_recovery", Labelled("service-host-repeated", sentence)
            )
            break
        if recovery == "zookeeper" and not sound.value(host, "spark_master_recovery_zookeeper"):
            sentence = (
                "masters recover with ZooKeeper, but no ensemble is set; set spark_master_recovery_zookeeper."
            )
            yield inventory.finding(host, "spark_master_recovery", Labelled("variable-required", sentence))
            break


def _check_shares(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    """Check that continuous services do not use all cores of a standalone cluster."""
    periodic = [
        host for host in inventory.members(site, "backup") if sound.value(host, "backup_every_seconds")
    ]
    services = {name: inventory.members(site, name) for name in ("dedup", "land")}
    for service, hosts in {"backup": periodic, **services}.items():
        for host in hosts:
            master = sound.value(host, "spark_master")
            own = master is None and inventory.members(site, "spark_master")
            settings = sound.value(host, "spark_settings") or {}
            if (own or spark.named_hosts(master or "")) and LIMITS.isdisjoint(settings):
                sentence = (
                    f"{service} would use all cores of its cluster, and other applications would "
                    "wait for ever; set spark.cores.max in spark_settings."
                )
                yield Finding(
                    where=inventory.declared(host),
                    what=host,
                    fault=Labelled("spark-cores-unlimited", sentence),
                    is_warning=True,
                )


def _faults_of_master(inventory: Inventory, sound: Sound, host: str) -> Iterator[Finding]:
    master = sound.value(host, "spark_master")
    if master is None:
        return
    if not spark.MASTER.fullmatch(master):
        sentence = (
            f"{master} is not a Spark master; write spark://HOST:7077, yarn, k8s://URL or "
            "local[*], or delete the line to use the master of the site."
        )
        yield inventory.finding(host, "spark_master", Labelled("address-form-wrong", sentence))
    unknown = spark.unknown_hosts(inventory.groups, inventory.hosts, master)
    if unknown and not sound.value(host, "spark_secret"):
        sentence = (
            f"{some(unknown)} is not in the group spark_master, so its secret is unknown; use a "
            "host of this group or, for an external cluster, set spark_secret."
        )
        yield inventory.finding(host, "spark_master", Labelled("host-not-in-group", sentence))


def _faults_of_settings(inventory: Inventory, sound: Sound, host: str) -> Iterator[Finding]:
    settings = sound.value(host, "spark_settings") or {}
    for key, value in settings.items():
        if not str(key).startswith("spark."):
            sentence = f"{key} is not a setting of Spark; write a name that begins with spark."
            yield inventory.finding(
                host, "spark_settings", Labelled("spark-setting-refused", sentence), (key,)
            )
        elif key == "spark.master":
            fault = Labelled("spark-setting-refused", "set spark_master instead.")
            yield inventory.finding(host, "spark_settings", fault, (key,))
        elif key == "spark.speculation" and str(value).lower() == "true":
            sentence = "copies of a task that writes would fence each other; remove this setting."
            yield inventory.finding(
                host, "spark_settings", Labelled("spark-setting-refused", sentence), (key,)
            )
        elif key == "spark.ui.enabled" and str(value).lower() == "true":
            sentence = (
                "the web page of an application has no certificate, so everyone could read it; "
                "remove this setting, and use a history server (spark_history)."
            )
            yield inventory.finding(
                host, "spark_settings", Labelled("spark-setting-refused", sentence), (key,)
            )
