"""Signatures, against the examples that Amazon published with the algorithm."""

from datetime import UTC, datetime

import pytest

from aqueduct.store.bucket_admin import S3Server, signed_headers

PUBLISHED = S3Server(
    address="examplebucket.s3.amazonaws.com",
    region="us-east-1",
    access_key="AKIAIOSFODNN7EXAMPLE",
    secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
AT = datetime(2013, 5, 24, tzinfo=UTC)


def test_a_published_signature() -> None:
    headers = signed_headers(PUBLISHED, AT, "GET", "/", query="lifecycle")
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
        "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )


@pytest.mark.parametrize(
    "other",
    [
        signed_headers(PUBLISHED, AT, "PUT", "/", query="policy"),
        signed_headers(PUBLISHED, AT, "GET", "/b", query="policy"),
        signed_headers(PUBLISHED, AT, "GET", "/"),
        signed_headers(PUBLISHED, AT, "GET", "/", query="policy", body=b"body"),
        signed_headers(PUBLISHED, AT.replace(second=1), "GET", "/", query="policy"),
    ],
)
def test_everything_is_signed(other: dict[str, str]) -> None:
    assert (
        signed_headers(PUBLISHED, AT, "GET", "/", query="policy")["authorization"] != other["authorization"]
    )


def test_a_secret_is_not_shown() -> None:
    assert PUBLISHED.secret_key not in repr(PUBLISHED)
