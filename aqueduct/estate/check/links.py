"""Checks of one-way links: their ends, settings and topics, and topics that several links write."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import combinations

from aqueduct.common.topic_names import INTERNAL, LEGAL_NAME, OWN_TOPICS
from aqueduct.errors import Labelled
from aqueduct.estate.check.flows import declared_at as declared_flows
from aqueduct.estate.check.inventory import Finding, Inventory, did_you_mean, some
from aqueduct.estate.check.sites import LEGAL_SITE
from aqueduct.estate.check.valid_inventory import Item, Sound
from aqueduct.estate.connectors import DeclaredConnector
from aqueduct.estate.languages import EVERYTHING, Language, shortest, words
from aqueduct.estate.links import RECORD, Link
from aqueduct.estate.patterns import PatternError, language, names

VARIABLE = "diode_downstream_links"
RESERVED = ("keys", "tls")  # of /etc/aqueduct/diode_downstream
MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
LARGEST_NUMBER = 65_535


@dataclass(frozen=True, eq=False, kw_only=True)
class DeclaredLink(Item):
    """A link with the place of its declaration."""

    link: Link


def check_links(inventory: Inventory, sound: Sound, site: str) -> Iterator[Finding]:
    """Check the links that arrive at a site."""
    declared_links = [
        DeclaredLink(**vars(declaration), link=Link.of(inventory.groups, site, declaration.value))
        for declaration in sound.items(site, VARIABLE)
    ]
    yield from _hosts(inventory, site, declared_links)
    right = []
    for declared in declared_links:
        faults = [
            *_check_source(declared),
            *_check_ends(declared),
            *_check_values(declared),
            *_check_neighbour(declared, sound),
        ]
        yield from faults
        right += [] if faults else [declared]
    for declared in right:
        yield from _check_sent_by(declared, [other.link for other in declared_links])
    for one, other in combinations(right, 2):
        yield from _check_pair(one, other)
    senders = {declared.link.name: declared.link for declared in right}
    for declared in right:
        yield from _check_topics(declared, sound)
        yield from _check_partitions(declared, senders.get(declared.link.sent_by, declared.link), sound)


def _hosts(inventory: Inventory, site: str, declared_links: list[DeclaredLink]) -> Iterator[Finding]:
    """Check for links without hosts, and hosts without links."""
    receiving, dedup = inventory.members(site, "diode_downstream"), inventory.members(site, "dedup")
    raw = [declared for declared in declared_links if declared.link.mode != RECORD]
    for service, hosts, links in (("diode_downstream", receiving, declared_links), ("dedup", dedup, raw)):
        if links and not hosts:
            sentence = f"site {site} has no host for its links in the group {service}; put a host into it."
            yield links[0].finding(Labelled("service-without-host", sentence))
        if hosts and not links:
            # A warning, because the services of a site's last link are stopped in this way.
            lack = "no link arrives" if not declared_links else "no link that needs dedup arrives"
            sentence = (
                f"{lack} at site {site}, so {some(hosts)} will do nothing; if this is not "
                "intended, declare a link."
            )
            fault = Labelled("service-without-work", sentence)
            yield inventory.finding(hosts[0], VARIABLE, fault, is_warning=True)
    if len(dedup) > 1:
        sentence = (
            f"{some(dedup)} would block each other at site {site}; keep only one of them in the group dedup."
        )
        yield Finding(
            where=inventory.declared(dedup[1]),
            what="dedup",
            fault=Labelled("service-host-repeated", sentence),
        )
    if declared_links and not inventory.members(site, "kafka"):
        sentence = f"site {site} has no Kafka to write topics to; put its brokers into the group kafka."
        yield declared_links[0].finding(Labelled("service-without-kafka", sentence))


def _check_source(declared: DeclaredLink) -> Iterator[Finding]:
    inventory, source = declared.inventory, declared.link.source
    if source not in inventory.sites:
        remedy = did_you_mean(source, inventory.sites, f"the sites are {', '.join(inventory.sites)}.")
        fault = Labelled("site-unknown", f"site {source} does not exist; {remedy}")
        yield declared.finding(fault, ("source",))
    elif source == declared.link.target:
        fault = Labelled(
            "source-is-target", f"site {source} would send to itself; set source to another site."
        )
        yield declared.finding(fault, ("source",))
    elif not inventory.members(source, "kafka"):
        sentence = f"site {source} has no Kafka; put its brokers into the group kafka."
        yield declared.finding(Labelled("source-without-kafka", sentence), ("source",))
    elif not inventory.members(source, "diode_upstream"):
        sentence = f"site {source} has no sending host; put one into the group diode_upstream."
        yield declared.finding(Labelled("service-without-host", sentence), ("source",))


def _check_ends(declared: DeclaredLink) -> Iterator[Finding]:
    link = declared.link
    ends = (("upstream", "diode_upstream", link.source), ("downstream", "diode_downstream", link.target))
    for key, service, site in ends:
        hosts, named = declared.inventory.members(site, service), declared.value.get(key)
        if named and named not in hosts:
            sentence = f"{named} is not in the group {service} of site {site}; use a host of this group."
            yield declared.finding(Labelled("host-not-in-group", sentence), (key,))
        elif not named and len(hosts) > 1:
            sentence = f"{some(hosts)} can all be this end of the link; set {key} to one of them."
            yield declared.finding(Labelled("link-end-ambiguous", sentence))


def _check_values(declared: DeclaredLink) -> Iterator[Finding]:
    link = declared.link
    if link.given_name and not LEGAL_SITE.fullmatch(link.given_name):
        sentence = "the name of a link becomes part of names in Kafka; use only letters, digits, - and _."
        yield declared.finding(Labelled("name-illegal", sentence), ("name",))
    if link.name in RESERVED:
        sentence = f"{link.name} is the name of a key folder that is not for a link; rename the link."
        key = "name" if link.given_name else "source"
        yield declared.finding(Labelled("name-reserved", sentence), (key,))
    if not 0 <= link.number <= LARGEST_NUMBER:
        sentence = f"it must be from 0 to {LARGEST_NUMBER}, not {link.number}."
        yield declared.finding(Labelled("number-out-of-range", sentence), ("number",))
    if not link.topics:
        sentence = "a link without topics sends nothing; list topics, or remove the link."
        yield declared.finding(Labelled("topics-missing", sentence), ("topics",))
    for index, pattern in enumerate(link.topics):
        try:
            re.compile(pattern)
        except re.error as error:
            sentence = f"{pattern} does not compile: {error}; correct it."
            yield declared.finding(Labelled("pattern-invalid", sentence), ("topics", index))
    if link.mode == RECORD and link.clean_topics:
        sentence = (
            "a link with mode: record writes each topic under its own name; remove clean_topics or mode."
        )
        yield declared.finding(Labelled("values-conflict", sentence), ("clean_topics",))
    for name, clean in link.clean_topics.items():
        if not LEGAL_NAME.fullmatch(str(clean)):
            sentence = (
                f'Kafka does not accept the topic name "{clean}"; use up to 249 letters, digits, '
                "dots, - and _."
            )
            yield declared.finding(Labelled("topic-name-illegal", sentence), ("clean_topics", name))


def _check_neighbour(declared: DeclaredLink, sound: Sound) -> Iterator[Finding]:
    link = declared.link
    if not link.mac:
        return
    if not MAC.fullmatch(link.mac):
        sentence = f"{link.mac} is not the address of a network card; write it as 02:00:00:00:00:01."
        yield declared.finding(Labelled("address-form-wrong", sentence), ("mac",))
    if not _is_address(link.address):
        sentence = f"if mac is set, address must be an IP address, not {link.address}; correct it."
        yield declared.finding(Labelled("address-form-wrong", sentence), ("mac",))
    if link.upstream in declared.inventory.hosts and not sound.value(link.upstream, "diode_upstream_nic"):
        sentence = f"if mac is set, {link.upstream} must have diode_upstream_nic; set it there."
        yield declared.finding(Labelled("variable-required", sentence), ("mac",))


def _check_sent_by(declared: DeclaredLink, arriving: list[Link]) -> Iterator[Finding]:
    """Check a link that the service of another link sends (`sent_by`): both need the same send settings."""
    link = declared.link
    if not link.sent_by:
        return
    others = [other for other in arriving if other.source == link.source and not other.sent_by]
    sender = next((other for other in others if other.name == link.sent_by), None)
    if sender is None:
        sentence = f"no link {link.sent_by} with its own sending service comes from {link.source}; "
        remedy = did_you_mean(
            link.sent_by, [other.name for other in others], "use the name of such a link, or remove sent_by."
        )
        yield declared.finding(Labelled("link-sender-unknown", sentence + remedy), ("sent_by",))
        return
    if link.upstream_settings:
        sentence = f"the service of link {sender.name} sends this one; set upstream_settings there."
        yield declared.finding(Labelled("link-sender-differs", sentence), ("upstream_settings",))
    for key in ("upstream", "topics", "mode", "mtu", "largest_record_bytes"):
        one, other = getattr(link, key), getattr(sender, key)
        if set(one) != set(other) if key == "topics" else one != other:
            sentence = f"the service of link {sender.name} sends this one; set the same {key} in both."
            declared_key = key if key in declared.value else "sent_by"
            yield declared.finding(Labelled("link-sender-differs", sentence), (declared_key,))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_pair(one: DeclaredLink, other: DeclaredLink) -> Iterator[Finding]:
    """Check two links that arrive at one site."""
    first, second = one.link, other.link
    if first.name == second.name:
        sentence = f"site {first.target} has another link named {first.name}; rename this one."
        key = "name" if second.given_name else "source"
        yield other.finding(Labelled("declaration-repeated", sentence), (key,))
    if first.number == second.number:
        sentence = f"link {first.name} already has the number {first.number}; give this one another number."
        yield other.finding(Labelled("link-number-repeated", sentence), ("number",))
    if (first.downstream, first.port) == (second.downstream, second.port):
        sentence = (
            f"{first.downstream} already receives link {first.name} at port {first.port}; give "
            "this one another port."
        )
        path = ("port",) if "port" in other.value else ()
        yield other.finding(Labelled("link-port-repeated", sentence), path)
    if first.source == second.source:  # raw links share a ledger, so a topic may arrive by both
        both = _written(first) & _written(second)
        if RECORD in (first.mode, second.mode) and (topic := shortest(both)):
            sentence = (
                f"link {first.name} also brings topic {topic}, and with mode: record each of its "
                "records would arrive twice; remove the topic from one of the links."
            )
            yield other.finding(Labelled("link-topic-collides", sentence))
        return
    if topic := shortest(_written(first) & _written(second)):
        sentence = (
            f"link {first.name} also brings a topic {topic}, from {first.source}, and their "
            "records would be mixed; rename one of them with clean_topics."
        )
        yield other.finding(Labelled("link-topic-collides", sentence))


def _written(link: Link) -> Language:
    """Return the names of clean topics, as far as they can be determined."""
    if link.clean_topics:
        return words(map(str, link.clean_topics.values()))
    try:
        internal = any(INTERNAL in topic for topic in link.topics)
        return names(link.topics, sorted(OWN_TOPICS) if internal else [f"{INTERNAL}.*"])
    except PatternError:  # Python accepts the pattern, but Java does not
        return words([])


def _check_topics(declared: DeclaredLink, sound: Sound) -> Iterator[Finding]:
    """Check for topics that the source does not have, if it declares any topics.

    An unknown name is an error, because the link would silently transfer nothing. A pattern without a match
    is only a warning, because it may be intended for later topics.
    """
    source = declared.link.source
    own = _partitions(sound, source)
    for index, topic in enumerate(declared.link.topics if own else ()):
        is_name = LEGAL_NAME.fullmatch(topic) is not None
        has_match = topic in own if is_name else any(re.fullmatch(topic, name) for name in own)
        if has_match or _may_match(topic, _written_topics(declared.inventory, sound, source)):
            continue
        if is_name:
            remedy = did_you_mean(topic, own, f"declare it there in kafka_topics, or remove {topic} here.")
            sentence = f"site {source} has no topic {topic}; {remedy}"
        else:
            sentence = (
                f"no topic of site {source} matches {topic} yet; if one should match, correct the pattern."
            )
        fault = Labelled("link-topic-unknown", sentence)
        yield declared.finding(fault, ("topics", index), is_warning=not is_name)


def _may_match(topic: str, brought: Language) -> bool:
    """Return whether a name or pattern matches one of these topics; True if it is not certain."""
    try:
        asked = language(topic)
    except PatternError:  # Python accepts the pattern, but Java does not
        return True
    return asked is None or shortest(asked & brought) is not None


def _written_topics(inventory: Inventory, sound: Sound, site: str) -> Language:
    """Return the topics that flows, links and connectors may write at a site."""
    brought = words([])
    for mirror in declared_flows(sound, site):
        with suppress(PatternError):
            is_clear = None not in map(language, (*mirror.flow.topics, *mirror.flow.topics_exclude))
            brought |= mirror.writes if is_clear else EVERYTHING
    for declaration in sound.items(site, VARIABLE):
        brought |= _written(Link.of(inventory.groups, site, declaration.value))
    for declaration in sound.items(site, "connect_connectors"):
        connector = DeclaredConnector.of(declaration.value)
        brought |= words([connector.dead_letters])
        for pattern in connector.writes:
            with suppress(PatternError):
                brought |= language(pattern) or EVERYTHING
    return brought


def _check_partitions(declared: DeclaredLink, sender: Link, sound: Sound) -> Iterator[Finding]:
    """Check topics that both sites declare: the target needs a partition for each transferred partition.

    `sender`: the link whose service sends this link.
    """
    link = declared.link
    here = _partitions(sound, link.target)
    given = str(sender.upstream_settings.get("partitionStartValue", 0))
    shift = int(given) if given.isdecimal() else 0
    pattern = re.compile(link.topics_pattern)
    for name, count in _partitions(sound, link.source).items():
        clean = link.clean_topics.get(name, "" if link.clean_topics else name)
        if pattern.fullmatch(name) and clean in here and here[clean] < count + shift:
            sentence = (
                f"topic {name} of {link.source} has {count} partitions, but topic {clean} of "
                f"{link.target} can receive only {max(0, here[clean] - shift)} of them; set its "
                f"partitions to {count + shift} in kafka_topics."
            )
            yield declared.finding(Labelled("link-partitions-fewer", sentence))


def _partitions(sound: Sound, site: str) -> dict[str, int]:
    return {
        str(topic.value["name"]): int(topic.value["partitions"])
        for topic in sound.items(site, "kafka_topics")
    }
