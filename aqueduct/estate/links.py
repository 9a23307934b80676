"""The one-way links of an estate, declared where they arrive (`diode_downstream_links`).

A link has one sending host in its source site and one receiving host in its target site. Whatever both ends
must agree on is worked out here, from the inventory alone: nothing is ever asked of the other side.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aqueduct.common.topic_names import INTERNAL, LEGAL_NAME
from aqueduct.estate.model import (
    SITE_PREFIX,
    Groups,
    HostVars,
    members,
    read_mirrors,
    site_names,
    texts,
)

# A raw topic's records hold whole frames: as much as a record of the source, and what frames it.
FRAME_BYTES = 1 << 20

RAW, RECORD = "raw", "record"  # modes of a link


@dataclass(frozen=True, kw_only=True)
class Link:
    """A one-way link from `source` to `target`. Patterns are Python regular expressions for whole names."""

    source: str
    target: str
    number: int  # by which both ends know it
    topics: tuple[str, ...]
    given_name: str = ""
    mode: str = RAW  # RECORD: straight into the plain topics, without raw topic, dedup and ledger
    upstream: str = ""  # host that sends; empty where the site has none
    downstream: str = ""  # host that receives
    address: str = ""  # where it is sent to: a name or an address of the receiving host
    port: int = 9777
    mac: str = ""  # of the receiving network card, which can't be asked; empty: somebody else sees to that
    mtu: int = 0  # 0: the network cards' own
    largest_record_bytes: int = 16 << 20
    clean_topics: Mapping[str, str] = field(
        default_factory=dict
    )  # what is written, by its name at the source
    upstream_settings: Mapping[str, Any] = field(default_factory=dict)
    downstream_settings: Mapping[str, Any] = field(default_factory=dict)
    sent_by: str = ""  # name of the link whose sending service sends this one's datagrams, too
    also: tuple["Link", ...] = ()  # the links whose datagrams its sending service sends, too

    @property
    def name(self) -> str:
        """Return the name that its units have; a second link from one site needs another."""
        return self.given_name or self.source

    @property
    def sent_as(self) -> str:
        """Return the link's name at its source, which may have links to several sites."""
        return f"{self.target}-{self.name}"

    @property
    def raw_topic(self) -> str:
        """Return the topic at the target that keeps what arrived."""
        return f"diode-raw-{self.name}"

    @property
    def gap_topic(self) -> str:
        """The ledger, at the target. All links from one source share it: what one lost, another may bring."""
        return f"diode-gaps-{self.source}"

    @property
    def group(self) -> str:
        """Return the group that the link's position is committed as, at the source."""
        return f"aqueduct-diode-{self.sent_as}"

    @property
    def targets(self) -> str:
        """Return the option of its sending service: where it sends to, and each link's number there."""
        return ",".join(f"{_host(link.address)}:{link.port}={link.number}" for link in (self, *self.also))

    @property
    def topics_pattern(self) -> str:
        """Return one regular expression for whole names that cross, see names.matches.

        A legal name stands for itself alone.
        """
        return "|".join(map(_pattern, self.topics))

    def may_carry(self, topics: Collection[str]) -> bool:
        """Return whether one of these topics may cross by its sending service."""
        return any(
            re.fullmatch(link.topics_pattern, topic) for link in (self, *self.also) for topic in topics
        )

    @classmethod
    def of(cls, groups: Groups, target: str, declared: Mapping[str, Any]) -> "Link":
        """Make a link from an item of `diode_downstream_links`."""
        source = declared["source"]
        downstream = declared.get("downstream") or _first(groups, target, "diode_downstream")
        return cls(
            source=source,
            target=target,
            number=int(declared["number"]),
            topics=texts(declared["topics"]),
            given_name=declared.get("name", ""),
            mode=declared.get("mode", cls.mode),
            upstream=declared.get("upstream") or _first(groups, source, "diode_upstream"),
            downstream=downstream,
            address=declared.get("address") or downstream,
            port=int(declared.get("port", cls.port)),
            mac=declared.get("mac", ""),
            mtu=int(declared.get("mtu", cls.mtu)),
            largest_record_bytes=int(declared.get("largest_record_bytes", cls.largest_record_bytes)),
            clean_topics=dict(declared.get("clean_topics", {})),
            upstream_settings=dict(declared.get("upstream_settings", {})),
            downstream_settings=dict(declared.get("downstream_settings", {})),
            sent_by=declared.get("sent_by", ""),
        )


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _pattern(topic: str) -> str:
    if LEGAL_NAME.fullmatch(topic):
        return re.escape(topic)
    return f"(?:{topic})" if INTERNAL in topic else f"(?!{INTERNAL})(?:{topic})"


def _first(groups: Groups, site: str, service: str) -> str:
    hosts = members(groups, site, service) if f"site_{site}" in groups else []
    return hosts[0] if hosts else ""


