"""Checks of flows: sources, engines and patterns, loops, and topics that several flows write."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from aqueduct.common.topic_names import LEGAL_NAME
from aqueduct.errors import Labelled
from aqueduct.estate.check.host_names import server_fault
from aqueduct.estate.check.inventory import Finding, Inventory, Path, did_you_mean, some
from aqueduct.estate.check.sites import LEGAL_SITE
from aqueduct.estate.check.valid_inventory import Item, Sound
from aqueduct.estate.languages import EVERYTHING, Language, shortest, words
from aqueduct.estate.model import Flow
from aqueduct.estate.patterns import PatternError, language, names

VARIABLE = "mirror_maker_flows"
RESERVED = "tls"  # of /etc/aqueduct/mirror_maker
MM2, BATCHES, CLASSIC = "mm2", "batches", "classic"
PREFIXES_SEEN = (MM2, BATCHES)  # engines that recognise by prefixes that a topic originates at the target
# Options of flows that only some engines have.
OPTIONS = {
    MM2: ("groups", "groups_exclude", "settings", "tasks", "line_ms", "line_mbit"),
    BATCHES: ("groups", "groups_exclude", "tasks", "line_ms", "line_mbit", "first_start"),
    CLASSIC: ("start", "threads"),
}
INSTEAD = {
    "tasks": "use threads for a classic flow",
    "threads": "use tasks for the other engines",
}
# The oldest brokers that clients of Kafka 3.9 (KIP-97) and of Kafka 4 (KIP-896) support.
OLDEST, OLDEST_BY_4 = (0, 10), (2, 1)
# The oldest brokers with topic ids in all responses that the engine `batches` needs (KIP-516).
OLDEST_WITH_IDS = (2, 8)

# Topics that MirrorMaker 2 never mirrors (ReplicationPolicy.isInternalTopic).
INTERNAL = names([r"__.*", r"\..*", r"mm2.*\.internal", r".*\.checkpoints\.internal"])


@dataclass(frozen=True, eq=False, kw_only=True)
class DeclaredFlow(Item):
    """A flow with the place of its declaration, and the topics that it reads and writes."""

    flow: Flow

    @cached_property
    def reads(self) -> Language:
        read = names(self.flow.topics, self.flow.topics_exclude) - INTERNAL
        if self.flow.prefix and self.flow.engine in PREFIXES_SEEN:
            # Topics that originate at the target have its prefix (DefaultReplicationPolicy): not read.
            from_target = words([f"{self.flow.target}."]) + EVERYTHING
            read -= from_target | EVERYTHING + words(["."]) + from_target
        return read

    @cached_property
    def writes(self) -> Language:
        return self.written(self.reads)

    def written(self, read: Language) -> Language:
        """Return the names of these topics at the target."""
        return words([self.flow.prefix]) + read


def declared_at(sound: Sound, site: str) -> list[DeclaredFlow]:
    return [
        DeclaredFlow(**vars(declaration), flow=Flow.of(site, declaration.value))
        for declaration in sound.items(site, VARIABLE)
    ]


def check_each(inventory: Inventory, mirror: DeclaredFlow) -> Iterator[Finding]:
    """Check one flow without the other flows."""
    yield from _check_engine(inventory, mirror)
    yield from _check_source(inventory, mirror)
    yield from _check_name(inventory, mirror)
    yield from _check_topics(mirror)
    header = mirror.flow.header or "name=value"
    if header.startswith("=") or "=" not in header:
        sentence = f'"{header}" is not a header with a value; write name=value.'
        yield mirror.finding(Labelled("value-form-wrong", sentence), ("header",))


def _check_source(inventory: Inventory, mirror: DeclaredFlow) -> Iterator[Finding]:
    source, target = mirror.flow.source, mirror.flow.target
    if mirror.flow.source_servers:
        yield from _check_outside(inventory, mirror)
    elif mirror.flow.source_settings:
        sentence = (
            "this key only applies to a source outside the inventory; set source_servers, or remove it."
        )
        yield mirror.finding(Labelled("values-conflict", sentence), ("source_settings",))
    elif source not in inventory.sites:
        remedy = did_you_mean(source, inventory.sites, f"the sites are {', '.join(inventory.sites)}.")
        fault = Labelled("site-unknown", f"site {source} does not exist; {remedy}")
        yield mirror.finding(fault, ("source",))
    elif source == target:
        fault = Labelled(
            "source-is-target", f"site {target} would mirror itself; set source to another site."
        )
        yield mirror.finding(fault, ("source",))
    elif not inventory.members(source, "kafka"):
        sentence = f"site {source} has no Kafka; put its brokers into the group kafka."
        yield mirror.finding(Labelled("source-without-kafka", sentence), ("source",))


def _check_name(inventory: Inventory, mirror: DeclaredFlow) -> Iterator[Finding]:
    name = mirror.flow.given_name
    if name and not LEGAL_SITE.fullmatch(name):
        sentence = "the name of a flow becomes part of names in Kafka; use only letters, digits, - and _."
        yield mirror.finding(Labelled("name-illegal", sentence), ("name",))
    elif name != mirror.flow.source and name in inventory.sites:
        sentence = f"{name} is a site, but not the source of these topics; use another name."
        yield mirror.finding(Labelled("name-reserved", sentence), ("name",))
    if mirror.flow.name == RESERVED:
        sentence = f"{RESERVED} is the name of a key folder that is not for a flow; rename the flow."
        yield mirror.finding(Labelled("name-reserved", sentence), ("name",) if name else ("source",))


def _check_topics(mirror: DeclaredFlow) -> Iterator[Finding]:
    if not mirror.flow.topics:
        sentence = "a flow without topics mirrors nothing; list topics, or remove the flow."
        yield mirror.finding(Labelled("topics-missing", sentence), ("topics",))
    for path, pattern in _patterns(mirror):
        try:
            language(pattern)
        except PatternError as error:
            sentence = f"{pattern} does not compile: {error}; correct it."
            yield mirror.finding(Labelled("pattern-invalid", sentence), path)
        if "," in pattern:
            sentence = f"MirrorMaker splits {pattern} at its comma; write the pattern without a comma."
            yield mirror.finding(Labelled("pattern-has-comma", sentence), path)


def _check_engine(inventory: Inventory, mirror: DeclaredFlow) -> Iterator[Finding]:
    flow = mirror.flow
    for option in sorted({option for options in OPTIONS.values() for option in options}):
        if option in mirror.value and option not in OPTIONS.get(flow.engine, OPTIONS[MM2]):
            other = next(engine for engine, options in OPTIONS.items() if option in options)
            remedy = f"{INSTEAD[option]}." if option in INSTEAD else f"remove it, or set engine to {other}."
            sentence = f"{option} is an option of engine {other}, but this flow uses {flow.engine}; {remedy}"
            yield mirror.finding(Labelled("engine-option-wrong", sentence), (option,))
    if flow.engine == CLASSIC and not flow.start:
        sentence = (
            "start is missing; set it to earliest for all records of the source, or to latest for "
            "records after the first deployment."
        )
        yield mirror.finding(Labelled("key-missing", sentence))
    try:
        version = flow.version
    except ValueError:
        sentence = (
            f'"{flow.source_version}" is not a version; write it in quotes, for example "0.10.2" or "1.1".'
        )
        yield mirror.finding(Labelled("value-form-wrong", sentence), ("source_version",))
        return
    if not isinstance(mirror.value.get("source_version", ""), str):
        sentence = f"without quotes, it is the number {flow.source_version}; add quotes."
        yield mirror.finding(Labelled("value-form-wrong", sentence), ("source_version",))
    elif version < OLDEST:
        sentence = (
            f"no client of Kafka 3.9 or later can read from Kafka {flow.source_version}; upgrade "
            "the source to at least 0.10.0."
        )
        yield mirror.finding(Labelled("source-version-unsupported", sentence), ("source_version",))
    elif flow.engine == BATCHES and version < OLDEST_WITH_IDS:
        sentence = (
            f"the engine batches needs topic ids, which Kafka {flow.source_version} does not "
            "support; set engine to mm2 or classic, or upgrade the source to 2.8."
        )
        yield mirror.finding(Labelled("source-version-unsupported", sentence), ("source_version",))
    elif flow.engine == MM2 and version < OLDEST_BY_4 and not _is_older(inventory, mirror):
        sentence = (
            f"MirrorMaker 2 of Kafka 4 cannot read from Kafka {flow.source_version}; set engine to "
            "classic, or mirror_maker_version to 3.9.2."
        )
        yield mirror.finding(Labelled("source-version-unsupported", sentence), ("source_version",))


def _is_older(inventory: Inventory, mirror: DeclaredFlow) -> bool:
    return str(inventory.hosts[mirror.host].get("mirror_maker_version", "")).startswith("3.")


def _check_outside(inventory: Inventory, mirror: DeclaredFlow) -> Iterator[Finding]:
    source = mirror.flow.source
    if source in inventory.sites:
        sentence = (
            f"{source} is a site, and the inventory lists its brokers; remove source_servers, or "
            "rename the source."
        )
        yield mirror.finding(Labelled("values-conflict", sentence), ("source_servers",))
    elif not LEGAL_SITE.fullmatch(source):
        sentence = "the name of a source becomes part of names in Kafka; use only letters, digits, - and _."
        yield mirror.finding(Labelled("name-illegal", sentence), ("source",))
    with_tls = str(mirror.flow.source_settings.get("security.protocol", "")).endswith("SSL")
    for number, server in enumerate(mirror.flow.source_servers):
        if fault := server_fault(server, with_tls=with_tls):
            yield mirror.finding(fault, ("source_servers", number))
    if "security.protocol" not in mirror.flow.source_settings:
        sentence = f"the security protocol of {source} is missing; set security.protocol in source_settings."
        yield mirror.finding(Labelled("key-missing", sentence))


def check_made(mirror: DeclaredFlow, own_topics: Sequence[str]) -> Iterator[Finding]:
    """Check that the target declares the topics of a classic mirror, which creates none."""
    flow = mirror.flow
    for index, topic in enumerate(flow.topics if flow.engine == CLASSIC else ()):
        if LEGAL_NAME.fullmatch(topic) and "." not in topic and flow.prefix + topic not in own_topics:
            sentence = (
                f"a classic mirror creates no topics, and site {flow.target} declares no topic "
                f"{flow.prefix}{topic}; add it to kafka_topics there, with as many partitions as "
                "at the source."
            )
            yield mirror.finding(Labelled("target-topic-missing", sentence), ("topics", index))


def _patterns(mirror: DeclaredFlow) -> Iterator[tuple[Path, str]]:
    for key in ("topics", "topics_exclude", "groups", "groups_exclude"):
        for index, pattern in enumerate(getattr(mirror.flow, key)):
            yield (key, index), str(pattern)


def check_unclear(mirror: DeclaredFlow) -> Iterator[Finding]:
    for path, pattern in _patterns(mirror):
        with suppress(PatternError):
            if path[0] in ("topics", "topics_exclude") and language(pattern) is None:
                sentence = (
                    f"the topics that {pattern} matches cannot be determined, so loops and "
                    "collisions of this flow are not detected; avoid look-around, flags, "
                    "back-references and possessive quantifiers if possible."
                )
                yield mirror.finding(Labelled("pattern-not-analysable", sentence), path, is_warning=True)


def check_hosts(inventory: Inventory, site: str) -> Iterator[Finding]:
    """Check for flows without hosts, and hosts without flows."""
    hosts = inventory.members(site, "mirror_maker")
    declaring = [host for host in inventory.members(site) if inventory.hosts[host].get(VARIABLE)]
    if hosts and not declaring:
        # A warning, because the service of a site's last flow is stopped in this way.
        sentence = (
            f"no flow arrives at site {site}, so {some(hosts)} will mirror nothing; if this is not "
            "intended, declare a flow."
        )
        yield inventory.finding(
            hosts[0], VARIABLE, Labelled("service-without-work", sentence), is_warning=True
        )
    if declaring and not hosts and VARIABLE not in inventory.extra_variables:
        sentence = f"site {site} has no host to run its flows; put one into the group mirror_maker."
        yield inventory.finding(declaring[0], VARIABLE, Labelled("service-without-host", sentence))


def check_names(mirror: DeclaredFlow, own_topics: Sequence[str]) -> Iterator[Finding]:
    """Check for target names that collide with topics of the site, or with MirrorMaker's heartbeats."""
    flow = mirror.flow
    for topic in own_topics if flow.prefix and flow.engine in PREFIXES_SEEN else ():
        if topic in mirror.writes:
            sentence = (
                f"site {flow.target} has its own topic {topic}, and this flow would write to it; "
                "rename the topic, or exclude it here."
            )
            yield mirror.finding(Labelled("flow-topic-collides", sentence))
    for index, topic in enumerate(() if flow.prefix or flow.engine != MM2 else flow.topics):
        if topic.endswith("heartbeats") and topic in mirror.reads:
            sentence = (
                f"MirrorMaker treats {topic} as heartbeats and would rename it to "
                f"{flow.source}.{topic}; set naming to prefix, or rename the topic."
            )
            yield mirror.finding(Labelled("topic-name-reserved", sentence), ("topics", index))


