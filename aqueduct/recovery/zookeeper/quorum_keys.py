"""The keys that the servers of an ensemble use among themselves, and the certificates that they trust.

Each server signs a certificate for its own key. The others trust this certificate, and no authority: another
certificate of an authority gives no access to the ports of the quorum. During the replacement of a key, all
servers trust each other: first all servers trust the new certificate, then the server uses it, and then all
remove the former one. A server reads both files again when they change (`sslQuorumReloadCertFiles`).
"""

import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519
from cryptography.x509.oid import NameOID

from aqueduct.errors import Refused

KEY = "own.pem"  # the server's current key with its certificate
NEXT = "next.pem"  # its next key with its certificate
TRUSTED = "trusted.pem"  # the certificates that it trusts
MOST_BYTES = 1 << 20
WITHOUT_DIGEST = ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
PEM = serialization.Encoding.PEM
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """A server's current certificate, its next one, and its trusted ones, as PEM."""

    used: str  # empty: it has no key for the quorum yet
    offered: str  # as `used`, unless its key is to be replaced
    trusted: tuple[str, ...]
    of_authority: bool  # an authority signed the current one, as in former versions

    @property
    def is_replaced(self) -> bool:
        return self.used != self.offered


class QuorumKeys:
    """A server's files for the quorum, in a folder of root."""

    def __init__(self, folder: Path, user: int, group: int) -> None:
        self._folder, self._user, self._group = folder, user, group

    @property
    def offering(self) -> Path:
        """Return the file with the next key; without one, with the current key."""
        following = self._folder / NEXT
        return following if following.exists() else self._folder / KEY

    def certificates(self) -> Certificates:
        """Read the certificates."""
        used, following = self._first(KEY), self._first(NEXT)
        return Certificates(
            used=used,
            offered=following or used,
            trusted=tuple(split(self._text(TRUSTED))),
            of_authority=bool(used) and not _is_self_issued(used),
        )

    def offer(self, service_key: Path, *, in_use: bool) -> bool:
        """Create the certificate for a service's certificate, unless it exists; return whether it did not.

        `in_use`: the server runs with the service's certificate itself, as in former versions. It continues
        with this until the other servers trust its own certificate.
        """
        service = self._read(service_key)
        if not (self._folder / KEY).exists():
            if not in_use:
                self._write(KEY, self_signed(service))
                return True
            self._write(KEY, service)
        if is_of(self._text(KEY), service):
            (self._folder / NEXT).unlink(missing_ok=True)
            return False
        if is_of(self._text(NEXT), service):
            return False
        self._write(NEXT, self_signed(service))
        return True

    def trust(self, certificates: list[str]) -> bool:
        """Trust only these certificates; return whether this changed the file."""
        content = "".join(f"{certificate.strip()}\n" for certificate in sorted({*certificates}))
        if content == self._text(TRUSTED):
            return False
        self._write(TRUSTED, content)
        return True

    def take(self) -> bool:
        """Use the next key, if there is one; return whether there was one."""
        if not (self._folder / NEXT).exists():
            return False
        (self._folder / NEXT).replace(self._folder / KEY)
        return True

    def _first(self, name: str) -> str:
        return next(iter(split(self._text(name))), "")

    def _text(self, name: str) -> str:
        return self._read(self._folder / name) if (self._folder / name).exists() else ""

    def _read(self, path: Path) -> str:
        """Read a file of the server's user or of root. Refused for a link, which may lead to any file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise Refused(
                "quorum-key-unreadable", f"Cannot read {path}: {error.strerror}. Run playbooks/hosts.yml."
            ) from error
        with os.fdopen(descriptor) as file:
            status = os.fstat(descriptor)
            is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= MOST_BYTES
            if not is_plain or status.st_uid not in (0, self._user):
                raise Refused(
                    "quorum-key-unsafe",
                    f"{path} is not a regular file that belongs to the service. Find out who created it. "
                    "Remove it, and run playbooks/hosts.yml, which installs the service's key again.",
                )
            return file.read()

    def _write(self, name: str, content: str) -> None:
        """Write a file atomically. Only the server's user can read it."""
        descriptor, scratch = tempfile.mkstemp(dir=self._folder, prefix=f".{name}.")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(content)
                os.fchown(file.fileno(), self._user, self._group)
                os.fchmod(file.fileno(), 0o600)
            Path(scratch).replace(self._folder / name)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise


def split(pem: str) -> list[str]:
    """Return the certificates in a text, each as PEM."""
    return [f"{match[0]}\n" for match in CERTIFICATE.finditer(pem)]


def self_signed(service: str) -> str:
    """Return a new key with a self-signed certificate, with the names and times of the service's certificate.

    The subject is unique: ZooKeeper 3.8 trusts one certificate of each subject in a file, and Java presents a
    certificate only to a peer that trusts its issuer.
    """
    key = serialization.load_pem_private_key(service.encode(), password=None)
    [certificate, *_] = x509.load_pem_x509_certificates(service.encode())
    name, digest = _origin(certificate)
    # Several servers may have the same service key, if the operator provides the keys.
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{digest}-{secrets.token_hex(8)}"),
        ]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(certificate.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(certificate.not_valid_before_utc)
        .not_valid_after(certificate.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        pass
    else:
        builder = builder.add_extension(names.value, critical=False)
    digest_algorithm = None if isinstance(key, WITHOUT_DIGEST) else hashes.SHA256()
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed = builder.sign(key, digest_algorithm)  # type: ignore[arg-type]
    return (private + signed.public_bytes(PEM)).decode()


def is_of(own: str, service: str) -> bool:
    """Return whether a certificate for the quorum was made for the service's certificate."""
    if not own:
        return False
    [quorum_cert, *_] = x509.load_pem_x509_certificates(own.encode())
    [certificate, *_] = x509.load_pem_x509_certificates(service.encode())
    name, digest = _origin(certificate)
    serials = [
        str(attribute.value)
        for attribute in quorum_cert.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
    ]
    return _common_name(quorum_cert) == name and any(serial.startswith(f"{digest}-") for serial in serials)


def _origin(certificate: x509.Certificate) -> tuple[str, str]:
    """Return the parts of the service's certificate that the subject of the quorum's certificate has."""
    return _common_name(certificate), certificate.fingerprint(hashes.SHA256()).hex()[:40]


def _common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _is_self_issued(pem: str) -> bool:
    certificate = x509.load_pem_x509_certificate(pem.encode())
    return certificate.subject == certificate.issuer
