"""One-way links, by the units and metrics of both ends, and the ledger at the target (`diode create`)."""

from collections.abc import Mapping

from aqueduct.control_node.status.facts import metric, told
from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import (
    EstateFacts,
    answers,
    inactive,
    journal,
    reason,
    silences,
    standing_still,
    unanswered,
)

CODES = (0, 3)
RAW = "raw"
AS_OF = "As of"  # begins the sentence that reports how fresh the ledger is


def judge_link(declared: DeclaredObject, facts: EstateFacts, unreachable: frozenset[str]) -> ObjectStatus:
    """Judge a link. The sending end counts only if its site is asked from here."""
    downstream = declared.details["downstream"]
    sender = declared.source_host if declared.source not in unreachable else ""
    findings = silences(facts, dict.fromkeys(filter(None, (*declared.hosts, sender))))
    figures: dict[str, Figure] = {}
    if sender:
        unit = declared.details["upstream_unit"]
        findings += inactive(facts, sender, unit)
        figures["sender_lag"] = metric(facts.of(sender).metrics.get(unit, ""), "aqueduct_diode_upstream_lag")
        if figures["sender_lag"] is None and facts.of(sender).has_answered:
            findings.append(
                unanswered(declared, sender, f"{unit} gives no metrics", f"systemctl status {unit}")
            )
    if downstream:
        unit = f"diode_downstream@{declared.details['link']}"
        findings += inactive(facts, downstream, unit)
        page = facts.of(downstream).metrics.get(unit, "")
        figures["beat_age"] = metric(page, "aqueduct_diode_downstream_beat_age")
        if figures["beat_age"] is None and facts.of(downstream).has_answered:
            cause = f"{unit} reports no keepalive"
            findings.append(unanswered(declared, downstream, cause, journal(unit)))
    if declared.details["mode"] == RAW:
        for host in [other for other in declared.hosts if other != downstream] or list(declared.hosts):
            findings += _judge_dedup(declared, host, facts, figures)
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


def _judge_dedup(
    declared: DeclaredObject, host: str, facts: EstateFacts, figures: dict[str, Figure]
) -> list[StatusFinding]:
    """Judge the ledger of a link's source, and the dedup that keeps it."""
    if not facts.of(host).has_answered:
        return []
    unit, question = f"dedup@{declared.source}", f"ledger:{declared.source}"
    page = facts.of(host).metrics.get(unit, "")
    figures["dedup_lag"] = metric(page, "aqueduct_dedup_lag")
    figures["missing"] = metric(page, "aqueduct_dedup_missing")
    figures["lost"] = metric(page, "aqueduct_dedup_lost")
    findings = inactive(facts, host, unit)
    findings += standing_still(
        facts, host, unit, page, "aqueduct_dedup_round_time", facts.limits.round_minutes
    )
    if figures["dedup_lag"] is None:
        cause = f"{unit} has ended no round since it started, or gives no metrics"
        findings.append(unanswered(declared, host, cause, journal(unit)))
    for _, answer in answers(facts, [host], question, CODES):
        results = answer.document.get("results") if isinstance(answer.document, Mapping) else None
        if not isinstance(results, list):
            continue
        if results:
            findings.append(
                StatusFinding(
                    id="link-records-missing",
                    sentence=f"{declared} lacks records of {len(results)} topic partitions.",
                    fix="ansible-playbook playbooks/resend.yml",
                )
            )
        if answer.code != 0 and not (results and not answer.error):
            findings += _incomplete(declared, host, unit, answer.error)
        return findings
    _, cause = reason(facts, [host], question)
    findings.append(unanswered(declared, host, cause, journal(unit)))
    return findings


def _incomplete(declared: DeclaredObject, host: str, unit: str, error: str) -> list[StatusFinding]:
    cause = f" {told(error)}" if error and not error.startswith(AS_OF) else ""
    return [
        StatusFinding(
            id="link-not-current",
            sentence=f"The ledger of {declared} does not know all.{cause}",
            fix=f"on {host}: {journal(unit)}",
            is_unknown=True,
        )
    ]
