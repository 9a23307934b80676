"""Backups, by the snapshots of their stores or the last run of their units; drills, by their metrics."""

from typing import Any

from aqueduct.common import timestamps
from aqueduct.control_node.status.facts import metric
from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import (
    EstateFacts,
    age_text,
    answers,
    failed_run,
    in_future,
    inactive,
    journal,
    moment,
    reason,
    silences,
    unanswered,
)

SNAPSHOTS, CODES, UNIT = "snapshots", (0, 1), "backup"
VERIFY, UNDAMAGED = "backup_verify", (0, 3)  # the unit, its metrics, and exit codes of `aqueduct verify`
BACK_UP = "ansible-playbook playbooks/backup.yml"
DRILL, DRILL_NOW = "drill", "ansible-playbook playbooks/drill.yml"


def judge_backup(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    """Judge a backup of topics by its snapshots, and any other one by the last run of its unit."""
    [host] = declared.hosts
    if findings := silences(facts, [host]):
        return ObjectStatus(declared=declared, findings=tuple(findings))
    unit = declared.details["unit"]
    return _by_snapshots(declared, host, facts) if unit == UNIT else _by_last_run(declared, host, unit, facts)


def _by_snapshots(declared: DeclaredObject, host: str, facts: EstateFacts) -> ObjectStatus:
    # Without a period it has no unit.
    findings = inactive(facts, host, UNIT) if UNIT in facts.of(host).services else []
    figures: dict[str, Figure] = {}
    newest = _newest(declared, host, facts, findings, figures)
    if newest:
        findings += _aged(declared, host, facts, newest, BACK_UP, figures)
    elif newest is not None:
        findings.append(
            StatusFinding(id="no-snapshot-yet", sentence=f"{declared} has no snapshot.", fix=BACK_UP)
        )
    findings += _skipped(declared, host, facts, figures)
    findings += _verified(declared, host, facts, figures)
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


def _skipped(
    declared: DeclaredObject, host: str, facts: EstateFacts, figures: dict[str, Figure]
) -> list[StatusFinding]:
    """Judge what the newest round of the service lacks; without metrics of a service, there is none to judge.

    A round that skips something commits a snapshot all the same.
    """
    if UNIT not in facts.of(host).exporters:
        return []
    page = facts.of(host).metrics.get(UNIT, "")
    skipped, gaps = (metric(page, f"aqueduct_backup_{name}") for name in ("left_out", "gaps"))
    figures |= {"skipped": skipped, "gaps": gaps}
    lacks = [
        text
        for number, text in (
            (skipped, f"skipped {skipped or 0:,.0f} topics, partitions or groups"),
            (gaps, f"found {gaps or 0:,.0f} ranges that were deleted before they were read"),
        )
        if number
    ]
    findings = []
    if lacks:
        sentence = f"The newest round of {declared} {' and '.join(lacks)}."
        findings.append(
            StatusFinding(id="backup-skips", sentence=sentence, fix=f"on {host}: {journal(UNIT)}")
        )
    if skipped is None or gaps is None:
        cause = f"{UNIT} has completed no round since it started, or serves no metrics"
        findings.append(unanswered(declared, host, cause, journal(UNIT)))
    return findings


def _verified(
    declared: DeclaredObject, host: str, facts: EstateFacts, figures: dict[str, Figure]
) -> list[StatusFinding]:
    """Judge the last verify of a store; without the timer, there is none to judge."""
    if VERIFY not in facts.of(host).runs:
        return []
    state = facts.of(host).units.get(VERIFY)
    if state is None:
        cause = f"the state of the unit {VERIFY} is unknown"
        return [unanswered(declared, host, cause, f"systemctl status {VERIFY}")]
    page, fix = facts.of(host).metrics.get(VERIFY), f"on {host}: systemctl start {VERIFY}"
    if page is None and facts.of(host).unasked:
        cause = "the metrics of its verify are not in the folder of the node exporter"
        return [unanswered(declared, host, cause, journal(VERIFY))]
    code, ended, succeeded = (
        metric(page or "", f"aqueduct_backup_verify_{name}")
        for name in ("exit_code", "time", "succeeded_time")
    )
    figures["verified_age"] = None if succeeded is None else round(facts.seconds - succeeded)
    if code is None:
        sentence = f"{declared} was never verified."
        return [StatusFinding(id="backup-not-verified", sentence=sentence, fix=fix, is_unknown=True)]
    if code not in UNDAMAGED:
        sentence = f"The last verify of {declared} ended with exit code {code:.0f}."
        since = moment(ended or 0)
        logs = f"on {host}: {journal(VERIFY)}"
        return [StatusFinding(id="backup-verify-failed", sentence=sentence, fix=logs, since=since)]
    if killed := failed_run(host, VERIFY, state):  # before it could write its metrics
        return killed
    if succeeded is None:
        return [unanswered(declared, host, "its verify has no time", journal(VERIFY))]
    if early := in_future(declared, facts, host, "last verify", succeeded):
        figures["verified_age"] = None
        return early
    age = facts.seconds - succeeded
    if age <= facts.limits.verify_days * 86400:
        return []
    sentence = f"The last verify of {declared} that found no damage ended {age_text(age)} ago."
    return [StatusFinding(id="backup-verify-old", sentence=sentence, fix=fix, since=moment(succeeded))]


def _by_last_run(declared: DeclaredObject, host: str, unit: str, facts: EstateFacts) -> ObjectStatus:
    state = facts.of(host).units.get(unit)
    if state is None:
        cause = f"the state of the unit {unit} is unknown"
        return ObjectStatus(
            declared=declared, findings=(unanswered(declared, host, cause, f"systemctl status {unit}"),)
        )
    findings, fix = failed_run(host, unit, state), f"on {host}: systemctl start {unit}"
    figures: dict[str, Figure] = {}
    if state.ended:
        findings += _aged(declared, host, facts, state.ended, fix, figures)
    else:
        sentence = f"{unit} has not run since {host} started."
        findings.append(StatusFinding(id="no-snapshot-yet", sentence=sentence, fix=fix, is_unknown=True))
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


def _aged(
    declared: DeclaredObject,
    host: str,
    facts: EstateFacts,
    newest: float,
    fix: str,
    figures: dict[str, Figure],
) -> list[StatusFinding]:
    """Note the age of the newest snapshot; return the finding that it is too old, or in the future."""
    if early := in_future(declared, facts, host, "newest snapshot", newest):
        figures["age_seconds"] = None
        return early
    age = facts.seconds - newest
    figures["age_seconds"] = round(age)
    if age <= facts.limits.backup_hours * 3600:
        return []
    sentence = f"The newest snapshot of {declared} is {age_text(age)} old."
    return [StatusFinding(id="backup-old", sentence=sentence, fix=fix, since=moment(newest))]


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
        times = [_time(snapshot, "created") or 0.0 for snapshot in answer.document]
        figures["snapshots"] = len(times)
        if times:
            [*_, newest] = sorted(zip(times, answer.document, strict=True), key=lambda pair: pair[0])
            record = _time(newest[1], "newest_record")
            figures["newest_record_age"] = None if record is None else round(facts.seconds - record)
        if answer.code != 0:
            findings.append(
                StatusFinding(
                    id="snapshots-damaged",
                    sentence=f"{declared}: {answer.error or 'a snapshot cannot be used'}",
                    fix=f"on {host}: {journal(UNIT)}",
                )
            )
        return max(times, default=0.0)
    _, cause = reason(facts, [host], SNAPSHOTS)
    findings.append(unanswered(declared, host, cause, journal(UNIT)))
    return None


def _time(snapshot: Any, name: str) -> float | None:
    """Return a time of a snapshot, in seconds since 1970; None: it has none."""
    try:
        return timestamps.parse(str(snapshot[name])) / 1000
    except (KeyError, TypeError, ValueError):
        return None


def judge_drill(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    host_facts = facts.of(host)
    findings = silences(facts, [host])
    if findings:
        return ObjectStatus(declared=declared, findings=tuple(findings))
    page = host_facts.metrics.get(DRILL)
    logs = journal(DRILL, "drill_broker")
    if page is None and host_facts.unasked:
        cause = "its metrics are not in the folder of the node exporter"
        return ObjectStatus(declared=declared, findings=(unanswered(declared, host, cause, logs),))
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
        findings.append(unanswered(declared, host, "its metrics have no exit code", logs))
    elif code != 0:
        findings.append(
            StatusFinding(
                id="drill-failed",
                sentence=f"The last drill of {declared.name} ended with exit code {code:.0f}.",
                fix=f"on {host}: {logs}",
                since=moment(values["time"] or 0),
            )
        )
    if succeeded is None:
        findings.append(
            StatusFinding(id="drill-missing", sentence=f"{declared}: no drill was successful.", fix=DRILL_NOW)
        )
    elif early := in_future(declared, facts, host, "last successful drill", succeeded):
        figures["age_seconds"] = None
        findings += early
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
