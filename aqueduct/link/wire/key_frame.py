"""Key frames: a session's data keys, sealed for the receiver and signed by the sender.

    header (type KEY) | start, created, kind | receiver's and sender's fingerprints | sealed key | signature

HPKE binds the sealed key to all that stands before it, the signature covers all that stands before it: so
nobody can pass off another's key as his own, or another receiver's as meant for this one.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from cryptography.exceptions import InvalidSignature, InvalidTag

from aqueduct.common.keys import FINGERPRINT, ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey
from aqueduct.link.wire.datagram import HEADER, MAGIC, VERSION, Type

BODY = struct.Struct(f">QQB{FINGERPRINT}s{FINGERPRINT}s")
SEALED_AT = HEADER.size + BODY.size
SIGNATURE = 64
DATA_KEY = 32


class Kind(IntEnum):
    """The kind of a session: sessions of one kind replace each other."""

    LIVE = 0
    RESEND = 1


class Refusal(Enum):
    """The reason why a key frame is not believed."""

    DAMAGED = "the key frame is truncated, or the sender encrypted it wrongly"
    STRANGER = "the receiving end does not accept this sender"
    BAD_SIGNATURE = "the signature does not match the key frame or its sender"
    OTHER_RECEIVER = "the key frame is encrypted for another receiving end"


@dataclass(frozen=True, kw_only=True)
class KeyFrame:
    """The content of a key frame. Times are the sender's clock in milliseconds since 1970."""

    link: int
    session: bytes
    number: int  # of the data key, rising within the session
    start: int  # of the session
    created: int  # the data key
    kind: Kind
    sender: bytes  # fingerprint
    key: bytes = field(repr=False)


def seal(
    receiver: ReceiverPublicKey,
    sender: SenderKey,
    *,
    link: int,
    session: bytes,
    number: int,
    start: int,
    created: int,
    kind: Kind,
    key: bytes,
) -> bytes:
    """Return the datagram of a key frame. HPKE draws lots: keep it, to send the same again."""
    head = HEADER.pack(MAGIC, VERSION, 0, link, session, number, Type.KEY, 0, 0, 0, 0)
    head += BODY.pack(start, created, kind, receiver.fingerprint, sender.public.fingerprint)
    frame = head + receiver.seal(key, head)
    return frame + sender.sign(frame)


class KeyRing:
    """The keys that open key frames, and the senders whose key frames are believed."""

    def __init__(self, receivers: Iterable[ReceiverKey], senders: Iterable[SenderPublicKey]) -> None:
        self._receivers = {receiver.public.fingerprint: receiver for receiver in receivers}
        self._senders = {sender.fingerprint: sender for sender in senders}

    def glance(self, datagram: bytes) -> Refusal | None:
        """Return why a key frame is refused, as far as that takes no arithmetic; else None."""
        if len(datagram) < SEALED_AT + DATA_KEY + SIGNATURE:
            return Refusal.DAMAGED
        *_, sender = BODY.unpack_from(datagram, HEADER.size)
        return None if sender in self._senders else Refusal.STRANGER

    def open(self, datagram: bytes) -> KeyFrame | Refusal:
        """Open a datagram of this version and of type KEY; nothing in it is believed before its signature."""
        if refusal := self.glance(datagram):
            return refusal
        start, created, kind, receiver, sender = BODY.unpack_from(datagram, HEADER.size)
        signed = datagram[:-SIGNATURE]
        try:
            self._senders[sender].verify(datagram[-SIGNATURE:], signed)
        except InvalidSignature:
            return Refusal.BAD_SIGNATURE
        if receiver not in self._receivers:
            return Refusal.OTHER_RECEIVER
        try:
            key = self._receivers[receiver].open(signed[SEALED_AT:], signed[:SEALED_AT])
            _, _, _, link, session, number, *_ = HEADER.unpack_from(datagram)
            frame = KeyFrame(
                link=link,
                session=session,
                number=number,
                start=start,
                created=created,
                kind=Kind(kind),
                sender=sender,
                key=key,
            )
        except (InvalidTag, ValueError):
            return Refusal.DAMAGED
        return frame if len(key) == DATA_KEY else Refusal.DAMAGED
