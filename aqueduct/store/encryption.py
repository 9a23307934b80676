"""Encrypted objects: AES-256-GCM in frames, so that none can be changed, cut, reordered or exchanged.

    "AQE1", the id of the key (16 bytes), a salt (16), the frames: FRAME_BYTES each, the last has the rest

A frame is followed by its tag (16 bytes). Each object has a key of its own (HKDF-SHA256 of the data key, the
header and the object's path), so a frame's number and whether it is the last are enough of a nonce: with one
key no nonce is there twice, also where a task runs twice.
"""

import hashlib
import os
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from aqueduct.errors import Failed
from aqueduct.store.objects import Data, Exists, Objects

# What needs it imports cryptography: a store without encryption need not wait for it.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK = b"AQE1"
FRAME_BYTES = 1 << 20
TAG_BYTES = 16
ID_BYTES = SALT_BYTES = 16
KEY_BYTES = 32
HEADER_BYTES = len(MARK) + ID_BYTES + SALT_BYTES
_CONTEXT = b"aqueduct store\0"


class DataKind(StrEnum):
    """The objects that a data key is for."""

    RECORDS = "records"  # segments and their indexes
    MANIFEST = "manifest"


@dataclass(frozen=True)
class DataKey:
    """The key of one run's objects of a kind. Its id is a digest of the key, so it is unique."""

    kind: DataKind
    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls, kind: DataKind) -> "DataKey":
        return cls(kind, os.urandom(KEY_BYTES))

    @cached_property
    def id(self) -> str:
        message = _CONTEXT + self.kind.encode() + b"\0" + self.secret
        return hashlib.sha256(message).hexdigest()[: 2 * ID_BYTES]


def key_id(content: Data) -> str | None:
    """Return the id of an object's key; None if the object is not encrypted."""
    if content[: len(MARK)] != MARK or len(content) < HEADER_BYTES:
        return None
    return bytes(content[len(MARK) : len(MARK) + ID_BYTES]).hex()


def encrypt(key: DataKey, path: str, content: Data) -> bytearray:
    """Encrypt the content of an object at a path."""
    header = MARK + bytes.fromhex(key.id) + os.urandom(SALT_BYTES)
    cipher = _cipher(key, path, header)
    frames = max(1, -(-len(content) // FRAME_BYTES))
    stored = bytearray(HEADER_BYTES + len(content) + frames * TAG_BYTES)
    stored[:HEADER_BYTES] = header
    offset = HEADER_BYTES
    with memoryview(content) as plain, memoryview(stored) as whole:
        for number in range(frames):
            piece = plain[number * FRAME_BYTES : (number + 1) * FRAME_BYTES]
            size = len(piece) + TAG_BYTES
            cipher.encrypt_into(
                nonce(number, last=number == frames - 1), piece, None, whole[offset : offset + size]
            )
            offset += size
    return stored


def decrypt(key: DataKey, path: str, content: Data, where: str) -> memoryview:
    """Decrypt the content of an object at a path. Failed if it is damaged or of another path."""
    from cryptography.exceptions import InvalidTag

    stored = memoryview(content)
    body = len(stored) - HEADER_BYTES
    frames = max(1, -(-body // (FRAME_BYTES + TAG_BYTES)))
    size = body - frames * TAG_BYTES
    if size < 0 or frames != max(1, -(-size // FRAME_BYTES)):
        raise Failed(
            "object-damaged", f"{where}/{path} is damaged: it ends in the middle of an encrypted frame."
        )
    cipher = _cipher(key, path, bytes(stored[:HEADER_BYTES]))
    plain = bytearray(size)
    with memoryview(plain) as whole:
        for number in range(frames):
            offset = HEADER_BYTES + number * (FRAME_BYTES + TAG_BYTES)
            piece = stored[offset : offset + FRAME_BYTES + TAG_BYTES]
            into = whole[number * FRAME_BYTES : number * FRAME_BYTES + len(piece) - TAG_BYTES]
            try:
                cipher.decrypt_into(nonce(number, last=number == frames - 1), piece, None, into)
            except InvalidTag:
                reason = f"frame {number + 1} of {frames} was changed"
                raise Failed("object-damaged", f"{where}/{path} is damaged: {reason}.") from None
    return memoryview(plain)


def create(objects: Objects, key: DataKey, path: str, content: Data) -> Data:
    """Create an encrypted object; return the stored bytes.

    They may come from an earlier attempt of the same task, with another salt, but the same content.
    """
    stored = encrypt(key, path, content)
    try:
        objects.create(path, stored)
    except Exists:
        earlier = objects.read(path, at_most=len(stored))
        if key_id(earlier) != key.id or decrypt(key, path, earlier, objects.url) != content:
            raise
        return earlier
    return stored


def nonce(number: int, *, last: bool) -> bytes:
    """Return the nonce of a frame."""
    return number.to_bytes(11, "big") + bytes([last])


def _cipher(key: DataKey, path: str, header: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(SHA256(), KEY_BYTES, salt=header, info=_CONTEXT + path.encode()).derive(key.secret)
    return AESGCM(derived)
