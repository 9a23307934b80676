"""The one-way links of an estate, declared at their targets (`diode_downstream_links`).

A link has one sending host at its source site and one receiving host at its target site. All settings that
must be equal at both ends are derived from the inventory, because the receiving end cannot be contacted.
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

# A record of a raw topic contains a whole frame, which is larger than its records by at most this.
FRAME_BYTES = 1 << 20

RAW, RECORD = "raw", "record"  # modes of a link


@dataclass(frozen=True, kw_only=True)
class Link:
    """A one-way link from `source` to `target`. Patterns are Python regular expressions for whole names."""

    source: str
    target: str
    number: int  # identifies the link at both ends
    topics: tuple[str, ...]
    given_name: str = ""
    mode: str = RAW  # RECORD: written to topics directly, without raw topic, dedup and ledger
    upstream: str = ""  # sending host; empty if the site has none
    downstream: str = ""  # receiving host
    address: str = ""  # destination: a name or an address of the receiving host
    port: int = 9777
    mac: str = ""  # of the receiving network card, for a static ARP entry; empty: Aqueduct sets no entry
    mtu: int = 0  # 0: the MTU of the network card
    largest_record_bytes: int = 16 << 20
    clean_topics: Mapping[str, str] = field(default_factory=dict)  # target topic by source topic
    upstream_settings: Mapping[str, Any] = field(default_factory=dict)
    downstream_settings: Mapping[str, Any] = field(default_factory=dict)
    sent_by: str = ""  # the link whose sending service also sends the datagrams of this link
    also: tuple["Link", ...] = ()  # links whose datagrams the sending service of this link also sends

    @property
    def name(self) -> str:
        """Return the name in the names of its units. A second link from the same site needs another name."""
        return self.given_name or self.source

    @property
    def sent_as(self) -> str:
        """Return the link's name at its source, which may have links to several sites."""
        return f"{self.target}-{self.name}"

    @property
    def raw_topic(self) -> str:
        """Return the topic at the target with the frames that arrived."""
        return f"diode-raw-{self.name}"

    @property
    def gap_topic(self) -> str:
        """The ledger at the target. Links from one source share it: one can deliver what another one lost."""
        return f"diode-gaps-{self.source}"

    @property
    def group(self) -> str:
        """Return the consumer group at the source whose committed offsets are the position of the link."""
        return f"aqueduct-diode-{self.sent_as}"

    @property
    def targets(self) -> str:
        """Return the option of its sending service: address, port and link number of each destination."""
        return ",".join(f"{_host(link.address)}:{link.port}={link.number}" for link in (self, *self.also))

    @property
    def topics_pattern(self) -> str:
        """Return one regular expression for the whole names of transferred topics (topic_names.matches).

        A legal name matches only itself.
        """
        return "|".join(map(_pattern, self.topics))

    def may_carry(self, topics: Collection[str]) -> bool:
        """Return whether its sending service may transfer one of these topics."""
        return any(
            re.fullmatch(link.topics_pattern, topic) for link in (self, *self.also) for topic in topics
        )

    @classmethod
    def of(cls, groups: Groups, target: str, declared: Mapping[str, Any]) -> "Link":
        """Create a link from an item of `diode_downstream_links`."""
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
    """Return the links that arrive at a site. All its diode_downstream hosts declare the same links."""
    for host in members(groups, site, "diode_downstream")[:1]:
        declared = hostvars[host].get("diode_downstream_links") or ()
        return tuple(Link.of(groups, site, declaration) for declaration in declared)
    return ()


def read_uncompared_links(groups: Groups, hostvars: HostVars, hosts: Iterable[str]) -> tuple[Link, ...]:
    """Return the links without a ledger to the sites of these hosts, except those that a site accepts."""
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
    """Return the links with a raw topic, whose frames dedup reads."""
    return [link for link in links if link.mode == RAW]


def read_links_from(groups: Groups, hostvars: HostVars, site: str) -> tuple[Link, ...]:
    """Return the links from a site that have a sending service, each with the other links that it sends."""
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
    """A service on a host that reads a site's topics and has a position in them: a mirror or a link."""

    host: str
    unit: str
    group: str = ""  # of a link: its position is the committed offsets; mirrors have no group here
    flow: str = ""  # of a mirror
    target: str = ""  # the site that a mirror writes to
    engine: str = ""  # of a mirror


def read_readers(
    groups: Groups, hostvars: HostVars, site: str, topics: Collection[str] | None = None
) -> tuple[Reader, ...]:
    """Return the mirrors and the sending ends of links that read a site.

    `topics`: only those that may read one of these topics. A pattern that Python cannot interpret may match
    any topic.
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
    """Return the declared readers that are in the notes of a host, by host and unit.

    Root starts these units on other hosts, so a compromised host must not be able to add other units.
    """
    entries = [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []
    pairs = [(entry.get("host"), entry.get("unit")) for entry in entries]
    return tuple(reader for reader in readers if (reader.host, reader.unit) in pairs)


@dataclass(frozen=True, kw_only=True)
class DedupWork:
    """The work of one dedup: the raw topics of all links from one source to a site."""

    source: str
    gap_topic: str
    raw_topics: tuple[str, ...]
    clean_topics: Mapping[str, str]  # target topic by source topic; empty: all topics keep their names


def ledgers(links: tuple[Link, ...]) -> tuple[DedupWork, ...]:
    """Return the work of dedup for the links that arrive at one site, with one ledger for each source."""
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
    """Return the raw topics and the gap topics at the target of links, as entries of `kafka_topics`.

    All have the same number of partitions: partition N of a gap topic describes partition N of raw topics.
    """
    raw = {"cleanup.policy": "delete", "retention.ms": str(retention_hours * 3_600_000)}
    # Each transaction rewrites entries. Small log segments are compacted soon, so each start reads less.
    gaps = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
    topic_configs = [
        (link.raw_topic, raw | {"max.message.bytes": str(link.largest_record_bytes + FRAME_BYTES)})
        for link in kept_raw(links)
    ]
    topic_configs += [(ledger.gap_topic, gaps) for ledger in ledgers(links)]
    return [{"name": name, "partitions": partitions, "config": config} for name, config in topic_configs]
