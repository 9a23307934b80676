"""The rights to a bucket, as S3's bucket policy states them."""

from collections.abc import Collection
from typing import Any

READ = ["s3:GetBucketLocation", "s3:GetObject", "s3:ListBucket", "s3:ListBucketMultipartUploads"]
# An upload in parts belongs to who began it, and to give it up deletes no object.
WRITE = ["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"]
DELETE = ["s3:DeleteObject"]


def bucket_policy(
    bucket: str, *, read: Collection[str] = (), write: Collection[str] = (), delete: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return the document that lets users read, write or delete; None where nobody may do anything.

    Who may write or delete may read and list, too. Who may write can't delete, but S3 has no right that keeps
    them from overwriting: a writer has to create its objects conditionally (`If-None-Match: *`).
    """
    rights = (("read", {*read, *write, *delete}, READ), ("write", write, WRITE), ("delete", delete, DELETE))
    statements = [
        {
            "Sid": right,
            "Effect": "Allow",
            "Principal": {"AWS": sorted(users)},
            "Action": actions,
            "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        }
        for right, users, actions in rights
        if users
    ]
    return {"Version": "2012-10-17", "Statement": statements} if statements else None
