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
SKIPS = 20  # skipped items that have a finding of their own; one more finding counts the others


def judge_landing(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    name, fix = declared.details["table"], f"on {host}: {journal(UNIT)}"
    page = facts.of(host).metrics.get(UNIT, "")
    findings = silences(facts, [host]) + inactive(facts, host, UNIT)
    findings += standing_still(declared, facts, host, UNIT, ROUND_TIME)
    for _, answer in answers(facts, [host], ANSWER, CODES):
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
        table_findings += [] if table_findings else _last_skips(declared, page, name, fix)
        table_findings += behind(declared, facts, figures["lag"], None, fix)
        return ObjectStatus(declared=declared, findings=tuple(findings + table_findings), figures=figures)
    if facts.of(host).has_answered:
        findings += _last_skips(declared, page, name, fix)
        findings += behind(declared, facts, metric(page, "aqueduct_land_lag", table=name), None, fix)
        _, cause = reason(facts, [host], ANSWER)
        findings.append(unanswered(declared, host, cause, journal(UNIT)))
    return ObjectStatus(declared=declared, findings=tuple(findings))


def _judge(
    declared: DeclaredObject, host: str, table: Mapping[str, Any]
) -> tuple[list[StatusFinding], dict[str, Figure]]:
    fix = f"on {host}: {journal(UNIT)}"
    lags = [_lag(partition) for partition in listed(table, "partitions")]
    known_lags = [lag for lag in lags if lag is not None and lag >= 0]
    figures: dict[str, Figure] = {
        "lag": sum(known_lags) if lags and len(known_lags) == len(lags) else None,
        "rows": number(table.get("rows")),
        "rejected": number(table.get("bad")),
        "files": number(table.get("files")),
        "bytes": number(table.get("bytes")),
        "skipped": len(listed(table, "left_out")) if isinstance(table.get("left_out"), list) else None,
    }
    skips = listed(table, "left_out")
    findings = [_skips(declared, _item(skip), fix) for skip in skips[:SKIPS]]
    if len(skips) > SKIPS:
        findings.append(_skips(declared, f"{len(skips) - SKIPS:,} more items", fix))
    if not skips and (truncated := sum(lag is not None and lag < 0 for lag in lags)):
        cause = "their logs end before the offsets up to which they landed"
        findings.append(_skips(declared, f"{truncated} of {len(lags)} partitions: {cause}", fix))
    if not lags:
        findings.append(unanswered(declared, host, "it has no partition, so its lag is unknown", fix))
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


def _last_skips(declared: DeclaredObject, page: str, table: str, fix: str) -> list[StatusFinding]:
    """Return the finding that the last round of the service skipped something, by its metrics."""
    skipped = metric(page, "aqueduct_land_left_out", table=table)
    return [_skips(declared, f"{skipped:,.0f} items in its last round", fix)] if skipped else []


def _lag(partition: Any) -> int | None:
    """Return the lag of a partition; negative: its log was truncated; None: it is unknown."""
    landed, end = (
        number(partition.get(name)) if isinstance(partition, Mapping) else None for name in ("landed", "end")
    )
    return None if landed is None or end is None else end - landed


def _item(skip: Any) -> str:
    if not isinstance(skip, Mapping):
        return told(skip)
    return f"{told(skip.get('what', '?'))}: {told(skip.get('why', 'unknown'))}"


def _skips(declared: DeclaredObject, items: str, fix: str) -> StatusFinding:
    return StatusFinding(id="landing-skips", sentence=f"{declared} skips {items}.", fix=fix)
