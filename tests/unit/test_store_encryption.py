"""What is encrypted comes back as it was, at its own place, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.errors import Failed
from aqueduct.store import encryption
from aqueduct.store.encryption import HEADER_BYTES, TAG_BYTES, DataKey, DataKind, decrypt, encrypt, nonce

KEY = DataKey(DataKind.RECORDS, bytes(range(32)))
PATH = "topics/a/0/1.log.enc"
FRAME = 64
SIZES = st.one_of(st.integers(0, 5 * FRAME), st.sampled_from([0, FRAME, 2 * FRAME, FRAME - 1, FRAME + 1]))


@pytest.fixture(autouse=True, scope="module")
def small_frames() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encryption, "FRAME_BYTES", FRAME)
        yield


def frames(stored: bytes) -> list[bytes]:
    body = stored[HEADER_BYTES:]
    step = FRAME + TAG_BYTES
    return [body[at : at + step] for at in range(0, len(body), step)]


def refused(stored: bytes, path: str = PATH, key: DataKey = KEY) -> None:
    with raises(Failed, "object-damaged", f"store/{path}"):
        decrypt(key, path, stored, "store")


@given(size=SIZES)
def test_any_size_comes_back(size: int) -> None:
    data = bytes(at % 251 for at in range(size))
    stored = encrypt(KEY, PATH, data)
    assert decrypt(KEY, PATH, stored, "store") == data
    assert len(stored) == HEADER_BYTES + size + TAG_BYTES * max(1, -(-size // FRAME))
    assert encryption.key_id(stored) == KEY.id
    assert size < 4 or data not in bytes(stored)


@given(size=SIZES, at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(size: int, at: float, bit: int) -> None:
    stored = encrypt(KEY, PATH, bytes(size))
    place = len(encryption.MARK) + int(at * (len(stored) - len(encryption.MARK)))
    stored[place] ^= 1 << bit
    refused(bytes(stored))


@given(size=SIZES, cut=st.integers(1, 6 * FRAME))
def test_a_cut_or_longer_object_is_noticed(size: int, cut: int) -> None:
    stored = bytes(encrypt(KEY, PATH, bytes(size)))
    refused(stored[: max(HEADER_BYTES, len(stored) - cut)])
    refused(stored + bytes(cut))
    refused(stored + stored[HEADER_BYTES:][:cut])


@given(count=st.integers(2, 5), order=st.randoms(use_true_random=False))
def test_frames_in_another_order_are_noticed(count: int, order: object) -> None:
    stored = bytes(encrypt(KEY, PATH, bytes(count * FRAME)))
    pieces = frames(stored)
    for removed in range(count):
        refused(stored[:HEADER_BYTES] + b"".join(pieces[:removed] + pieces[removed + 1 :]))
    shuffled = list(pieces)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    if shuffled != pieces:
        refused(stored[:HEADER_BYTES] + b"".join(shuffled))


def test_another_place_key_or_kind_is_noticed() -> None:
    stored = bytes(encrypt(KEY, PATH, b"data"))
    refused(stored, path="topics/b/0/1.log.enc")
    refused(stored, key=DataKey(DataKind.RECORDS, bytes(32)))
    other = bytes(encrypt(KEY, PATH, b"data"))
    refused(other[:HEADER_BYTES] + stored[HEADER_BYTES:])  # of the same path, by another attempt


def test_no_key_has_a_nonce_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object's key follows from its salt and path; within it, frames are numbered."""
    used = set()

    class Recorded:
        def __init__(self, derived: bytes) -> None:
            self._derived = derived

        def encrypt_into(self, value: bytes, *_: object) -> None:
            assert (self._derived, value) not in used
            used.add((self._derived, value))

    monkeypatch.setattr("cryptography.hazmat.primitives.ciphers.aead.AESGCM", Recorded)
    for path in (PATH, PATH, "other"):
        for size in (0, FRAME, 3 * FRAME, 3 * FRAME):
            encrypt(KEY, path, bytes(size))
    assert len(used) == 3 * (1 + 1 + 3 + 3)


@given(number=st.integers(0, 1 << 40))
def test_nonces_differ_by_number_and_by_end(number: int) -> None:
    assert len({nonce(number, last=False), nonce(number, last=True), nonce(number + 1, last=False)}) == 3
    assert len(nonce(number, last=True)) == 12


def test_a_key_is_not_shown() -> None:
    assert KEY.secret.hex() not in repr(KEY)
    assert str(KEY.secret) not in repr(KEY)
    assert KEY.id != DataKey(DataKind.MANIFEST, KEY.secret).id
