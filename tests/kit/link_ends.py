"""Both ends of a link in memory, and faults of the datagrams between them."""

import dataclasses
from collections.abc import Iterable
from uuid import UUID

from aqueduct.common.keys import Algorithm, ReceiverKey, SenderKey
from aqueduct.link.wire import frame
from aqueduct.link.wire.datagram import FIELDS, HEADER, NONCE, Send, Type, split
from aqueduct.link.wire.frame import Frame
from aqueduct.link.wire.receiver import DEFAULT, Receiver, ReceiverLimits
from aqueduct.link.wire.sender import Session, SessionSettings
from aqueduct.link.wire.state import ReceiverState, loads, loads_unfinished

LINK = 7
PAYLOAD = 240  # the least that a key frame of X25519 fits in; shards have 192 bytes
SHARD = 192
RECEIVER = ReceiverKey.generate(Algorithm.X25519)
SENDER = SenderKey.generate()
OVERHEAD = len(frame.pack(Frame(topic="t", topic_id=UUID(int=1), partition=0, first=0, last=0, batches=b"")))

TAKEN = {"shards", "beats", "keys"}
_FIELDS = [each.name for each in dataclasses.fields(Receiver([], [], 0).counters)]
DROPPED = set(_FIELDS[_FIELDS.index("not_of_the_link") : _FIELDS.index("keys_over_rate") + 1])


def value(number: int, size: int = OVERHEAD) -> bytes:
    """Return a unique packed frame of so many bytes."""
    batches = number.to_bytes(8) * (size // 8 + 1)
    return frame.pack(
        Frame(
            topic="t",
            topic_id=UUID(int=1),
            partition=0,
            first=number,
            last=number,
            batches=batches[: size - OVERHEAD],
        )
    )


def settings(**changes: object) -> SessionSettings:
    return dataclasses.replace(
        SessionSettings(link=LINK, payload=PAYLOAD, shards=8, interleave=3, parity=30), **changes
    )  # type: ignore[arg-type]


def session(
    of: SessionSettings | None = None, *, now: float = 0.0, start: int = 1000, sender: SenderKey = SENDER
) -> Session:
    return Session(of or settings(), sender, RECEIVER.public, now=now, start=start)


def receiver(limits: ReceiverLimits = DEFAULT, state: ReceiverState | None = None) -> Receiver:
    return Receiver([RECEIVER], [SENDER.public], LINK, limits, state)


def killed(old: Receiver, limits: ReceiverLimits = DEFAULT) -> Receiver:
    """Return the receiver after a kill of its process: it has only the state on disk."""
    return receiver(limits, loads(old.state().dumps(), "state.json", LINK))


def restarted(old: Receiver, now: float = 1.0) -> tuple[Receiver, list[bytes]]:
    """Return the receiver after a restart, and the values that were complete at the stop."""
    left = b"".join(part for each in old.unfinished() for part in each.dumps())
    again = killed(old)
    return again, [record.value for record in again.resume(loads_unfinished(memoryview(left)), now)]


def datagrams(sends: Iterable[Send]) -> list[bytes]:
    return [datagram for send in sends for datagram in split(send)]


def keys(of: Session, now: float = 0.0) -> list[bytes]:
    """Return the key frames that are due, without heartbeats."""
    return [each for each in datagrams(of.due(now, 5000)) if type_of(each) is Type.KEY]


def receive(by: Receiver, all_of: Iterable[bytes], now: float = 1.0) -> list[bytes]:
    """Pass datagrams to the receiver, and return the values that are complete."""
    found = [record for each in all_of for record in by.receive(each, now)]
    assert all(record.key == frame.key_of(record.value) for record in found)
    return [record.value for record in found]


def pair(
    of: SessionSettings | None = None, limits: ReceiverLimits = DEFAULT, start: int = 1000
) -> tuple[Session, Receiver]:
    """Return a session, and a receiver that has the keys of the session."""
    sending, receiving = session(of, start=start), receiver(limits)
    assert receive(receiving, keys(sending), 0.0) == []
    return sending, receiving


def type_of(datagram: bytes) -> Type:
    return Type(FIELDS.unpack(datagram[: HEADER.size][NONCE])[0])


def shard_of(datagram: bytes) -> tuple[int, int, int, int]:
    """Return the numbers of the block and the shard, and k and m of the block."""
    _, shard, k, m, block = FIELDS.unpack(datagram[: HEADER.size][NONCE])
    return block, shard, k, m


def rises(by: Receiver, datagram: bytes, now: float = 1.0) -> set[str]:
    """Return the names of the counters that one datagram increases."""
    before = dataclasses.asdict(by.counters)
    by.receive(datagram, now)
    after = dataclasses.asdict(by.counters)
    return {name for name in after if after[name] != before[name]} - {"datagrams", "bytes"}
