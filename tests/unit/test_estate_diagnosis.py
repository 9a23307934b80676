"""A host that does not answer the doctor is not reported as healthy."""

from typing import Any

from aqueduct.estate.diagnosis import comparison_findings, findings, uncompared, uncompared_links
from aqueduct.estate.links import read_uncompared_links


def host(site: str, **result: Any) -> dict[str, Any]:
    return {"group_names": ["kafka", f"site_{site}"], **({"__kafka_doctor": result} if result else {})}


def test_what_several_hosts_say_of_a_cluster_is_listed_once() -> None:
    said = ["Listener CLIENT: 1 connection", "Broker 3 is registered but fenced."]
    hosts = {
        "a": host("east", rc=3, stdout_lines=said),
        "b": host("east", rc=3, stdout_lines=[*said, "own"]),
        "c": host("west", rc=0, stdout_lines=said),
    }
    assert findings(hosts) == ["east: Broker 3 is registered but fenced.", "east: own (b)"]


def test_hosts_without_an_answer_are_one_finding_for_each_site_and_reason() -> None:
    away = {"rc": 1, "stdout_lines": [], "stderr": "aqueduct: [cluster-unreachable] east does not answer.\n"}
    hosts = {
        "a": host("east", **away),
        "b": host("east", **away),
        "c": host("west", unreachable=True, msg="Failed to connect\nto the host"),
        "d": host("north"),
        "e": host("south", rc=0, stdout_lines=[]),
    }
    assert findings(hosts) == [
        "east: a, b did not answer: aqueduct: [cluster-unreachable] east does not answer.",
        "west: c did not answer: to the host",
        "north: d did not answer, and why is not known.",
    ]


def test_the_reason_of_a_host_that_was_never_asked_is_that_of_the_first_command() -> None:
    lost = {"group_names": ["site_east"], "__kafka_refused": {"unreachable": True, "msg": "ssh: refused"}}
    assert findings({"a": lost}) == ["east: a did not answer: ssh: refused"]


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


def test_flows_that_no_host_compares_are_one_finding() -> None:
    assert uncompared([]) == []
    assert (
        "pro1 to lake, pro2 to lake: no host compares these flows"
        in uncompared(["pro1 to lake", "pro2 to lake"])[0]
    )


def test_each_link_without_a_ledger_is_a_finding_unless_its_site_accepts_it() -> None:
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
