"""Certificates for servers and their clients."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority in a directory; PEM files as Kafka and librdkafka take them."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.certificate = self._write("authority.pem", self._sign(self._name, self._key, authority=True))

    def issue(
        self,
        name: str,
        days: int = 1,
        names: Sequence[str] = (),
        usages: Collection[x509.ObjectIdentifier] = (),
    ) -> Path:
        """Return a file with a new key and its certificate, valid until so many days from now.

        It is valid for 127.0.0.1 and `names`, and for all usages, or those given.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._write(f"{name}.pem", private + self._sign(subject, key, days, names, usages))

    def client_config(self, name: str, trust: "Authority | None" = None) -> Path:
        """Write Kafka client properties for a new principal, that trust this authority or another one."""
        return self._write(
            f"{name}.properties",
            "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
            f"ssl.keystore.location={self.issue(name)}\n"
            f"ssl.truststore.location={(trust or self).certificate}\n".encode(),
        )

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        days: int = 1,
        names: Sequence[str] = (),
        usages: Collection[x509.ObjectIdentifier] = (),
        *,
        authority: bool = False,
    ) -> bytes:
        now = datetime.now(UTC)
        localhost = x509.IPAddress(ip_address("127.0.0.1"))
        alternative_names = x509.SubjectAlternativeName([localhost, *map(x509.DNSName, names)])
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now + timedelta(days=min(days, 0)) - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(alternative_names, critical=False)
        )
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(content)
        return path
