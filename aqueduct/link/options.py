"""Options of the diode's verbs, and where each may be given.

A file (YAML or .properties), then the environment (AQUEDUCT_DIODE_TARGET_IP), then the command line: the
later one wins; in one of them nothing may be given twice. Options are named as in air-gap's documentation
(`targetIP`) or in kebab-case (`target-ip`). One file may serve several verbs: an option of another one is
passed over.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

from aqueduct.common import former_options, timestamps
from aqueduct.common.topic_names import OWN_TOPICS, matches
from aqueduct.errors import Refused
from aqueduct.kafka import client_config
from aqueduct.kafka.client_config import ClientConfig, End

ENVIRONMENT = "AQUEDUCT_DIODE_"

SILENCE_SECONDS = 180  # a sender announces everything each minute
CARD = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")  # the address of a network card

# Options of air-gap that mean nothing here, and why.
MEANINGLESS = {
    "sendingThreads": "parity repairs lost datagrams; set repeatAfter to send everything a second time",
    "logStatistics": "set metricsPort to get metrics at any time",
    "numReceivers": "one receiver reads many datagrams in one call",
    "channelBufferSize": "the limit of waiting data is in bytes",
    "batchSize": "the Kafka producer creates the batches",
    "readBufferMultiplier": "set receiveBuffer",
    "rcvBufSize": "set receiveBuffer",
    "clientId": "the client id is id",
    "source": "the source is always Kafka",
    "target": "the target is always Kafka",
    "internalTopic": "the position is stored as committed offsets of the consumer group",
    "verbose": "set logLevel",
    "transport": "the link always uses UDP",
    "enableRxqOvfl": "datagrams that the kernel drops are repaired like other lost datagrams",
    "maxNrMessages": "the limit of waiting data is in bytes",
    "maxCacheEntries": "the limit of waiting data is in bytes",
    "maxTCPConnections": "the link always uses UDP",
    "maximumDecompressSize": "the size of decompressed data always has a limit",
    "keyExchangeMinIntervalSecs": "set generateNewSymmetricKeyEvery at the sender",
    **{f"tcpRetry{suffix}": "the link always uses UDP" for suffix in ("Interval", "Times", "ErrorLevel")},
}

Read = Callable[[str], Any]


class Unfit(ValueError):
    """A value that doesn't fit; its text says what was expected."""


def _text(value: str) -> str:
    return value


def _number(low: float, high: float, kind: type[int] | type[float] = int) -> Read:
    def read(value: str) -> float:
        try:
            number = kind(value)
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise Unfit(f"must be a {'whole ' if kind is int else ''}number from {int(low)} to {int(high)}")
        return number

    return read


def _or(word: str, meaning: Any, read: Read) -> Read:
    """Read a value, or a word that air-gap has for one."""
    return lambda value: meaning if value.lower() == word else read(value)


def _limit(value: str) -> float | None:
    """Parse a limit; -1 means none."""
    limit: float = _number(-1, 1e15, float)(value)
    if limit == -1:
        return None
    if limit <= 0:
        raise Unfit("must be more than 0, or -1 for no limit")
    return limit


