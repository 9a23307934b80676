"""Checks beyond the table of broken inventories: what no release has yet, sizes, order."""

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.errors import Labelled
from aqueduct.estate.check import Repository, check
from aqueduct.estate.check.inventory import Finding, Inventory, Unknown, some
from aqueduct.estate.check.sites import check_group_files
from aqueduct.estate.check.variables import Roles, check_variables, faults, fits, is_sound, typed
from aqueduct.messages import MESSAGES

ROLES = Roles({"kafka": {"kafka_password": {"type": "int", "no_log": True}}, "_artifact": {}})


def inventory(hosts: Mapping[str, Mapping[str, Any]], **groups: list[str]) -> Inventory:
    return Inventory(
        groups={"all": [*hosts], **groups},
        hosts=hosts,
        declarations=dict.fromkeys(hosts, "hosts.yml:1"),
        origin=lambda _: None,
    )


def test_removed_variable_finding_has_advice_from_table() -> None:
    found = check_variables(
        inventory({"h": {"kafka_zookeeper": "z"}}), ROLES, {"kafka_zookeeper": "delete it, KRaft needs none."}
    )
    assert [str(finding) for finding in found] == [
        "hosts.yml:1: kafka_zookeeper: [variable-removed] this variable was removed: delete it, KRaft needs "
        "none."
    ]


def test_variable_file_without_group_is_named() -> None:
    files = {"all": "group_vars/all", "site_pro1": "group_vars/site_pro1.yml", "site_pro11": "b.yml"}
    found = list(check_group_files(replace(inventory({"h": {}}, site_pro1=["h"]), group_files=files)))
    assert [(finding.where, finding.what, finding.id) for finding in found] == [
        ("b.yml", "site_pro11", "group-file-unused")
    ]
    assert "site_pro1?" in found[0].sentence


def test_a_secret_is_not_shown() -> None:
    (finding,) = check_variables(inventory({"h": {"kafka_password": "hunter2"}}), ROLES)
    assert "hunter2" not in str(finding)


def test_internal_role_variables_have_no_leading_underscore() -> None:
    (finding,) = check_variables(inventory({"h": {"artifact_x": 1}}), ROLES)
    assert finding.what == "artifact_x"


def test_unknown_value_is_neither_faulty_nor_sound() -> None:
    assert not is_sound(Unknown(), {"type": "int"})
    assert not [*check_variables(inventory({"h": {"kafka_password": Unknown()}}), ROLES)]


def test_a_value_that_hosts_share_is_judged_once() -> None:
    shared = ["x"]
    found = [*check_variables(inventory({"a": {"kafka_x": shared}, "b": {"kafka_x": shared}}), ROLES)]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, "int", True),
        ("1", "int", True),  # --extra-vars
        ("-1", "int", True),
        ("1.5", "float", True),
        ("1.5", "int", False),
        ("", "int", False),
        (True, "int", False),
        ("true", "bool", False),  # Jinja takes any text that is not empty for true
        ("a", "list", False),
        (("a",), "list", True),
        (4.3, "str", True),
        (True, "str", False),
        ({}, "dict", True),
        (object(), "raw", True),
    ],
)
def test_types_are_checked_without_converting(value: object, kind: str, expected: bool) -> None:
    assert fits(value, kind) is expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("true", "bool", True),
        ("No", "bool", False),
        ("maybe", "bool", "maybe"),  # stays a finding
        ("", "bool", ""),
        ("true", "str", "true"),
        ("a,b", "list", "a,b"),
    ],
)
def test_flags_of_command_line_are_no_texts(text: str, kind: str, expected: object) -> None:
    assert typed(text, {"type": kind}) == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
)


@given(values)
def test_any_value_is_judged_with_identifiers(value: object) -> None:
    option = {"type": "list", "elements": "dict", "options": {"a": {"type": "int", "required": True}}}
    for _, fault in faults(value, option):
        assert fault.id in MESSAGES
        assert fault.sentence.endswith((".", "?"))


def test_findings_are_sorted_by_file_and_line() -> None:
    found = [
        Finding(where=where, what="v", fault=Labelled("value-empty", "s."))
        for where in ("b.yml:2", "b.yml:10", "a.yml:30", "c.yml")
    ]
    assert [one.where for one in sorted(found, key=lambda one: one.place)] == [
        "a.yml:30",
        "b.yml:2",
        "b.yml:10",
        "c.yml",
    ]


def test_a_secret_is_hidden_in_the_sentence_alone() -> None:
    fault = Labelled("bucket-right-missing", "app may not read bucket canary.")
    finding = Finding(where="b.yml:2", what="object_store_buckets", fault=fault)
    shown = replace(inventory({}), secrets=frozenset({"bucket", "canary"})).without_secrets(finding)
    assert (shown.id, shown.where) == ("bucket-right-missing", "b.yml:2")
    assert "bucket" not in shown.sentence
    assert "canary" not in shown.sentence


def test_many_names_are_counted() -> None:
    assert some(["a"]) == "a"
    assert some(["a", "b"]) == "a and b"
    assert some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


FLOWS = {
    "type": "list",
    "elements": "dict",
    "options": {
        "source": {"type": "str", "required": True},
        "topics": {"type": "list", "elements": "str", "required": True},
        "naming": {"type": "str"},
    },
}


def test_a_mesh_of_prefixing_sites_is_judged() -> None:
    """Twenty sites that all mirror all: more ways than could be walked, and none of them comes back."""
    sites = [f"s{number}" for number in range(20)]
    flow = {"topics": [".*"], "naming": "prefix"}
    hosts = {
        site: {"mirror_maker_flows": [{"source": source, **flow} for source in sites if source != site]}
        for site in sites
    }
    hosts["s0"]["mirror_maker_flows"][0] = {"source": "s1", "topics": ["flights"], "naming": "identity"}
    groups = {f"site_{site}": [site] for site in sites} | {"kafka": sites, "mirror_maker": sites}
    roles = Roles({"mirror_maker": {"mirror_maker_flows": FLOWS}, "kafka": {}})
    signal.alarm(600)  # walking every way would never end: SIGALRM ends the process then
    assert (
        check(
            inventory(hosts, **groups),
            Repository(roles=roles, defaults={}, supported_versions=[], is_file=lambda _: False),
        )
        == []
    )
    signal.alarm(0)
