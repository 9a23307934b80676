"""The estate as roles see it, read from groups and hostvars."""

import re
from typing import Any

from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.estate.connectors import DeclaredConnector
from aqueduct.estate.links import Link
from aqueduct.estate.model import (
    Flow,
    MirrorUnit,
    principal,
    read_all_flows,
    read_mirrors,
    read_site,
    read_uncompared,
    site_name,
)

DEFAULTS = {
    "kafka_metadata": "kraft",
    "kafka_roles": ["broker", "controller"],
    "kafka_port": 9092,
    "kafka_controller_port": 9093,
    "kafka_rack": "",
}
GROUPS = {
    "site_pro1": ["b2", "b1", "c1"],
    "site_lake": ["l1", "m1"],
    "kafka": ["b1", "b2", "c1", "l1"],
    "mirror_maker": ["m1"],
}
HOSTVARS: dict[str, dict[str, Any]] = {
    "b1": {"kafka_node_id": 1, "kafka_roles": ["broker"], "kafka_rack": "a"},
    "b2": {"kafka_node_id": 2, "kafka_port": "9192", "kafka_advertised_host": "b2.example.com"},
    "c1": {"kafka_node_id": 3, "kafka_roles": ["controller"]},
    "l1": {"kafka_node_id": 1},
    "m1": {"mirror_maker_flows": [{"source": "pro1", "topics": ["flights"], "naming": "prefix"}]},
}


def test_site_nodes_are_in_inventory_order() -> None:
    site = read_site(GROUPS, HOSTVARS, DEFAULTS, "pro1")
    assert [node.host for node in site.brokers] == ["b2", "b1"]
    assert [node.host for node in site.controllers] == ["b2", "c1"]
    assert site.flows == ()


def test_with_zookeeper_every_node_is_a_broker_alone() -> None:
    old = {host: {**HOSTVARS[host], "kafka_metadata": "zookeeper"} for host in ("b1", "b2")}
    site = read_site({**GROUPS, "kafka": ["b1", "b2"]}, {**HOSTVARS, **old}, DEFAULTS, "pro1")
    assert [node.roles for node in site.nodes] == [("broker",), ("broker",)]
    assert site.controllers == ()


def test_missing_host_settings_use_role_defaults() -> None:
    b2, b1, _ = read_site(GROUPS, HOSTVARS, DEFAULTS, "pro1").nodes
    assert (b1.address, b1.controller_address, b1.rack) == ("b1:9092", "b1:9093", "a")
    assert (b2.address, b2.port, b2.roles) == ("b2.example.com:9192", 9192, ("broker", "controller"))


def test_flows_arrive_where_they_are_declared() -> None:
    assert read_all_flows(GROUPS, HOSTVARS) == (
        Flow(source="pro1", target="lake", topics=("flights",), naming="prefix"),
    )


def test_flow_is_compared_by_host_of_target() -> None:
    flows = read_all_flows(GROUPS, HOSTVARS)
    assert read_uncompared(GROUPS, HOSTVARS) == flows
    assert read_uncompared({**GROUPS, "reconcile": ["b1"]}, HOSTVARS) == flows
    assert read_uncompared({**GROUPS, "reconcile": ["l1"]}, HOSTVARS) == ()


def test_string_instead_of_list_is_one_item() -> None:
    flow = Flow.of("lake", {"source": "pro1", "topics": "flights", "groups": "desk", "topics_exclude": "x.*"})
    assert (flow.topics, flow.groups, flow.topics_exclude) == (("flights",), ("desk",), ("x.*",))
    declared = {"source": "pro1", "number": 1, "topics": "flights"}
    assert Link.of({**GROUPS, "diode_downstream": []}, "lake", declared).topics == ("flights",)
    connector = {"name": "c", "config": {}, "writes": "flights"}
    assert DeclaredConnector.of(connector).writes == ("flights",)


def test_mirror_runs_on_every_host_of_target() -> None:
    groups = {**GROUPS, "site_lake": ["l1", "m1", "m2"], "mirror_maker": ["m1", "m2"]}
    assert read_mirrors(groups, HOSTVARS, "pro1") == (
        MirrorUnit(host="m1", flow="pro1", target="lake"),
        MirrorUnit(host="m2", flow="pro1", target="lake"),
    )
    assert read_mirrors(groups, HOSTVARS, "lake") == ()


def test_batches_engine_flow_runs_on_every_host() -> None:
    flow = {"source": "pro1", "topics": ["flights"], "engine": "batches"}
    groups = {**GROUPS, "site_lake": ["l1", "m1", "m2"], "mirror_maker": ["m1", "m2"]}
    hostvars = {**HOSTVARS, "m1": {"mirror_maker_flows": [flow]}}
    assert read_mirrors(groups, hostvars, "pro1") == (
        MirrorUnit(host="m1", flow="pro1", target="lake", engine="batches"),
        MirrorUnit(host="m2", flow="pro1", target="lake", engine="batches"),
    )


def test_prefixing_batches_flow_excludes_topics_from_its_target() -> None:
    declared = {"source": "pro1", "topics": [".*"], "naming": "prefix", "engine": "batches"}
    pattern = re.compile(Flow.of("lake", declared).topics_pattern)
    for topic in ("lake.flights", "other.lake.flights", "lake.other.flights"):
        assert not pattern.fullmatch(topic)
    for topic in ("flights", "lake", "lakes.flights", "flights.lake"):
        assert pattern.fullmatch(topic)


def test_groups_are_one_pattern() -> None:
    flow = Flow(source="a", target="b", topics=("x",), groups=("desk-.*", "crew"), groups_exclude=("desk-1",))
    pattern = re.compile(flow.groups_pattern)
    assert [name for name in ("desk-1", "desk-12", "crew", "crews") if pattern.fullmatch(name)] == [
        "desk-12",
        "crew",
    ]
    assert Flow(source="a", target="b", topics=("x",)).groups_pattern == ""


def test_only_hosts_of_the_site_are_read() -> None:
    hostvars = {host: HOSTVARS[host] for host in ("l1", "m1")}  # any other would be a KeyError
    assert len(read_site(GROUPS, hostvars, DEFAULTS, "lake").nodes) == 1


def test_a_host_has_one_site() -> None:
    assert site_name(["kafka", "site_pro1"]) == "pro1"
    for groups, found in ((["kafka"], "no site"), (["site_b", "site_a"], "a and b")):
        with raises(Refused, "host-site-ambiguous") as caught:
            site_name(groups)
        assert found in str(caught.value)


def test_what_is_missing_is_named() -> None:
    with raises(Refused, "site-unknown") as caught:
        read_site(GROUPS, HOSTVARS, DEFAULTS, "pro9")
    assert "site_pro9" in str(caught.value)
    with raises(Refused, "node-id-missing") as caught:
        read_site(GROUPS, {**HOSTVARS, "b1": {}}, DEFAULTS, "pro1")
    assert "kafka_node_id of b1" in str(caught.value)


def test_a_principal_is_a_service_of_a_site() -> None:
    assert principal("kafka", "pro1") == "kafka-pro1"
    assert principal("mirror_maker", "lake") == "mirror-lake"
    assert principal("reconcile", "lake") == "reconcile-lake"
    assert principal("diode_upstream", "pro1") == "diode-upstream-pro1"
