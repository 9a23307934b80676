"""A private key whose file others may read is refused; a credential of systemd shows its ACL as a right."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from kit.identifiers import raises

from aqueduct.common import keys
from aqueduct.errors import Refused
from aqueduct.store import signing

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
NO_PASSWORD = serialization.NoEncryption()
Load = Callable[[Path, int], None]


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "credentials"
    folder.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    return folder


def signing_key(path: Path, mode: int) -> None:
    path.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(PEM, PKCS8, NO_PASSWORD))
    path.chmod(mode)
    signing.signing_key(path)


def recipients_key(path: Path, mode: int) -> None:
    path.write_text(keys.ReceiverKey.generate().text())
    path.chmod(mode)
    keys.load(keys.ReceiverKey, path)


@pytest.mark.parametrize("load", [signing_key, recipients_key])
def test_acl_mask_of_credential_grants_no_access(load: Load, credentials: Path) -> None:
    load(credentials / "key", 0o440)


@pytest.mark.parametrize("load", [signing_key, recipients_key])
@pytest.mark.parametrize(
    ("name", "mode"),
    [("credentials/key", 0o444), ("credentials/key", 0o460), ("key", 0o440), ("credentials.key", 0o640)],
)
def test_a_key_that_others_may_read_is_refused(load: Load, name: str, mode: int, credentials: Path) -> None:
    with raises(Refused, "key-file-permissions", credentials.parent / name):
        load(credentials.parent / name, mode)


def test_without_credentials_no_group_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(Refused):
        signing_key(tmp_path / "key", 0o440)


def test_public_key_of_private_key_is_trusted(tmp_path: Path) -> None:
    signing_key(tmp_path / "private", 0o600)
    (tmp_path / "public").write_text(signing.public_pem((tmp_path / "private").read_text()))
    public = signing.signing_key(tmp_path / "private").public
    assert signing.trust([tmp_path / "public"]).keys == {public}


@pytest.mark.parametrize("kind", ["another kind", "no key"])
def test_a_text_without_such_a_key_is_refused(kind: str) -> None:
    another = x25519.X25519PrivateKey.generate().private_bytes(PEM, PKCS8, NO_PASSWORD).decode()
    with pytest.raises(Refused) as error:
        signing.public_pem(another if kind == "another kind" else "secret")
    assert error.value.id == "key-file-invalid"
    assert "secret" not in str(error.value)
