"""Findings of several hosts as one list: of `aqueduct doctor`, and of comparisons of the ends of flows.

A host that did not answer is a finding, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aqueduct.errors import ExitCode, labelled
from aqueduct.estate.links import Link
from aqueduct.estate.model import site_name

CONNECTED = "Listener "  # prefix of the lines about connected clients, which are no findings
JOURNAL_CODES = (0, 1)  # exit codes of journalctl: lines were found, or none
COMPARED = {"reconcile": "flows", "dedup": "links"}  # the objects that hosts compare, by group


def findings(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each finding, and one for each site with hosts that did not answer.

    A host whose journal was not read is a finding, because rejected clients are unknown. A finding lists its
    hosts, unless all hosts of the site that answered have it.
    `hosts`: the variables of each host: `group_names`, and the results of Ansible's commands in
    `__kafka_doctor` and `__kafka_refused`, if they ran.
    """
    answered = Counter[str]()
    hosts_by_line: dict[tuple[str, str], list[str]] = {}
    silent: dict[str, dict[str, list[str]]] = {}
    unread: dict[str, dict[str, list[str]]] = {}
    for host, variables in hosts.items():
        site = site_name(variables["group_names"])
        result = variables.get("__kafka_doctor") or variables.get("__kafka_refused") or {}
        if "__kafka_doctor" not in variables or result.get("rc") not in (ExitCode.DONE, ExitCode.INCOMPLETE):
            silent.setdefault(site, {}).setdefault(_reason(result), []).append(host)
            continue
        rejected = variables.get("__kafka_refused") or {}
        if rejected.get("rc") not in JOURNAL_CODES:
            unread.setdefault(site, {}).setdefault(_reason(rejected), []).append(host)
        answered[site] += 1
        lines = result["stdout_lines"] if result["rc"] == ExitCode.INCOMPLETE else ()
        for line in dict.fromkeys(lines):
            if not line.startswith(CONNECTED):
                hosts_by_line.setdefault((site, line), []).append(host)
    sentences = [
        f"{site}: {line}" + ("" if len(names) == answered[site] else f" ({', '.join(names)})")
        for (site, line), names in hosts_by_line.items()
    ]
    unknown = [f"{site}: {_by_reason(reasons, 'did not answer')}" for site, reasons in silent.items()]
    journals = "did not read the journal of kafka, so whether it rejects clients is unknown"
    unknown += [f"{site}: {_by_reason(reasons, journals)}" for site, reasons in unread.items()]
    return sentences + unknown


def nothing_found(hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sentence for clusters without findings, with the extent of the inspection."""
    sites = ", ".join(sorted({site_name(variables["group_names"]) for variables in hosts.values()}))
    return (
        f"The clusters of {sites} have no finding: their nodes, partitions, transactions, data folders, and "
        "clients that were rejected in the last 2 minutes. Nothing else was inspected: playbooks/status.yml "
        "reports flows, links, connectors, landings, backups and hosts."
    )


def comparison_findings(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each difference between the ends of flows, and for each host that did not compare.

    `hosts`: the variables of each host: `group_names`, and for its groups `reconcile` and `dedup` the lines
    `_<group>_unequal` and `_<group>_compared`, which is true if all was compared.
    """
    lines: list[str] = []
    for host, variables in hosts.items():
        for group in (group for group in COMPARED if group in variables["group_names"]):
            lines += variables.get(f"_{group}_unequal", ())
            if variables.get(f"_{group}_compared") is not True:
                lines.append(
                    f"{host} did not compare all of its {COMPARED[group]}: the host did not answer, or a "
                    "task above failed. It is unknown whether records are missing. Correct the cause, and "
                    "run the playbook again."
                )
    return lines


def uncompared(flows: Sequence[str]) -> list[str]:
    """Return the finding about flows that no host compares; empty without such flows."""
    if not flows:
        return []
    these = "this flow" if len(flows) == 1 else "these flows"
    return [
        f"{', '.join(flows)}: no host compares {these}. Add a host of the target's site to the group "
        "reconcile, and run playbooks/site.yml."
    ]


def missing_offsets(result: Mapping[str, Any]) -> str:
    """Return a sentence about the missing offsets of a partition in a bundle of `aqueduct diode create`."""
    ranges = ", ".join(" to ".join(map(str, gap)) for gap in result["gaps"])
    return f"{result['topic']}-{result['partition']} lacks the offsets {ranges}."


def ill_flows(results: Iterable[Mapping[str, Any]], site: str) -> list[str]:
    """Return lines about the problems of flows to a site.

    `results`: the results of Ansible's loop over flows, with the output of `aqueduct mirror`.
    """
    lines: list[str] = []
    for result in results:
        if not result.get("skipped") and result.get("rc", ExitCode.FAILED) != ExitCode.DONE:
            flow = result["_mirror_maker_flow"]["name"]
            lines.append(f"The flow {flow} to {site} has problems:")
            lines += [*result.get("stdout_lines", ())[1:], *result.get("stderr_lines", ())]
    return lines


def unequal_flows(results: Iterable[Mapping[str, Any]], site: str) -> list[str]:
    """Return lines about flows to a site whose ends differ, or could not be compared.

    `results`: the results of Ansible's loop over flows, with the output of `aqueduct reconcile`.
    """
    lines: list[str] = []
    for result in results:
        code = result.get("rc", ExitCode.FAILED)
        if not result.get("skipped") and code != ExitCode.DONE:
            lines.append(f"{result['_reconcile_flow']['name']} to {site}:")
            if code == ExitCode.INCOMPLETE:
                lines += result["stdout_lines"]
            else:
                lines += ["could not be compared.", *result.get("stderr_lines", ())]
    return lines


def changed_id(host: str, logs_id: int, declared_id: int) -> str:
    """Return a sentence about a broker whose cluster does not answer, with the broker id in its logs."""
    if int(logs_id) == int(declared_id):
        return (
            f"{host} has the logs of broker {logs_id}, as in the inventory. Its broker id is not the cause. "
            "Find the cause with journalctl -u kafka on this host."
        )
    return (
        f"{host} has the logs of broker {logs_id}, but kafka_node_id {declared_id} in the inventory, so its "
        f"broker does not start. For this host, set kafka_node_id to {logs_id}, and run playbooks/kafka.yml. "
        "Then run this playbook again."
    )


def _by_reason(hosts_by_reason: Mapping[str, Sequence[str]], fact: str) -> str:
    """Return one text about the hosts of a site, in which each reason appears once."""
    return " ".join(
        f"{', '.join(names)} {fact}{reason if reason.endswith('.') else f'{reason}.'}"
        for reason, names in hosts_by_reason.items()
    )


def uncompared_links(links: Iterable[Link]) -> list[str]:
    """Return a finding for each link without a ledger, because its ends cannot be compared."""
    return [
        labelled(
            "link-not-compared",
            f"The link {link.name} from {link.source} to {link.target} was not compared. A link with mode: "
            "record has no ledger, so missing records are unknown. Remove mode: record, or list the link in "
            f"diode_downstream_uncompared_links of {link.target} to accept this.",
        )
        for link in links
    ]


def _reason(result: Mapping[str, Any]) -> str:
    """Return the reason: the last line of the command's errors, or Ansible's message about the host."""
    message = str(result.get("stderr") or result.get("module_stderr") or result.get("msg") or "")
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    return f": {lines[-1]}" if lines else ", for an unknown reason."