def check_pairs(arriving: Sequence[DeclaredFlow]) -> Iterator[Finding]:
    """Check pairs of a site's flows that write the same topic.

    This is permitted if both flows keep topic names and synchronise no groups.
    """
    for one, other in combinations(arriving, 2):
        source, target = one.flow.source, one.flow.target
        if one.flow.name == other.flow.name:
            sentence = (
                f"site {target} has another flow named {one.flow.name}; merge the two flows, or "
                "rename this one."
            )
            key = "name" if other.flow.given_name else "source"
            yield other.finding(Labelled("declaration-repeated", sentence), (key,))
            continue
        topic = shortest(one.writes & other.writes)
        if topic and source == other.flow.source:
            sentence = (
                f"this flow and {one.flow.name} both mirror topic {topic} from {source}, so every "
                "record arrives twice; exclude it from one of them."
            )
            yield other.finding(Labelled("flow-topic-collides", sentence))
        elif topic and (one.flow.prefix or other.flow.prefix):
            sentence = (
                f"this flow and the one from {source} would both write topic {topic} of {target}; "
                "exclude it from one of them."
            )
            yield other.finding(Labelled("flow-topic-collides", sentence))
        elif topic:
            yield from (
                _groups_finding(*pair, topic) for pair in ((one, other), (other, one)) if pair[0].flow.groups
            )


