"""Landings, by the answers of `aqueduct land status --json` and the metrics of the service."""

from collections.abc import Mapping
from typing import Any

from aqueduct.control_node.status.facts import metric, told
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
    standing_still,
    unanswered,
)

ANSWER, UNIT, CODES = "land", "land", (0, 3)
ROUND_TIME = "aqueduct_land_round_time"


def judge_landing(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    page = facts.of(host).metrics.get(UNIT, "")
    findings = silences(facts, [host]) + inactive(facts, host, UNIT)
    findings += standing_still(declared, facts, host, UNIT, ROUND_TIME)
    for _, answer in answers(facts, [host], ANSWER, CODES):
        name = declared.details["table"]
        tables = [
            listed_table
            for listed_table in listed(answer.document, "tables")
            if isinstance(listed_table, Mapping)
        ]
        table = next((listed_table for listed_table in tables if listed_table.get("table") == name), None)
        if table is None:
            continue
        table_findings, figures = _judge(declared, host, table)
        figures["failures"] = metric(page, "aqueduct_land_failures_total", table=name)
        table_findings += behind(declared, facts, figures["lag"], None, f"on {host}: {journal(UNIT)}")
        return ObjectStatus(declared=declared, findings=tuple(findings + table_findings), figures=figures)
    if facts.of(host).has_answered:
        _, cause = reason(facts, [host], ANSWER)
        findings.append(unanswered(declared, host, cause, journal(UNIT)))
    return ObjectStatus(declared=declared, findings=tuple(findings))


def _judge(
    declared: DeclaredObject, host: str, table: Mapping[str, Any]
) -> tuple[list[StatusFinding], dict[str, Figure]]:
    fix = f"on {host}: {journal(UNIT)}"
    lags = []
    for partition in listed(table, "partitions"):
        landed, end = (
            number(partition.get(name)) if isinstance(partition, Mapping) else None
            for name in ("landed", "end")
        )
        lags.append(None if landed is None or end is None else max(0, end - landed))
    known_lags = [lag for lag in lags if lag is not None]
    figures: dict[str, Figure] = {
        "lag": sum(known_lags) if lags and len(known_lags) == len(lags) else None,
        "rows": number(table.get("rows")),
        "rejected": number(table.get("bad")),
        "files": number(table.get("files")),
        "bytes": number(table.get("bytes")),
        "skipped": len(listed(table, "left_out")) if isinstance(table.get("left_out"), list) else None,
    }
    findings = [
        StatusFinding(
            id="landing-skips",
            sentence=f"{declared} skips {told(skip.get('what', '?'))}: {told(skip.get('why', 'unknown'))}.",
            fix=fix,
        )
        for skip in listed(table, "left_out")
        if isinstance(skip, Mapping)
    ]
    if not lags:
        findings.append(unanswered(declared, host, "nothing has landed, so its lag is not known", fix))
    elif len(known_lags) < len(lags):
        partitions = f"{len(lags) - len(known_lags)} of {len(lags)} partitions"
        findings.append(
            StatusFinding(
                id="landing-skips",
                sentence=f"The lag of {declared} cannot be measured for {partitions}.",
                fix="ansible-playbook playbooks/doctor.yml",
                is_unknown=True,
            )
        )
    if catalogue := table.get("catalogue"):
        findings.append(
            StatusFinding(
                id="landing-catalogue-behind",
                sentence=f"The Hive metastore is behind {declared}: {told(catalogue)}.",
                fix=fix,
            )
        )
    return findings, figures
