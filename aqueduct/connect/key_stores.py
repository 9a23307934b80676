"""The contents of key stores and trust stores, as far as they tell whether a client can use one."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import PublicFormat

_SPKI = serialization.Encoding.DER, PublicFormat.SubjectPublicKeyInfo
_BEGIN, _END = b"-----BEGIN ", b"PRIVATE KEY-----"
_PLAIN, _ENCRYPTED = _BEGIN + _END, _BEGIN + b"ENCRYPTED " + _END  # both PKCS#8


@dataclass(frozen=True)
class Certificate:
    subject: str
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True)
class Contents:
    """The certificates; of a key store the first is the client's own."""

    certificates: tuple[Certificate, ...]
    private_key: bool


class Unusable(Exception):
    """The reason why Java can't use a store, to follow its name: "has no certificate"."""


def certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Read the certificates of PEM text, in their order; Unusable if one is damaged."""
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        return ()
    try:
        loaded = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise Unusable(f"contains a damaged certificate ({error})") from None
    return tuple(
        Certificate(
            certificate.subject.rfc4514_string(),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )
        for certificate in loaded
    )


def pem_contents(pem: bytes, role: str, password: str | None) -> Contents:
    """Parse a PEM store (KIP-651); raise Unusable with the reason."""
    stored_certificates = certificates(pem)
    if not stored_certificates:
        raise Unusable("contains no PEM certificate")
    if role == "key":
        _check_key(pem, password)
    return Contents(stored_certificates, role == "key")


def _check_key(pem: bytes, password: str | None) -> None:
    encrypted = _ENCRYPTED in pem
    if not encrypted and _PLAIN not in pem:
        if _END in pem:
            raise Unusable(
                "contains a key that is not in the PKCS#8 format; Kafka accepts only PKCS#8 (openssl pkcs8 "
                "-topk8 converts the key)"
            )
        raise Unusable("contains no private key")
    if encrypted and password is None:
        raise Unusable("contains an encrypted key, but ssl.key.password is not set")
    own_key = pem[pem.index(_ENCRYPTED if encrypted else _PLAIN) :]
    try:
        key = serialization.load_pem_private_key(own_key, (password or "").encode() if encrypted else None)
    except (ValueError, TypeError):
        hint = "ssl.key.password does not decrypt the key" if encrypted else "the key is damaged"
        raise Unusable(f"contains a key that cannot be read: {hint}") from None
    own = x509.load_pem_x509_certificates(pem)[0]
    if key.public_key().public_bytes(*_SPKI) != own.public_key().public_bytes(*_SPKI):
        raise Unusable("contains a key that does not match its first certificate")
