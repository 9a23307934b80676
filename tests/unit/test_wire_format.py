"""docs/link-format.md is complete and true: what is written here from that page alone makes its example.

And the product reads it.
"""

import hashlib
import hmac
import re
import struct
from base64 import b64decode
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aqueduct.common.keys import Algorithm, ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey
from aqueduct.link.wire.receiver import Receiver

PAGE = Path(__file__).resolve().parents[2] / "docs" / "link-format.md"
(BLOCK,) = re.findall(r"^```text\n(\S.*?:?\n    .*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
PARTS = re.findall(r"^(\S.*)\n((?:    .*\n)+)", BLOCK, flags=re.MULTILINE)
EXAMPLE = {name: re.sub(r"\n? {4}|\n$", "", text) for name, text in PARTS}
K, M, LENGTH = 3, 1, 32


def bytes_of(name: str) -> bytes:
    return bytes.fromhex(EXAMPLE[name])


def number_of(name: str) -> int:
    return int(EXAMPLE[name])


def key_of(name: str) -> bytes:
    return b64decode(EXAMPLE[name].split(" ")[2])


def fingerprint(public: bytes) -> bytes:
    return hashlib.sha256(public).digest()[:16]


def header(type_: int, shard: int, k: int, m: int, counter: int) -> bytes:
    start = b"\xa9\xd1\x01\x00" + struct.pack(">I", number_of("link")) + bytes_of("session")
    return start + struct.pack(">IBBBBQ", number_of("key number"), type_, shard, k, m, counter)


def encrypted(head: bytes, content: bytes) -> bytes:
    return head + AESGCM(bytes_of("data key")).encrypt(head[20:32], content, head)


def product(a: int, b: int) -> int:
    result = 0
    for bit in range(8):
        result ^= (a << bit) if b >> bit & 1 else 0
    for bit in range(14, 7, -1):
        result ^= (0x11D << bit - 8) if result >> bit & 1 else 0
    return result


def test_the_value_and_its_key() -> None:
    expected = struct.pack(">BBBBi", 1, 0, 0, 1, 1) + UUID(EXAMPLE["topic id"]).bytes
    expected += struct.pack(">qqI", 5, 9, 0) + b"t"
    assert bytes_of("value") == expected
    assert EXAMPLE["key"] == "t/1/5/9"


def test_the_shards() -> None:
    value = bytes_of("value")
    block = struct.pack(">QIII", 0, len(value), 0, len(value)) + value
    data = [block.ljust(K * LENGTH, b"\0")[at : at + LENGTH] for at in range(0, K * LENGTH, LENGTH)]
    inverse = {a: b for a in range(256) for b in range(256) if product(a, b) == 1}
    parity = bytearray(LENGTH)
    for at in range(LENGTH):
        for number in range(K):
            parity[at] ^= product(data[number][at], inverse[K ^ number])
    assert [bytes_of(f"shard {number}") for number in range(K + M)] == [*data, bytes(parity)]


def test_the_datagrams() -> None:
    for number in range(K + M):
        expected = encrypted(header(0, number, K, M, 0), bytes_of(f"shard {number}"))
        assert bytes_of(f"datagram {number}") == expected
    content = struct.pack(">QQ", 1, number_of("wall time of the beat")).ljust(LENGTH, b"\0")
    assert bytes_of("beat") == encrypted(header(1, 0, 0, 0, 0), content)


def test_the_key_frame() -> None:
    frame = bytes_of("key frame")
    assert len(frame) == 225
    head = header(3, 0, 0, 0, 0) + struct.pack(">QQB", number_of("start"), number_of("key made"), 0)
    head += fingerprint(key_of("receiver's public key")) + fingerprint(key_of("sender's public key"))
    assert frame[:81] == head
    assert opened(key_of("receiver's private key"), frame[81:-64], info=head) == bytes_of("data key")
    assert frame[-64:] == Ed25519PrivateKey.from_private_bytes(key_of("sender's private key")).sign(
        frame[:-64]
    )


def test_the_key_files() -> None:
    receiver = ReceiverKey.parse(EXAMPLE["receiver's private key"], "f")
    assert receiver.public == ReceiverPublicKey.parse(EXAMPLE["receiver's public key"], "f")
    sender = SenderKey.parse(EXAMPLE["sender's private key"], "f")
    assert sender.public == SenderPublicKey.parse(EXAMPLE["sender's public key"], "f")


@pytest.mark.parametrize("lost", [None, 0, 1, 2, 3])
def test_the_product_reads_it(lost: int | None) -> None:
    by = Receiver(
        [ReceiverKey.parse(EXAMPLE["receiver's private key"], "f")],
        [SenderPublicKey.parse(EXAMPLE["sender's public key"], "f")],
        number_of("link"),
    )
    datagrams = [bytes_of("key frame"), bytes_of("beat")]
    datagrams += [bytes_of(f"datagram {number}") for number in range(K + M) if number != lost]
    found = [record for each in datagrams for record in by.receive(each, 0.0)]
    assert found == [(EXAMPLE["key"].encode(), bytes_of("value"))]
    (sight,) = by.sessions()
    assert (sight.start, sight.key_created) == (number_of("start"), number_of("key made"))
    assert sight.beat == (1, number_of("wall time of the beat"))


def test_the_hybrid_key_files_and_their_seal() -> None:
    receiver = ReceiverKey.generate(Algorithm.HYBRID)
    seed = b64decode(receiver.text().split(" ")[2])[:64]
    public = b64decode(receiver.public.text().split(" ")[2])
    assert public[:1184] == MLKEM768PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw()
    sealed = receiver.public.seal(b"secret", b"info")
    assert len(sealed) == 1168 - 32 + len(b"secret")
    assert opened(b64decode(receiver.text().split(" ")[2]), sealed, b"info") == b"secret"


def opened(private: bytes, sealed: bytes, info: bytes) -> bytes:
    """RFC 9180: HKDF-SHA256, AES-256-GCM, base mode, the first message; by the key's length either KEM."""
    kem_id, length, decapsulate = (0x20, 32, dhkem) if len(private) == 32 else (0x647A, 1120, x_wing)
    secret = decapsulate(private, sealed[:length])
    ciphertext = sealed[length:]
    suite = b"HPKE" + struct.pack(">HHH", kem_id, 1, 2)
    context = b"\0" + extract(b"", suite, b"psk_id_hash", b"") + extract(b"", suite, b"info_hash", info)
    secret = extract(secret, suite, b"secret", b"")
    nonce = expand(secret, suite, b"base_nonce", context, 12)
    return AESGCM(expand(secret, suite, b"key", context, 32)).decrypt(nonce, ciphertext, b"")


def dhkem(private: bytes, enc: bytes) -> bytes:
    """Decapsulate with DHKEM(X25519, HKDF-SHA256)."""
    key = X25519PrivateKey.from_private_bytes(private)
    kem = b"KEM" + struct.pack(">H", 0x20)
    shared = key.exchange(X25519PublicKey.from_public_bytes(enc))
    context = enc + key.public_key().public_bytes_raw()
    return expand(extract(b"", kem, b"eae_prk", shared), kem, b"shared_secret", context, 32)


def x_wing(private: bytes, enc: bytes) -> bytes:
    """Decapsulate as in draft-connolly-cfrg-xwing-kem, from the two keys that its seed would give."""
    key = X25519PrivateKey.from_private_bytes(private[64:])
    shared = MLKEM768PrivateKey.from_seed_bytes(private[:64]).decapsulate(enc[:1088])
    shared += key.exchange(X25519PublicKey.from_public_bytes(enc[1088:])) + enc[1088:]
    return hashlib.sha3_256(shared + key.public_key().public_bytes_raw() + b"\\.//^\\").digest()


def extract(salt: bytes, suite: bytes, label: bytes, data: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + data, "sha256")


def expand(secret: bytes, suite: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labeled = struct.pack(">H", length) + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, labeled + b"\x01", "sha256")[:length]
