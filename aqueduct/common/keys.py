"""Keys of the ends of links and of the recipients of backups, one line each in NAME.key and NAME.pub.

    aqueduct-receiver-public-key mlkem768-x25519 <base64>
    aqueduct-receiver-private-key x25519 <base64>
    aqueduct-sender-public-key ed25519 <base64>

Data are encrypted for a receiver's public key (HPKE, RFC 9180) and decrypted with its private key. A sender's
private key signs (Ed25519). A hybrid key is an ML-KEM-768 key (public: 1,184 bytes; private: its seed, 64
bytes) followed by an X25519 key (32 bytes). A fingerprint is the first half of the SHA-256 of the bytes of a
public key.
"""

import base64
import binascii
import hashlib
import stat
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from aqueduct.common import job_files
from aqueduct.common.key_files import is_exposed
from aqueduct.errors import Refused

FINGERPRINT = 16  # bytes

_SEED = 64
_MLKEM_PUBLIC = 1184


class Algorithm(StrEnum):
    HYBRID = "mlkem768-x25519"  # secure even if one of both is broken; ciphertexts have 1,088 bytes more
    X25519 = "x25519"
    ED25519 = "ed25519"


SUITES = {
    Algorithm.HYBRID: hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM),
    Algorithm.X25519: hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM),
}


@dataclass(frozen=True)
class _Key:
    """A key. `data`: its bytes, which the file contains in Base64."""

    algorithm: Algorithm
    data: bytes = field(repr=False)

    TAG: ClassVar[str]
    WHAT: ClassVar[str]
    LENGTHS: ClassVar[dict[Algorithm, int]]

    def text(self) -> str:
        return f"{self.TAG} {self.algorithm} {base64.b64encode(self.data).decode()}\n"

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """Parse the text of the key file `name`; Refused if it is not valid. Errors do not show the text."""
        tag, _, rest = text.strip().partition(" ")
        kind = next((candidate for candidate in KINDS if tag == candidate.TAG), None)
        if kind is None:
            raise Refused(
                "key-file-invalid",
                f"{name} is not a key file. Pass {cls.WHAT} that `aqueduct diode keygen` created.",
            )
        if kind is not cls:
            raise Refused("key-file-invalid", f"{name} is {kind.WHAT}. Pass {cls.WHAT}.")
        algorithm, _, encoded = rest.partition(" ")
        try:
            decoded = base64.b64decode(encoded, validate=True)
            if len(decoded) != cls.LENGTHS[Algorithm(algorithm)]:
                raise ValueError
            key = cls(Algorithm(algorithm), decoded)
            key.check()
        except (binascii.Error, ValueError, KeyError):
            raise Refused(
                "key-file-invalid",
                f"{name} is damaged: it begins as {cls.WHAT}, but the rest is not valid. Copy the file "
                "again, or create a new key pair.",
            ) from None
        except UnsupportedAlgorithm:
            raise Refused(
                "key-file-invalid",
                f"{name} contains a key of the algorithm {algorithm}, which OpenSSL on this host does not "
                f"support. Create an {Algorithm.X25519} key with `aqueduct diode keygen --x25519`.",
            ) from None
        return key

    def check(self) -> None:
        """Raise ValueError if the bytes are not a valid key."""
        raise NotImplementedError


class _Public(_Key):
    @property
    def fingerprint(self) -> bytes:
        return hashlib.sha256(self.data).digest()[:FINGERPRINT]


class ReceiverPublicKey(_Public):
    TAG = "aqueduct-receiver-public-key"
    WHAT = "a receiver's public key"
    LENGTHS: ClassVar = {Algorithm.HYBRID: _MLKEM_PUBLIC + 32, Algorithm.X25519: 32}

    def check(self) -> None:
        self.seal(b"", b"")

    def seal(self, secret: bytes, info: bytes) -> bytes:
        """Encrypt a secret: return HPKE's encapsulated key and ciphertext. `open` needs the same `info`."""
        public: X25519PublicKey | hpke.MLKEM768X25519PublicKey
        x25519 = X25519PublicKey.from_public_bytes(self.data[-32:])
        public = x25519
        if self.algorithm is Algorithm.HYBRID:
            mlkem = MLKEM768PublicKey.from_public_bytes(self.data[:_MLKEM_PUBLIC])
            public = hpke.MLKEM768X25519PublicKey(mlkem, x25519)
        return SUITES[self.algorithm].encrypt(secret, public, info)


