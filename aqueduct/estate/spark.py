"""The Spark cluster of a site, and the Spark master of its applications, possibly of another site."""

import re
from collections.abc import Mapping

from aqueduct.estate.model import Groups, HostVars, members, site_names

LOCAL = "local[*]"
# The forms of Spark masters: local, standalone, YARN and Kubernetes.
MASTER = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|spark://[^,/]+:\d+(,[^,/]+:\d+)*|yarn|k8s://.+")


def is_local(master: str) -> bool:
    """Return whether a master runs all tasks on the host of the application."""
    return master.startswith("local")


def named_hosts(master: str) -> list[str]:
    """Return the hosts in the URL of a standalone master; empty for other masters."""
    if not master.startswith("spark://"):
        return []
    return [address.rpartition(":")[0] for address in master.removeprefix("spark://").split(",")]


def own_master(groups: Groups, hostvars: HostVars, site: str, default_port: int) -> str:
    """Return the URL of a site's masters; local[*] if the site has none."""
    addresses = [
        f"{address(host, hostvars)}:{hostvars[host].get('spark_master_port', default_port)}"
        for host in members(groups, site, "spark_master")
    ]
    return f"spark://{','.join(addresses)}" if addresses else LOCAL


def address(host: str, hostvars: HostVars) -> str:
    """Return the name under which other hosts connect to Spark on a host."""
    return str(hostvars[host].get("spark_host", host))


def master_host(groups: Groups, hostvars: HostVars, master: str) -> str:
    """Return the first host of the group spark_master that is in the URL; empty if none is."""
    named = named_hosts(master)
    masters = groups.get("spark_master", ())
    return next((host for host in masters if {host, address(host, hostvars)} & {*named}), "")


def unknown_hosts(groups: Groups, hostvars: HostVars, master: str) -> list[str]:
    """Return the hosts in a URL that are not in the group spark_master."""
    masters = groups.get("spark_master", ())
    known_hosts = {name for host in masters for name in (host, address(host, hostvars))}
    return [host for host in named_hosts(master) if host not in known_hosts]


def site_of(groups: Groups, host: str) -> str:
    """Return the site of a host of the group spark_master; empty if no site has it."""
    return next((site for site in site_names(groups) if host in members(groups, site, "spark_master")), "")


def defaults_file(properties: Mapping[str, object]) -> str:
    """Return the text of a `spark-defaults.conf`, which has the syntax of Java properties."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(properties.items()))


def pages(folder: str, password: str) -> dict[str, str]:
    """Return the settings for web pages with TLS that require a client certificate.

    `folder`: contains the PKCS12 stores of a principal, because Jetty does not support PEM.
    """
    return {
        "spark.ssl.enabled": "true",
        "spark.ssl.needClientAuth": "true",
        **_store("key", f"{folder}/rest.p12", password),
        "spark.ssl.keyPassword": password,
        **_store("trust", f"{folder}/trust.p12", password),
    }


def _store(kind: str, path: str, password: str) -> dict[str, str]:
    prefix = f"spark.ssl.{kind}Store"
    return {prefix: path, f"{prefix}Type": "PKCS12", f"{prefix}Password": password}


def _escaped(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\\\").replace("\n", "\\n")
