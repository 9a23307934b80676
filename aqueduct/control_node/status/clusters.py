"""Clusters, brokers and controllers, by the answers of `aqueduct health --json` on the nodes' hosts."""

from collections.abc import Collection, Mapping
from typing import Any

from aqueduct.control_node.status.facts import told
from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectKind, ObjectStatus, StatusFinding
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
from aqueduct.kafka.cluster import CAUGHT_UP_MILLISECONDS

ANSWER, UNIT, CODES = "cluster", "kafka", (0, 1)
COMMAND = "ansible-playbook playbooks/doctor.yml"
PROBLEMS = frozenset({"partitions-offline", "partitions-under-replicated", "cluster-node-unhealthy"})
COUNTED = {  # figures that are a problem if they are not 0
    "offline": ("partitions-offline", "without a leader"),
    "under_replicated": ("partitions-under-replicated", "under-replicated"),
}


def judge_cluster(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    for host, answer in answers(facts, declared.hosts, ANSWER, CODES):
        document = answer.document
        if not _is_cluster(document):
            continue
        figures, problems = _figures(document), _problems(document, declared)
        problems += _unlisted(declared, document, figures, {problem.id for problem in problems})
        if not isinstance(document.get("problems"), list) or (answer.code != 0 and not problems):
            cause = "the answer of `aqueduct health` does not list the problems"
            problems.append(unanswered(declared, host, cause, f"systemctl status {UNIT}"))
        return ObjectStatus(declared=declared, findings=tuple(problems), figures=figures)
    findings = silences(facts, declared.hosts)
    host, cause = reason(facts, declared.hosts, ANSWER)
    if host:
        findings.append(unanswered(declared, host, cause, f"systemctl status {UNIT}"))
    return ObjectStatus(declared=declared, findings=tuple(findings))


def judge_node(declared: DeclaredObject, cluster_hosts: Collection[str], facts: EstateFacts) -> ObjectStatus:
    """Judge a broker or a controller; each node of its cluster may know it."""
    [host] = declared.hosts
    findings = silences(facts, [host]) + inactive(facts, host, UNIT)
    unit = facts.of(host).units.get(UNIT)
    figures: dict[str, Figure] = {
        "node": declared.node_id,
        "version": (unit.version if unit else "") or None,
    }
    counted = _counted(declared, cluster_hosts, facts, figures)
    if counted is None and facts.of(host).has_answered:
        _, cause = reason(facts, [host], ANSWER)
        findings.append(unanswered(declared, host, cause, f"systemctl status {UNIT}"))
    elif counted is False:
        findings.append(
            StatusFinding(
                id="node-not-in-cluster",
                sentence=f"Node {declared.node_id} is not a member of the cluster of {declared.site}.",
                fix=f"on {host}: {journal(UNIT)}; systemctl start {UNIT}",
            )
        )
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)


def _counted(
    declared: DeclaredObject, cluster_hosts: Collection[str], facts: EstateFacts, figures: dict[str, Figure]
) -> bool | None:
    """Return whether the cluster counts on the node; None: no node of the cluster answered."""
    for _, answer in answers(facts, cluster_hosts, ANSWER, CODES):
        document = answer.document
        if not _is_cluster(document):
            continue
        if declared.kind == ObjectKind.BROKER:
            return declared.node_id in document["brokers"]
        quorum = document["controllers"]
        behind = number(quorum.get("behind", {}).get(str(declared.node_id)))
        figures |= {
            "active": "yes" if quorum.get("leader") == declared.node_id else "no",
            "behind_ms": behind,
        }
        return behind is not None and behind < CAUGHT_UP_MILLISECONDS
    return None


def _is_cluster(document: Any) -> bool:
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("brokers"), list)
        and isinstance(document.get("controllers"), Mapping)
        and isinstance(document["controllers"].get("behind", {}), Mapping)
    )


def _problems(document: Mapping[str, Any], declared: DeclaredObject) -> list[StatusFinding]:
    findings = []
    for problem in listed(document, "problems"):
        details = problem if isinstance(problem, Mapping) else {}
        id_ = details.get("id")
        findings.append(
            StatusFinding(
                id=str(id_) if id_ in PROBLEMS else "cluster-node-unhealthy",
                sentence=f"{declared.site}: {told(details.get('sentence', 'a problem without a sentence.'))}",
                fix=COMMAND,
            )
        )
    return findings


def _unlisted(
    declared: DeclaredObject,
    document: Mapping[str, Any],
    figures: Mapping[str, Figure],
    listed_ids: Collection[str],
) -> list[StatusFinding]:
    """Return the problems that the figures of an answer show, and that its list does not have."""
    shown = [
        (id_, f"{figures[name]} partitions are {state}")
        for name, (id_, state) in COUNTED.items()
        if figures[name] and id_ not in listed_ids
    ]
    if document["controllers"].get("leader") is None and "cluster-node-unhealthy" not in listed_ids:
        shown.append(("cluster-node-unhealthy", "the cluster has no active controller"))
    return [
        StatusFinding(id=id_, sentence=f"{declared.site}: {sentence}.", fix=COMMAND)
        for id_, sentence in shown
    ]


def _figures(document: Mapping[str, Any]) -> dict[str, Figure]:
    return {
        "brokers": len(document["brokers"]),
        "controllers": len(document["controllers"].get("behind", {})),
        "partitions": number(document.get("partitions")),
        "under_replicated": number(document.get("under_replicated")),
        "offline": number(document.get("offline")),
    }
