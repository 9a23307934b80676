"""The files of a new inventory, for sites on machines or in containers of this machine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aqueduct.control_node.starter.sites import NewSite, Sites

MACHINES = 3  # with Kafka at each site: one may fail
LOCKED_DAYS = 14  # of backups: until then, no user removes or replaces an object
FIRST_PORT = 19_691  # of the brokers of a lab, on localhost; molecule's labs have others


@dataclass(frozen=True)
class _Place:
    """The hosts of an estate, by what they do."""

    sites: Sites
    is_lab: bool

    def kafka(self, site: NewSite) -> list[str]:
        return [self._host("kafka", site, number) for number in range(1, 2 if self.is_lab else MACHINES + 1)]

    def mirrors(self, site: NewSite) -> list[str]:
        """Return the hosts of MirrorMaker: in a lab, the broker's."""
        return self.kafka(site) if self.is_lab else [self._host("mirror", site, number) for number in (1, 2)]

    def backup(self, site: NewSite) -> str:
        return self.kafka(site)[0] if self.is_lab else self._host("backup", site, 1)

    @property
    def store(self) -> tuple[NewSite, str] | None:
        """Return the site and the host of the object store: the first lake's, far from what it backs up."""
        if not self.sites.lakes:
            return None
        return self.sites.lakes[0], self._host("store", self.sites.lakes[0], 1)

    def hosts(self, site: NewSite) -> list[str]:
        """Return all hosts of a site, each once."""
        every = self.kafka(site)
        every += self.mirrors(site) if site.is_lake else [self.backup(site)] if self.store else []
        every += [self.store[1]] if self.store and self.store[0] == site else []
        return [*dict.fromkeys(every)]

    def _host(self, service: str, site: NewSite, number: int) -> str:
        return (
            f"{site.name}-{service}-{number}"
            if self.is_lab
            else f"{service}-{number}.{site.name}.example.com"
        )


def inventory_files(sites: Sites, *, is_lab: bool) -> Mapping[str, str]:
    """Return the files that depend on the sites, by their paths in the inventory."""
    place = _Place(sites, is_lab)
    return {
        "hosts.yml": "\n".join(_hosts_file(place)) + "\n",
        **{
            f"group_vars/site_{site.name}.yml": "\n".join(_site_file(place, site)) + "\n"
            for site in sites.every
        },
    }


def _hosts_file(place: _Place) -> Iterator[str]:
    sites = place.sites
    if place.is_lab:
        yield "# An estate of containers on this machine. Start them: ansible-playbook aqueduct.estate.lab_up"
    else:
        yield "# The hosts of the estate. Replace their names with yours."
    yield "all:"
    yield "  children:"
    yield "    # The site of each host: one group site_<name>. Its settings: group_vars/site_<name>.yml."
    for site in sites.every:
        yield f"    site_{site.name}:"
        yield "      hosts:"
        yield from (f"        {host}:" for host in place.hosts(site))
    if place.is_lab:
        yield ""
        yield "    # Containers, not machines: see group_vars/lab.yml."
        yield "    lab:"
        yield "      children:"
        yield from (f"        site_{site.name}:" for site in sites.every)
    yield ""
    yield "    # The services of each host: it is in the group of each of its services."
    yield "    # Node ids are unique in their site. Never change the node id of a machine."
    yield "    kafka:"
    yield "      hosts:"
    port = FIRST_PORT
    for site in sites.every:
        for number, host in enumerate(place.kafka(site), start=1):
            more = f", lab_published_port: {port}" if place.is_lab else f", kafka_rack: {'abc'[number - 1]}"
            yield f"        {host}: {{kafka_node_id: {number}{more}}}"
            port += 1
    if sites.lakes:
        yield from _group(
            "mirror_maker",
            "MirrorMaker runs at the target site. One of two hosts can fail.",
            [host for site in sites.lakes for host in place.mirrors(site)],
        )
        yield from _group(
            "reconcile",
            "Compares both ends of each flow: one host per lake.",
            [place.mirrors(site)[0] for site in sites.lakes],
        )
    if place.store:
        yield from _group("object_store", "An S3 server for backups, far from their sites.", [place.store[1]])
        yield from _group(
            "backup",
            "Backs up and restores the Kafka cluster of its site: one host per site.",
            [place.backup(site) for site in sites.production],
        )


def _group(name: str, comment: str, hosts: list[str]) -> Iterator[str]:
    yield f"    # {comment}"
    yield f"    {name}:"
    yield "      hosts:"
    yield from (f"        {host}:" for host in hosts)


def _site_file(place: _Place, site: NewSite) -> Iterator[str]:
    if not site.is_lake:
        replicas = len(place.kafka(site))
        yield f"# {site.name}: its topics, and the ACLs of its clients. Mirrors need no ACLs here."
        yield "kafka_topics:"
        yield "  - name: flights"
        yield "    partitions: 3"
        if replicas > 1:
            yield "    config:"
            yield '      min.insync.replicas: "2"'
        yield "# Access without an ACL is denied. A principal is the CN of a client's certificate."
        yield "kafka_acls:"
        yield "  - principal: flights"
        yield "    resource: topic"
        yield "    name: flights"
        yield "    operations: [write, describe]"
        return
    yield f"# {site.name}: a lake. It mirrors all topics of each production site, as <site>.<topic>."
    yield "mirror_maker_flows:"
    for source in place.sites.production:
        yield f"  - source: {source.name}"
        yield "    topics: ['.*']"
        yield "    naming: prefix"
    if place.store and place.store[0] == site:
        yield "# Each site can write below its own prefix, and cannot delete objects."
        yield f"# For {LOCKED_DAYS} days after it was written, no user removes or replaces an object."
        yield "object_store_buckets:"
        yield "  - name: backup"
        yield f"    locked_days: {LOCKED_DAYS}"
        yield "    prefixes:"
        for source in place.sites.production:
            yield f"      - {{name: {source.name}, write: [backup-{source.name}]}}"
