"""A host that does not answer the doctor is not reported as healthy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from aqueduct.estate.diagnosis import (
    changed_id,
    comparison_findings,
    findings,
    ill_flows,
    missing_offsets,
    nothing_found,
    uncompared,
    uncompared_links,
    unequal_flows,
)
from aqueduct.estate.links import read_uncompared_links

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_LINES = {"rc": 1, "stdout": ""}  # of journalctl


def host(site: str, **result: Any) -> dict[str, Any]:
    asked = {"__kafka_doctor": result, "__kafka_refused": WITHOUT_LINES} if result else {}
    return {"group_names": ["kafka", f"site_{site}"], **asked}


def test_equal_findings_of_several_hosts_are_listed_once() -> None:
    said = ["Listener CLIENT: 1 connection", "Broker 3 is registered but fenced."]
    hosts = {
        "a": host("east", rc=3, stdout_lines=said),
        "b": host("east", rc=3, stdout_lines=[*said, "own"]),
        "c": host("west", rc=0, stdout_lines=said),
    }
    assert findings(hosts) == ["east: Broker 3 is registered but fenced.", "east: own (b)"]


def test_hosts_without_answer_are_one_finding_per_cluster() -> None:
    away = {"rc": 1, "stdout_lines": [], "stderr": "aqueduct: [cluster-unreachable] east does not answer.\n"}
    hosts = {
        "a": host("east", **away),
        "b": host("east", **away),
        "c": host("east", unreachable=True, msg="Failed to connect\nto the host"),
        "d": host("north"),
        "e": host("south", rc=0, stdout_lines=[]),
    }
    [east, north] = findings(hosts)
    assert "a, b did not answer: aqueduct: [cluster-unreachable]" in east
    assert "c did not answer: to the host." in east
    assert north.startswith("north: d did not answer")


@pytest.mark.parametrize("journal", [{}, {"rc": 2, "stderr": "No journal files."}, {"msg": "not executed"}])
def test_unread_journal_is_finding(journal: dict[str, Any]) -> None:
    hosts = {
        "a": {**host("east", rc=0, stdout_lines=[]), "__kafka_refused": journal},
        "b": host("east", rc=0, stdout_lines=[]),
    }
    [sentence] = findings(hosts)
    assert sentence.startswith("east: a did not read the journal")
    assert "unknown" in sentence
    assert sentence.endswith(".")


def test_doctor_tasks_never_fail_playbook() -> None:
    tasks = yaml.safe_load((ROOT / "roles/kafka/tasks/doctor.yml").read_text())
    assert [task["name"] for task in tasks if task.get("failed_when") is not False] == []


def test_success_message_names_clusters_and_unchecked_parts() -> None:
    sentence = nothing_found({"a": host("east"), "b": host("west"), "c": host("east")})
    assert "east, west" in sentence
    assert "playbooks/status.yml" in sentence
    [*_, play] = yaml.safe_load((ROOT / "playbooks/doctor.yml").read_text())
    assert "doctor_nothing_found" in play["tasks"][-1]["ansible.builtin.assert"]["success_msg"]


def test_unreachable_host_reason_comes_from_first_command() -> None:
    lost = {"group_names": ["site_east"], "__kafka_refused": {"unreachable": True, "msg": "ssh: refused"}}
    [sentence] = findings({"a": lost})
    assert sentence.startswith("east: a did not answer: ssh: refused")


def test_host_that_did_not_compare_all_is_unknown() -> None:
    equal = {"group_names": ["reconcile", "dedup"], "_reconcile_unequal": [], "_reconcile_compared": True}
    equal["_dedup_compared"] = True  # it has no ledger
    unequal = {"group_names": ["dedup"], "_dedup_unequal": ["a-0 lacks 5"], "_dedup_compared": True}
    assert comparison_findings({"b": unequal, "a": equal}) == ["a-0 lacks 5"]
    half = {
        "group_names": ["reconcile"],
        "_reconcile_unequal": ["pro1: 3 missing"],
        "_reconcile_compared": False,
    }
    assert comparison_findings({"c": half})[0] == "pro1: 3 missing"
    for unknown in (half, {"group_names": ["reconcile"]}, {"group_names": ["dedup"], "_dedup_unequal": []}):
        [*_, sentence] = comparison_findings({"c": unknown, "a": equal})
        assert "c did not compare" in sentence
        assert "unknown" in sentence


def test_failed_or_unequal_flow_shows_output_of_command() -> None:
    told = {"stdout_lines": ["head", "task 1 failed"], "stderr_lines": ["aqueduct: [a]"]}
    for lines, variable, expected in (
        (ill_flows, "_mirror_maker_flow", ["task 1 failed", "aqueduct: [a]"]),
        (unequal_flows, "_reconcile_flow", ["head", "task 1 failed"]),
    ):
        results = [
            {variable: {"name": "good"}, "rc": 0, **told},
            {variable: {"name": "skipped"}, "skipped": True},
            {variable: {"name": "bad"}, "rc": 3, **told},
            {variable: {"name": "gone"}, "msg": "the host does not answer"},
        ]
        first, *rest = lines(results, "lake")
        assert "bad to lake" in first
        assert rest[: len(expected)] == expected
        assert "gone to lake" in rest[len(expected)]
    failed = {"_reconcile_flow": {"name": "bad"}, "rc": 1, **told}
    assert unequal_flows([failed], "lake")[1:] == ["could not be compared.", "aqueduct: [a]"]


def test_missing_offsets_finding_has_partition_and_ranges() -> None:
    assert "a-1 lacks" in (sentence := missing_offsets({"topic": "a", "partition": 1, "gaps": [[3, 5], [9]]}))
    assert "3 to 5, 9" in sentence


def test_changed_id_advice_depends_on_owner_of_logs() -> None:
    assert "journalctl" in changed_id("a", 1, 1)
    assert "kafka_node_id to 1" in changed_id("a", 1, 2)


def test_flows_that_no_host_compares_are_one_finding() -> None:
    assert uncompared([]) == []
    assert (
        "pro1 to lake, pro2 to lake: no host compares these flows"
        in uncompared(["pro1 to lake", "pro2 to lake"])[0]
    )


def test_link_without_ledger_is_finding_unless_accepted() -> None:
    groups = {
        "all": ["r1", "r2", "s"],
        "site_enclave": ["r1", "r2"],
        "site_pro1": ["s"],
        "diode_downstream": ["r1"],
    }
    record = {"source": "pro1", "number": 2, "name": "plain", "mode": "record", "topics": ["plain"]}
    receiver: dict[str, object] = {
        "diode_downstream_links": [{"source": "pro1", "number": 1, "topics": ["t"]}, record]
    }

    def identifiers(*hosts: str) -> list[str]:
        links = read_uncompared_links(groups, {"r1": receiver, "r2": {}, "s": {}}, hosts or groups["all"])
        assert {link.name for link in links} <= {"plain"}
        return [line.partition("]")[0].lstrip("[") for line in uncompared_links(links)]

    assert identifiers() == identifiers("r2") == ["link-not-compared"]
    assert identifiers("s") == []  # --limit of another site
    receiver["diode_downstream_uncompared_links"] = ["other"]
    assert identifiers() == ["link-not-compared"]
    receiver["diode_downstream_uncompared_links"] = ["plain"]
    assert identifiers() == []
