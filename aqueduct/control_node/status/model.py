"""Declared objects of an estate, and the state of each one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from aqueduct.errors import ExitCode

Figure = str | int | float | None  # None: it is not known
AUTHORITY = "authority"  # as `details["is"]` of the certificate that signs all others


class ObjectState(Enum):
    """The state of an object. What was not asked, or did not answer, is never well."""

    WELL = "well"
    NEEDS_ACTION = "needs action"
    UNKNOWN = "unknown"
    NOT_ASKED = "not asked from here"

    @property
    def rank(self) -> int:
        """Return the place in a report that begins with the worst."""
        return [
            ObjectState.NEEDS_ACTION,
            ObjectState.UNKNOWN,
            ObjectState.NOT_ASKED,
            ObjectState.WELL,
        ].index(self)


class ObjectKind(Enum):
    """A kind of objects; the value is its name and the section of the report that lists it."""

    CLUSTER = "cluster", "clusters"
    BROKER = "broker", "clusters"
    CONTROLLER = "controller", "clusters"
    FLOW = "flow", "flows"
    LINK = "link", "links"
    CONNECTOR = "connector", "connectors"
    LANDING = "landing", "landings"
    BACKUP = "backup", "backups"
    DRILL = "drill", "drills"
    CERTIFICATE = "certificate", "certificates"
    HOST = "host", "hosts"

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def section(self) -> str:
        return self.value[1]


SECTIONS = tuple(dict.fromkeys(kind.section for kind in ObjectKind))


@dataclass(frozen=True, kw_only=True)
class DeclaredObject:
    """An object that the inventory declares. `hosts`: those that know its state."""

    kind: ObjectKind
    name: str
    site: str
    hosts: tuple[str, ...] = ()
    source: str = ""  # the site that a flow or a link comes from
    source_host: str = ""  # the sending end of a link
    node_id: int | None = None  # of a broker or a controller
    details: Mapping[str, str] = field(default_factory=dict, hash=False)  # what only this kind has

    def __str__(self) -> str:
        return f"{self.kind.label} {self.name}"


@dataclass(frozen=True, kw_only=True)
class StatusFinding:
    """A reason why an object is not well. `id` is declared in `aqueduct.messages`."""

    id: str
    sentence: str
    fix: str  # a command
    since: str = ""  # RFC 3339; empty: no host told it
    is_unknown: bool = False  # the state could not be found out

    @property
    def state(self) -> ObjectState:
        return ObjectState.UNKNOWN if self.is_unknown else ObjectState.NEEDS_ACTION


@dataclass(frozen=True, kw_only=True)
class ObjectStatus:
    """An object with what was found out about it."""

    declared: DeclaredObject
    findings: tuple[StatusFinding, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    is_asked: bool = True

    @property
    def state(self) -> ObjectState:
        if not self.is_asked:
            return ObjectState.NOT_ASKED
        return min(
            (finding.state for finding in self.findings),
            key=lambda state: state.rank,
            default=ObjectState.WELL,
        )


@dataclass(frozen=True, kw_only=True)
class EstateStatus:
    """The state of all declared objects at one moment."""

    objects: tuple[ObjectStatus, ...]
    asked: int  # milliseconds since 1970
    answered: int  # hosts
    hosts: int  # that were asked

    @property
    def exit_code(self) -> ExitCode:
        """Return FAILED if no host answered, INCOMPLETE if an object needs action or is unknown."""
        if self.hosts and not self.answered:
            return ExitCode.FAILED
        bad = {ObjectState.NEEDS_ACTION, ObjectState.UNKNOWN}
        return (
            ExitCode.INCOMPLETE
            if any(object_status.state in bad for object_status in self.objects)
            else ExitCode.DONE
        )

    @property
    def counts(self) -> dict[ObjectState, int]:
        count_by_state = dict.fromkeys(ObjectState, 0)
        for object_status in self.objects:
            count_by_state[object_status.state] += 1
        return count_by_state


@dataclass(frozen=True, kw_only=True)
class StatusLimits:
    """The limits beyond which a measured value needs action."""

    disk_percent: int = 85
    certificate_days: int = 20
    clock_seconds: int = 5
    backup_hours: int = 48
    drill_days: int = 8
    verify_days: int = 8
    dead_letters: int = 0
    round_minutes: int = 30
    lag_records: int = 1_000_000
    lag_seconds: int = 3600
    keepalive_seconds: int = 15
    missing_records: int = 0
    lost_records: int = 0
