"""Landings, by the answers of `aqueduct land status --json` and the metrics of the service."""

from collections.abc import Mapping
from typing import Any

from aqueduct.status.facts import metric, told
from aqueduct.status.judging import (
    EstateFacts,
    answers,
    inactive,
    listed,
    number,
    reason,
    silences,
    standing_still,
    unanswered,
)
from aqueduct.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding

ANSWER, UNIT, CODES = "land", "land", (0, 3)
ROUND_TIME = "aqueduct_land_round_time"


def judge_landing(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    page = facts.of(host).metrics.get(UNIT, "")
    findings = silences(facts, [host]) + inactive(facts, host, UNIT)
    findings += standing_still(facts, host, UNIT, page, ROUND_TIME, facts.limits.round_minutes)
    for _, answer in answers(facts, [host], ANSWER, CODES):
        name = declared.details["table"]
        tables = [each for each in listed(answer.document, "tables") if isinstance(each, Mapping)]
        table = next((each for each in tables if each.get("table") == name), None)
        if table is None:
            continue
        found, figures = _judge(declared, host, table)
        figures["failures"] = metric(page, "aqueduct_land_failures_total", table=name)
        return ObjectStatus(declared=declared, findings=tuple(findings + found), figures=figures)
    if facts.of(host).has_answered:
        _, why = reason(facts, [host], ANSWER)
        findings.append(unanswered(declared, host, why, f"journalctl --unit {UNIT} --lines 50"))
    return ObjectStatus(declared=declared, findings=tuple(findings))


def _judge(
    declared: DeclaredObject, host: str, table: Mapping[str, Any]
) -> tuple[list[StatusFinding], dict[str, Figure]]:
    fix = f"on {host}: journalctl --unit {UNIT} --lines 50"
    lags = []
    for each in listed(table, "partitions"):
        landed, end = (
            number(each.get(name)) if isinstance(each, Mapping) else None for name in ("landed", "end")
        )
        lags.append(None if landed is None or end is None else max(0, end - landed))
    known = [each for each in lags if each is not None]
    figures: dict[str, Figure] = {
        "lag": sum(known) if lags and len(known) == len(lags) else None,
        "rows": number(table.get("rows")),
        "rejected": number(table.get("bad")),
        "files": number(table.get("files")),
        "bytes": number(table.get("bytes")),
    }
    findings = [
        StatusFinding(
            id="landing-skips",
            sentence=f"{declared} skips {told(each.get('what', '?'))}: {told(each.get('why', 'unknown'))}.",
            fix=fix,
        )
        for each in listed(table, "left_out")
        if isinstance(each, Mapping)
    ]
    if not lags:
        findings.append(unanswered(declared, host, "nothing has landed, so its lag is not known", fix))
    elif len(known) < len(lags):
        partitions = f"{len(lags) - len(known)} of {len(lags)} partitions"
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
