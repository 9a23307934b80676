"""A site's schema registry, worked out of the inventory alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct.estate.acls import schema_registry_acls
from aqueduct.estate.schema_registry import (
    API,
    DENIED_PATHS,
    own_prefix,
    properties_file,
    settings,
    topics,
    url,
    with_registry,
)
from aqueduct.kafka.client_config import parse_properties

GROUPS = {"site_lake": ["a", "b.example.com"], "site_pro": ["c"], "schema_registry": ["b.example.com"]}


def test_schema_registry_accesses_only_its_topics_and_groups() -> None:
    found = {(acl.resource, acl.name, acl.pattern, acl.operations) for acl in schema_registry_acls("lake")}
    assert found == {
        ("group", "aqueduct-schema-registry-lake-", "prefixed", ("describe", "read")),
        (
            *("topic", "aqueduct-schema-registry-lake-", "prefixed"),
            ("describe", "describe_configs", "read", "write"),
        ),
    }
    assert {acl.principal for acl in schema_registry_acls("lake")} == {"schema-registry-lake"}


def test_registry_topics_match_settings_and_journal_is_kept() -> None:
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


def test_tables_without_registry_get_site_registry() -> None:
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


def served(path: str) -> bool:
    """Tell whether no expression denies a path, as Java's `matches` would tell it."""
    found = properties_file(settings("lake", "a:9092", "a", 8081, "/key", "/ca"))
    denied = parse_properties(found)["apicurio.disable.apis"].split(",")
    assert tuple(denied) == DENIED_PATHS
    return not any(re.fullmatch(each, path) for each in denied)


@pytest.mark.parametrize(
    "path",
    [
        f"{API}/schemas/types",
        f"{API}/schemas/ids/7",
        f"{API}/subjects/com.example.Flight/versions/latest",
        f"{API}/subjects/%3A.context%3Aflights-value/versions",
        f"{API}/subjects/fl%C3%BCge%20alle/versions/-1",
        f"{API}/subjects/com.example.Outer$Inner/versions/%24%27",
        f"{API}/compatibility/subjects/a_b~c/versions/1",
        "/health/ready",
    ],
)
def test_paths_of_schemas_and_health_are_served(path: str) -> None:
    assert served(path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/apis",
        "/apis/registry/v3/admin/rules",
        "/apis/registry;x/v3/admin/rules",
        "/apis;x/registry/v3/admin/rules",
        "/;/apis/registry/v3/admin/rules",
        "/%61pis/registry/v3/admin/rules",
        "/apis/%72egistry/v3/admin/rules",
        "//apis/registry/v3/admin/rules",
        "/ui/config.js",
        "/metrics",
        "/apis/ccompat/v6/subjects",
        f"{API};x/subjects",
        f"{API}/../../registry/v3/admin/rules",
        f"{API}/..;/..;x/registry/v3/admin/rules",
        f"{API}/%2e%2e/%2E./registry/v3/admin/rules",
        f"{API}/.%2e/registry/v3/admin/rules",
        f"{API}/%252e%252e/registry/v3/admin/rules",
        f"{API}/..%2f..%2Fregistry/v3/admin/rules",
        f"{API}/..%5c..%5cregistry",
        f"{API}/..\\..\\registry",
        f"{API}/subjects;x/a/versions",
        f"{API}/subjects/a%3bx/versions",
        f"{API}/subjects/a%00/versions",
        f"{API}/subjects/a%/versions",
        f"{API}/subjects/a%zz/versions",
        f"{API}/subjects/a\n/versions",
        f"{API}//subjects",
        f"{API}/subjects/.",
        f"https://a.example.com{API}/subjects",
        "/health/../apis/registry/v3/admin/rules",
        "/health;x/../apis/registry/v3/admin/rules",
        "/healthy",
    ],
)
def test_other_paths_are_denied_in_every_spelling(path: str) -> None:
    assert not served(path)


def test_what_no_permission_names_is_denied() -> None:
    found = settings("lake", "a:9092", "a", 8081, "/key", "/ca")
    prefix = "quarkus.http.auth.permission."
    policies = {
        found[f"{name.removesuffix('.policy')}.paths"]: value
        for name, value in found.items()
        if name.startswith(prefix) and name.endswith(".policy")
    }
    assert policies == {"/*": "deny", f"{API}/*": "permit", "/health/*": "permit"}
    assert f"{prefix}all.methods" not in found  # the rule is one of all methods
