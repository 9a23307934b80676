"""Backups, by the snapshots of their stores or the last run of their units; drills, by their metrics."""

from aqueduct import moments
from aqueduct.status.facts import metric
from aqueduct.status.judging import (
    EstateFacts,
    age_text,
    answers,
    failed_run,
    inactive,
    moment,
    reason,
    silences,
    unanswered,
)
from aqueduct.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding

SNAPSHOTS, CODES, UNIT = "snapshots", (0, 1), "backup"
BACK_UP = "ansible-playbook playbooks/backup.yml"
DRILL, DRILL_NOW = "drill", "ansible-playbook playbooks/drill.yml"


def judge_backup(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    findings = silences(facts, [host])
    if findings:
        return ObjectStatus(declared=declared, findings=tuple(findings))
    unit = declared.details["unit"]
    state = facts.of(host).units.get(unit)
    if state is None and unit != UNIT:
        cause = f"the state of the unit {unit} is unknown"
        return ObjectStatus(
            declared=declared, findings=(unanswered(declared, host, cause, f"systemctl status {unit}"),)
        )
    if unit == UNIT:  # without a period it has no unit
        findings = inactive(facts, host, unit) if state else []
    else:
        findings = failed_run(host, unit, state) if state else []
    figures: dict[str, Figure] = {}
    if unit == UNIT:
        newest = _newest(declared, host, facts, findings, figures)
        if newest is None:
            return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)
    else:
        newest = state.ended if state else 0.0
    fix = BACK_UP if unit == UNIT else f"on {host}: systemctl start {unit}"
    if not newest:
        sentence = (
            f"{declared} has no snapshot." if unit == UNIT else f"{unit} has not run since {host} started."
        )
        findings.append(
            StatusFinding(id="no-snapshot-yet", sentence=sentence, fix=fix, is_unknown=unit != UNIT)
        )
    else:
        age = facts.seconds - newest
        figures["age_seconds"] = round(age)
        if age > facts.limits.backup_hours * 3600:
            sentence = f"The newest snapshot of {declared} is {age_text(age)} old."
            findings.append(StatusFinding(id="backup-old", sentence=sentence, fix=fix, since=moment(newest)))
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


def _newest(
    declared: DeclaredObject,
    host: str,
    facts: EstateFacts,
    findings: list[StatusFinding],
    figures: dict[str, Figure],
) -> float | None:
    """Return when the newest snapshot was created, seconds since 1970; 0: there is none; None: unknown."""
    for _, answer in answers(facts, [host], SNAPSHOTS, CODES):
        if not isinstance(answer.document, list):
            continue
        times = []
        for snapshot in answer.document:
            try:
                times.append(moments.parse(str(snapshot["created"])) / 1000)
            except (KeyError, TypeError, ValueError):
                times.append(0.0)
        figures["snapshots"] = len(times)
        if answer.code != 0:
            findings.append(
                StatusFinding(
                    id="snapshots-damaged",
                    sentence=f"{declared}: {answer.error or 'a snapshot cannot be used'}",
                    fix=f"on {host}: journalctl --unit {UNIT} --lines 50",
                )
            )
        return max(times, default=0.0)
    _, cause = reason(facts, [host], SNAPSHOTS)
    findings.append(unanswered(declared, host, cause, f"journalctl --unit {UNIT} --lines 50"))
    return None


def judge_drill(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    host_facts = facts.of(host)
    findings = silences(facts, [host])
    if findings:
        return ObjectStatus(declared=declared, findings=tuple(findings))
    page = host_facts.metrics.get(DRILL)
    journal = f"on {host}: journalctl --unit drill --unit drill_broker --lines 50"
    if page is None:
        missing = StatusFinding(
            id="drill-missing", sentence=f"{declared}: no drill has ended there.", fix=DRILL_NOW
        )
        return ObjectStatus(declared=declared, findings=(missing,))
    values = {name: metric(page, f"aqueduct_drill_{name}") for name in METRICS}
    figures: dict[str, Figure] = {
        "rpo_seconds": values["newest_record_age"],
        "rto_seconds": values["recovery_seconds"],
        "snapshot_age": values["snapshot_age"],
    }
    code, succeeded = values["exit_code"], values["succeeded_time"]
    if code is None:
        findings.append(unanswered(declared, host, "its metrics have no exit code", journal))
    elif code != 0:
        findings.append(
            StatusFinding(
                id="drill-failed",
                sentence=f"The last drill of {declared.name} ended with exit code {code:.0f}.",
                fix=journal,
                since=moment(values["time"] or 0),
            )
        )
    if succeeded is None:
        findings.append(
            StatusFinding(id="drill-missing", sentence=f"{declared}: no drill was successful.", fix=DRILL_NOW)
        )
    else:
        age = facts.seconds - succeeded
        figures["age_seconds"] = round(age)
        if age > facts.limits.drill_days * 86400:
            findings.append(
                StatusFinding(
                    id="drill-old",
                    sentence=f"The last successful drill of {declared.name} ended {age_text(age)} ago.",
                    fix=DRILL_NOW,
                    since=moment(succeeded),
                )
            )
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


METRICS = ("exit_code", "time", "succeeded_time", "newest_record_age", "recovery_seconds", "snapshot_age")