class ReceiverKey(_Key):
    TAG = "aqueduct-receiver-private-key"
    WHAT = "a receiver's private key"
    LENGTHS: ClassVar = {Algorithm.HYBRID: _SEED + 32, Algorithm.X25519: 32}

    @classmethod
    def generate(cls, algorithm: Algorithm = Algorithm.HYBRID) -> Self:
        x25519 = X25519PrivateKey.generate().private_bytes_raw()
        seed = MLKEM768PrivateKey.generate().private_bytes_raw() if algorithm is Algorithm.HYBRID else b""
        return cls(algorithm, seed + x25519)

    def check(self) -> None:
        self._parts()

    @property
    def public(self) -> ReceiverPublicKey:
        mlkem, x25519 = self._parts()
        first = mlkem.public_key().public_bytes_raw() if mlkem else b""
        return ReceiverPublicKey(self.algorithm, first + x25519.public_key().public_bytes_raw())

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """Decrypt the result of `seal`; cryptography's InvalidTag for another key or `info`, or damage."""
        mlkem, x25519 = self._parts()
        private = hpke.MLKEM768X25519PrivateKey(mlkem, x25519) if mlkem else x25519
        return SUITES[self.algorithm].decrypt(sealed, private, info)

    def _parts(self) -> tuple[MLKEM768PrivateKey | None, X25519PrivateKey]:
        x25519 = X25519PrivateKey.from_private_bytes(self.data[-32:])
        if self.algorithm is Algorithm.HYBRID:
            return MLKEM768PrivateKey.from_seed_bytes(self.data[:_SEED]), x25519
        return None, x25519


class SenderPublicKey(_Public):
    TAG = "aqueduct-sender-public-key"
    WHAT = "a sender's public key"
    LENGTHS: ClassVar = {Algorithm.ED25519: 32}

    def check(self) -> None:
        Ed25519PublicKey.from_public_bytes(self.data)

    def verify(self, signature: bytes, message: bytes) -> None:
        """Verify a signature; cryptography's InvalidSignature for another key or other data."""
        Ed25519PublicKey.from_public_bytes(self.data).verify(signature, message)


class SenderKey(_Key):
    TAG = "aqueduct-sender-private-key"
    WHAT = "a sender's private key"
    LENGTHS: ClassVar = {Algorithm.ED25519: 32}

    @classmethod
    def generate(cls) -> Self:
        return cls(Algorithm.ED25519, Ed25519PrivateKey.generate().private_bytes_raw())

    def check(self) -> None:
        self._private()

    @property
    def public(self) -> SenderPublicKey:
        return SenderPublicKey(self.algorithm, self._private().public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._private().sign(message)

    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.data)


KINDS: tuple[type[_Key], ...] = (ReceiverPublicKey, ReceiverKey, SenderPublicKey, SenderKey)
AnyKey = TypeVar("AnyKey", ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey)


def load_public(path: Path) -> list[ReceiverPublicKey]:
    """Load the public keys of receivers, one a line; Refused for an invalid line or a file without keys."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        raise _unreadable(path, error) from None
    return [ReceiverPublicKey.parse(line, str(path)) for line in lines if line.strip()] or [
        ReceiverPublicKey.parse("", str(path))
    ]


def load(kind: type[AnyKey], path: Path) -> AnyKey:
    """Load a key; Refused for a key of another kind, or a private key that other users can access."""
    try:
        text, mode = path.read_text(errors="replace"), stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise _unreadable(path, error) from None
    key = kind.parse(text, str(path))
    if kind in (ReceiverKey, SenderKey) and is_exposed(path, mode):
        raise Refused(
            "key-file-permissions",
            f"{path} is accessible to other users than its owner. Run `chmod 0600 {path}`.",
        )
    if kind in (ReceiverKey, SenderKey):
        job_files.keep(path)
    return key


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(
        "key-file-unreadable",
        f"Cannot read the key file {path}: {error.strerror}. Check the path, and the owner and mode of the "
        "file.",
    )
