"""The lab, as its inventory says."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct.estate.links import Link, read_links
from aqueduct.estate.model import Flow, members, read_all_flows, site_names

INVENTORY = Path("inventories/lab")
PKI = INVENTORY / "pki"
REPORTS = INVENTORY / "reports"
ADMIN = PKI / "clients/admin.properties"


@dataclass(frozen=True)
class Lab:
    groups: dict[str, list[str]]
    variables: dict[str, dict[str, Any]]  # by host

    @property
    def mirrors(self) -> tuple[Flow, ...]:
        return read_all_flows(self.groups, self.variables)

    @property
    def links(self) -> list[Link]:
        sites = site_names(self.groups)
        return [link for site in sites for link in read_links(self.groups, self.variables, site)]

    @property
    def ports(self) -> dict[str, int]:
        """Return the ports on localhost, by site."""
        return {
            site: self.variables[self.broker(site)]["lab_published_port"] for site in site_names(self.groups)
        }

    def broker(self, site: str) -> str:
        return members(self.groups, site, "kafka")[0]

    def address(self, site: str) -> str:
        return f"localhost:{self.ports[site]}"

    def container(self, host: str) -> str:
        return f"{self.variables[host]['lab_name']}-{host}"

    def run(self, host: str, *command: str) -> str:
        """Run a command on a host, and return its output."""
        return output("docker", "exec", self.container(host), *command)


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"demo: {' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def read_lab() -> Lab:
    listing = json.loads(output("ansible-inventory", "--inventory", str(INVENTORY), "--list"))
    variables = listing.pop("_meta")["hostvars"]
    return Lab({name: group.get("hosts", []) for name, group in listing.items()}, variables)
