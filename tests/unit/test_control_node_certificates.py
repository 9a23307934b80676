"""The estate's own authority: what it signs is the inventory's, and what is still good stays."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from kit.identifiers import raises

from aqueduct.control_node import certificates
from aqueduct.control_node.certificates import CLIENT, SERVICE, Authority, Wanted
from aqueduct.errors import Refused

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WANTED = Wanted(
    principal="mirror-lake", names=("lake-1", "10.0.0.1"), usages=SERVICE, validity_days=365, renewal_days=30
)


def public(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made, changed = certificates.have_authority(tmp_path_factory.mktemp("ca"), NOW)
    assert changed
    return made


@pytest.fixture(scope="module")
def key() -> str:
    return public(ec.generate_private_key(ec.SECP256R1()))


def test_a_certificate_is_what_the_inventory_says(authority: Authority, key: str) -> None:
    made = x509.load_pem_x509_certificate(certificates.issue(key, WANTED, authority, NOW).encode())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert made.subject.rfc4514_string() == "CN=mirror-lake"
    assert names.get_values_for_type(x509.DNSName) == ["lake-1"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert made.not_valid_after_utc == NOW + timedelta(days=365)
    made.verify_directly_issued_by(authority.certificate)


def test_openssl_trusts_it(tmp_path: Path, authority: Authority, key: str) -> None:
    (tmp_path / "ca.pem").write_text(authority.trusted)
    (tmp_path / "one.pem").write_text(certificates.issue(key, WANTED, authority, NOW))
    when = f"-attime={int((NOW + timedelta(days=1)).timestamp())}".replace("=", " ").split()
    for purpose in ("sslclient", "sslserver"):
        command = [
            "openssl",
            "verify",
            "-x509_strict",
            *when,
            "-purpose",
            purpose,
            "-CAfile",
            "ca.pem",
            "one.pem",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_valid_certificate_stays_and_fault_is_named(tmp_path: Path, authority: Authority, key: str) -> None:
    def why(pem: str, now: datetime = NOW, **changed: object) -> str:
        return certificates.fault(pem, key, replace(WANTED, **changed), authority, now)  # type: ignore[arg-type]

    pem = certificates.issue(key, WANTED, authority, NOW)
    stranger, _ = certificates.have_authority(tmp_path, NOW)
    assert why(pem) == ""
    assert why(pem, names=("10.0.0.1", "lake-1")) == ""
    assert why("")
    assert why(pem, principal="admin") == "its subject is not admin"
    assert why(pem, names=("lake-1",)) == "it has other names or usages"
    assert why(pem, usages=CLIENT) == "it has other names or usages"
    assert why(pem, renewal_days=400) == "it expires soon"
    assert why(pem, now=NOW + timedelta(days=335)) == ""
    assert why(pem, now=NOW + timedelta(days=335, seconds=1)) == "it expires soon"
    assert why(certificates.issue(key, WANTED, stranger, NOW)) == "another CA signed it"
    other = public(ec.generate_private_key(ec.SECP256R1()))
    assert why(certificates.issue(other, WANTED, authority, NOW)) == "it belongs to another key"


def test_former_server_key_is_not_signed_for_client(tmp_path: Path, authority: Authority, key: str) -> None:
    """Its former certificate is public, and valid until it ends: a server shows it to everyone."""
    former, _ = certificates.have_authority(tmp_path, NOW)
    client = replace(WANTED, usages=CLIENT)

    def is_replaced(pem: str, request: Wanted) -> bool:
        return certificates.needs_new_key(pem, request, authority)

    assert is_replaced(certificates.issue(key, WANTED, authority, NOW), client)
    assert not is_replaced(certificates.issue(key, client, authority, NOW), client)
    assert not is_replaced(certificates.issue(key, client, authority, NOW), WANTED)
    assert not is_replaced(certificates.issue(key, WANTED, authority, NOW), WANTED)
    assert is_replaced(certificates.issue(key, client, former, NOW), client)
    assert not is_replaced("", client)


def test_a_key_of_another_kind_is_refused(authority: Authority) -> None:
    with raises(Refused, "public-key-invalid"):
        certificates.issue(public(rsa.generate_private_key(65537, 2048)), WANTED, authority, NOW)
    with raises(Refused, "public-key-invalid"):
        certificates.issue(public(ec.generate_private_key(ec.SECP384R1())), WANTED, authority, NOW)


def test_an_authority_and_a_client_are_made_once(tmp_path: Path) -> None:
    authority, _ = certificates.have_authority(tmp_path, NOW)
    again, changed = certificates.have_authority(tmp_path, NOW)
    assert (again.certificate, changed) == (authority.certificate, False)
    wanted = Wanted(principal="admin", names=(), usages=CLIENT, validity_days=365, renewal_days=30)
    ca = tmp_path / "ca.pem"
    assert certificates.have_client(tmp_path, wanted, authority, ca, NOW)
    before = (tmp_path / "admin.pem").read_bytes()
    assert not certificates.have_client(tmp_path, wanted, authority, ca, NOW + timedelta(days=300))
    assert certificates.have_client(tmp_path, wanted, authority, ca, NOW + timedelta(days=340))
    assert (tmp_path / "admin.pem").read_bytes() != before
    private = [path for path in tmp_path.iterdir() if path.name != "ca.pem"]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


def test_lost_authority_certificate_is_recreated_from_key(tmp_path: Path) -> None:
    first, _ = certificates.have_authority(tmp_path, NOW)
    (tmp_path / "ca.pem").unlink()
    second, changed = certificates.have_authority(tmp_path, NOW)
    assert changed
    assert second.certificate.public_key() == first.certificate.public_key()


def test_signing_wants_an_authority(tmp_path: Path) -> None:
    with raises(Refused, "authority-missing"):
        certificates.load_authority(tmp_path)


def test_java_trusts_every_authority(authority: Authority, tmp_path: Path) -> None:
    stranger, _ = certificates.have_authority(tmp_path, NOW)
    made = certificates.java_truststore(authority.trusted + stranger.trusted, "secret")
    held = pkcs12.load_pkcs12(made, b"secret").additional_certs
    assert {each.certificate for each in held} == {authority.certificate, stranger.certificate}
