"""Flows, by the answers of `aqueduct mirror --json` on the hosts of their mirrors.

The answer has the same form for each engine: findings, and the lag of each partition.
"""

from typing import Any

from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import (
    EstateFacts,
    answers,
    inactive,
    journal,
    listed,
    number,
    reason,
    silences,
    split_label,
    unanswered,
)
from aqueduct.messages import MESSAGES

CODES = (0, 3)


def judge_flow(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    name = declared.details["flow"]
    unit, question = f"mirror_maker@{name}", f"flow:{name}"
    units = [finding for host in declared.hosts for finding in inactive(facts, host, unit)]
    for host, answer in answers(facts, declared.hosts, question, CODES):
        document = answer.document
        if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
            continue
        findings = units + silences(facts, declared.hosts)
        findings += [_finding(str(label), host, unit) for label in document["findings"]]
        partitions = [each for each in listed(document, "partitions") if isinstance(each, dict)]
        lags = [number(partition.get("behind")) for partition in partitions]
        behind = [lag for lag in lags if lag is not None]
        figures: dict[str, Figure] = {
            "partitions": len(partitions),
            "lag": sum(behind) if len(behind) == len(partitions) else None,
            "largest_lag": max(behind, default=0) if len(behind) == len(partitions) else None,
        }
        is_unknown = None in figures.values()
        ages = [_seconds(partition.get("seconds")) for partition in partitions]
        known = [age for age in ages if age is not None]
        # Kafka 0.10 does not tell it, nor do records without timestamps. That is not a finding.
        figures["lag_seconds"] = round(max(known, default=0.0), 1) if len(known) == len(ages) else None
        if is_unknown:
            findings.append(
                unanswered(declared, host, "the lag of a partition is no number", f"systemctl status {unit}")
            )
        return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)
    findings = units + silences(facts, declared.hosts)
    host, cause = reason(facts, declared.hosts, question)
    if host or not declared.hosts:
        findings.append(unanswered(declared, host, cause, journal(unit)))
    return ObjectStatus(declared=declared, findings=tuple(findings))


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _finding(label: str, host: str, unit: str) -> StatusFinding:
    id_, sentence = split_label(label)
    return StatusFinding(
        id=id_ if id_ in MESSAGES else "mirror-not-well",
        sentence=sentence,
        fix=f"on {host}: {journal(unit)}",
    )
