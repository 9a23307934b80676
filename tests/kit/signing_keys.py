"""Keys of OpenSSL for signed snapshots."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from aqueduct.store import signing

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


class Key:
    """A key pair in files that openssl created."""

    def __init__(self, folder: Path, name: str) -> None:
        key = ed25519.Ed25519PrivateKey.generate()
        self.private, self.public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
        self.private.write_bytes(key.private_bytes(PEM, PKCS8, serialization.NoEncryption()))
        self.private.chmod(0o600)
        public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.public.write_bytes(public)
        self.trusted = ["--trusted-key", str(self.public)]
        self.signing = signing.signing_key(self.private)
