"""Connectors, by the answers of `aqueduct doctor connect --json` on the workers' hosts."""

from collections.abc import Mapping
from typing import Any

from aqueduct.status.facts import told
from aqueduct.status.judging import EstateFacts, answers, inactive, listed, reason, silences, unanswered
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
        found = next(
            (each for each in running if isinstance(each, Mapping) and each.get("name") == name), None
        )
        findings, figures = _judge(declared, found)
        return ObjectStatus(declared=declared, findings=tuple(workers + findings), figures=figures)
    host, why = reason(facts, declared.hosts, ANSWER)
    if host or not declared.hosts:
        workers.append(unanswered(declared, host, why, f"journalctl --unit {UNIT} --lines 50"))
    return ObjectStatus(declared=declared, findings=tuple(workers))


def _judge(
    declared: DeclaredObject, running: Mapping[str, Any] | None
) -> tuple[list[StatusFinding], dict[str, Figure]]:
    if running is None:
        return [_finding(f"{declared} does not exist.")], {}
    wanted, state = declared.details["state"].upper(), told(running.get("state", "no state"))
    tasks = [each for each in listed(running, "tasks") if isinstance(each, Mapping)]
    figures: dict[str, Figure] = {
        "state": state,
        "tasks": len(tasks),
        "failed_tasks": sum(each.get("state") == "FAILED" for each in tasks),
    }
    findings = [] if state == wanted else [_finding(f"{declared} is {state}, and declared as {wanted}.")]
    if wanted == "RUNNING":
        if not tasks:
            findings.append(_finding(f"{declared} has no task."))
        findings += [
            _finding(
                f"Task {told(each.get('task', '?'))} of {declared} is "
                f"{told(each.get('state', 'without state'))}{_why(each)}."
            )
            for each in tasks
            if each.get("state") != "RUNNING"
        ]
    return findings, figures


def _why(task: Mapping[str, Any]) -> str:
    return f": {told(task['reason'])}" if task.get("reason") else ""


def _finding(sentence: str) -> StatusFinding:
    return StatusFinding(id="connector-not-running", sentence=sentence, fix=FIX)