def read_links(groups: Groups, hostvars: HostVars, site: str) -> tuple[Link, ...]:
    """Return the links that arrive at a site; they are the same on all of its diode_downstream hosts."""
    for host in members(groups, site, "diode_downstream")[:1]:
        declared = hostvars[host].get("diode_downstream_links") or ()
        return tuple(Link.of(groups, site, declaration) for declaration in declared)
    return ()


def read_uncompared_links(groups: Groups, hostvars: HostVars, hosts: Iterable[str]) -> tuple[Link, ...]:
    """Return the links without a ledger to the sites of these hosts, but those that the site accepts."""
    compared = set(hosts)
    uncompared: list[Link] = []
    for site in site_names(groups):
        if compared.isdisjoint(groups[SITE_PREFIX + site]):
            continue
        for host in members(groups, site, "diode_downstream")[:1]:
            accepted = hostvars[host].get("diode_downstream_uncompared_links") or ()
            links = read_links(groups, hostvars, site)
            uncompared += [link for link in links if link.mode == RECORD and link.name not in accepted]
    return tuple(uncompared)


def kept_raw(links: Iterable[Link]) -> list[Link]:
    """Return the links whose frames are kept for dedup."""
    return [link for link in links if link.mode == RAW]


def read_links_from(groups: Groups, hostvars: HostVars, site: str) -> tuple[Link, ...]:
    """Return the links that leave a site by a sending service of their own, each with those it sends, too."""
    links = (link for target in site_names(groups) for link in read_links(groups, hostvars, target))
    leaving = [link for link in links if link.source == site]
    return tuple(
        replace(link, also=tuple(sent for sent in leaving if _sends(link, sent)))
        for link in leaving
        if not link.sent_by
    )


def _sends(link: Link, other: Link) -> bool:
    return (link.target, link.name) == (other.target, other.sent_by)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A service that reads a site's topics and keeps a position in them: a unit on a host."""

    host: str
    unit: str
    group: str = ""  # of a link, whose offsets are its position; a restore moves a mirror's by other means
    flow: str = ""  # of a mirror
    target: str = ""  # the site that a mirror writes to
    engine: str = ""  # of a mirror


def read_readers(
    groups: Groups, hostvars: HostVars, site: str, topics: Collection[str] | None = None
) -> tuple[Reader, ...]:
    """Return a site's readers: mirrors and the sending ends of links.

    `topics`: only those that may read one of these. A pattern that cannot be read here may match any topic.
    """
    mirrors = read_mirrors(groups, hostvars, site, topics)
    links = read_links_from(groups, hostvars, site)
    return (
        *(
            Reader(
                host=mirror.host,
                unit=f"mirror_maker@{mirror.flow}",
                flow=mirror.flow,
                target=mirror.target,
                engine=mirror.engine,
            )
            for mirror in mirrors
        ),
        *(
            Reader(host=link.upstream, unit=f"diode_upstream@{link.sent_as}", group=link.group)
            for link in links
            if topics is None or link.may_carry(topics)
        ),
    )


def noted_readers(readers: Iterable[Reader], noted: Any) -> tuple[Reader, ...]:
    """Return the readers that a host noted, by their hosts and units.

    Root starts them on other hosts, so a compromised host must not choose units that are not declared.
    """
    entries = [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []
    pairs = [(entry.get("host"), entry.get("unit")) for entry in entries]
    return tuple(reader for reader in readers if (reader.host, reader.unit) in pairs)


@dataclass(frozen=True, kw_only=True)
class DedupWork:
    """The work of one dedup: all that arrives raw at a site from one source, by however many links."""

    source: str
    gap_topic: str
    raw_topics: tuple[str, ...]
    clean_topics: Mapping[str, str]  # empty: every topic, by its own name


def ledgers(links: tuple[Link, ...]) -> tuple[DedupWork, ...]:
    """Return the work of dedup for the links that arrive at one site: a ledger for each source."""
    links_by_source: dict[str, list[Link]] = {}
    for link in kept_raw(links):
        links_by_source.setdefault(link.source, []).append(link)
    return tuple(
        DedupWork(
            source=source,
            gap_topic=some[0].gap_topic,
            raw_topics=tuple(link.raw_topic for link in some),
            clean_topics={name: clean for link in some for name, clean in link.clean_topics.items()},
        )
        for source, some in links_by_source.items()
    )


def topics(links: tuple[Link, ...], *, partitions: int, retention_hours: int) -> list[dict[str, Any]]:
    """Return the raw and the gap topics at the links' target, as entries of `kafka_topics`.

    All have as many partitions: one of a gap topic tells of what is in the same one of the raw topics.
    """
    raw = {"cleanup.policy": "delete", "retention.ms": str(retention_hours * 3_600_000)}
    # Each transaction rewrites entries: small segments are compacted soon, and read fast at every start.
    gaps = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
    topic_configs = [
        (link.raw_topic, raw | {"max.message.bytes": str(link.largest_record_bytes + FRAME_BYTES)})
        for link in kept_raw(links)
    ]
    topic_configs += [(ledger.gap_topic, gaps) for ledger in ledgers(links)]
    return [{"name": name, "partitions": partitions, "config": config} for name, config in topic_configs]
