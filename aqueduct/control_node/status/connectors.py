"""Connectors, by the answers of `aqueduct doctor connect --json` on the workers' hosts."""

from collections.abc import Mapping
from typing import Any

from aqueduct.common.wording import some
from aqueduct.control_node.status.facts import told
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
    unanswered,
)

ANSWER, UNIT, CODES = "connect", "connect", (0, 1, 3)
LETTERS, LETTERS_CODES = "letters", (0, 3)
FIX = "ansible-playbook playbooks/connectors.yml"


def judge_connector(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    workers = [finding for host in declared.hosts for finding in inactive(facts, host, UNIT)]
    workers += silences(facts, declared.hosts)
    for host, answer in answers(facts, declared.hosts, ANSWER, CODES):
        running = answer.document.get("connectors") if isinstance(answer.document, Mapping) else None
        if not isinstance(running, list):
            continue
        name = declared.details["connector"]
        connector = next(
            (
                listed_connector
                for listed_connector in running
                if isinstance(listed_connector, Mapping) and listed_connector.get("name") == name
            ),
            None,
        )
        findings, figures = _judge(declared, connector)
        findings += _judge_topics(declared, host, connector or {})
        if declared.details.get("dead_letters"):
            findings += _judge_letters(declared, facts, figures)
        return ObjectStatus(declared=declared, findings=tuple(workers + findings), figures=figures)
    host, cause = reason(facts, declared.hosts, ANSWER)
    if host or not declared.hosts:
        workers.append(unanswered(declared, host, cause, journal(UNIT)))
    return ObjectStatus(declared=declared, findings=tuple(workers))


def _judge(
    declared: DeclaredObject, running: Mapping[str, Any] | None
) -> tuple[list[StatusFinding], dict[str, Figure]]:
    if running is None:
        return [_finding(f"{declared} does not exist.")], {}
    declared_state, state = declared.details["state"].upper(), told(running.get("state", "no state"))
    tasks = [task for task in listed(running, "tasks") if isinstance(task, Mapping)]
    figures: dict[str, Figure] = {
        "state": state,
        "tasks": len(tasks),
        "failed_tasks": sum(task.get("state") == "FAILED" for task in tasks),
    }
    findings = (
        []
        if state == declared_state
        else [_finding(f"{declared} is {state}, and declared as {declared_state}.")]
    )
    if declared_state == "RUNNING":
        if not tasks:
            findings.append(_finding(f"{declared} has no task."))
        findings += [
            _finding(
                f"Task {told(task.get('task', '?'))} of {declared} is "
                f"{told(task.get('state', 'without state'))}{_why(task)}."
            )
            for task in tasks
            if task.get("state") != "RUNNING"
        ]
    return findings, figures


def _judge_topics(declared: DeclaredObject, host: str, running: Mapping[str, Any]) -> list[StatusFinding]:
    """Judge whether what a sink reads matches topics of the cluster."""
    if running.get("type") != "sink":
        return []
    if not isinstance(running.get("unmatched"), list):
        return [unanswered(declared, host, "it was not checked whether its topics exist", journal(UNIT))]
    return [
        StatusFinding(
            id="connector-topic-missing",
            sentence=f"{declared} reads {told(part)}, which matches no topic.",
            fix=FIX,
        )
        for part in listed(running, "unmatched")
    ]


def _judge_letters(
    declared: DeclaredObject, facts: EstateFacts, figures: dict[str, Figure]
) -> list[StatusFinding]:
    """Judge the dead-letter records of a connector that were not sent back."""
    topic, name = declared.details["dead_letters"], declared.details["connector"]
    figures["dead_letters"] = None
    for host, answer in answers(facts, declared.hosts, LETTERS, LETTERS_CODES):
        unknown = [
            told(entry.get("why", ""))
            for entry in listed(answer.document, "unknown")
            if isinstance(entry, Mapping) and entry.get("what") == topic
        ]
        if unknown:
            return [unanswered(declared, host, f"its dead-letter records: {unknown[0]}", journal(UNIT))]
        if topic not in listed(answer.document, "topics"):
            continue
        counts = [
            (told(cause.get("error_class") or "without error"), _waiting(cause))
            for cause in listed(answer.document, "causes")
            if isinstance(cause, Mapping)
            and cause.get("dlq") == topic
            and cause.get("connector") in (name, None)
        ]
        waiting = [count for _, count in counts if count is not None]
        if len(waiting) < len(counts):
            return [unanswered(declared, host, "the number of dead-letter records is invalid", journal(UNIT))]
        figures["dead_letters"] = sum(waiting)
        if sum(waiting) <= facts.limits.dead_letters:
            return _older(declared, host, topic, answer.document, figures)
        causes = sorted(((count, cause) for cause, count in counts if count), reverse=True)
        named = some(f"{count:,} {cause.rpartition('.')[2]}" for count, cause in causes)
        return [
            StatusFinding(
                id="dead-letters-waiting",
                sentence=f"{declared} has dead-letter records that were not sent back: {named}.",
                fix=f"ansible-playbook playbooks/dlq_replay.yml -e connector={name} -e dry_run=true",
            )
        ]
    host, cause = reason(facts, declared.hosts, LETTERS)
    return [unanswered(declared, host, f"its dead-letter records: {cause or 'not counted'}", journal(UNIT))]


def _older(
    declared: DeclaredObject, host: str, topic: str, document: Any, figures: dict[str, Figure]
) -> list[StatusFinding]:
    """Return the finding that older dead-letter records of a topic were not read, or may not have been."""
    by_topic = document.get("older_offsets_not_read_by_topic")
    unread = number(by_topic.get(topic)) if isinstance(by_topic, Mapping) else None
    if unread == 0:
        return []
    figures["dead_letters"] = None
    number_text = "an unknown number of" if unread is None else f"{unread:,}"
    cause = f"{number_text} older offsets of {topic} were not read"
    return [
        unanswered(declared, host, cause, f"aqueduct dlq list --dlq {topic} --bootstrap-server HOST:PORT")
    ]


def _waiting(cause: Mapping[str, Any]) -> int | None:
    records, sent_back = number(cause.get("records")), number(cause.get("sent_back"))
    return None if records is None or sent_back is None else records - sent_back


def _why(task: Mapping[str, Any]) -> str:
    return f": {told(task['reason'])}" if task.get("reason") else ""


def _finding(sentence: str) -> StatusFinding:
    return StatusFinding(id="connector-not-running", sentence=sentence, fix=FIX)
