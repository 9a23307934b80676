"""Connectors, by the answers of `aqueduct doctor connect --json` on the workers' hosts."""

from collections.abc import Mapping
from typing import Any

from aqueduct.status.facts import told
from aqueduct.status.judging import (
    EstateFacts,
    answers,
    inactive,
    journal,
    listed,
    reason,
    silences,
    unanswered,
)
from aqueduct.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding

ANSWER, UNIT, CODES = "connect", "connect", (0, 1, 3)
FIX = "ansible-playbook playbooks/connectors.yml"


def judge_connector(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    workers = [finding for host in declared.hosts for finding in inactive(facts, host, UNIT)]
    workers += silences(facts, declared.hosts)
    for _, answer in answers(facts, declared.hosts, ANSWER, CODES):
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


def _why(task: Mapping[str, Any]) -> str:
    return f": {told(task['reason'])}" if task.get("reason") else ""


def _finding(sentence: str) -> StatusFinding:
    return StatusFinding(id="connector-not-running", sentence=sentence, fix=FIX)
