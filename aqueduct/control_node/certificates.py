"""The estate's own authority: it makes certificates from the inventory and a public key.

A host sends its public key and nothing else. Subject, names, usages and validity are the inventory's, so a
host can't ask for more than it is.
"""

import os
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aqueduct.errors import Refused

AUTHORITY = "Aqueduct CA"
AUTHORITY_DAYS = 3650
CLIENT = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH})
SERVICE = CLIENT | {ExtendedKeyUsageOID.SERVER_AUTH}  # of a service that others connect to
CLOCKS_DIFFER = timedelta(minutes=5)
PEM = serialization.Encoding.PEM


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A certificate as the inventory has it."""

    principal: str
    names: tuple[str, ...]  # of hosts, or their addresses
    usages: frozenset[x509.ObjectIdentifier]
    validity_days: int
    renewal_days: int  # one with fewer days left is due


@dataclass(frozen=True)
class Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    trusted: str  # the certificates that hosts trust, as PEM: two, while it is replaced


def have_authority(folder: Path, now: datetime) -> tuple[Authority, bool]:
    """Load the authority of a folder, or make one; and whether it was made."""
    key, key_made = have_key(folder / "ca.key")
    if authority := _authority(folder, key):
        return authority, key_made
    certificate = self_signed(key, AUTHORITY, now)
    trusted = certificate.public_bytes(PEM)
    write(folder / "ca.pem", trusted, 0o644)
    return Authority(key, certificate, trusted.decode()), True


def load_authority(folder: Path) -> Authority:
    """Load the authority; Refused where there is none."""
    key_file = folder / "ca.key"
    authority = _authority(folder, _load_key(key_file)) if key_file.exists() else None
    if authority is None:
        raise Refused(
            "authority-missing",
            f"{folder} has no certificate authority. Run playbooks/hosts.yml without --tags, which creates "
            "it.",
        )
    return authority


def _authority(folder: Path, key: ec.EllipticCurvePrivateKey) -> Authority | None:
    if not (folder / "ca.pem").exists():
        return None
    trusted = (folder / "ca.pem").read_bytes()
    for certificate in x509.load_pem_x509_certificates(trusted):
        if certificate.public_key() == key.public_key():
            return Authority(key, certificate, trusted.decode())
    return None


def self_signed(key: ec.EllipticCurvePrivateKey, called: str, now: datetime) -> x509.Certificate:
    """Make an authority's own certificate."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
    return (
        _builder(key.public_key(), name, name, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def fault(pem: str, public_key: str, request: Wanted, authority: Authority, now: datetime) -> str:
    """Return why a certificate must be replaced; empty if it is valid."""
    if not pem:
        return "it does not exist"
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return "it cannot be read"
    if certificate.public_key() != _public(public_key):
        return "it belongs to another key"
    if not _signed(certificate, authority.certificate):
        return "another CA signed it"
    if certificate.subject != _subject(request.principal):
        return f"its subject is not {request.principal}"
    if _names(certificate) != set(map(_name, request.names)) or _usages(certificate) != request.usages:
        return "it has other names or usages"
    if certificate.not_valid_after_utc < now + timedelta(days=request.renewal_days):
        return "it expires soon"
    return ""


def needs_new_key(pem: str, request: Wanted, authority: Authority) -> bool:
    """Tell if a certificate's key must not be signed again.

    Another authority's key may be known. With a certificate of more usages than the request has, such as a
    server's, the key would stay usable for these until that certificate ends.
    """
    try:
        certificate, *_ = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return False
    return not _signed(certificate, authority.certificate) or not _usages(certificate) <= request.usages


def of_another_authority(pem: str, authority: Authority) -> bool:
    """Tell if a certificate is another authority's. Its key is not signed again: it may be known."""
    try:
        certificate, *_ = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return False
    return not _signed(certificate, authority.certificate)


def provided_fault(file: Path, authorities: Path, principal: str, now: datetime) -> str:
    """Return why a provided file (private key and certificate chain) cannot be used; empty if it can.

    `authorities` is the site's `ca.pem`; `principal` is the CN that brokers read from the subject.
    """
    texts = {}
    for path, name in ((file, "it"), (authorities, authorities.name)):
        try:
            texts[path] = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return _chain_fault(texts[file], texts[authorities], principal, now)


def _chain_fault(pem: str, authorities: str, principal: str, now: datetime) -> str:
    try:
        trusted = x509.load_pem_x509_certificates(authorities.encode())
    except ValueError:
        return "ca.pem has no readable certificate"
    try:
        certificate, *intermediates = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return "it has no readable certificate"
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
        public = certificate.public_key()
    except (TypeError, ValueError):
        return "it has no private key that is readable without a password"
    except UnsupportedAlgorithm as error:
        return f"its key cannot be used: {error}"
    if "BEGIN PRIVATE KEY" not in pem:
        return "its private key is not in the format PKCS #8, which Kafka needs (openssl pkcs8 -topk8 -nodes)"
    if key.public_key() != public:
        return "its private key does not match its first certificate"
    subject = certificate.subject.rfc4514_string()
    if not re.match(f"CN={re.escape(principal)}(,|$)", subject):
        return f"its subject is {subject}, not CN={principal}"
    # As clients do: certificates beyond the one that a trusted authority signed are of no interest.
    for below, above in zip((certificate, *intermediates), (*intermediates, None), strict=True):
        if reason := _out_of_date(below, "its certificate", now):
            return reason
        signers = [issuer for issuer in trusted if _signed(below, issuer)]
        faults = [_out_of_date(signer, "the certificate in ca.pem", now) for signer in signers]
        if faults:
            return min(faults)  # nothing, where one of them is in date
        if above is None or not _signed(below, above):
            break
    return "no certificate in ca.pem has signed its chain"


def _out_of_date(certificate: x509.Certificate, role: str, now: datetime) -> str:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if begin <= now <= end:
        return ""
    which = f"{role} of {certificate.subject.rfc4514_string()}"
    return (
        f"{which} expired at {_minute(end)}" if end < now else f"{which} is not valid before {_minute(begin)}"
    )


def issue(public_key: str, request: Wanted, authority: Authority, now: datetime) -> str:
    """Sign a certificate, as PEM."""
    days = request.validity_days
    subject = _subject(request.principal)
    builder = (
        _builder(_public(public_key), subject, authority.certificate.subject, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(sorted(request.usages, key=str)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
    )
    if request.names:
        names = x509.SubjectAlternativeName(map(_name, dict.fromkeys(request.names)))
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(PEM).decode()


def have_client(folder: Path, request: Wanted, authority: Authority, ca: Path, now: datetime) -> bool:
    """Make what is missing of a person's key, certificate and client properties; return whether any was."""
    pem, key_file = folder / f"{request.principal}.pem", folder / f"{request.principal}.key"
    if pem.exists() and of_another_authority(pem.read_text(), authority):
        key_file.unlink(missing_ok=True)
    key, _ = have_key(key_file)
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    _, _, body = (pem.read_text() if pem.exists() else "").partition("-----BEGIN CERTIFICATE")
    certificate = f"-----BEGIN CERTIFICATE{body}" if body else ""
    if fault(certificate, public, request, authority, now):
        certificate = issue(public, request, authority, now)
    properties = client_properties(str(pem), str(ca))
    return any(
        [
            _keep(pem, f"{private}{certificate}".encode()),
            _keep(folder / f"{request.principal}.properties", properties.encode()),
        ]
    )


def client_properties(pem: str, ca: str) -> str:
    """Write Kafka client properties that name a key with its certificate, and the authority's certificate."""
    return (
        "security.protocol=SSL\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={pem}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={ca}\n"
    )


def java_truststore(ca: str, password: str) -> bytes:
    """Make a PKCS12 file of the certificates in `ca`, which Java trusts."""
    authorities = x509.load_pem_x509_certificates(ca.encode())
    return pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(authority, b"authority%d" % n) for n, authority in enumerate(authorities)],
        serialization.BestAvailableEncryption(password.encode()),
    )


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file that is there whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    Path(file.name).replace(path)


def _keep(path: Path, content: bytes) -> bool:
    if path.exists() and path.read_bytes() == content:
        return False
    write(path, content)
    return True


def have_key(path: Path) -> tuple[ec.EllipticCurvePrivateKey, bool]:
    """Load a key, or make one; and whether it was made."""
    if path.exists():
        return _load_key(path), False
    key = ec.generate_private_key(ec.SECP256R1())
    write(path, key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return key, True


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Refused(
            "private-key-unsupported",
            f"{path} is not a key of an elliptic curve. Move it away; the next run creates a new one.",
        )
    return key


def _public(pem: str) -> ec.EllipticCurvePublicKey:
    """Load a public key. Refused at anything else, a request for a certificate too: a host can't ask."""
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Refused(
            "public-key-invalid",
            "A host did not send a public key on the curve P-256. Nothing was signed. Check the host.",
        )
    return key


def _builder(
    key: ec.EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(**used: bool) -> x509.KeyUsage:
    unused = dict.fromkeys(
        (
            *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
            *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
        ),
        False,
    )
    return x509.KeyUsage(**{**unused, **used})


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # of several kinds; each means no
        return False
    return True


def _subject(principal: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, principal)])


def _name(name: str) -> x509.GeneralName:
    """Return a certificate's name: an address if the inventory names the host by one, else a DNS name."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _usages(certificate: x509.Certificate) -> frozenset[x509.ObjectIdentifier]:
    try:
        return frozenset(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return frozenset()


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def utc_now() -> datetime:
    return datetime.now(UTC)
