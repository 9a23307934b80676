"""The sending end: values go in, sends of datagrams come out, with all that keeps the receiver informed."""

import os
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aqueduct.common.keys import Algorithm, ReceiverPublicKey, SenderKey
from aqueduct.errors import Refused
from aqueduct.kafka.batches.batch import Buffer
from aqueduct.link.wire import key_frame
from aqueduct.link.wire.blocks import Packer
from aqueduct.link.wire.datagram import (
    BEAT,
    FIELDS,
    HEADER,
    OVERHEAD,
    Send,
    Type,
    check_link,
    prefix,
    shard_length,
)
from aqueduct.link.wire.erasure import MOST, MOST_DATA, code
from aqueduct.link.wire.interleave import interleaved
from aqueduct.link.wire.key_frame import DATA_KEY, Kind

ANNOUNCE_EVERY = 1.0  # seconds between a key's frames
BEAT_EVERY = 1.0
# At first keys are announced more often, and data wait: what comes before its key is lost.
OPENING = 0.5
_ANNOUNCE_AT_FIRST = 0.1

_MOST_BLOCK = 512 << 10  # bytes: what fits the processor's cache is coded several times faster
_MOST_PARITY = 200
_MOST_INTERLEAVE = 256
_MOST_UNDER_A_KEY = 1 << 32  # datagrams, far below what AES-GCM allows


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """The settings of a session; Refused at values that no link can have."""

    link: int
    payload: int  # most bytes of a datagram
    kind: Kind = Kind.LIVE
    parity: int = 15  # percent of a block's data shards, rounded up
    interleave: int = 16  # full blocks that are sent together
    shards: int = MOST_DATA  # most data shards of a block
    linger: float = 0.02  # seconds until a block that is not full is sent
    rotate: float = 3600.0  # seconds between data keys

    def __post_init__(self) -> None:
        check_link(self.link)
        shard_length(self.payload)
        if not 0 <= self.parity <= _MOST_PARITY:
            raise Refused(
                "link-options-invalid",
                f"A parity of {self.parity} % is not possible. Use 0 to {_MOST_PARITY}.",
            )
        if not 1 <= self.interleave <= _MOST_INTERLEAVE:
            raise Refused(
                "link-options-invalid",
                f"{self.interleave} blocks cannot be interleaved. Set interleave to 1 to {_MOST_INTERLEAVE}.",
            )
        if not 1 <= self.shards <= MOST_DATA:
            raise Refused(
                "link-options-invalid",
                f"A block cannot have {self.shards} data shards. Use 1 to {MOST_DATA}.",
            )
        if self.linger < 0:
            raise Refused(
                "link-options-invalid", f"A linger of {self.linger} s is not possible. Use 0 or more."
            )
        if self.rotate < 2 * ANNOUNCE_EVERY:
            raise Refused(
                "link-options-invalid",
                f"A new key every {self.rotate} s is too often, because the sender must announce a key "
                f"before it uses the key. Set generateNewSymmetricKeyEvery to {2 * ANNOUNCE_EVERY:.0f} or "
                "more.",
            )

    def parity_of(self, k: int) -> int:
        return -(-k * self.parity // 100)


@dataclass(kw_only=True)
class Sent:
    values: int = 0
    blocks: int = 0
    datagrams: int = 0
    bytes: int = 0  # of datagrams


@dataclass(frozen=True)
class _DataKey:
    number: int
    frame: Send
    cipher: AESGCM = field(repr=False)


class Session:
    """One session of one link.

    Times called `now` are seconds of a monotonic clock, `wall` is milliseconds since 1970. `due` must be
    called at `next_due` or soon after, and all sends be sent in order. Until `opens` nothing should be added:
    the receiver might not have the key yet.
    """

    def __init__(
        self,
        settings: SessionSettings,
        sender: SenderKey,
        receiver: ReceiverPublicKey,
        *,
        now: float,
        start: int,
    ) -> None:
        """`start`: the wall clock, but above that of every earlier session of this sender's key and kind.

        Refused where a key frame does not fit a datagram.
        """
        self._settings = settings
        self._keys = sender, receiver
        self._session = os.urandom(8)
        self._start = start
        self._length = shard_length(settings.payload)
        self.size = self._length + OVERHEAD  # of every datagram but key frames
        self.opens = now + OPENING
        self.sent = Sent()

        self._current, self._next = self._new_key(1, start), self._new_key(2, start)
        self._under_key = 0
        self._announce_at = self._beat_at = now
        self._rotate_at = now + settings.rotate
        self._beats = 0

        shards = max(1, min(settings.shards, _MOST_BLOCK // self._length))
        while shards + settings.parity_of(shards) > MOST:
            shards -= 1
        self.capacity = shards * self._length  # of a block, in bytes
        self._packer = Packer(self.capacity)
        self._group: list[bytes] = []
        self._flush_at: float | None = None

    @property
    def next_due(self) -> float:
        times = (self._announce_at, self._beat_at, self._rotate_at)
        return min(times) if self._flush_at is None else min(*times, self._flush_at)

    @property
    def key_number(self) -> int:
        return self._current.number

    def add(self, value: Buffer, now: float) -> list[Send]:
        """Add a value of 1 byte to 4 GiB; return the sends due, if blocks are full or time is up."""
        if self._flush_at is None:
            self._flush_at = now + self._settings.linger
        self.sent.values += 1
        sends: list[Send] = []
        for block in self._packer.add(value):
            self._group.append(block)
            if len(self._group) == self._settings.interleave:
                sends += self._emit()
                self._flush_at = now + self._settings.linger
        return sends

    def flush(self) -> list[Send]:
        """Return the sends of all that was added and not sent."""
        self._flush_at = None
        if not self._packer.empty:
            self._group.append(self._packer.close())
        return self._emit() if self._group else []

    def due(self, now: float, wall: int) -> list[Send]:
        """Return what is due by now: key frames, beats, blocks that lingered."""
        sends: list[Send] = []
        if now >= self._rotate_at or self._under_key >= _MOST_UNDER_A_KEY:
            self._current, self._next = self._next, self._new_key(self._next.number + 1, wall)
            self._under_key = 0
            self._rotate_at = now + self._settings.rotate
            self._announce_at = now
        if now >= self._announce_at:
            sends += self._counted([self._current.frame, self._next.frame])
            self._announce_at = now + (_ANNOUNCE_AT_FIRST if now < self.opens else ANNOUNCE_EVERY)
        if self._flush_at is not None and now >= self._flush_at:
            sends += self.flush()
        if now >= self._beat_at:
            sends += self._beat(Type.BEAT, wall)
            self._beat_at = now + BEAT_EVERY
        return sends

    def end(self, wall: int) -> list[Send]:
        """Return the sends of the rest and of the session's end.

        Called again, it only says so again: one should arrive.
        """
        return [*self.flush(), *self._beat(Type.END, wall)]

    def _new_key(self, number: int, created: int) -> _DataKey:
        sender, receiver = self._keys
        key = AESGCM.generate_key(DATA_KEY * 8)
        frame = key_frame.seal(
            receiver,
            sender,
            link=self._settings.link,
            session=self._session,
            number=number,
            start=self._start,
            created=created,
            kind=self._settings.kind,
            key=key,
        )
        if len(frame) > self.size:
            instead = (
                f", or create a key of the receiving end with the algorithm {Algorithm.X25519}"
                if receiver.algorithm is Algorithm.HYBRID
                else ""
            )
            raise Refused(
                "datagram-size-unsuitable",
                f"A key frame of {len(frame)} bytes does not fit in datagrams of {self.size}. Increase "
                f"payloadSize or mtu{instead}.",
            )
        return _DataKey(number, [frame[: HEADER.size], frame[HEADER.size :]], AESGCM(key))

    def _head(self) -> bytes:
        """Return a header's first 20 bytes; with the nonce it is whole."""
        return prefix(self._settings.link) + self._session + self._current.number.to_bytes(4)

    def _emit(self) -> list[Send]:
        """Return the shards of the blocks that go together, with parity, encrypted."""
        shapes, shards = [], []
        length = self._length
        for block in self._group:
            k = -(-len(block) // length)
            m = self._settings.parity_of(k)
            padded = block.ljust(k * length, b"\0")
            view = memoryview(padded)
            shapes.append((k, m))
            shards.append([view[start : start + length] for start in range(0, len(padded), length)])
            shards[-1] += map(memoryview, code(k, m).parity(padded))
        first = self.sent.blocks
        self.sent.blocks += len(self._group)
        self._group = []
        head, encrypt = self._head(), self._current.cipher.encrypt
        sends: list[Send] = []
        for places in interleaved(tuple(shapes), self.size):
            send: Send = []
            for block_number, shard in places:
                k, m = shapes[block_number]
                nonce = FIELDS.pack(Type.DATA, shard, k, m, first + block_number)
                header = head + nonce
                send += header, encrypt(nonce, shards[block_number][shard], header)
            sends.append(send)
        return self._counted(sends)

    def _beat(self, kind: Type, wall: int) -> list[Send]:
        nonce = FIELDS.pack(kind, 0, 0, 0, self._beats)
        self._beats += 1
        header = self._head() + nonce
        content = BEAT.pack(self.sent.blocks, wall).ljust(self._length, b"\0")
        return self._counted([[header, self._current.cipher.encrypt(nonce, content, header)]])

    def _counted(self, sends: list[Send]) -> list[Send]:
        datagrams = sum(map(len, sends)) // 2
        self._under_key += datagrams
        self.sent.datagrams += datagrams
        self.sent.bytes += sum(sum(map(len, send)) for send in sends)
        return sends