def _groups_finding(mirror: DeclaredFlow, beside: DeclaredFlow, topic: str) -> Finding:
    sentence = (
        f"topic {topic} also comes from {beside.flow.source}, so offsets of {mirror.flow.source} "
        "are not valid here, and groups would skip records; set naming to prefix, or remove "
        "groups."
    )
    return mirror.finding(Labelled("flow-groups-misplaced", sentence), ("groups",))


MOST_WAYS = 2_000  # limit of searched paths from one flow; usual estates have fewer


def check_loops(mirrors: Sequence[DeclaredFlow]) -> Iterator[Finding]:
    """Check for loops: paths through the estate on which records return to a flow that mirrored them."""
    leaving: dict[str, list[DeclaredFlow]] = {}
    for mirror in mirrors:
        leaving.setdefault(mirror.flow.source, []).append(mirror)
    reported: set[frozenset[DeclaredFlow]] = set()
    for start in mirrors:
        # With the source's name as prefix, the engine itself excludes topics that originate at its target.
        is_safe = start.flow.prefix == f"{start.flow.source}." and start.flow.engine in PREFIXES_SEEN
        way, topic = ((), "") if is_safe else _find_loop(start, leaving)
        if way and frozenset(way) not in reported:
            reported.add(frozenset(way))
            sites = " -> ".join([*(step.flow.source for step in way), start.flow.source])
            sentence = (
                f"records of topic {topic} would circulate {sites} without end; exclude the topic "
                "from one of these flows, or set naming to prefix in all of them."
            )
            yield start.finding(Labelled("flow-loop-endless", sentence))


def _find_loop(
    start: DeclaredFlow, leaving: Mapping[str, Sequence[DeclaredFlow]]
) -> tuple[tuple[DeclaredFlow, ...], str]:
    """Return the flows of a shortest loop from `start`, and the name of a topic that returns by it.

    Both are empty without a loop.
    """
    ways: list[tuple[tuple[DeclaredFlow, ...], Language]] = [((start,), start.writes)]
    seen = {(start.flow.target, start.writes)}
    for way, arriving in ways:  # breadth first: the list grows within the loop
        for step in leaving.get(way[-1].flow.target, ()):
            if step is start and (topic := shortest(arriving & start.reads)):
                return way, topic
            carried = step.written(arriving & step.reads)
            state = (step.flow.target, carried)
            if state not in seen and len(ways) < MOST_WAYS and shortest(carried):
                seen.add(state)
                ways.append(((*way, step), carried))
    return (), ""
