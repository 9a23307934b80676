"""Keys for a quorum: made for a service's key, unlike any other, and replaced in an order."""

import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from kit.identifiers import raises

from aqueduct.errors import Refused
from aqueduct.recovery.zookeeper.quorum_keys import KEY, NEXT, TRUSTED, QuorumKeys, is_of, self_signed, split
from servers.pki import Authority

PRINCIPAL = "zookeeper-old"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def keys(folder: Path) -> QuorumKeys:
    folder.mkdir(exist_ok=True)
    return QuorumKeys(folder, os.getuid(), os.getgid())


def certificate(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificates(pem.encode())[0]


def test_self_signed_certificate_copies_names_times_and_key(authority: Authority) -> None:
    service = authority.issue(PRINCIPAL, days=7).read_text()
    own = self_signed(service)
    found, origin = certificate(own), certificate(service)
    assert found.issuer == found.subject != origin.subject
    assert found.public_key() == origin.public_key()
    assert found.not_valid_after_utc == origin.not_valid_after_utc
    names = x509.SubjectAlternativeName
    assert found.extensions.get_extension_for_class(names) == origin.extensions.get_extension_for_class(names)
    found.verify_directly_issued_by(found)
    assert is_of(own, service)
    assert not is_of(own, authority.issue(PRINCIPAL).read_text())
    assert not is_of(service, service)
    assert not is_of("", service)


def test_servers_sharing_key_have_different_certificate_subjects(
    authority: Authority,
) -> None:
    service = authority.issue(PRINCIPAL).read_text()
    assert certificate(self_signed(service)).subject != certificate(self_signed(service)).subject


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_provided_keys_of_other_kinds_are_taken(authority: Authority, kind: str) -> None:
    made = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ed25519.Ed25519PrivateKey.generate()
    private = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    origin = certificate(authority.issue(PRINCIPAL).read_text())
    builder = x509.CertificateBuilder(
        origin.issuer,
        origin.subject,
        made.public_key(),
        1,
        origin.not_valid_before_utc,
        origin.not_valid_after_utc,
    )
    provided = builder.sign(made, hashes.SHA256() if kind == "rsa" else None)
    chain = provided.public_bytes(serialization.Encoding.PEM) + origin.public_bytes(
        serialization.Encoding.PEM
    )
    own = self_signed((private + chain).decode())
    assert certificate(own).public_key() == made.public_key()
    assert len(split(own)) == 1


def test_new_server_uses_and_keeps_its_own_certificate(tmp_path: Path, authority: Authority) -> None:
    service = authority.issue(PRINCIPAL)
    server = keys(tmp_path / "server")
    assert server.offer(service, in_use=False)
    first = server.certificates()
    assert first.used == first.offered
    assert not first.is_replaced
    assert not first.of_authority
    assert server.trust([first.used])
    assert not server.offer(service, in_use=False)
    assert not server.trust([first.used, first.used])
    assert not server.take()
    assert server.certificates().trusted == (first.used,)
    for name in (KEY, TRUSTED):
        assert (tmp_path / "server" / name).stat().st_mode & 0o777 == 0o600


def test_renewed_certificate_is_only_offered_until_taken(tmp_path: Path, authority: Authority) -> None:
    server = keys(tmp_path / "server")
    server.offer(authority.issue(PRINCIPAL), in_use=False)
    before = server.certificates()
    renewed = authority.issue(PRINCIPAL)
    assert server.offer(renewed, in_use=False)
    found = server.certificates()
    assert found.is_replaced
    assert (found.used, found.offered != before.used) == (before.used, True)
    assert not server.offer(renewed, in_use=False), "a run that was cut short goes on with the same"
    assert server.take()
    after = server.certificates()
    assert (after.used, after.is_replaced) == (found.offered, False)
    assert not (tmp_path / "server" / NEXT).exists()


def test_upgraded_server_keeps_authority_certificate_until_replacement(
    tmp_path: Path, authority: Authority
) -> None:
    service = authority.issue(PRINCIPAL)
    server = keys(tmp_path / "server")
    assert server.offer(service, in_use=True)
    found = server.certificates()
    assert found.of_authority
    assert found.used == split(service.read_text())[0]
    assert found.is_replaced
    assert server.take()
    assert not server.certificates().of_authority


def test_symlinks_hard_links_and_pipes_are_refused(tmp_path: Path, authority: Authority) -> None:
    """The service may write into the folder of its key, and this runs as root."""
    service = authority.issue(PRINCIPAL)
    server = keys(tmp_path / "server")
    link = tmp_path / "link.pem"
    link.symlink_to(service)
    with raises(Refused, "quorum-key-unreadable", link):
        server.offer(link, in_use=True)
    twice = tmp_path / "twice.pem"
    twice.hardlink_to(service)
    with raises(Refused, "quorum-key-unsafe", twice):
        server.offer(twice, in_use=True)
    os.mkfifo(tmp_path / "pipe.pem")
    with raises(Refused, "quorum-key-unsafe", tmp_path / "pipe.pem"):
        server.offer(tmp_path / "pipe.pem", in_use=True)
    assert list((tmp_path / "server").iterdir()) == []
    outside = tmp_path / "outside"
    outside.write_text("as it was")
    (tmp_path / "server" / TRUSTED).symlink_to(outside)
    with raises(Refused, "quorum-key-unreadable", tmp_path / "server" / TRUSTED):
        server.trust(["-----BEGIN"])
    assert outside.read_text() == "as it was"