def _yes(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise Unfit("must be true or false")
    return value.lower() == "true"


def _one_of(*values: str) -> Read:
    def read(value: str) -> str:
        chosen = {choice.lower(): choice for choice in values}.get(value.lower())
        if chosen is None:
            raise Unfit(f"must be {' or '.join(values)}")
        return chosen

    return read


def _card(value: str) -> str:
    if not CARD.fullmatch(value):
        raise Unfit("must be a MAC address, such as 02:00:00:00:00:01")
    return value.lower()


def _files(value: str) -> tuple[Path, ...]:
    """Read names of files, and patterns of them."""
    paths: list[Path] = []
    for name in filter(None, map(str.strip, value.split(","))):
        matching = sorted(glob(name)) if has_magic(name) else [name]  # noqa: PTH207  # it may be absolute
        if not matching:
            raise Unfit("must be a list of files or patterns, but no file matches the pattern")
        paths += map(Path, matching)
    return tuple(paths)


def _pattern(value: str) -> re.Pattern[str]:
    try:
        return re.compile(_text(value))
    except re.error as error:
        raise Unfit(f"is not a regular expression: {error}") from None


def _moment(value: str) -> int:
    try:
        return timestamps.parse(value)
    except ValueError as error:
        raise Unfit(f"is not a time: write {error}") from None


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    link: int


def _targets(value: str) -> tuple[Target, ...]:
    parsed = [re.fullmatch(r"\[?(.+?)\]?:(\d+)=(\d+)", target.strip()) for target in value.split(",")]
    if not all(parsed):
        raise Unfit("must be HOST:PORT=LINK,... with the number of a link for each host")
    port, link = _number(1, 65535), _number(0, 65535)
    return tuple(Target(match[1], port(match[2]), link(match[3])) for match in parsed if match)


@dataclass(frozen=True)
class Option:
    help: str
    read: Read = _text  # raises Unfit
    name: str | None = None  # air-gap's, where it does not follow from ours


@dataclass(frozen=True, kw_only=True)
class Common:
    """The options of every verb: the cluster, the log."""

    bootstrap_server: Annotated[str, Option("Kafka brokers: HOST:PORT,...", name="bootstrapServers")]
    id: Annotated[
        str, Option("name of this process in logs, in metrics and at the brokers; default aqueduct-diode")
    ] = "aqueduct-diode"
    cert_file: Annotated[Path | None, Option("client certificate for Kafka (PEM)", Path)] = None
    key_file: Annotated[
        Path | None, Option("private key of the client certificate (PEM); default: certFile", Path)
    ] = None
    key_password_file: Annotated[Path | None, Option("file with the password of the private key", Path)] = (
        None
    )
    ca_file: Annotated[
        Path | None, Option("trusted certificates for Kafka (PEM); caFile or certFile enables TLS", Path)
    ] = None
    log_level: Annotated[
        str,
        Option(
            "lowest level that is logged: DEBUG, INFO, WARN or ERROR; default INFO",
            _one_of("DEBUG", "INFO", "WARN", "ERROR"),
        ),
    ] = "INFO"
    log_file_name: Annotated[Path | None, Option("log file; default: standard error", Path)] = None

    def __post_init__(self) -> None:
        _refuse([*self.faults()])

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with the options together, a sentence each."""
        if self.key_file and not self.cert_file:
            yield "keyFile needs certFile; set both."

    def end(self, role: str) -> End:
        """Return the cluster at this end; Refused if a file can't be used."""
        config = ClientConfig(
            tls=bool(self.ca_file or self.cert_file),
            ca=_path(self.ca_file),
            certificate=_path(self.cert_file),
            key=_path(self.key_file or self.cert_file),
            key_password=_secret(self.key_password_file) if self.key_password_file else None,
        )
        return End(role, self.bootstrap_server, client_config.checked(config, "the options"))


@dataclass(frozen=True, kw_only=True)
class LinkEnd(Common):
    """The options of a process at one end of a link."""

    nic: Annotated[str | None, Option("network interface of the link; default: by the routing table")] = None
    target_port: Annotated[int, Option("UDP port of the receiving end; default 9777", _number(1, 65535))] = (
        9777
    )
    link: Annotated[
        int, Option("number of the link, the same at both ends; default 0", _number(0, 65535))
    ] = 0
    largest_record: Annotated[
        int,
        Option(
            "largest record in bytes, as Kafka stores it, with its batch header; larger records are counted "
            "and not sent; default 16 MiB",
            _number(1, 1 << 30),
        ),
    ] = 16 << 20
    mtu: Annotated[
        int | None,
        Option(
            "MTU of the link in bytes; default auto: that of the network interface",
            _or("auto", None, _number(576, 65535)),
        ),
    ] = None
    metrics_port: Annotated[
        int | None, Option("port of metrics for Prometheus, on localhost; default: none", _number(1, 65535))
    ] = None


@dataclass(frozen=True, kw_only=True)
class Sending(LinkEnd):
    """The options of verbs that send over a link."""

    target_ip: Annotated[str | None, Option("receiving end: host name, IPv4 or IPv6 address")] = None
    targets: Annotated[
        tuple[Target, ...],
        Option(
            "instead of targetIP: HOST:PORT=LINK,...; everything is sent over each of these links", _targets
        ),
    ] = ()
    payload_size: Annotated[
        int,
        Option(
            "largest datagram in bytes; default auto (or 0): what fits the MTU",
            _or("auto", 0, _number(0, 65507)),
        ),
    ] = 0
    eps: Annotated[float | None, Option("limit in records per second; default -1: no limit", _limit)] = None
    bits_per_second: Annotated[
        float | None, Option("limit in bits per second of all datagrams; default -1: no limit", _limit)
    ] = None
    compress_when_length_exceeds: Annotated[
        int, Option("compress frames larger than this, in bytes; default 1000; 0: none", _number(0, 1 << 30))
    ] = 1000
    encryption: Annotated[bool, Option("only true is accepted: all data is encrypted", _yes)] = True
    public_key_file: Annotated[Path, Option("public key of the receiving end", Path)]
    signing_key_file: Annotated[Path, Option("private key of this sending end", Path)]
    generate_new_symmetric_key_every: Annotated[
        int, Option("seconds between new data keys; default 500", _number(1, 86400))
    ] = 500
    parity: Annotated[
        int,
        Option(
            "parity datagrams of a block, in percent of its data datagrams; each parity datagram can "
            "replace one lost datagram of the block; default 15",
            _number(0, 100),
        ),
    ] = 15
    interleave: Annotated[
        int,
        Option(
            "number of blocks whose datagrams are sent alternately, against bursts of loss; default 16",
            _number(1, 64),
        ),
    ] = 16
    linger: Annotated[
        int, Option("milliseconds that a block waits for more data; default 20", _number(0, 10000))
    ] = 20
    input_filter_rules: Annotated[
        str | None,
        Option(
            "filter of record values; the first matching rule applies: allow:REGEX,deny:REGEX,... or a file "
            "with one rule per line"
        ),
    ] = None
    input_filter_default_action: Annotated[
        Literal["allow", "deny"],
        Option(
            "action for values that match no rule: allow or deny; default allow", _one_of("allow", "deny")
        ),
    ] = "allow"
    input_filter_timeout: Annotated[
        int,
        Option(
            "milliseconds for one match; a value whose match takes longer is denied; default 100",
            _number(1, 60000),
        ),
    ] = 100
    partition_start_value: Annotated[
        int,
        Option(
            "number that partition 0 of this cluster has at the receiving end; default 0",
            _number(0, 1 << 30),
        ),
    ] = 0
    group_id: Annotated[
        str | None,
        Option(
            "consumer group of the committed position; default aqueduct-diode-ID; resend commits to "
            "GROUP-resend",
            name="groupID",
        ),
    ] = None

    @property
    def group(self) -> str:
        return self.group_id or f"aqueduct-diode-{self.id}"

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if not self.encryption:
            yield "encryption=false is not possible: every datagram is encrypted and authenticated."
        if (self.target_ip is None) == (not self.targets):
            yield "set targetIP or targets, but not both."

    def all_targets(self) -> tuple[Target, ...]:
        return self.targets or (Target(str(self.target_ip), self.target_port, self.link),)


def _internal(topic: str | None) -> Iterator[str]:
    if topic in OWN_TOPICS:
        yield f"Topic {topic} is an internal topic of Kafka, and a link never sends it. Remove this topic."


@dataclass(frozen=True, kw_only=True)
class Upstream(Sending):
    """The options of `aqueduct diode upstream`."""

    topic: Annotated[str | None, Option("topic to send; set topic or topics")] = None
    topics: Annotated[
        re.Pattern[str] | None, Option("topics to send: regular expression for whole names", _pattern)
    ] = None
    from_: Annotated[
        int | None,
        Option(
            "first record time, if no position is committed: 2026-01-31T18:00:00Z; default: all records",
            _moment,
            name="from",
        ),
    ] = None
    repeat_after: Annotated[
        int, Option("send everything a second time, this many seconds later; default 0: no", _number(0, 3600))
    ] = 0

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        yield from _internal(self.topic)
        if (self.topic is None) == (self.topics is None):
            yield "set topic or topics, but not both."


@dataclass(frozen=True, kw_only=True)
class Resend(Sending):
    """The options of `aqueduct diode resend`."""

    topic: Annotated[str | None, Option("with partition: its topic; with a bundle: send only this topic")] = (
        None
    )
    topics: Annotated[
        re.Pattern[str] | None,
        Option("send only these topics: regular expression for whole names", _pattern),
    ] = None
    resend_file_name: Annotated[
        Path | None, Option("bundle to send; set this, or topic with partition", Path)
    ] = None
    partition: Annotated[
        int | None,
        Option(
            "instead of a bundle: partition to send, by its number at the receiving end",
            _or("-1", None, _number(0, 1 << 30)),
        ),
    ] = None
    offset_from: Annotated[
        int | None,
        Option(
            "with partition: first offset; default: the first that exists",
            _or("-1", None, _number(0, 2**63 - 1)),
        ),
    ] = None
    offset_to: Annotated[
        int | None,
        Option(
            "with partition: last offset; default: the end of the partition",
            _or("-1", None, _number(0, 2**63 - 1)),
        ),
    ] = None
    from_: Annotated[
        int | None,
        Option("skip records before this time, such as 2026-01-31T18:00:00Z", _moment, name="from"),
    ] = None
    to: Annotated[int | None, Option("skip records after this time", _moment)] = None
    partition_stop_value: Annotated[
        int,
        Option(
            "number of partitions of this cluster, counted from partitionStartValue; default 0: all",
            _number(0, 1 << 30),
        ),
    ] = 0

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if (self.resend_file_name is None) == (self.partition is None):
            yield "set resendFileName, or set topic with partition, but not both."
        if self.partition is not None:
            yield from self._faults_of_place(self.topic, self.partition)
        elif self.offset_from is not None or self.offset_to is not None:
            yield (
                "offsetFrom and offsetTo can be set only with topic and partition, because a bundle "
                "contains its own offsets."
            )
        if self.offset_to is not None and (self.offset_from or 0) > self.offset_to:
            yield f"offsetFrom {self.offset_from} is after offsetTo {self.offset_to}: swap them."
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            yield "from is a later time than to: swap them."

    def _faults_of_place(self, topic: str | None, partition: int) -> Iterator[str]:
        if topic is None:
            yield "partition needs topic; set both."
            return
        yield from _internal(topic)
        if topic not in OWN_TOPICS and not self.crosses(topic):
            yield f"Topic {topic} is not a topic of this link."
        if not self.covers(partition):
            yield (
                f"partition {partition} is not a partition of this cluster. Pass the partition number of "
                "the receiving end, between partitionStartValue and partitionStopValue."
            )

    def crosses(self, topic: str) -> bool:
        """Return whether the topic crosses this link.

        Another link may have carried it, with another filter; and a bundle may list anything.
        """
        of_topics = self.topics is None or matches(self.topics, topic)
        return of_topics and self.topic in (None, topic) and topic not in OWN_TOPICS

    def covers(self, partition: int) -> bool:
        """Return whether a partition is asked for, by its number downstream."""
        start, many = self.partition_start_value, self.partition_stop_value
        return start <= partition and (not many or partition < start + many)


@dataclass(frozen=True, kw_only=True)
class Downstream(LinkEnd):
    """The options of `aqueduct diode downstream`."""

    target_ip: Annotated[str, Option("address to listen on; default 0.0.0.0")] = "0.0.0.0"  # noqa: S104
    raw_topic: Annotated[
        str | None, Option("topic to which frames are written for dedup; required with mode raw")
    ] = None
    mode: Annotated[
        Literal["raw", "record"],
        Option(
            "raw: write frames to the raw topic; record: write records to topics of the same names, at least "
            "once, unordered, without a ledger; default raw",
            _one_of("raw", "record"),
        ),
    ] = "raw"
    private_key_files: Annotated[
        tuple[Path, ...], Option("private keys of this receiving end, also former keys: FILE,...", _files)
    ]
    sender_public_key_file: Annotated[
        tuple[Path, ...], Option("public keys of the accepted sending ends: FILE,...", _files)
    ]
    state_dir: Annotated[
        Path,
        Option(
            "directory for the state that detects replayed data; each process needs its own directory", Path
        ),
    ]
    mac: Annotated[
        str | None,
        Option(
            "MAC address to which the sending end sends; if no network interface has it, the command fails",
            _card,
        ),
    ] = None
    receive_buffer: Annotated[
        int, Option("receive buffer of the socket, in bytes; default 32 MiB", _number(1 << 16, 1 << 31))
    ] = 32 << 20
    topics: Annotated[
        re.Pattern[str] | None,
        Option("topics to write: regular expression for whole names; default: all", _pattern),
    ] = None

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if (self.mode == "raw") == (self.raw_topic is None):
            yield "set rawTopic, or set mode=record without rawTopic."


@dataclass(frozen=True, kw_only=True)
class Create(Common):
    """The options of `aqueduct diode create`."""

    topic: Annotated[str, Option("gap topic, which contains the ledger")]
    limit: Annotated[
        Literal["first", "all"],
        Option(
            "all: every gap; first: only the first gap of each partition; default all",
            _one_of("first", "all"),
        ),
    ] = "all"
    resend_file_name: Annotated[
        Path | None, Option("file to which the bundle is written; default: standard output", Path)
    ] = None
    silence_after: Annotated[
        int,
        Option(
            "report a sender if nothing arrived from it for this many seconds; default 180",
            _number(1, 1 << 30),
        ),
    ] = SILENCE_SECONDS
    announced_within: Annotated[
        int | None,
        Option(
            "report the age of the newest announcement that dedup has read; exit with 3 if the age is more "
            "than this many seconds",
            _number(1, 1 << 30),
        ),
    ] = None
    group_id: Annotated[
        str | None, Option("accepted and ignored: the command commits nothing", name="groupID")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ListLosses(Common):
    """The options of `aqueduct diode lost`."""

    topic: Annotated[str, Option("gap topic, which contains the ledger")]
    newest: Annotated[int, Option("how many ranges to list; default 20", _number(1, 1 << 30))] = 20
    format: Annotated[
        Literal["text", "json"], Option("text or json; default text", _one_of("text", "json"))
    ] = "text"


VERBS: tuple[type[Common], ...] = (Upstream, Resend, Downstream, Create, ListLosses)

VerbOptions = TypeVar("VerbOptions", bound=Common)


@dataclass(frozen=True, kw_only=True)
class VerbOption:
    """An option of a verb."""

    field: str
    camel: str  # as in air-gap's documentation
    kebab: str
    option: Option
    required: bool


def known(kind: type[Common]) -> tuple[VerbOption, ...]:
    """Return a verb's options."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_known(field, hints[field.name].__metadata__[0]) for field in fields(kind))


def _known(of: Field[Any], option: Option) -> VerbOption:
    first, *words = of.name.strip("_").split("_")
    camel = first + "".join({"ip": "IP", "id": "ID"}.get(word, word.title()) for word in words)
    return VerbOption(
        field=of.name,
        camel=option.name or camel,
        kebab="-".join((first, *words)),
        option=option,
        required=of.default is MISSING,
    )


def kebab(camel: str) -> str:
    """Write `sendingThreads` as `sending-threads`."""
    return re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", camel)


def _by_name(kind: type[Common]) -> dict[str, VerbOption]:
    return {name: option for option in known(kind) for name in (option.camel, option.kebab)}


_MEANINGLESS = MEANINGLESS | {kebab(name): reason for name, reason in MEANINGLESS.items()}


_ENVIRONMENT = "environment"  # what a place is called


class _Given(NamedTuple):
    """An option as somebody gave it."""

    name: str  # in camel or kebab case
    value: str
    written: str  # the name


def build(
    kind: type[VerbOptions],
    file: Path | None,
    environment: Mapping[str, str],
    command_line: Mapping[str, str],
    warn: Callable[[str], None],
) -> VerbOptions:
    """Build the settings from all three places. An empty value is none, as in air-gap's files.

    Refused with all that is wrong at once: unknown, unfit, missing, or given twice in one place.
    """
    by_name = _by_name(kind)
    values: dict[str, Any] = {}
    wrong: list[str] = []
    unfit: set[str] = set()  # fields
    for where, content in _places(file, environment, command_line):
        here: dict[str, str] = {}
        for name, value, written in content:
            option = by_name.get(name) or _renamed(by_name, name, where, written, warn)
            meant = option.field if option else name
            if meant in here:
                wrong.append(f"{where}: {_twice(here[meant], written)}")
                continue
            here[meant] = written
            if option:
                values.pop(option.field, None)
                unfit.discard(option.field)
                try:
                    if value.strip():
                        values[option.field] = option.option.read(value)
                except Unfit as error:
                    unfit.add(option.field)
                    shown = value if len(value) <= 60 else value[:60] + "..."
                    wrong.append(f"{where}: {written} {error}, not {shown!r}.")
            elif name in _MEANINGLESS:
                warn(f"{where}: {written} has no effect: {_MEANINGLESS[name]}.")
            elif not any(name in _by_name(other) for other in VERBS):
                near = get_close_matches(name, by_name, 1)
                if near and where == _ENVIRONMENT:
                    near = [ENVIRONMENT + by_name[near[0]].kebab.upper().replace("-", "_")]
                hint = f"; did you mean {near[0]}?" if near else "."
                wrong.append(f"{where}: the option {written} does not exist{hint}")
    missing = [
        option for option in known(kind) if option.required and option.field not in values.keys() | unfit
    ]
    wrong += [f"{option.camel} must be set: {option.option.help}." for option in missing]
    if wrong:
        _refuse([*wrong, *_faults(kind, values, unfit)])
    return kind(**values)


def _renamed(
    by_name: Mapping[str, VerbOption], name: str, where: str, written: str, warn: Callable[[str], None]
) -> VerbOption | None:
    """Return the option that has this former name, with a warning; None if no option has it."""
    option = by_name.get(former_options.RENAMED.get(f"--{name}", "").removeprefix("--"))
    if option:
        kebab = option.kebab
        present = ENVIRONMENT + kebab.upper().replace("-", "_") if where == _ENVIRONMENT else kebab
        warn(former_options.warning([(f"{where}: {written}", present)]))
    return option


def _faults(kind: type[Common], value_by_field: Mapping[str, Any], unfit: Collection[str]) -> list[str]:
    """Return what is wrong with options together, where some of them are missing or unfit."""
    settings = object.__new__(kind)  # which would be refused as a whole
    for field in fields(kind):
        object.__setattr__(settings, field.name, None if field.default is MISSING else field.default)
    for name, value in value_by_field.items():
        object.__setattr__(settings, name, value)
    if any(getattr(settings, name) is None for name in unfit):
        return []  # faults depend on whether it is set, and on its value
    return [*settings.faults()]


def _refuse(faults: Sequence[str]) -> None:
    """Refuse all that is wrong with options, if anything is, a line each."""
    if faults:
        first = [f"{len(faults)} options cannot be used:"] if len(faults) > 1 else []
        raise Refused("link-options-invalid", "\n  ".join([*first, *faults]))


def _twice(one: str, other: str) -> str:
    if one == other:
        return f"{one} is set twice; remove one of the two."
    return f"{one} and {other} are the same option; remove one of the two."


def _places(
    file: Path | None, environment: Mapping[str, str], command_line: Mapping[str, str]
) -> Iterator[tuple[str, Iterable[_Given]]]:
    if file:
        yield str(file), (_Given(name, value, name) for name, value in _file(file))
    yield (
        _ENVIRONMENT,
        (
            _Given(name.removeprefix(ENVIRONMENT).lower().replace("_", "-"), value, name)
            for name, value in environment.items()
            if name.startswith(ENVIRONMENT)
        ),
    )
    yield "command line", (_Given(name, value, name) for name, value in command_line.items())


def _file(path: Path) -> Iterable[tuple[str, str]]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            "config-file-unreadable", f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None
    if path.suffix not in (".yml", ".yaml"):
        return client_config.entries(text)
    import yaml  # hosts that have no link lack it, and show all help

    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise Refused("config-file-invalid", f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise Refused("config-file-invalid", f"{path} must be a mapping of options.")
    return [(_written(name, path), _written(value, path)) for name, value in root.value]


def _written(node: Any, path: Path) -> str:
    """Return a node of YAML as text.

    As it was written, so that 2026-01-31 isn't a date yet; a list has commas.
    """
    kind = node.tag.rpartition(":")[2]
    if node.id == "sequence":
        return ",".join(_written(child, path) for child in node.value)
    if node.id == "mapping":
        raise Refused(
            "config-value-invalid",
            f"{path}, line {node.start_mark.line + 1}: the value of an option cannot be a mapping.",
        )
    if kind == "bool":
        return "true" if node.value.lower() in ("true", "yes", "on") else "false"
    return "" if kind == "null" else str(node.value)


def _secret(path: Path) -> str:
    try:
        return path.read_text().rstrip("\n")
    except OSError as error:
        raise Refused(
            "key-file-unreadable", f"keyPasswordFile {path} cannot be read: {error.strerror}."
        ) from None


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
