"""A mirror's rights: at its source only read and describe, at its target what MirrorMaker 2 needs."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.estate.acls import (
    SERVICES,
    DeclaredAcl,
    backup_acls,
    connect_acls,
    drill_acls,
    flow_acls,
    land_acls,
    link_acls,
    managed_principals,
    monitoring_acls,
    resource,
    schema_registry_acls,
)
from aqueduct.estate.connectors import DeclaredConnector
from aqueduct.estate.links import Link
from aqueduct.estate.model import Flow
from aqueduct.kafka import acls as kafka_acls

FLIGHTS = Flow(source="pro1", target="lake", topics=("flights",))

patterns = st.sampled_from(["flights", r"pro1\..*", ".*", "a|b", "orders-[0-9]+", "(?i)x"])
flows = st.builds(
    Flow,
    source=st.just("pro1"),
    target=st.just("lake"),
    topics=st.lists(patterns, min_size=1, max_size=3).map(tuple),
    naming=st.sampled_from(["identity", "prefix"]),
    groups=st.lists(patterns, max_size=2).map(tuple),
    engine=st.sampled_from(["mm2", "batches"]),
)


def rights(acls: tuple[DeclaredAcl, ...], principal: str) -> set[tuple[str, str, str, str]]:
    return {
        (acl.resource, acl.name, acl.pattern, operation)
        for acl in acls
        if acl.principal == principal
        for operation in acl.operations
    }


def test_source_grants_only_read_and_describe_on_topics() -> None:
    assert rights(flow_acls("pro1", [FLIGHTS]), "mirror-lake") == {
        ("topic", "flights", "literal", "read"),
        ("topic", "flights", "literal", "describe"),
        ("topic", "flights", "literal", "describe_configs"),
    }


@given(flows)
def test_no_flow_may_change_anything_at_its_source(flow: Flow) -> None:
    operations = {operation for acl in flow_acls("pro1", [flow]) for operation in acl.operations}
    assert operations <= {"read", "describe", "describe_configs"}
    assert {acl.resource for acl in flow_acls("pro1", [flow])} <= {"topic", "group"}


@given(flows)
def test_the_cluster_itself_is_nobody_s(flow: Flow) -> None:
    assert not [acl for acl in flow_acls("lake", [flow]) if acl.resource == "cluster"]


def test_source_grants_describe_only_for_synchronised_groups() -> None:
    synchronised = Flow(source="pro1", target="lake", topics=("flights",), groups=("billing",))
    group = ("group", "billing", "literal", "describe")
    assert group not in rights(flow_acls("pro1", [FLIGHTS]), "mirror-lake")
    assert group in rights(flow_acls("pro1", [synchronised]), "mirror-lake")


def test_the_target_gives_what_mirrormaker_asks_for() -> None:
    every = rights(flow_acls("lake", [FLIGHTS]), "mirror-lake")
    internal = {name for kind, name, _, operation in every if kind == "topic" and operation == "create"}
    assert internal == {
        "aqueduct-mirror-checkpoints.pro1.internal",
        "aqueduct-mirror-positions.pro1.internal",
        "flights",
        "heartbeats",
        "mm2-configs.pro1.internal",
        "mm2-offset-syncs.pro1.internal",
        "mm2-offsets.pro1.internal",
        "mm2-status.pro1.internal",
        "pro1.checkpoints.internal",
    }
    assert {
        ("topic", "flights", "literal", operation) for operation in ("write", "alter", "alter_configs")
    } <= every
    assert ("topic", "flights", "literal", "read") not in every
    assert {entry for entry in every if entry[0] in ("group", "transactional_id")} == {
        ("group", "aqueduct-mirror-pro1", "literal", "describe"),
        ("group", "aqueduct-mirror-pro1", "literal", "read"),
        ("transactional_id", "aqueduct-mirror-pro1-", "prefixed", "describe"),
        ("transactional_id", "aqueduct-mirror-pro1-", "prefixed", "write"),
        ("group", "pro1-mm2", "literal", "describe"),
        ("group", "pro1-mm2", "literal", "read"),
        ("transactional_id", "connect-cluster-pro1-mm2", "literal", "describe"),
        ("transactional_id", "connect-cluster-pro1-mm2", "literal", "write"),
        ("transactional_id", "pro1-mm2-", "prefixed", "describe"),
        ("transactional_id", "pro1-mm2-", "prefixed", "write"),
    }


def test_target_allows_committing_offsets_of_synchronised_groups() -> None:
    flow = Flow(source="pro1", target="lake", topics=("flights",), groups=("billing-.*",))
    every = rights(flow_acls("lake", [flow]), "mirror-lake")
    assert ("group", "billing-", "prefixed", "read") in every
    assert ("topic", "flights", "literal", "read") in every


def test_both_engines_have_the_same_rights() -> None:
    """A flow is switched without other ACLs, and an engine finds out whether the other one has the flow."""
    batches = replace(FLIGHTS, engine="batches")
    for site in ("pro1", "lake"):
        assert flow_acls(site, [batches]) == flow_acls(site, [FLIGHTS])
    every = rights(flow_acls("lake", [batches]), "mirror-lake")
    read = {name for kind, name, _, operation in every if (kind, operation) == ("topic", "read")}
    assert "aqueduct-mirror-positions.pro1.internal" in read
    assert "flights" not in read
    assert {name for kind, name, _, operation in every if operation == "alter"} == {"flights"}


def test_a_prefixing_flow_writes_below_its_prefix_only() -> None:
    flow = Flow(source="pro1", target="lake", topics=("flights", "orders-.*"), naming="prefix")
    writes = {
        (name, pattern)
        for kind, name, pattern, operation in rights(flow_acls("lake", [flow]), "mirror-lake")
        if kind == "topic" and operation == "alter"
    }
    assert writes == {("pro1.flights", "literal"), ("pro1.orders-", "prefixed")}
    everything = Flow(source="pro1", target="lake", topics=(".*",), naming="prefix")
    assert ("topic", "pro1.", "prefixed", "write") in rights(flow_acls("lake", [everything]), "mirror-lake")


def test_reconcile_reads_both_ends_and_nothing_else() -> None:
    flow = Flow(source="pro1", target="lake", topics=("flights",), naming="prefix")
    for site, topic in (("pro1", "flights"), ("lake", "pro1.flights")):
        assert rights(flow_acls(site, [flow]), "reconcile-lake") == {
            ("topic", topic, "literal", "read"),
            ("topic", topic, "literal", "describe"),
        }


def test_a_drill_reads_topics_and_may_change_nothing() -> None:
    assert rights(drill_acls(["lake", "lake"]), "drill-lake") == {
        ("topic", "*", "literal", "read"),
        ("topic", "*", "literal", "describe_configs"),
        ("topic", "*", "literal", "describe"),
    }
    assert drill_acls([]) == ()


def test_a_backup_reads_everything_and_may_change_nothing() -> None:
    acls = backup_acls("pro1")
    assert {acl.principal for acl in acls} == {"backup-pro1"}
    assert rights(acls, "backup-pro1") == {
        ("topic", "*", "literal", "read"),
        ("topic", "*", "literal", "describe"),
        ("topic", "*", "literal", "describe_configs"),
        ("group", "*", "literal", "describe"),
        # Kafka asks for read where offsets are committed: only those that tell its progress.
        ("group", "aqueduct-backup-", "prefixed", "read"),
        ("cluster", "kafka-cluster", "literal", "describe"),
        ("cluster", "kafka-cluster", "literal", "describe_configs"),
    }


def test_a_site_that_is_neither_end_gives_nothing() -> None:
    assert flow_acls("pro2", [FLIGHTS]) == ()


def test_flows_share_one_entry_per_principal_and_resource() -> None:
    flows = [FLIGHTS, Flow(source="pro2", target="lake", topics=("flights",), groups=("g",))]
    acls = flow_acls("lake", flows)
    keys = [(acl.principal, acl.resource, acl.name, acl.pattern) for acl in acls]
    assert len(keys) == len(set(keys))
    assert ("mirror-lake", "topic", "flights", "literal") in keys
    assert list(acls) == sorted(acls, key=lambda acl: (acl.principal, acl.resource, acl.name, acl.pattern))


@pytest.mark.parametrize(
    ("pattern", "name", "kind"),
    [
        ("flights", "flights", "literal"),
        ("pro1.flights", "pro1.flights", "literal"),
        (r"pro1\.flights", "pro1.flights", "literal"),
        (r"pro1\..*", "pro1.", "prefixed"),
        ("flights.*", "flights", "prefixed"),
        ("flights-[0-9]+", "flights-", "prefixed"),
        ("flights?", "flight", "prefixed"),
        (r"flights\.?", "flights", "prefixed"),
        ("a|b", "*", "literal"),
        (".*", "*", "literal"),
        ("(?i)flights", "*", "literal"),
        ("", "*", "literal"),
    ],
)
def test_pattern_gets_narrowest_covering_acl_resource(pattern: str, name: str, kind: str) -> None:
    assert resource(pattern) == (name, kind)


def test_every_topic_makes_narrower_entries_superfluous() -> None:
    flow = Flow(source="pro1", target="lake", topics=("flights", ".*"))
    assert {acl.name for acl in flow_acls("pro1", [flow])} == {"*"}


def test_monitoring_only_describes() -> None:
    acls = monitoring_acls(["lake", "pro1", "lake"])
    assert {acl.principal for acl in acls} == {"monitoring-lake", "monitoring-pro1"}
    assert rights(acls, "monitoring-lake") == {
        ("cluster", "kafka-cluster", "literal", "describe"),
        ("topic", "*", "literal", "describe"),
    }


def test_undeclared_rights_of_managed_principals_are_revoked() -> None:
    """Check every function that derives rights.

    What a site's last link leaves behind is revoked too.
    """
    link = Link(source="pro1", target="enclave", number=1, topics=("flights",))
    derived = [
        *flow_acls("pro1", [FLIGHTS]),
        *flow_acls("lake", [FLIGHTS]),
        *link_acls("pro1", (), [link]),
        *link_acls("enclave", (link,), ()),
        *link_acls("enclave", (replace(link, mode="record"),), ()),
        *backup_acls("pro1"),
        *drill_acls(["lake"]),
        *connect_acls("lake", [DeclaredConnector(name="files", config={"topics": "flights"})]),
        *land_acls("lake", ["flights"]),
        *schema_registry_acls("lake"),
        *monitoring_acls(["lake"]),
    ]
    principals = {acl.principal for acl in derived}
    assert len(principals) == len(SERVICES)
    actual = kafka_acls.parse([asdict(acl) | {"operations": list(acl.operations)} for acl in derived])
    plan = kafka_acls.plan([], actual, managed_principals())
    assert set(plan.remove) == set(actual)
    person = {"principal": "flights", "resource": "topic", "name": "x", "operations": ["read"]}
    assert not kafka_acls.plan([], kafka_acls.parse([person]), managed_principals()).remove


def test_rights_that_a_killed_restore_left_are_revoked() -> None:
    left = {"principal": "restore-pro1", "resource": "topic", "name": "flights", "operations": ["write"]}
    actual = kafka_acls.parse([left])
    assert set(kafka_acls.plan([], actual, managed_principals()).remove) == actual
