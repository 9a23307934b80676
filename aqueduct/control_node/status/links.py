"""One-way links, by the units and metrics of both ends, and the ledger at the target (`diode create`)."""

from collections.abc import Mapping
from typing import Any

from aqueduct.control_node.status.facts import metric, metrics, told
from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import (
    EstateFacts,
    age_text,
    answers,
    behind,
    inactive,
    journal,
    moment,
    reason,
    silences,
    standing_still,
    unanswered,
)

CODES = (0, 3)
RAW, LIVE = "raw", "live"
AS_OF = "As of"  # begins the sentence that reports how fresh the ledger is
LOST = " permanently lost, "  # in each sentence of `diode create` about offsets that are counted as lost


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
                unanswered(declared, sender, f"{unit} serves no metrics", f"systemctl status {unit}")
            )
        fix = f"on {sender}: {journal(unit)}"
        findings += behind(declared, facts, figures["sender_lag"], None, fix)
    if downstream:
        unit = f"diode_downstream@{declared.details['link']}"
        findings += inactive(facts, downstream, unit)
        page = facts.of(downstream).metrics.get(unit, "")
        # A sender that resends has keepalives of its own. Earlier sessions of the live one may be listed.
        beat_age = min(metrics(page, "aqueduct_diode_downstream_beat_age", kind=LIVE), default=None)
        figures["beat_age"] = beat_age
        if beat_age is not None and beat_age > facts.limits.keepalive_seconds:
            findings.append(_silent(declared, facts, downstream, unit, beat_age))
        elif beat_age is None and facts.of(downstream).has_answered:
            cause = f"{unit} reports no keepalive of a live sender"
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
    missing, lost = (metric(page, f"aqueduct_dedup_{name}") for name in ("missing", "lost"))
    figures |= {"dedup_lag": metric(page, "aqueduct_dedup_lag"), "missing": missing, "lost": lost}
    findings = inactive(facts, host, unit)
    findings += standing_still(declared, facts, host, unit, "aqueduct_dedup_round_time")
    findings += behind(declared, facts, figures["dedup_lag"], None, f"on {host}: {journal(unit)}")
    if lost is not None and lost > facts.limits.lost_records:
        sentence = (
            f"{declared} lost {lost:,.0f} records: their source deleted them before they were sent again."
        )
        fix = f"on {host}: aqueduct diode lost --topic TOPIC_OF_LEDGER"
        findings.append(StatusFinding(id="link-records-lost", sentence=sentence, fix=fix))
    for _, answer in answers(facts, [host], question, CODES):
        results = answer.document.get("results") if isinstance(answer.document, Mapping) else None
        if not isinstance(results, list):
            continue
        offsets = max(_offsets(results), missing or 0)
        if offsets > facts.limits.missing_records:
            findings.append(
                StatusFinding(
                    id="link-records-missing",
                    sentence=f"{declared} lacks {offsets:,.0f} records.",
                    fix="ansible-playbook playbooks/resend.yml",
                )
            )
        # What is lost is judged above, by its number.
        unknown = [
            line for line in answer.errors if not line.startswith(AS_OF) and not (LOST in line and lost)
        ]
        if answer.code != 0 and (unknown or not (results or lost)):
            findings += _incomplete(declared, host, unit, unknown)
        return findings
    _, cause = reason(facts, [host], question)
    findings.append(unanswered(declared, host, cause, journal(unit)))
    return findings


def _silent(
    declared: DeclaredObject, facts: EstateFacts, host: str, unit: str, beat_age: float
) -> StatusFinding:
    sender = declared.details["upstream_unit"]
    return StatusFinding(
        id="link-silent",
        sentence=f"{declared} has received no keepalive of its sender for {age_text(beat_age)}.",
        fix=f"on {host}: {journal(unit)}; at the source: systemctl status {sender}",
        since=moment(facts.seconds - beat_age),
    )


def _offsets(results: list[Any]) -> int:
    """Return how many offsets a bundle lists. A result of another form counts as one."""
    total = 0
    for result in results:
        try:
            total += max(1, sum(last - first + 1 for first, last in result["gaps"]))
        except (KeyError, TypeError, ValueError):
            total += 1
    return total


def _incomplete(declared: DeclaredObject, host: str, unit: str, unknown: list[str]) -> list[StatusFinding]:
    cause = f" {told(unknown[-1])}" if unknown else ""
    return [
        StatusFinding(
            id="link-not-current",
            sentence=f"The ledger of {declared} may be incomplete.{cause}",
            fix=f"on {host}: {journal(unit)}",
            is_unknown=True,
        )
    ]
