"""The facts that a host gave about itself. A host may be captured, so each part is checked before use."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aqueduct.common.wording import printable

# A line of Prometheus's text format, as aqueduct.common.prometheus writes it. The parser of prometheus_client
# needs time that grows with the square of a line's length, and one line that it cannot read ends it. So each
# part of these patterns is read once (possessive), and a line that does not match as a whole has no sample.
_LABEL = re.compile(r'[ \t]*+([a-zA-Z_]\w*+)="((?:[^"\\]|\\.)*+)"[ \t]*+', re.ASCII)
_SAMPLE = re.compile(
    r"([a-zA-Z_:][\w:]*+)"
    r'(?:\{((?:[ \t]*+[a-zA-Z_]\w*+="(?:[^"\\]|\\.)*+"[ \t]*+,?+)*+[ \t]*+)\})?+'
    r"[ \t]++([-+.\deEinfINFna]{1,64}+)[ \t]*+",
    re.ASCII,
)
LONGEST_LINE = 16_384  # characters of a sample
LONGEST = 400  # characters of a text that a host wrote into a sentence


@dataclass(frozen=True, kw_only=True)
class UnitFacts:
    """The state of a systemd unit. Times: seconds since 1970; 0: never."""

    state: str  # active, inactive, failed, activating
    result: str  # of the last run: success, exit-code, timeout
    changed: float
    ended: float  # when the main process of the last run ended
    version: str = ""  # of Aqueduct's software that runs; empty: it is not known


@dataclass(frozen=True, kw_only=True)
class DiskFacts:
    path: str
    size: int
    free: int

    @property
    def used_percent(self) -> float:
        return 100 * (self.size - self.free) / self.size


@dataclass(frozen=True, kw_only=True)
class CommandAnswer:
    """The answer of a command, or why there is none."""

    code: int | None
    document: Any  # its JSON; None: it printed none
    error: str  # the last line of its errors
    errors: tuple[str, ...] = ()  # all lines of its errors


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The facts of one host. `error`: why it gave none."""

    host: str
    error: str = ""
    clock_skew: float | None = None  # seconds
    units: Mapping[str, UnitFacts] = field(default_factory=dict)
    services: tuple[str, ...] = ()  # units that are to be active
    runs: tuple[str, ...] = ()  # units that a timer starts
    exporters: tuple[str, ...] = ()  # names of the pages of metrics that the host was asked for
    failed_units: tuple[str, ...] | None = ()  # None: systemd did not answer
    disks: tuple[DiskFacts, ...] = ()
    unmeasured: tuple[str, ...] = ()  # folders whose file system has no fill level
    certificates: Mapping[str, str] = field(default_factory=dict)  # PEM, by path
    metrics: Mapping[str, str] = field(default_factory=dict)  # text, by name
    answers: Mapping[str, CommandAnswer] = field(default_factory=dict)
    certificate_ends: Mapping[str, float] = field(default_factory=dict)  # of served ones, by file name
    unasked: str = ""  # why the host was asked for metrics alone

    @property
    def has_answered(self) -> bool:
        return not self.error

    @classmethod
    def silent(cls, host: str, reason: str) -> "HostFacts":
        return cls(host=host, error=told(reason) or "the host did not answer")

    @classmethod
    def parse(cls, host: str, raw: Any) -> "HostFacts":
        """Parse what a host answered; an answer of another form is none."""
        if not isinstance(raw, Mapping):
            return cls.silent(host, "it was not queried")
        try:
            if error := raw.get("error"):  # others may have answered in its place: brokers of its cluster
                return replace(cls.silent(host, str(error)), answers=_answers(raw))
            disks, unmeasured = _disks(raw)
            return cls(
                host=host,
                clock_skew=_skew(raw),
                units={str(name): _unit(raw_unit) for name, raw_unit in _mapping(raw, "units").items()},
                services=_names(raw, "services"),
                runs=_names(raw, "runs"),
                exporters=_names(raw, "exporters"),
                failed_units=_failed_units(raw),
                disks=disks,
                unmeasured=unmeasured,
                certificates=_texts(_mapping(raw, "certificates")),
                metrics=_texts(_mapping(raw, "metrics")),
                answers=_answers(raw),
                certificate_ends={
                    str(name): _finite(end) for name, end in _mapping(raw, "certificate_ends").items()
                },
                unasked=told(raw.get("unasked", "")),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            return cls.silent(host, f"its answer has another form than expected ({type(error).__name__})")


def told(text: object) -> str:
    """Return a text of a host on one line, without what could set a terminal, and not too long."""
    line = " ".join(printable(str(text)).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def samples(text: str, prefix: str = "") -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of each sample of a page of metrics whose name begins with `prefix`.

    Lines end only with a line feed: a value of a label may have other characters that end lines elsewhere.
    Other lines are not parsed, because each object of a host reads the whole page of that host.
    """
    for line in text.split("\n"):
        if not line.startswith(prefix):
            continue
        if len(line) <= LONGEST_LINE and (match := _SAMPLE.fullmatch(line)):
            try:
                value = float(match[3])
            except ValueError:
                continue
            labels = {
                name: re.sub(r"\\(.)", r"\1", quoted) for name, quoted in _LABEL.findall(match[2] or "")
            }
            yield match[1], labels, value


def metric(text: str, name: str, **labels: str) -> float | None:
    """Return the value of the first sample; None: the page has none, or its value is no finite number."""
    values = (
        value
        for sample_name, has, value in samples(text, name)
        if sample_name == name and labels.items() <= has.items()
    )
    first = next(values, math.nan)
    return first if math.isfinite(first) else None


def metrics(text: str, name: str, **labels: str) -> list[float]:
    """Return the values of all samples that are finite numbers."""
    return [
        value
        for sample_name, has, value in samples(text, name)
        if sample_name == name and labels.items() <= has.items() and math.isfinite(value)
    ]


def _mapping(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    mapping = raw.get(name, {})
    if not isinstance(mapping, Mapping):
        raise TypeError(name)
    return mapping


def _texts(raw: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): text for name, text in raw.items() if isinstance(text, str)}


def _names(raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(str(entry) for entry in raw.get(name, ()))


def _failed_units(raw: Mapping[str, Any]) -> tuple[str, ...] | None:
    units = raw.get("failed_units")
    if units is None:
        return None
    if not isinstance(units, list):
        raise TypeError("failed_units")
    return tuple(told(unit) for unit in units)


def _skew(raw: Mapping[str, Any]) -> float | None:
    """Return how far the host's clock is outside of the time in which the control node asked it."""
    if not {"time", "asked", "answered"} <= raw.keys():
        return None
    clock, asked, answered = (_finite(raw[name]) for name in ("time", "asked", "answered"))
    return min(0.0, clock - asked) + max(0.0, clock - answered)


def _unit(raw: Mapping[str, Any]) -> UnitFacts:
    return UnitFacts(
        state=told(raw["state"]),
        result=told(raw["result"]),
        changed=_finite(raw["changed"]),
        ended=_finite(raw["ended"]),
        version=told(raw.get("version", "")),
    )


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _disks(raw: Mapping[str, Any]) -> tuple[tuple[DiskFacts, ...], tuple[str, ...]]:
    """Return the disks that have a fill level, and the folders that have none."""
    disks = [
        DiskFacts(path=told(raw_disk["path"]), size=int(raw_disk["size"]), free=int(raw_disk["free"]))
        for raw_disk in raw.get("disks", ())
    ]
    unmeasured = [told(folder) for folder in raw.get("unmeasured", ())]
    unmeasured += [disk.path for disk in disks if disk.size <= 0]
    return tuple(disk for disk in disks if disk.size > 0), tuple(unmeasured)


def _answers(raw: Mapping[str, Any]) -> dict[str, CommandAnswer]:
    return {str(name): _answer(raw_answer) for name, raw_answer in _mapping(raw, "answers").items()}


def _answer(raw: Mapping[str, Any]) -> CommandAnswer:
    code, output = raw.get("code"), str(raw.get("output", ""))
    try:
        document = json.loads(output) if output.strip() else None
    except ValueError:
        document = None
    error = str(raw.get("error", "")).strip()
    errors = tuple(told(line) for line in error.split("\n")) if error else ()
    return CommandAnswer(
        code=None if code is None else int(code),
        document=document,
        error=errors[-1] if errors else "",
        errors=errors,
    )
