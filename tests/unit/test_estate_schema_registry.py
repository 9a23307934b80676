"""A site's schema registry, worked out of the inventory alone."""

from hypothesis import given
from hypothesis import strategies as st

from aqueduct.estate.acls import schema_registry_acls
from aqueduct.estate.schema_registry import (
    own_prefix,
    properties_file,
    settings,
    topics,
    url,
    with_registry,
)
from aqueduct.kafka.client_config import parse_properties

GROUPS = {"site_lake": ["a", "b.example.com"], "site_pro": ["c"], "schema_registry": ["b.example.com"]}


def test_it_may_touch_its_own_topics_and_groups_alone() -> None:
    found = {(acl.resource, acl.name, acl.pattern, acl.operations) for acl in schema_registry_acls("lake")}
    assert found == {
        ("group", "aqueduct-schema-registry-lake-", "prefixed", ("describe", "read")),
        (
            *("topic", "aqueduct-schema-registry-lake-", "prefixed"),
            ("describe", "describe_configs", "read", "write"),
        ),
    }
    assert {acl.principal for acl in schema_registry_acls("lake")} == {"schema-registry-lake"}


def test_its_topics_are_those_that_it_runs_with_and_the_journal_is_kept() -> None:
    set_ = settings("lake", "a:9092", "0.0.0.0", 8081, key="/key.pem", ca="/ca.pem")  # noqa: S104
    named = {value for name, value in set_.items() if name.endswith("topic")}
    assert {each["name"] for each in topics("lake")} == named
    assert all(name.startswith(own_prefix("lake")) for name in named)
    [journal] = [each for each in topics("lake") if each["name"] == set_["apicurio.kafkasql.topic"]]
    assert journal["config"] == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def test_it_is_where_its_host_says() -> None:
    assert url(GROUPS, {"b.example.com": {}}, "lake", 8081) == "https://b.example.com:8081/apis/ccompat/v7"
    told = {"schema_registry_host": "schemas.example.com", "schema_registry_port": 443}
    assert (
        url(GROUPS, {"b.example.com": told}, "lake", 8081)
        == "https://schemas.example.com:443/apis/ccompat/v7"
    )
    assert url(GROUPS, {}, "pro", 8081) == ""


def test_tables_get_the_registry_that_they_do_not_name() -> None:
    plain = {"table": "a.a", "topics": ["a"]}
    own = {"table": "a.b", "format": "avro_registry", "registry": "https://other.example.com"}
    wanting = {"table": "a.c", "format": "avro_registry"}
    filed = {"table": "a.d", "format": "avro_registry", "registry_config": "/own"}
    tables = [plain, own, wanting, filed]
    assert with_registry(tables, "https://b.example.com", "/file") == [
        plain,
        own,
        wanting | {"registry": "https://b.example.com", "registry_config": "/file"},
        filed | {"registry": "https://b.example.com"},
    ]
    assert with_registry(tables, "", "/file") == tables


@given(st.dictionaries(st.text(), st.text()))
def test_a_file_of_properties_is_what_java_reads(properties: dict[str, str]) -> None:
    text = properties_file(properties)
    assert parse_properties(text) == properties
    assert text.count("\n") == len(properties)


def test_a_key_of_several_lines_is_one_value() -> None:
    assert properties_file({"key": "-----BEGIN-----\n a\n-----END-----\n"}) == (
        "key=-----BEGIN-----\\n a\\n-----END-----\\n\n"
    )
