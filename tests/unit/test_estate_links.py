"""One-way links as both their ends see them, each without the other."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.estate.acls import link_acls
from aqueduct.estate.links import (
    DedupWork,
    Link,
    Reader,
    ledgers,
    noted_readers,
    read_links,
    read_links_from,
    read_readers,
    topics,
)

GROUPS = {
    "site_pro1": ["k1", "u1", "u2"],
    "site_pro2": ["k2"],
    "site_enclave": ["e1", "d1"],
    "kafka": ["k1", "k2", "e1"],
    "diode_upstream": ["u1", "u2"],
    "diode_downstream": ["d1"],
}
DECLARED: list[dict[str, Any]] = [
    {"source": "pro1", "number": 1, "topics": ["flights"]},
    {"source": "pro1", "number": "2", "topics": ["fl.*"], "name": "second", "upstream": "u2", "port": 9778},
]
HOSTVARS: dict[str, dict[str, Any]] = {"d1": {"diode_downstream_links": DECLARED}}

FLIGHTS = Link(
    source="pro1",
    target="enclave",
    number=1,
    topics=("flights",),
    upstream="u1",
    downstream="d1",
    address="d1",
)
SECOND = Link(
    source="pro1",
    target="enclave",
    number=2,
    topics=("fl.*",),
    given_name="second",
    mode="raw",
    upstream="u2",
    downstream="d1",
    address="d1",
    port=9778,
)
RECORDS = Link(
    source="pro1", target="enclave", number=4, topics=("seats",), given_name="plain", mode="record"
)
OTHER = Link(
    source="pro2", target="enclave", number=3, topics=("flights",), clean_topics={"flights": "pro2.flights"}
)


def test_links_arrive_at_declaring_site_and_leave_source() -> None:
    assert read_links(GROUPS, HOSTVARS, "enclave") == (FLIGHTS, SECOND)
    assert read_links_from(GROUPS, HOSTVARS, "pro1") == (FLIGHTS, SECOND)
    assert read_links(GROUPS, HOSTVARS, "pro1") == read_links_from(GROUPS, HOSTVARS, "enclave") == ()


def test_one_sending_service_may_serve_several_links() -> None:
    beside = {"source": "pro1", "number": 5, "topics": ["flights"], "name": "beside", "sent_by": "pro1"}
    declared = [*DECLARED, {**beside, "address": "fd00::7", "port": 9790}]
    hostvars = {"d1": {"diode_downstream_links": declared}}
    first, second = read_links_from(GROUPS, hostvars, "pro1")
    assert (first.name, second.name) == ("pro1", "second")
    assert first.targets == "d1:9777=1,[fd00::7]:9790=5"
    assert second.targets == "d1:9778=2"
    assert [each.name for each in read_links(GROUPS, hostvars, "enclave")] == ["pro1", "second", "beside"]
    assert [reader.unit for reader in read_readers(GROUPS, hostvars, "pro1")] == [
        "diode_upstream@enclave-pro1",
        "diode_upstream@enclave-second",
    ]


def test_readers_of_site_are_mirrors_and_outgoing_links() -> None:
    groups = {**GROUPS, "site_lake": ["m1", "m2"], "mirror_maker": ["m1", "m2"]}
    flows = {"mirror_maker_flows": [{"source": "pro1", "topics": [".*"]}]}
    assert read_readers(groups, {**HOSTVARS, "m1": flows, "m2": flows}, "pro1") == (
        Reader(host="m1", unit="mirror_maker@pro1", flow="pro1", target="lake", engine="mm2"),
        Reader(host="m2", unit="mirror_maker@pro1", flow="pro1", target="lake", engine="mm2"),
        Reader(host="u1", unit="diode_upstream@enclave-pro1", group="aqueduct-diode-enclave-pro1"),
        Reader(host="u2", unit="diode_upstream@enclave-second", group="aqueduct-diode-enclave-second"),
    )


@pytest.mark.parametrize(
    ("flow", "topics", "units"),
    [
        ({"topics": ["crews.*"]}, ["flights"], ["enclave-pro1", "enclave-second"]),
        ({"topics": ["crews.*"]}, ["crews-1"], ["pro1"]),
        ({"topics": [".*"], "topics_exclude": ["fl.*"]}, ["flights"], ["enclave-pro1", "enclave-second"]),
        (
            {"topics": [".*"], "topics_exclude": ["fl.*"]},
            ["flights", "x"],
            ["pro1", "enclave-pro1", "enclave-second"],
        ),
        ({"topics": ["(?=f).*"]}, ["xyz"], ["pro1"]),  # it may match: only Java knows
        ({"topics": ["a.b"]}, ["axb"], ["pro1"]),  # a name, and a pattern for MirrorMaker
        ({"topics": [".*"], "topics_exclude": ["(?=f).*"]}, ["xyz"], ["pro1"]),
        ({"topics": ["crews"]}, ["xyz"], []),
    ],
)
def test_readers_of_topics_have_patterns_that_may_match(
    flow: dict[str, Any], topics: list[str], units: list[str]
) -> None:
    groups = {**GROUPS, "site_lake": ["m1"], "mirror_maker": ["m1"]}
    hostvars = {**HOSTVARS, "m1": {"mirror_maker_flows": [{"source": "pro1", **flow}]}}
    found = read_readers(groups, hostvars, "pro1", topics)
    assert [reader.unit.partition("@")[2] for reader in found] == units


def test_sending_service_is_reader_for_all_its_links() -> None:
    beside = {"source": "pro1", "number": 5, "topics": ["seats"], "name": "beside", "sent_by": "pro1"}
    hostvars = {"d1": {"diode_downstream_links": [*DECLARED, beside]}}
    [reader] = read_readers(GROUPS, hostvars, "pro1", ["seats"])
    assert reader.unit == "diode_upstream@enclave-pro1"


def test_link_of_unknown_site_has_no_upstream_host() -> None:
    link = Link.of(GROUPS, "enclave", {"source": "pro9", "number": 1, "topics": ["flights"]})
    assert (link.upstream, link.downstream) == ("", "d1")


def test_second_link_has_own_names_and_shared_ledger() -> None:
    assert (FLIGHTS.sent_as, SECOND.sent_as) == ("enclave-pro1", "enclave-second")
    assert (FLIGHTS.raw_topic, SECOND.raw_topic) == ("diode-raw-pro1", "diode-raw-second")
    assert FLIGHTS.group != SECOND.group
    assert ledgers((FLIGHTS, SECOND, OTHER)) == (
        DedupWork(
            source="pro1",
            gap_topic="diode-gaps-pro1",
            raw_topics=("diode-raw-pro1", "diode-raw-second"),
            clean_topics={},
        ),
        DedupWork(
            source="pro2",
            gap_topic="diode-gaps-pro2",
            raw_topics=("diode-raw-pro2",),
            clean_topics={"flights": "pro2.flights"},
        ),
    )


def test_record_link_has_no_raw_topic_or_ledger() -> None:
    declared = {"source": "pro1", "number": 4, "topics": ["seats"], "name": "plain", "mode": "record"}
    assert Link.of(GROUPS, "enclave", declared).mode == "record"
    assert ledgers((RECORDS,)) == ()
    assert ledgers((RECORDS, FLIGHTS)) == ledgers((FLIGHTS,))
    assert topics((RECORDS,), partitions=8, retention_hours=72) == []


def test_raw_and_gap_topics_have_as_many_partitions() -> None:
    made = topics((FLIGHTS, SECOND, OTHER), partitions=8, retention_hours=72)
    assert [topic["name"] for topic in made] == [
        *("diode-raw-pro1", "diode-raw-second", "diode-raw-pro2", "diode-gaps-pro1", "diode-gaps-pro2")
    ]
    assert {topic["partitions"] for topic in made} == {8}
    assert made[0]["config"]["retention.ms"] == "259200000"
    assert int(made[0]["config"]["max.message.bytes"]) > FLIGHTS.largest_record_bytes
    assert made[3]["config"]["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("patterns", "name", "crosses"),
    [
        (("flights",), "flights", True),
        (("flights",), "flights2", False),
        (("pro1.flights",), "pro1-flights", False),
        (("a|b",), "b", True),
        (("a|b", "c"), "ac", False),
        ((".*",), "__consumer_offsets", False),
        ((".*",), "_x", True),
        ((".*",), "__x", False),
        (("__x", "b.*"), "__x", True),
        (("__x", "b.*"), "__xb", False),
        (("__.*",), "__x", True),
    ],
)
def test_whole_names_cross(patterns: tuple[str, ...], name: str, crosses: bool) -> None:
    link = Link(source="pro1", target="enclave", number=1, topics=patterns)
    assert bool(re.fullmatch(link.topics_pattern, name)) is crosses


Right = tuple[str, str, str, str]


def rights(site: str, principal: str, *links: Link) -> set[Right]:
    arriving = tuple(link for link in links if link.target == site)
    acls = link_acls(site, arriving, [link for link in links if link.source == site])
    assert len({(acl.principal, acl.resource, acl.name, acl.pattern) for acl in acls}) == len(acls)
    return {
        (acl.resource, acl.name, acl.pattern, operation)
        for acl in acls
        if acl.principal == principal
        for operation in acl.operations
    }


def test_upstream_reads_topics_and_commits_position() -> None:
    assert rights("pro1", "diode-upstream-pro1", FLIGHTS) == {
        ("topic", "flights", "literal", "read"),
        ("topic", "flights", "literal", "describe"),
        ("topic", "flights", "literal", "describe_configs"),
        ("group", "aqueduct-diode-enclave-pro1", "literal", "read"),
        ("group", "aqueduct-diode-enclave-pro1", "literal", "describe"),
        ("group", "aqueduct-diode-enclave-pro1-resend", "literal", "read"),
        ("group", "aqueduct-diode-enclave-pro1-resend", "literal", "describe"),
    }


def test_downstream_writes_only_raw_topic() -> None:
    assert rights("enclave", "diode-downstream-enclave", FLIGHTS) == {
        ("topic", "diode-raw-pro1", "literal", "write"),
        ("topic", "diode-raw-pro1", "literal", "describe"),
        ("topic", "diode-raw-pro1", "literal", "describe_configs"),
    }


def test_downstream_without_dedup_writes_plain_topics() -> None:
    assert rights("enclave", "diode-downstream-enclave", RECORDS) == {
        ("topic", "seats", "literal", "write"),
        ("topic", "seats", "literal", "describe"),
    }
    assert rights("enclave", "dedup-enclave.pro1", RECORDS) == set()


@pytest.mark.parametrize(("source", "clean"), [("pro1", "flights"), ("pro2", "pro2.flights")])
def test_dedup_accesses_only_topics_of_its_source(source: str, clean: str) -> None:
    found = rights("enclave", f"dedup-enclave.{source}", FLIGHTS, OTHER)
    written = {name for kind, name, _, operation in found if kind == "topic" and operation == "write"}
    assert written == {clean, f"diode-gaps-{source}"}
    read = {name for kind, name, _, operation in found if kind == "topic" and operation == "read"}
    assert read == {f"diode-raw-{source}", f"diode-gaps-{source}"}
    assert {right for right in found if right[0] != "topic"} == {
        ("group", f"aqueduct-dedup-diode-gaps-{source}", "literal", "read"),
        ("group", f"aqueduct-dedup-diode-gaps-{source}", "literal", "describe"),
        ("transactional_id", f"aqueduct-dedup-diode-gaps-{source}-", "prefixed", "write"),
        ("transactional_id", f"aqueduct-dedup-diode-gaps-{source}-", "prefixed", "describe"),
    }


@given(st.lists(st.sampled_from([FLIGHTS, SECOND, OTHER]), max_size=3, unique_by=lambda link: link.number))
def test_source_grants_no_link_write_access(links: list[Link]) -> None:
    for site in ("pro1", "pro2"):
        given_there = link_acls(site, (), [link for link in links if link.source == site])
        assert {operation for acl in given_there for operation in acl.operations} <= {
            *("read", "describe", "describe_configs")
        }


def test_a_site_without_links_gives_nothing() -> None:
    assert link_acls("pro1", (), ()) == ()


READERS = tuple(Reader(host=host, unit="mirror_maker@pro1") for host in ("m1", "h2"))


@pytest.mark.parametrize(
    "noted", [{}, None, "text", [1, {"host": ["m1"]}, {"unit": "ssh"}], [{"host": "m1", "unit": "ssh"}]]
)
def test_undeclared_units_in_noted_readers_are_ignored(noted: object) -> None:
    assert noted_readers(READERS, noted) == ()


def test_noted_readers_are_those_of_the_inventory() -> None:
    noted = [{"host": "h2", "unit": "mirror_maker@pro1", "group": "other", "flow": "../x"}]
    assert noted_readers(READERS, noted) == (READERS[1],)
