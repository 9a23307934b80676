"""Makes the certificates that site west is provided with, as another company's authority would.

Nothing is Aqueduct's: RSA keys, a root and an issuing authority, subjects with more than a CN. Key
identifiers and usages are those that RFC 5280 demands, as Python 3.13 does.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.x509.oid import NameOID

SERVICES = {  # file: principal and host
    "west-controller-1/kafka-west.pem": ("kafka-west", "west-controller-1"),
    "west-broker-1/kafka-west.pem": ("kafka-west", "west-broker-1"),
    "west-controller-1/monitoring-west.pem": ("monitoring-west", "west-controller-1"),
    "west-broker-1/monitoring-west.pem": ("monitoring-west", "west-broker-1"),
    "admin.pem": ("admin", "people"),
}
AUTHORITY_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
NOW = datetime.now(UTC)


def subject(name: str) -> x509.Name:
    company = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Somebody")
    return x509.Name([company, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def signed(name: str, key: RSAPrivateKey, issuer: str, by: RSAPrivateKey, host: str = "") -> bytes:
    """Return a certificate as PEM: a host's, or without one an authority's."""
    builder = (
        x509.CertificateBuilder(subject(issuer), subject(name), key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(days=100))
        .add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if host:
        names = x509.SubjectAlternativeName([x509.DNSName(host), x509.DNSName("localhost")])
        builder = builder.add_extension(names, critical=False)
    else:
        builder = builder.add_extension(AUTHORITY_USAGE, critical=True)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def main(folder: Path) -> None:
    """Write `ca.pem`, and each service's key and chain in one file."""
    root, issuing = generate_private_key(65537, 2048), generate_private_key(65537, 2048)
    chain = signed("issuing", issuing, "root", root)
    files = {"ca.pem": signed("root", root, "root", root)}
    for file, (principal, host) in SERVICES.items():
        key = generate_private_key(65537, 2048)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files[file] = private + signed(principal, key, "issuing", issuing, host) + chain
    for name, content in files.items():
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
