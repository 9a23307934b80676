import pytest
from cryptography.exceptions import InvalidSignature, InvalidTag
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from kit.identifiers import raises

from aqueduct.common.keys import KINDS, Algorithm, ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey
from aqueduct.errors import Refused
from aqueduct.link.wire.key_frame import DATA_KEY, KeyFrame, KeyRing, Kind, Refusal, seal

RECEIVERS = {each: ReceiverKey.generate(each) for each in (Algorithm.HYBRID, Algorithm.X25519)}
RECEIVER = RECEIVERS[Algorithm.X25519]
SENDER = SenderKey.generate()
ALL = [*RECEIVERS.values(), *(each.public for each in RECEIVERS.values()), SENDER, SENDER.public]


def frame(
    receiver: ReceiverPublicKey = RECEIVER.public, sender: SenderKey = SENDER, key: bytes = bytes(DATA_KEY)
) -> bytes:
    return seal(
        receiver,
        sender,
        link=7,
        session=b"sessions",
        number=3,
        start=1000,
        created=2000,
        kind=Kind.RESEND,
        key=key,
    )


@pytest.mark.parametrize("key", ALL, ids=lambda key: f"{key.WHAT} {key.algorithm}")
def test_a_file_is_one_line_and_read_back(key: ReceiverKey) -> None:
    text = key.text()
    assert text.count("\n") == 1
    assert type(key).parse(text, "f") == key
    for kind in KINDS:
        if kind is not type(key):
            with raises(Refused, "key-file-invalid") as refused:
                kind.parse(text, "f")
            assert [name for name in (key.WHAT, kind.WHAT) if name not in str(refused.value)] == []


def test_secrets_are_not_shown() -> None:
    for key in ALL:
        assert repr(key) == f"{type(key).__name__}(algorithm={key.algorithm!r})"
    opened = KeyRing([RECEIVER], [SENDER.public]).open(frame(key=b"s" * DATA_KEY))
    assert "ssss" not in repr(opened)


@pytest.mark.parametrize("text", ["", "\n", "ssh-ed25519 AAAA", "aqueduct-receiver x25519 AAAA"])
def test_no_key_file(text: str) -> None:
    with raises(Refused, "key-file-invalid") as refused:
        SenderKey.parse(text, "f")
    assert "`aqueduct diode keygen`" in str(refused.value)


@pytest.mark.parametrize(
    "rest",
    ["", "x25519", "x25519 AAAA", "x25519 !", "rsa AAAA", "ed25519 " + "A" * 43 + "=", f"x25519 {'A' * 43}="],
)
def test_a_damaged_key_file(rest: str) -> None:
    """Refuse bad points; the last is one that Diffie and Hellman can't do with."""
    with raises(Refused, "key-file-invalid", ReceiverPublicKey.WHAT):
        ReceiverPublicKey.parse(f"{ReceiverPublicKey.TAG} {rest}", "f")


@pytest.mark.parametrize("algorithm", RECEIVERS)
def test_what_is_sealed_for_one_nobody_else_opens(algorithm: Algorithm) -> None:
    receiver = RECEIVERS[algorithm]
    sealed = receiver.public.seal(b"secret", b"info")
    assert receiver.open(sealed, b"info") == b"secret"
    assert receiver.public.seal(b"secret", b"info") != sealed
    for wrong in (
        (receiver, sealed, b"other"),
        (ReceiverKey.generate(algorithm), sealed, b"info"),
        (receiver, sealed[:-1], b"info"),
        (receiver, b"", b"info"),
    ):
        with pytest.raises(InvalidTag):
            wrong[0].open(*wrong[1:])


def test_signatures() -> None:
    signature = SENDER.sign(b"data")
    SENDER.public.verify(signature, b"data")
    for public, data in ((SENDER.public, b"date"), (SenderKey.generate().public, b"data")):
        with pytest.raises(InvalidSignature):
            public.verify(signature, data)


@pytest.mark.parametrize("receiver", RECEIVERS.values(), ids=RECEIVERS)
def test_a_key_frame(receiver: ReceiverKey) -> None:
    ring = KeyRing([ReceiverKey.generate(), receiver], [SenderKey.generate().public, SENDER.public])
    found = ring.open(frame(receiver.public, key=b"k" * DATA_KEY))
    assert found == KeyFrame(
        link=7,
        session=b"sessions",
        number=3,
        start=1000,
        created=2000,
        kind=Kind.RESEND,
        sender=SENDER.public.fingerprint,
        key=b"k" * DATA_KEY,
    )


def test_whose_key_frames_are_refused() -> None:
    ring = KeyRing([RECEIVER], [SENDER.public])
    stranger = SenderKey.generate()
    assert ring.open(frame(sender=stranger)) is Refusal.STRANGER
    assert ring.open(frame(ReceiverKey.generate(Algorithm.X25519).public)) is Refusal.OTHER_RECEIVER
    assert ring.open(frame()[:-1]) is Refusal.BAD_SIGNATURE
    assert ring.open(frame()[:100]) is Refusal.DAMAGED
    assert ring.open(frame(key=b"short")) is Refusal.DAMAGED
    # Another's frame under a known sender's name, and a known sender's under another's.
    mine, other = SENDER.public.fingerprint, stranger.public.fingerprint
    assert ring.open(frame(sender=stranger).replace(other, mine)) is Refusal.BAD_SIGNATURE
    taken = frame().replace(mine, other)[:-64]
    assert KeyRing([RECEIVER], [stranger.public]).open(taken + stranger.sign(taken)) is Refusal.DAMAGED


def test_a_kind_that_is_not_known() -> None:
    ring = KeyRing([RECEIVER], [SENDER.public])
    good = frame()
    at = 32 + 16
    assert good[at] == Kind.RESEND
    head = good[:at] + b"\x09" + good[at + 1 : 81]
    body = head + RECEIVER.public.seal(bytes(DATA_KEY), head)
    assert ring.open(body + SENDER.sign(body)) is Refusal.DAMAGED


@examples(deadline=None)
@given(st.integers(0, 8 * len(frame()) - 1))
def test_any_bit_flipped(bit: int) -> None:
    flipped = bytearray(frame())
    flipped[bit // 8] ^= 1 << bit % 8
    assert KeyRing([RECEIVER], [SENDER.public]).open(bytes(flipped)) in (
        Refusal.STRANGER,
        Refusal.BAD_SIGNATURE,
    )


def test_several_receivers_keys_for_roll_over() -> None:
    old, new = (ReceiverKey.generate(Algorithm.X25519) for _ in range(2))
    ring = KeyRing([old, new], [SENDER.public])
    for each in (old, new):
        assert isinstance(ring.open(frame(each.public)), KeyFrame)


def test_fingerprints() -> None:
    assert len({each.public.fingerprint for each in RECEIVERS.values()}) == 2
    assert isinstance(SENDER.public, SenderPublicKey)
    assert len(SENDER.public.fingerprint) == 16
