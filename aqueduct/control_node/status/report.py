"""The state of an estate as text and as JSON, worst first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aqueduct.common import timestamps
from aqueduct.common.wording import count, shortened
from aqueduct.control_node.status import first_sight
from aqueduct.control_node.status.facts import HostFacts
from aqueduct.control_node.status.first_sight import FirstSights
from aqueduct.control_node.status.model import (
    SECTIONS,
    DeclaredObject,
    EstateStatus,
    Figure,
    ObjectKind,
    ObjectState,
    ObjectStatus,
    StatusFinding,
    StatusLimits,
)
from aqueduct.control_node.status.shared_checks import EstateFacts
from aqueduct.errors import Refused

VERSION = 1  # of the JSON; it rises if a field changes its meaning or goes
FEW = 50  # findings in the text without --verbose


def worst_first(status: EstateStatus) -> list[ObjectStatus]:
    order = list(ObjectKind)
    return sorted(
        status.objects,
        key=lambda object_status: (
            object_status.state.rank,
            order.index(object_status.declared.kind),
            object_status.declared.name,
        ),
    )


def findings(status: EstateStatus) -> list[tuple[ObjectStatus, StatusFinding]]:
    """Return all findings, worst first. What many objects have alike stands once, with the first of them."""
    pairs, seen = [], set[tuple[str, str]]()
    for object_status in worst_first(status):
        for finding in object_status.findings:
            if (finding.id, finding.sentence) not in seen:
                seen.add((finding.id, finding.sentence))
                pairs.append((object_status, finding))
    return sorted(pairs, key=lambda pair: pair[1].state.rank)


def text(status: EstateStatus, *, verbose: bool = False) -> str:
    return "\n".join(_lines(status, verbose=verbose))


def summary(status: EstateStatus) -> str:
    counts = status.counts
    parts = [
        f"{counts[state]:,} {state.value}" for state in sorted(ObjectState, key=lambda state: state.rank)
    ]
    return f"{count(len(status.objects), 'object')}: {', '.join(parts)}."


def _lines(status: EstateStatus, *, verbose: bool) -> Iterator[str]:
    yield f"{summary(status)} {status.answered} of {count(status.hosts, 'host')} answered."
    every = findings(status)
    for object_status, finding in every if verbose else every[:FEW]:
        since = f" Since {finding.since}." if finding.since else ""
        yield f"{finding.state.value}: {object_status.declared}: [{finding.id}] {finding.sentence}{since}"
        yield f"    {finding.fix}"
    if not verbose and len(every) > FEW:
        yield f"{count(len(every) - FEW, 'more finding')}: see --verbose."
    for site in sorted(
        {
            object_status.declared.site
            for object_status in status.objects
            if object_status.state == ObjectState.NOT_ASKED
        }
    ):
        yield f"{ObjectState.NOT_ASKED.value}: site {site}."
    if verbose:
        for section in SECTIONS:
            yield from _table(
                section,
                [
                    object_status
                    for object_status in worst_first(status)
                    if object_status.declared.kind.section == section
                ],
            )


def _table(section: str, objects: Sequence[ObjectStatus]) -> Iterator[str]:
    if not objects:
        return
    yield ""
    yield f"{section} ({len(objects)})"
    names = [shortened(str(object_status.declared)) for object_status in objects]
    width = max(map(len, names))
    for name, object_status in zip(names, objects, strict=True):
        figures = "  ".join(
            f"{figure}={figure_text(value)}" for figure, value in object_status.figures.items()
        )
        yield f"  {name:<{width}}  {object_status.state.value:<19}  {figures}".rstrip()


def figure_text(value: Figure) -> str:
    """Return a figure for readers. A value that is not known is never a number."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def document(status: EstateStatus) -> dict[str, Any]:
    """Return the JSON; docs/guides/status.md describes it."""
    return {
        "version": VERSION,
        "asked": timestamps.text(status.asked),
        "exit_code": int(status.exit_code),
        "hosts": {"asked": status.hosts, "answered": status.answered},
        "summary": {state.value: number for state, number in status.counts.items()},
        "objects": [
            {
                "section": object_status.declared.kind.section,
                "kind": object_status.declared.kind.label,
                "name": object_status.declared.name,
                "site": object_status.declared.site,
                "hosts": list(object_status.declared.hosts),
                "source": object_status.declared.source,
                "state": object_status.state.value,
                "figures": dict(object_status.figures),
                "findings": [
                    {
                        "id": finding.id,
                        "state": finding.state.value,
                        "sentence": finding.sentence,
                        "since": finding.since or None,
                        "fix": finding.fix,
                    }
                    for finding in object_status.findings
                ],
            }
            for object_status in worst_first(status)
        ],
    }


# A file of facts: what the control node gathered, to be evaluated again anywhere.


def facts_document(
    declared: Iterable[DeclaredObject],
    hosts: Mapping[str, Any],
    now: int,
    limits: Mapping[str, int],
    unreachable: Iterable[str],
    first_sights: FirstSights | None = None,
) -> dict[str, Any]:
    return {
        **estate_document(declared, limits, unreachable),
        "now": now,
        "first_seen": first_sight.entries(first_sights or {}),
        "hosts": dict(hosts),
    }


def estate_document(
    declared: Iterable[DeclaredObject], limits: Mapping[str, int], unreachable: Iterable[str]
) -> dict[str, Any]:
    """Return the part of a file of facts that the inventory gives."""
    return {
        "version": VERSION,
        "limits": dict(limits),
        "unreachable": list(unreachable),
        "declared": [
            {
                **vars(declared_object),
                "kind": declared_object.kind.label,
                "hosts": list(declared_object.hosts),
                "details": dict(declared_object.details),
            }
            for declared_object in declared
        ],
    }


def read_facts(source: object) -> tuple[list[DeclaredObject], EstateFacts, list[str]]:
    """Return declared objects, facts and sites out of reach of a file of facts; Refused if it is none."""
    kinds = {kind.label: kind for kind in ObjectKind}
    try:
        if not isinstance(source, Mapping) or source["version"] != VERSION:
            raise ValueError("another release of Aqueduct wrote it")
        declared = [
            DeclaredObject(
                **{**raw_object, "kind": kinds[raw_object["kind"]], "hosts": tuple(raw_object["hosts"])}
            )
            for raw_object in source["declared"]
        ]
        facts = EstateFacts(
            hosts={str(host): HostFacts.parse(str(host), raw) for host, raw in source["hosts"].items()},
            now=int(source["now"]),
            limits=StatusLimits(**{name: int(value) for name, value in source["limits"].items()}),
            first_sights=None
            if source.get("first_seen", ()) is None
            else first_sight.parse(source.get("first_seen")),
        )
        unreachable = [str(site) for site in source["unreachable"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(
            "facts-file-invalid", f"The file is not a file of facts: {error}. Run playbooks/status.yml again."
        ) from None
    return declared, facts, unreachable
