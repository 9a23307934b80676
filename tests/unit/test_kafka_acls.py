from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.kafka import acls
from aqueduct.kafka.acls import Acl

FLOWS = "^(mirror|reconcile)-"
principals = st.sampled_from(
    ["User:mirror-lake", "User:reconcile-lake", "User:flights", "User:mirror", "Group:mirror-x"]
)
cluster_acls = st.frozensets(
    st.builds(
        Acl,
        principal=principals,
        resource=st.sampled_from(["topic", "group", "user"]),
        name=st.sampled_from(["a", "b"]),
        pattern=st.sampled_from(["literal", "prefixed"]),
        operation=st.sampled_from(["read", "write"]),
        host=st.sampled_from(["*", "10.0.0.1"]),
        permission=st.sampled_from(["allow", "deny"]),
    )
)
declared_acls = st.frozensets(
    st.builds(
        Acl,
        principal=principals.filter(lambda p: p.startswith("User:")),
        resource=st.sampled_from(["topic", "group"]),
        name=st.sampled_from(["a", "b"]),
        pattern=st.sampled_from(["literal", "prefixed"]),
        operation=st.sampled_from(["read", "write"]),
    )
)


@given(declared_acls, cluster_acls)
def test_managed_principals_get_declared_acls_and_others_stay(
    declared: frozenset[Acl], actual: frozenset[Acl]
) -> None:
    plan = acls.plan(declared, actual, FLOWS)
    after = (actual | set(plan.add)) - set(plan.remove)
    named = {acl.principal for acl in declared}
    managed = named | {"User:mirror-lake", "User:reconcile-lake"}
    assert {acl for acl in after if acl.principal in managed} == declared
    assert {acl for acl in after if acl.principal not in managed} == {
        acl for acl in actual if acl.principal not in managed
    }
    assert not set(plan.add) & actual
    assert acls.plan(declared, after, FLOWS) == acls.AclChanges((), ())


def test_an_entry_is_one_acl_for_each_operation() -> None:
    entry = {"principal": "flights", "resource": "topic", "name": "fl", "pattern": "prefixed"}
    assert acls.parse([{**entry, "operations": ["read", "describe"]}]) == {
        Acl(principal="User:flights", resource="topic", name="fl", pattern="prefixed", operation="read"),
        Acl(principal="User:flights", resource="topic", name="fl", pattern="prefixed", operation="describe"),
    }
    assert acls.parse([{**entry, "pattern": None, "operations": ["read"]}]) == {
        Acl(
            principal="User:flights",
            resource="topic",
            name="fl",
            pattern="literal",
            operation="read",
            host="*",
            permission="allow",
        )
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"principal": "User:x"}, "a principal that does not begin with 'User:'"),
        ({"principal": ""}, "a principal that does not begin with 'User:'"),
        ({"resource": "topics"}, "unknown resource type; use topic, group, cluster, transactional_id"),
        ({"resource": "cluster"}, "must have the name kafka-cluster"),
        ({"pattern": "regex"}, "has the unknown pattern type regex"),
        ({"name": ""}, "has no name"),
        ({"operations": []}, "has no operations"),
        (
            {"operations": ["read", "idempotent_write"]},
            ("has the unknown operation idempotent_write; the operations of a topic"),
        ),
        ({"operations": ["Read"]}, "has the unknown operation Read"),
    ],
)
def test_a_wrong_entry_is_refused_in_a_sentence(wrong: dict[str, object], said: str) -> None:
    entry = {"principal": "x", "resource": "topic", "name": "t", "operations": ["read"]}
    with raises(Refused, "acl-declaration-invalid") as refused:
        acls.parse([entry | wrong])
    assert said in str(refused.value)


def test_all_mistakes_are_named_at_once() -> None:
    entry = {"principal": "x", "resource": "topic", "name": "t", "operations": ["fly"]}
    with raises(Refused, "acl-declaration-invalid") as refused:
        acls.parse([entry, {**entry, "operations": ["swim"]}])
    assert "fly" in str(refused.value)
    assert "swim" in str(refused.value)


def test_only_users_match_the_pattern() -> None:
    other = Acl(principal="Group:mirror", resource="topic", name="a", pattern="literal", operation="read")
    user = Acl(principal="User:my-mirror", resource="topic", name="a", pattern="literal", operation="read")
    assert acls.plan([], [other, user], "mirror").remove == (user,)


def test_a_pattern_that_does_not_compile_is_refused() -> None:
    with raises(Refused, "pattern-invalid", "managed_principals"):
        acls.plan([], [], "(")


def test_the_diff_names_what_goes_and_what_comes() -> None:
    old = Acl(
        principal="User:mirror-lake",
        resource="topic",
        name="old",
        pattern="literal",
        operation="read",
        permission="deny",
    )
    new = Acl(
        principal="User:mirror-lake", resource="group", name="new", pattern="prefixed", operation="read"
    )
    assert acls.diff(acls.plan([new], [old], FLOWS)) == {
        "before": "deny User:mirror-lake from *: read on topic old (literal)\n",
        "after": "allow User:mirror-lake from *: read on group new (prefixed)\n",
    }


@pytest.mark.parametrize(
    ("declared", "stored", "is_within"),
    [
        (("*", "literal"), ("a", "prefixed"), True),
        (("*", "literal"), ("*", "literal"), True),
        (("*", "prefixed"), ("*a", "literal"), True),
        (("*", "prefixed"), ("*", "literal"), False),
        (("a", "prefixed"), ("*", "literal"), False),
        (("a", "prefixed"), ("ab", "prefixed"), True),
        (("ab", "prefixed"), ("a", "prefixed"), False),
        (("a", "literal"), ("a", "prefixed"), False),
    ],
)
def test_all_resources_are_within_all_alone(
    declared: tuple[str, str], stored: tuple[str, str], is_within: bool
) -> None:
    """A literal * is every resource; a prefixed one only those whose name begins with it."""
    one, other = (
        Acl(principal="User:desk", resource="group", name=name, pattern=pattern, operation="read")
        for name, pattern in (declared, stored)
    )
    assert acls.within(other, [one]) is is_within


@pytest.mark.parametrize(("permission", "is_within"), [("allow", True), ("deny", True), ("4", False)])
def test_permission_of_a_later_version_is_not_within(permission: str, is_within: bool) -> None:
    declared = Acl(principal="User:desk", resource="topic", name="a", pattern="literal", operation="read")
    assert acls.within(replace(declared, permission=permission), [declared]) is is_within
