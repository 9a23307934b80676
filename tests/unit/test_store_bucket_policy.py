"""Bucket policies: users get what is declared for them, and nobody else anything."""

from aqueduct.store.bucket_policy import bucket_policy


def rights(**users: list[str]) -> dict[str, set[str]]:
    """Return what each user may do with a bucket and its objects."""
    found: dict[str, set[str]] = {}
    for statement in (bucket_policy("b", **users) or {"Statement": []})["Statement"]:
        assert statement["Effect"] == "Allow"
        at = "arn:aws:s3:::b" if statement["Sid"] == "list" else "arn:aws:s3:::b/*"
        assert statement["Resource"] == [at]
        for user in statement["Principal"]["AWS"]:
            found.setdefault(user, set()).update(statement["Action"])
    return found


def test_nobody_may_do_anything_that_is_not_declared() -> None:
    assert bucket_policy("b") is None
    assert bucket_policy("b", read=[], write=[], delete=[]) is None


def test_each_right_brings_reading_and_no_other() -> None:
    found = rights(read=["r"], write=["w"], delete=["d"])
    assert all({"s3:GetObject", "s3:ListBucket"} <= actions for actions in found.values())
    assert {user for user, actions in found.items() if "s3:PutObject" in actions} == {"w"}
    assert {user for user, actions in found.items() if "s3:DeleteObject" in actions} == {"d"}


def test_a_user_may_have_several_rights() -> None:
    assert {"s3:PutObject", "s3:DeleteObject"} < rights(write=["u"], delete=["u"])["u"]


def test_the_same_users_make_the_same_policy() -> None:
    assert bucket_policy("b", read=["x", "y"], write=["z"]) == bucket_policy(
        "b", read=["z", "y", "x"], write=["z"]
    )


def test_a_prefix_gives_rights_to_its_objects_alone() -> None:
    policy = bucket_policy("b", prefixes={"pro1": {"write": ["one"]}, "pro2": {"read": ["two"]}})
    assert policy is not None
    objects = {
        (user, action, resource)
        for statement in policy["Statement"]
        for user in statement["Principal"]["AWS"]
        for action in statement["Action"]
        for resource in statement["Resource"]
        if action.endswith("Object")
    }
    assert objects == {
        ("one", "s3:GetObject", "arn:aws:s3:::b/pro1/*"),
        ("one", "s3:PutObject", "arn:aws:s3:::b/pro1/*"),
        ("two", "s3:GetObject", "arn:aws:s3:::b/pro2/*"),
    }
    assert len({statement["Sid"] for statement in policy["Statement"]}) == len(policy["Statement"])
