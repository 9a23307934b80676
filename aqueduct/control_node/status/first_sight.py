"""When findings were first seen. The control node keeps these times from one report to the next."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from aqueduct.common import timestamps
from aqueduct.control_node.status.model import DeclaredObject, EstateStatus, ObjectStatus, StatusFinding

# Kind and name of an object, and the identifier of its finding: sentences have numbers that change.
FindingKey = tuple[str, str, str]
FirstSights = Mapping[FindingKey, str]  # RFC 3339


def dated(status: ObjectStatus, first_sights: FirstSights, now: int) -> ObjectStatus:
    """Return the status with a time for each finding of which no host told since when it lasts."""
    findings = tuple(
        finding
        if finding.since
        else replace(finding, since=_first_sight(status.declared, finding, first_sights, now))
        for finding in status.findings
    )
    return replace(status, findings=findings)


def remembered(
    status: EstateStatus, declared: Iterable[DeclaredObject], first_sights: FirstSights
) -> dict[FindingKey, str]:
    """Return the times for the next report. A finding that is gone begins anew if it comes again.

    Objects that were not asked keep theirs, as long as they are declared.
    """
    asked = {_object(judged.declared) for judged in status.objects if judged.is_asked}
    others = {_object(declared_object) for declared_object in declared} - asked
    kept = {key: since for key, since in first_sights.items() if key[:2] in others}
    return kept | {
        _key(judged.declared, finding): _first_sight(judged.declared, finding, first_sights, status.asked)
        for judged in status.objects
        for finding in judged.findings
    }


def entries(first_sights: FirstSights) -> list[dict[str, str]]:
    return [
        {"kind": kind, "name": name, "id": id_, "since": since}
        for (kind, name, id_), since in sorted(first_sights.items())
    ]


def parse(source: Any) -> dict[FindingKey, str]:
    """Parse entries; those of another form are none, so that their findings begin anew."""
    names = ("kind", "name", "id", "since")
    return {
        (entry["kind"], entry["name"], entry["id"]): entry["since"]
        for entry in (source if isinstance(source, list) else ())
        if isinstance(entry, Mapping) and all(isinstance(entry.get(name), str) for name in names)
    }


def _first_sight(
    declared: DeclaredObject, finding: StatusFinding, first_sights: FirstSights, now: int
) -> str:
    return first_sights.get(_key(declared, finding)) or timestamps.text(now)


def _key(declared: DeclaredObject, finding: StatusFinding) -> FindingKey:
    return (*_object(declared), finding.id)


def _object(declared: DeclaredObject) -> tuple[str, str]:
    return declared.kind.label, declared.name
