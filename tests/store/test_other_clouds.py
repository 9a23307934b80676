"""Google's and Azure's stores: that settings are taken, and what their errors become. No server is asked."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kit.identifiers import raises

from aqueduct.errors import Failed, Refused
from aqueduct.store import retries
from aqueduct.store.backends import open_store
from aqueduct.store.error_messages import NO_CONNECTION, explain
from aqueduct.store.url import parse


def test_azure_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with raises(Refused, "store-settings-invalid", "az://container/a") as refused:
        open_store("az://container/a")
    assert "account" in str(refused.value).lower()


@pytest.mark.parametrize("url", ["az://container/a", "gs://bucket/a"])
def test_an_endpoint_that_is_not_there(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.5)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "aGlkZGVu")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path)))
    with raises(Failed, "store-request-failed", url, NO_CONNECTION) as failure:
        open_store(url).create("a", b"")
    assert "aGlkZGVu" not in str(failure.value)


@pytest.mark.parametrize(
    ("url", "text", "sentence"),
    [
        ("az://c", "status: 404 body: <Code>ContainerNotFound</Code>", "has no such container"),
        ("az://c", "status: 403 body: <Code>AuthenticationFailed</Code>", "rejects these credentials"),
        ("gs://b", 'status: 403 body: {"errors": [{"reason": "forbidden"}]}', "denies access: write"),
        ("gs://b", "status: 404", "has no such bucket"),
    ],
)
def test_what_they_answer(url: str, text: str, sentence: str) -> None:
    trouble = explain(f"{text} https://a.example.com/c?sig=hidden", parse(url), "write")
    assert trouble.what.startswith(sentence)
    assert "hidden" not in trouble.what
    assert not trouble.passing


def service_account(directory: Path) -> Path:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = directory / "account.json"
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "private_key": key.decode(),
                "private_key_id": "1",
                "client_email": "backup@example.test",
            }
        )
    )
    return path
