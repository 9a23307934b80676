"""The names under which hosts of a site connect to each other, for rules that exclude other hosts."""

from aqueduct.estate.check.host_names import VARIABLES
from aqueduct.estate.model import SITE_PREFIX, Groups, HostVars


def site_hosts(groups: Groups, hostvars: HostVars, site: str) -> list[list[str]]:
    """Return the names of each host of a site: its inventory name, then the names of its services."""
    return [_names(groups, hostvars, host) for host in groups[SITE_PREFIX + site]]


def _names(groups: Groups, hostvars: HostVars, host: str) -> list[str]:
    variables = {name for service, name in VARIABLES.items() if name and host in groups.get(service, ())}
    given_names = {str(hostvars[host][name]) for name in variables if hostvars[host].get(name)}
    return [host, *sorted(given_names - {host})]
