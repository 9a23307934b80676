"""Buckets and their rights, at a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from kit.identifiers import raises

from aqueduct.errors import Failed, Refused
from aqueduct.store.backends import open_store
from aqueduct.store.bucket_admin import BucketAdmin, S3Server
from aqueduct.store.bucket_policy import bucket_policy
from aqueduct.store.catalog import Catalog
from aqueduct.store.objects import Exists
from servers.object_store import ACCESS_KEY, REGION, SECRET_KEY, Gateway, running
from servers.pki import Authority

SECRET = "secret-of-a-user"  # noqa: S105


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("gateway")
    users = {
        user: {"access": user, "secret": SECRET, "role": "user"} for user in ("reader", "writer", "pruner")
    }
    (directory / "iam").mkdir()
    (directory / "iam/users.json").write_text(json.dumps({"accessAccounts": users}))
    with running(directory, Authority(directory / "authority")) as started:
        yield started


def endpoint(gateway: Gateway, **other: Any) -> S3Server:
    assert gateway.authority
    given = {
        "address": f"127.0.0.1:{gateway.port}",
        "region": REGION,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
        "ca_file": str(gateway.authority.certificate),
    }
    return S3Server(**(given | other))


def client(gateway: Gateway, user: str) -> Any:
    """Return a client that sends no body with an empty object.

    A checksum would follow it, in chunks, and a server that refuses hangs up before it has read them.
    """
    assert gateway.authority
    return boto3.client(
        "s3",
        endpoint_url=gateway.endpoint,
        region_name=REGION,
        aws_access_key_id=user,
        aws_secret_access_key=SECRET,
        verify=str(gateway.authority.certificate),
        config=Config(request_checksum_calculation="when_required"),
    )


def test_bucket_is_created_once_and_gets_rights(gateway: Gateway) -> None:
    admin = BucketAdmin(endpoint(gateway))
    admin.wait(30)
    rights = bucket_policy("made", read=["reader"], write=["writer"], delete=["pruner"])
    assert admin.ensure("made", rights, check_only=True)
    assert [admin.ensure("made", rights), admin.ensure("made", rights)] == [True, False]

    client(gateway, "writer").put_object(Bucket="made", Key="a/b", Body=b"content")
    assert client(gateway, "reader").get_object(Bucket="made", Key="a/b")["Body"].read() == b"content"
    for user in ("reader", "writer"):
        with pytest.raises(ClientError, match="AccessDenied"):
            client(gateway, user).delete_object(Bucket="made", Key="a/b")
    # A copy has no body. A body that the gateway refuses, it does not read, and may hang up unheard.
    for user in ("reader", "pruner"):
        with pytest.raises(ClientError, match="AccessDenied"):
            client(gateway, user).copy_object(Bucket="made", Key="c", CopySource="made/a/b")
    client(gateway, "pruner").delete_object(Bucket="made", Key="a/b")

    assert [admin.ensure("made", None), admin.ensure("made", None)] == [True, False]
    with pytest.raises(ClientError, match="AccessDenied"):
        client(gateway, "reader").list_objects_v2(Bucket="made")


def test_site_cannot_reach_other_sites_in_same_bucket(gateway: Gateway) -> None:
    """Its backup's user is captured: it tries to read, replace, copy and delete the other site's objects."""
    admin = BucketAdmin(endpoint(gateway))
    admin.wait(30)
    sites = {"pro1": {"write": ["reader"], "delete": ["reader"]}, "pro2": {"write": ["writer"]}}
    rights = bucket_policy("shared", prefixes=sites)
    assert [admin.ensure("shared", rights), admin.ensure("shared", rights)] == [True, False]
    captured, other = client(gateway, "reader"), client(gateway, "writer")
    other.put_object(Bucket="shared", Key="pro2/runs/1", Body=b"content")
    captured.put_object(Bucket="shared", Key="pro1/own", Body=b"own")
    captured.put_object(Bucket="shared", Key="pro1/gone", Body=b"")
    captured.delete_object(Bucket="shared", Key="pro1/gone")
    with pytest.raises(ClientError, match="AccessDenied"):
        captured.get_object(Bucket="shared", Key="pro2/runs/1")
    for key in ("pro2/runs/1", "pro10", "other"):
        with pytest.raises(ClientError, match="AccessDenied"):
            captured.copy_object(Bucket="shared", Key=key, CopySource="shared/pro1/own")
    with pytest.raises(ClientError, match="AccessDenied"):
        captured.put_object(Bucket="shared", Key="pro2/runs/1", Body=b"")
    with pytest.raises(ClientError, match="AccessDenied"):
        captured.copy_object(Bucket="shared", Key="pro1/stolen", CopySource="shared/pro2/runs/1")
    with pytest.raises(ClientError, match="AccessDenied"):
        captured.delete_object(Bucket="shared", Key="pro2/runs/1")
    assert other.get_object(Bucket="shared", Key="pro2/runs/1")["Body"].read() == b"content"


def test_no_user_removes_or_replaces_what_is_locked(gateway: Gateway) -> None:
    admin = BucketAdmin(endpoint(gateway))
    admin.wait(30)
    rights = bucket_policy("locked", write=["writer"], delete=["pruner"])
    assert [admin.ensure("locked", rights, 7), admin.ensure("locked", rights, 7)] == [True, False]
    client(gateway, "writer").put_object(Bucket="locked", Key="a", Body=b"content")
    client(gateway, "writer").put_object(Bucket="locked", Key="other", Body=b"other")
    with pytest.raises(ClientError, match="AccessDenied"):
        client(gateway, "writer").copy_object(Bucket="locked", Key="a", CopySource="locked/other")
    with pytest.raises(ClientError, match="AccessDenied"):
        client(gateway, "pruner").delete_object(Bucket="locked", Key="a")
    assert client(gateway, "writer").get_object(Bucket="locked", Key="a")["Body"].read() == b"content"

    assert admin.ensure("locked", rights, 0, check_only=True)
    assert [admin.ensure("locked", rights), admin.ensure("locked", rights)] == [True, False]
    client(gateway, "writer").put_object(Bucket="locked", Key="b", Body=b"content")
    client(gateway, "pruner").delete_object(Bucket="locked", Key="b")

    admin.ensure("open", None)
    assert [admin.ensure("open", None, 7), admin.ensure("open", None, 7)] == [True, False]


def test_store_in_locked_bucket_reopens_and_rejects_overwrites(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server denies to replace a locked object, where it says of others that they exist."""
    admin = BucketAdmin(endpoint(gateway))
    admin.wait(30)
    admin.ensure("kept", bucket_policy("kept", write=["writer"]), 7)
    for name, value in gateway.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "writer")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store = open_store("s3://kept/pro1")
    first, again = Catalog.open_or_make(store), Catalog.open_or_make(open_store("s3://kept/pro1"))
    assert first.id == again.id
    store.create("a", b"first")
    store.create("a", b"first")
    with pytest.raises(Exists):
        store.create("a", b"second")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    with raises(Refused, "store-access-refused"):
        open_store("s3://kept/pro1").create("b", b"of a reader")


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        ({"secret_key": "wrong"}, "SignatureDoesNotMatch"),
        ({"access_key": "nobody"}, "InvalidAccessKeyId"),
        ({"ca_file": None}, "certificate"),
    ],
)
def test_permanent_access_failure_is_reported_at_once(
    gateway: Gateway, other: dict[str, Any], fact: str
) -> None:
    with raises(Failed, "store-access-refused") as raised:
        BucketAdmin(endpoint(gateway, **other)).wait(3600)
    assert fact in str(raised.value)
    assert SECRET_KEY not in str(raised.value)


def test_a_name_that_no_bucket_may_have(gateway: Gateway) -> None:
    with raises(Failed, "bucket-unusable"):
        BucketAdmin(endpoint(gateway)).ensure("Not_a_bucket", None)


def test_nobody_answers(tmp_path: Path) -> None:
    with socket() as nobody:  # who has the port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{nobody.getsockname()[1]}"
        admin = BucketAdmin(S3Server(address=server, region="r", access_key="u", secret_key="s"))
        with raises(Failed, "store-request-failed") as failed:
            admin.wait(0.1)
    assert server in str(failed.value)
