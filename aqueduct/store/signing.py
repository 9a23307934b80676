"""Signatures of manifests (Ed25519), which prove who wrote a snapshot.

    zstd frame       the manifest
    skippable frame  "AQS1", the public key (32 bytes), the signature (64): of the bytes before, after CONTEXT

Both are one object, so that its creation is still the commit. The next manifest names the digest of all of
it: a signature vouches for what came before, too. Decoders of Zstandard pass over the second frame.
"""

import hashlib
import os
import re
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aqueduct.common import job_files
from aqueduct.common.key_files import is_exposed
from aqueduct.errors import Refused

# What needs it imports cryptography: a store without signatures need not wait for it.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CONTEXT = b"aqueduct manifest\0"  # so that nothing else that the key signs is taken for one
MARK = b"AQS1"
_FRAME = struct.Struct("<II4s32s64s")
_SKIPPABLE = 0x184D2A5A  # RFC 8878, 3.1.2
_CONTENT = _FRAME.size - 8
KEY_BYTES = 1 << 16  # of a file
_PUBLIC = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----\s*", re.DOTALL)


class Signature(NamedTuple):
    key: bytes  # public
    value: bytes


class Split(NamedTuple):
    """A manifest's object in its parts."""

    manifest: bytes | memoryview
    signature: Signature | None


def split(content: bytes | memoryview) -> Split:
    """Separate a manifest from its signature, without verification."""
    if len(content) > _FRAME.size:
        magic, size, mark, key, value = _FRAME.unpack(content[-_FRAME.size :])
        if (magic, size, mark) == (_SKIPPABLE, _CONTENT, MARK):
            return Split(content[: -_FRAME.size], Signature(key, value))
    return Split(content, None)


def name(key: bytes) -> str:
    """Return the name of a public key for sentences: the first 16 digits of its SHA-256."""
    return hashlib.sha256(key).hexdigest()[:16]


@dataclass(frozen=True)
class SigningKey:
    """A private key."""

    private: "Ed25519PrivateKey"

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    def signed(self, manifest: bytes, context: bytes = CONTEXT) -> bytes:
        """Return an object with its signature. `context` separates kinds of objects."""
        value = self.private.sign(context + manifest)
        return manifest + _FRAME.pack(_SKIPPABLE, _CONTENT, MARK, self.public, value)


@dataclass(frozen=True)
class Trust:
    """The public keys of accepted snapshots. Without keys, all snapshots are accepted."""

    keys: frozenset[bytes] = frozenset()
    unsigned_before: int = 1  # snapshots before this one may lack a signature

    def also(self, key: SigningKey | None) -> "Trust":
        """Return the trust with the public key of a signing key added."""
        return Trust(self.keys | {key.public}, self.unsigned_before) if key else self

    def fault(self, number: int, content: bytes | memoryview, context: bytes = CONTEXT) -> str:
        """Return why the object of a snapshot is not trusted; empty if it is trusted."""
        if not self.keys:
            return ""
        manifest, signature = split(content)
        if signature is None:
            if number < self.unsigned_before:
                return ""
            return "is not signed; if it is older than your first signed snapshot, pass --unsigned-before"
        if signature.key not in self.keys:
            return f"is signed by the key {name(signature.key)}, which is not a trusted key"
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            public = Ed25519PublicKey.from_public_bytes(signature.key)
            public.verify(signature.value, context + bytes(manifest))
        except InvalidSignature:
            return f"has an invalid signature of the key {name(signature.key)}"
        return ""


EVERYBODY = Trust()


def signing_key(path: Path) -> SigningKey:
    """Load a private key. Refused if other users can read the file, or it has another kind of key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _loaded(path, lambda pem: load_pem_private_key(pem, None), private=True)
    if not isinstance(key, Ed25519PrivateKey):
        raise Refused(
            "key-file-invalid",
            f"{path} has no Ed25519 key. Create one with openssl genpkey -algorithm ed25519.",
        )
    job_files.keep(path)
    return SigningKey(key)


def public_pem(private: str) -> str:
    """Return the public key of a private key, both as PEM. Refused for another kind of key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        key = load_pem_private_key(private.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise Refused(
            "key-file-invalid",
            "The signing key is not a private key (Ed25519, PKCS #8) in PEM without a password. Create one "
            "with openssl genpkey -algorithm ed25519.",
        )
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def trust(paths: Iterable[Path], unsigned_before: int = 1) -> Trust:
    """Load public keys. Refused if a file has other content."""
    return Trust(frozenset(key for path in paths for key in _public(path)), unsigned_before)


def _public(path: Path) -> Iterator[bytes]:
    """Yield a file's keys: several, while one follows another."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    def load(pem: bytes) -> list[Any]:
        blocks = _PUBLIC.findall(pem) or [pem]
        return [load_pem_public_key(block) for block in blocks]

    for key in _loaded(path, load, private=False):
        if not isinstance(key, Ed25519PublicKey):
            raise Refused(
                "key-file-invalid", f"{path} has a key that is not Ed25519. Pass Ed25519 keys only."
            )
        yield key.public_bytes_raw()


def _loaded(path: Path, load: Callable[[bytes], Any], *, private: bool) -> Any:
    try:
        with path.open("rb") as file:
            pem, mode = file.read(KEY_BYTES), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise Refused(
            "key-file-unreadable",
            f"Cannot read the key {path}: {error.strerror}. Check the path and its permissions.",
        ) from None
    if private and is_exposed(path, mode):
        raise Refused(
            "key-file-permissions",
            f"Other users than the owner can read the key {path}. Run chmod 0600 {path}",
        )
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        expected = "a private key (PKCS #8) without a password" if private else "a public key"
        remedy = (
            "Create one with openssl genpkey -algorithm ed25519."
            if private
            else "Create it from the private key with openssl pkey -pubout."
        )
        raise Refused("key-file-invalid", f"{path} is not {expected} in PEM. {remedy}") from None
