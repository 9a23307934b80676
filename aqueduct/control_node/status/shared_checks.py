"""What the judgements of all sections share."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aqueduct.common import timestamps
from aqueduct.control_node.status.facts import CommandAnswer, HostFacts, UnitFacts, metric, told
from aqueduct.control_node.status.first_sight import FirstSights
from aqueduct.control_node.status.model import DeclaredObject, Figure, StatusFinding, StatusLimits

SILENT = HostFacts.silent("", "it was not queried")


@dataclass(frozen=True, kw_only=True)
class EstateFacts:
    """The facts of all hosts at one moment, `now`, in milliseconds since 1970."""

    hosts: Mapping[str, HostFacts]
    now: int
    limits: StatusLimits = field(default_factory=StatusLimits)
    first_sights: FirstSights | None = field(default_factory=dict)  # None: no run keeps them

    def of(self, host: str) -> HostFacts:
        return self.hosts.get(host, SILENT)

    @property
    def seconds(self) -> float:
        return self.now / 1000


def silences(facts: EstateFacts, hosts: Iterable[str]) -> list[StatusFinding]:
    """Return a finding for each host that did not answer."""
    return [
        StatusFinding(
            id="host-not-answering",
            sentence=f"{host} did not answer: {facts.of(host).error}.",
            fix=f"ansible {host} -m ansible.builtin.ping",
            is_unknown=True,
        )
        for host in hosts
        if not facts.of(host).has_answered
    ]


def unanswered(declared: DeclaredObject, host: str, reason: str, fix: str) -> StatusFinding:
    """Return the finding that a host answered, but not about this object."""
    return StatusFinding(
        id="object-not-answered",
        sentence=f"The state of {declared} is unknown: {reason.rstrip('.') or 'no answer'}.",
        fix=f"on {host}: {fix}",
        is_unknown=True,
    )


def answers(
    facts: EstateFacts, hosts: Iterable[str], name: str, codes: Container[int]
) -> Iterator[tuple[str, CommandAnswer]]:
    """Yield the usable answers of a command on several hosts."""
    for host in hosts:
        answer = facts.of(host).answers.get(name)
        if answer and answer.code is not None and answer.code in codes and answer.document is not None:
            yield host, answer


def reason(facts: EstateFacts, hosts: Iterable[str], name: str) -> tuple[str, str]:
    """Return the first host that answered at all, and why a command gave no usable answer there."""
    for host in hosts:
        if (host_facts := facts.of(host)).has_answered:
            answer = host_facts.answers.get(name)
            if answer is None:
                return host, host_facts.unasked or "it was not queried"
            document = answer.document
            error = document.get("error") if isinstance(document, Mapping) else None
            return host, told(error["message"]) if isinstance(error, Mapping) and "message" in error else (
                answer.error or f"exit code {answer.code}"
            )
    return "", ""


def inactive(facts: EstateFacts, host: str, unit: str) -> list[StatusFinding]:
    """Return the finding that a unit of an answering host is not active, or that it is unknown."""
    host_facts = facts.of(host)
    if not host_facts.has_answered:
        return []
    state = host_facts.units.get(unit)
    if state is None:
        return [
            StatusFinding(
                id="object-not-answered",
                sentence=f"The state of the unit {unit} on {host} is unknown.",
                fix=f"on {host}: systemctl status {unit}",
                is_unknown=True,
            )
        ]
    if state.state == "active":
        return []
    return [
        StatusFinding(
            id="unit-not-active",
            sentence=f"{unit} on {host} is {state.state} ({state.result}).",
            fix=f"on {host}: {journal(unit)}; systemctl start {unit}",
            since=moment(state.changed),
        )
    ]


def journal(*units: str) -> str:
    """Return the command that shows the last lines of units' journals."""
    return f"journalctl {' '.join(f'--unit {unit}' for unit in units)} --lines 50"


def failed_run(host: str, unit: str, state: UnitFacts) -> list[StatusFinding]:
    """Return the finding that the last run of a periodic unit failed."""
    if state.state != "failed" and state.result == "success":
        return []
    return [
        StatusFinding(
            id="unit-run-failed",
            sentence=f"The last run of {unit} on {host} failed ({state.result}).",
            fix=f"on {host}: {journal(unit)}",
            since=moment(state.changed),
        )
    ]


def standing_still(
    declared: DeclaredObject, facts: EstateFacts, host: str, unit: str, name: str
) -> list[StatusFinding]:
    """Return the finding that a service has ended no round for some minutes, by its metric `name`."""
    if not facts.of(host).has_answered:
        return []
    ended = metric(facts.of(host).metrics.get(unit, ""), name)
    if ended is None:
        cause = f"{unit} has completed no round since it started, or serves no metrics"
        return [unanswered(declared, host, cause, journal(unit))]
    if early := in_future(declared, facts, host, "last round", ended):
        return early
    if facts.seconds - ended <= facts.limits.round_minutes * 60:
        return []
    return [
        StatusFinding(
            id="rounds-standing-still",
            sentence=f"{unit} on {host} has completed no round for {age_text(facts.seconds - ended)}.",
            fix=f"on {host}: {journal(unit)}",
            since=moment(ended),
        )
    ]


def in_future(
    declared: DeclaredObject, facts: EstateFacts, host: str, subject: str, seconds: float
) -> list[StatusFinding]:
    """Return the finding that a time is later than now, so that its age is unknown."""
    if seconds - facts.seconds <= facts.limits.clock_seconds:
        return []
    time = moment(seconds) or seconds
    return [
        StatusFinding(
            id="time-in-future",
            sentence=f"The time of the {subject} of {declared} is in the future: {time}.",
            fix=f"on {host}: timedatectl timesync-status",
            is_unknown=True,
        )
    ]


def behind(
    declared: DeclaredObject, facts: EstateFacts, lag: Figure, seconds: Figure, fix: str
) -> list[StatusFinding]:
    """Return the finding that an object lags by more than a limit. An unknown lag is judged elsewhere."""
    limits = facts.limits
    exceeded = []
    if isinstance(lag, int | float) and lag > limits.lag_records:
        exceeded.append(f"{lag:,.0f} records")
    if isinstance(seconds, int | float) and seconds > limits.lag_seconds:
        exceeded.append(age_text(seconds))
    if not exceeded:
        return []
    return [
        StatusFinding(id="lag-over-limit", sentence=f"{declared} lags by {', '.join(exceeded)}.", fix=fix)
    ]


def split_label(sentence: str) -> tuple[str, str]:
    """Split a sentence of a report into its identifier and the rest; without identifier, an empty one."""
    text = told(sentence)
    if text.startswith("[") and "] " in text:
        id_, _, rest = text[1:].partition("] ")
        return id_, rest
    return "", text


def moment(seconds: float) -> str:
    """Return a time in RFC 3339; empty: never, or beyond what a calendar has."""
    try:
        return timestamps.text(int(seconds * 1000)) if seconds > 0 else ""
    except (OverflowError, ValueError, OSError):
        return ""


def age_text(seconds: float) -> str:
    """Return an age as an operator reads it: `40 s`, `12 min`, `5 h`, `3 days`."""
    for size, name in ((2 * 86400, "days"), (2 * 3600, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86400, 'h': 3600, 'min': 60}[name]:,.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"


def number(value: Any) -> int | None:
    """Return a whole number of a host's answer; None: it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def listed(document: Any, name: str) -> list[Any]:
    """Return a list of a host's answer; empty: there is none."""
    entries = document.get(name) if isinstance(document, Mapping) else None
    return entries if isinstance(entries, list) else []
