"""Scrape targets of Prometheus: the exporters that the roles of each host declare."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """An exporter of a host. `name`: its path at the metrics port of the host."""

    role: str
    name: str
    port: int  # of localhost

    @property
    def job(self) -> str:
        """Return the name of the Prometheus job, which depends on the role. Alert rules use it."""
        return f"aqueduct-{self.role.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class MonitoredHost:
    name: str
    site: str
    address: str  # with the metrics port
    exporters: tuple[Exporter, ...]


def targets(hosts: Iterable[MonitoredHost]) -> list[dict[str, Any]]:
    """Return the content of a file for `file_sd_configs`, sorted by host and exporter."""
    return [
        {
            "targets": [host.address],
            "labels": {
                "__metrics_path__": f"/{exporter.name}",
                "job": exporter.job,
                "instance": host.name,
                "site": host.site,
                "exporter": exporter.name,
            },
        }
        for host in sorted(hosts, key=lambda host: host.name)
        for exporter in sorted(host.exporters, key=lambda exporter: exporter.name)
    ]


def declared_exporters(role: str, ports: Mapping[str, Any]) -> list[Exporter]:
    """Return the exporters of a role, without those whose port is 0."""
    return [
        Exporter(role=role, name=str(name), port=int(port)) for name, port in ports.items() if int(port) > 0
    ]
