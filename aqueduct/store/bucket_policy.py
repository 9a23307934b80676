"""The rights to a bucket, as an S3 bucket policy."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

RIGHTS = ("read", "write", "delete")
# Of the bucket itself. A listing cannot be limited to a prefix: the estate's store supports no conditions.
LIST = ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"]
# Of its objects. A multipart upload belongs to its user, and its abortion deletes no object.
OBJECTS = {
    "read": ["s3:GetObject"],
    "write": ["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"],
    "delete": ["s3:DeleteObject"],
}

Users = Mapping[str, Collection[str]]  # by right


def bucket_policy(
    bucket: str,
    *,
    read: Collection[str] = (),
    write: Collection[str] = (),
    delete: Collection[str] = (),
    prefixes: Mapping[str, Users] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """Return the policy with which users can read, write or delete; None if no user has rights.

    The users of a prefix (`pro1`) have their rights for the objects below it (`pro1/...`), others for the
    whole bucket. Users who can write or delete can also read and list. The right to write does not include
    deletion, but it includes overwriting: a writer has to use conditional writes (`If-None-Match: *`).
    """
    arn, users = f"arn:aws:s3:::{bucket}", {"read": read, "write": write, "delete": delete}
    places = [
        (f"{arn}/*", users),
        *((f"{arn}/{name}/*", place_users) for name, place_users in prefixes.items()),
    ]
    readers = [_named(place_users, RIGHTS) for _, place_users in places]
    statements = [*_statement("list", set().union(*readers), LIST, arn)]
    for number, (objects, place_users) in enumerate(places):
        for right, actions in OBJECTS.items():
            named = readers[number] if right == "read" else _named(place_users, (right,))
            statements += _statement(f"{right}{number or ''}", named, actions, objects)
    return {"Version": "2012-10-17", "Statement": statements} if statements else None


def _named(users: Users, rights: Iterable[str]) -> set[str]:
    return {user for right in rights for user in users.get(right) or ()}


def _statement(
    sid: str, users: Collection[str], actions: list[str], resource: str
) -> Iterator[dict[str, Any]]:
    if users:
        yield {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": {"AWS": sorted(users)},
            "Action": actions,
            "Resource": [resource],
        }
