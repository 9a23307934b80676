"""Hosts: failed units, disks and clocks."""

from aqueduct.control_node.status.model import DeclaredObject, Figure, ObjectStatus, StatusFinding
from aqueduct.control_node.status.shared_checks import (
    EstateFacts,
    inactive,
    journal,
    moment,
    silences,
    unanswered,
)


def judge_host(declared: DeclaredObject, facts: EstateFacts) -> ObjectStatus:
    [host] = declared.hosts
    host_facts, limits = facts.of(host), facts.limits
    if not host_facts.has_answered:
        return ObjectStatus(declared=declared, findings=tuple(silences(facts, [host])))
    findings = [finding for unit in host_facts.services for finding in inactive(facts, host, unit)]
    if host_facts.failed_units is None:
        findings.append(unanswered(declared, host, "systemd did not list failed units", "systemctl --failed"))
    for unit in host_facts.failed_units or ():
        state = host_facts.units.get(unit.removesuffix(".service"))
        findings.append(
            StatusFinding(
                id="unit-failed",
                sentence=f"{unit} of {host} failed.",
                fix=f"on {host}: {journal(unit)}",
                since=moment(state.changed) if state else "",
            )
        )
    for disk in host_facts.disks:
        if disk.used_percent >= limits.disk_percent:
            findings.append(
                StatusFinding(
                    id="disk-filling",
                    sentence=f"The file system of {disk.path} on {host} is {disk.used_percent:.0f} % full.",
                    fix=f"on {host}: du -xh --max-depth=2 {disk.path} | sort -h | tail",
                )
            )
    if host_facts.unmeasured:
        folders = ", ".join(host_facts.unmeasured)
        cause = f"the fill level of {folders} cannot be measured"
        findings.append(unanswered(declared, host, cause, f"df -h {' '.join(host_facts.unmeasured)}"))
    if not host_facts.disks:
        findings.append(unanswered(declared, host, "the fill level of its disks is missing", "df -h"))
    if host_facts.clock_skew is None:
        findings.append(unanswered(declared, host, "its clock was not compared", "date"))
    elif abs(host_facts.clock_skew) > limits.clock_seconds:
        findings.append(
            StatusFinding(
                id="clock-skewed",
                sentence=f"The clock of {host} is off by {host_facts.clock_skew:+.0f} s.",
                fix=f"on {host}: timedatectl timesync-status",
            )
        )
    figures: dict[str, Figure] = {
        "failed_units": None if host_facts.failed_units is None else len(host_facts.failed_units),
        "disk_percent": round(max((disk.used_percent for disk in host_facts.disks), default=0))
        if host_facts.disks and not host_facts.unmeasured
        else None,
        "clock_skew": host_facts.clock_skew,
    }
    return ObjectStatus(declared=declared, findings=tuple(findings), figures=figures)
