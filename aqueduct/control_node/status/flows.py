"""Flows, by the answers of `aqueduct mirror --json` on the hosts of their mirrors.

The answer has the same form for each engine: findings, and the lag of each partition.
"""

import math
from typing import Any

from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import (
    EstateFacts,
    answers,
    behind,
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
        labels = document["findings"]
        findings += [_finding(str(label), host, unit) for label in labels]
        figures = _figures(document)
        findings += behind(
            declared, facts, figures["lag"], figures["lag_seconds"], f"on {host}: {journal(unit)}"
        )
        # A flow that runs has partitions, though they may be empty; one that matches nothing has a finding.
        if not figures["partitions"] and not labels:
            findings.append(unanswered(declared, host, "no partition is listed", journal(unit)))
        if figures["running_tasks"] != figures["tasks"] and not labels:
            sentence = f"{figures['running_tasks']} of {figures['tasks']} tasks of {declared} run."
            fix = f"on {host}: {journal(unit)}"
            findings.append(StatusFinding(id="mirror-not-well", sentence=sentence, fix=fix))
        if answer.code != 0 and not labels:
            cause = f"`aqueduct mirror` lists no finding, and its exit code is {answer.code}"
            findings.append(unanswered(declared, host, cause, journal(unit)))
        return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)
    findings = units + silences(facts, declared.hosts)
    host, cause = reason(facts, declared.hosts, question)
    if host or not declared.hosts:
        findings.append(unanswered(declared, host, cause, journal(unit)))
    return ObjectStatus(declared=declared, findings=tuple(findings))


def _figures(document: Any) -> dict[str, Figure]:
    partitions = [each if isinstance(each, dict) else {} for each in listed(document, "partitions")]
    is_listed = isinstance(document.get("partitions"), list)
    lags = [number(partition.get("behind")) for partition in partitions]
    known_lags = [lag for lag in lags if lag is not None]
    is_known = is_listed and len(known_lags) == len(lags)
    ages = [_seconds(partition.get("seconds")) for partition in partitions]
    known_ages = [age for age in ages if age is not None]
    return {
        "partitions": len(partitions) if is_listed else None,
        "lag": sum(known_lags) if is_known else None,
        "largest_lag": max(known_lags, default=0) if is_known else None,
        # Kafka 0.10 does not tell it, nor do records without timestamps. That is not a finding.
        "lag_seconds": round(max(known_ages, default=0.0), 1)
        if is_listed and len(known_ages) == len(ages)
        else None,
        **_tasks(document),
    }


def _tasks(document: Any) -> dict[str, Figure]:
    """Return the number of tasks, and of those that run. A classic mirror does not tell them."""
    tasks = document.get("tasks")
    if not isinstance(tasks, list):
        return {"tasks": None, "running_tasks": None}
    running = [task for task in tasks if isinstance(task, dict) and task.get("running") is True]
    return {"tasks": len(tasks), "running_tasks": len(running)}


def _seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _finding(label: str, host: str, unit: str) -> StatusFinding:
    id_, sentence = split_label(label)
    return StatusFinding(
        id=id_ if id_ in MESSAGES else "mirror-not-well",
        sentence=sentence,
        fix=f"on {host}: {journal(unit)}",
    )
