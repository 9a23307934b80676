"""The receiving end: datagrams go in, in any order and from anybody; what the senders packed comes out.

Nothing here raises at any datagram. Nothing is believed before it is authentic, no stranger's datagram takes
memory, and what it costs is one AES-GCM or, so many times a second at most, one signature.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aqueduct.common.keys import ReceiverKey, SenderPublicKey
from aqueduct.link.wire import erasure
from aqueduct.link.wire.blocks import Assembler
from aqueduct.link.wire.counters import Counters
from aqueduct.link.wire.datagram import (
    BEAT,
    FIELDS,
    HEADER,
    MAGIC,
    NONCE,
    VERSION,
    Beat,
    Type,
    check_link,
    prefix,
)
from aqueduct.link.wire.frame import LARGEST, Malformed, key_of
from aqueduct.link.wire.key_frame import KeyFrame, KeyRing, Kind, Refusal
from aqueduct.link.wire.state import VERSION as STATE_VERSION
from aqueduct.link.wire.state import ReceiverState, SessionState, Unfinished, line_of, parted
from aqueduct.link.wire.window import BlockWindow

KEYS_KEPT = 3  # of a session: the one before, the current, the next
_SESSIONS_KEPT = 4  # of one sender and kind: the current one, and some whose last datagrams are on their way
_SESSION = slice(8, 16)  # of a header
_NAMES_KEY = slice(0, 20)  # of a header: the link's prefix, session, key number


@dataclass(frozen=True, kw_only=True)
class ReceiverLimits:
    """Limits; bytes are for each session. A sender has one live and one resend session, rarely more."""

    window: int = 1024  # blocks that may be under way at once; those further behind are lost
    block_bytes: int = 256 << 20  # of blocks that are not whole
    value_bytes: int = 256 << 20  # of values that are not whole
    largest: int = LARGEST  # bytes of a value
    grace: float = 5.0  # seconds that something may be late
    key_frames: int = 50  # that are verified in a second, at most: of sessions that are known, and of others


DEFAULT = ReceiverLimits()


class RawRecord(NamedTuple):
    """A raw topic's."""

    key: bytes
    value: bytes


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A session as metrics show it."""

    sender: str  # fingerprint, hexadecimal
    kind: Kind
    start: int  # milliseconds of the sender's clock, as the next
    key_created: int
    key: int
    heard: float | None  # when something new came, or after a restart `tick`: as `now`; None: neither
    beat: Beat | None  # the last one, and when it came
    beat_at: float
    missing: int  # blocks that are known of and not whole


@dataclass(slots=True, kw_only=True)
class _Block:
    k: int
    m: int
    length: int  # of a shard
    shards: dict[int, bytes] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class _ReceivedSession:
    id: bytes
    line: str
    start: int
    values: Assembler
    newest: int = 0  # key's number
    window: BlockWindow | None = None  # None: no block was heard of
    beats: int = -1  # the last one's number
    frames: dict[int, bytes] = field(default_factory=dict)  # key frames by key number
    created: dict[int, int] = field(default_factory=dict)
    blocks: dict[int, _Block] = field(default_factory=dict)  # that are not whole
    held: int = 0  # their bytes
    heard: float | None = None
    beat: Beat | None = None
    beat_at: float = 0.0
    told: tuple[int, float] | None = None  # so many blocks had been sent then
    ended: bool = False


@dataclass
class _Tokens:
    rate: int  # in a second, and at once
    at: float = -math.inf
    left: float = 0.0

    def take(self, now: float) -> bool:
        self.left = min(self.rate, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Receiver:
    """The receiving end of one link. `now` is seconds of a monotonic clock."""

    def __init__(
        self,
        receivers: Iterable[ReceiverKey],
        senders: Iterable[SenderPublicKey],
        link: int,
        limits: ReceiverLimits = DEFAULT,
        state: ReceiverState | None = None,
    ) -> None:
        """`state`: what `state()` gave before a restart. Failed: ISA-L is not there."""
        erasure.check()
        self._ring = KeyRing(receivers, senders)
        self._link = check_link(link)
        self._prefix = prefix(link)
        self._limits = limits
        self._keys: dict[bytes, tuple[AESGCM, _ReceivedSession]] = {}  # by a header's first 20 bytes
        self._sessions: dict[bytes, _ReceivedSession] = {}  # by id, in the order of their beginning
        self._started: dict[str, int] = dict(state.started) if state else {}
        # Apart, so that who does not see the link's datagrams can't hold up the next key of a session.
        self._of_known, self._of_others = _Tokens(limits.key_frames), _Tokens(limits.key_frames)
        self.counters = Counters()
        for saved in state.sessions if state else ():
            session = self._open(bytes.fromhex(saved.session), saved.line, saved.start)
            session.newest, session.beats = saved.key, saved.beat
            if saved.floor is not None:
                session.window = BlockWindow(limits.window, saved.floor, saved.done)
            for datagram in map(b64decode, saved.frames):
                opened = self._ring.open(datagram)  # not for ever: a sender may have lost its trust since
                if isinstance(opened, KeyFrame):
                    self._know(session, opened, datagram)

    def receive(
        self, datagrams: bytes | bytearray | memoryview, now: float, size: int = 0
    ) -> list[RawRecord]:
        """Return the values that are complete by this datagram.

        With a `size`, `datagrams` are several of that size, of which the last may be smaller (UDP_GRO).
        Nothing of `datagrams` is kept, so a buffer may be used again.
        """
        records: list[RawRecord] = []
        view = memoryview(datagrams)
        length = len(view)
        self.counters.bytes += length
        if 0 < size < length:
            starts = range(0, length, size)
            self.counters.datagrams += len(starts)
            for start in starts:
                self._datagram(view[start : start + size], now, records)
        else:
            self.counters.datagrams += 1
            self._datagram(view, now, records)
        return records

    def tick(self, now: float) -> None:
        """Count losses that time has made certain; to be called about once a second."""
        late = now - self._limits.grace
        for session in list(self._sessions.values()):
            session.values.expire(late)
            if session.told and session.told[1] <= late:
                self._pass_by(session, session.told[0])
                session.told = None
            if session.heard is None:  # since the restart
                session.heard = now
            replaced = session.start < self._started[session.line]
            if (session.ended or replaced) and session.heard <= late:
                self._close(session)

    def state(self) -> ReceiverState:
        """Return the state to keep once what `receive` returned is safe: what is in it never comes again."""
        return ReceiverState(
            version=STATE_VERSION,
            link=self._link,
            started=dict(self._started),
            sessions=tuple(
                SessionState(
                    session=session.id.hex(),
                    line=session.line,
                    start=session.start,
                    key=session.newest,
                    beat=session.beats,
                    floor=session.window.floor if session.window else None,
                    done=tuple(session.window.done()) if session.window else (),
                    frames=tuple(b64encode(frame).decode() for frame in session.frames.values()),
                )
                for session in self._sessions.values()
            ),
        )

    def unfinished(self) -> Iterator[Unfinished]:
        """Yield what has arrived of blocks and values that are not whole, for `resume`."""
        for session in self._sessions.values():
            if session.frames:
                datagrams = tuple(self._again(session))
                yield Unfinished(session.id, datagrams, session.values.unfinished())

    def resume(self, unfinished: Iterable[Unfinished], now: float) -> list[RawRecord]:
        """Take what a receiver with this one's state had not finished; return what is complete by it."""
        records: list[RawRecord] = []
        for remainder in unfinished:
            for datagram in remainder.datagrams:
                records += self.receive(datagram, now)
            if session := self._sessions.get(remainder.session):
                self._take_values(session, remainder.chunks, now, records)
        return records

    def sessions(self) -> list[Sight]:
        """List the sessions; another thread may call it, too."""
        return [_sight(session) for session in list(self._sessions.values())]

    # One datagram.

    def _datagram(self, view: memoryview, now: float, records: list[RawRecord]) -> None:
        header = view[: HEADER.size].tobytes()
        keyed = self._keys.get(header[_NAMES_KEY])
        if keyed is None:
            self._without_key(view, header, now)
            return
        if len(header) < HEADER.size:
            self.counters.not_of_the_link += 1
            return
        cipher, session = keyed
        kind = header[NONCE.start]
        if kind == Type.DATA:
            self._shard(keyed, header, view, now, records)
        elif kind == Type.KEY:
            self._key_frame(bytes(view), session, now)
        else:
            self._beat(session, cipher, header, view, now)

    def _shard(
        self,
        keyed: tuple[AESGCM, _ReceivedSession],
        header: bytes,
        view: memoryview,
        now: float,
        records: list[RawRecord],
    ) -> None:
        """Take one shard of a block, and the block's records with its last one."""
        cipher, session = keyed
        nonce = header[NONCE]
        _, shard, k, m, counter = FIELDS.unpack_from(nonce)
        block = session.blocks.get(counter)
        if block is None:
            if session.window is not None and counter not in session.window:
                self._unneeded(session.window, counter, shard, k)
                return
        elif shard in block.shards:
            self.counters.shards_again += 1
            return
        try:
            content = cipher.decrypt(nonce, view[HEADER.size :], header)
        except InvalidTag:
            self.counters.bad_tag += 1
            return
        if block is None:
            block = self._begin(session, counter, shard, k, m, len(content))
        elif (k, m, len(content)) != (block.k, block.m, block.length):
            block = None
        if block is None or shard >= k + m:
            self.counters.malformed += 1
            return
        self.counters.shards += 1
        session.heard = now
        block.shards[shard] = content
        session.held += len(content)
        if len(block.shards) == k:
            self._whole(session, counter, block, now, records)
        elif session.held > self._limits.block_bytes:
            self.counters.blocks_crowded_out += 1
            self._lose(session, next(iter(session.blocks)))

    def _without_key(self, view: memoryview, header: bytes, now: float) -> None:
        if len(header) < HEADER.size or header[:2] != MAGIC:
            self.counters.not_of_the_link += 1
        elif header[2] != VERSION:
            self.counters.other_version += 1
        elif header[:8] != self._prefix:
            self.counters.other_link += 1
        elif header[20] == Type.KEY:
            self._key_frame(bytes(view), None, now)
        else:
            self.counters.unknown_session += 1

    def _unneeded(self, window: BlockWindow, counter: int, shard: int, k: int) -> None:
        if counter < window.floor - self._limits.window:
            self.counters.shards_old += 1
        elif shard >= k:
            self.counters.shards_spare += 1
        else:
            self.counters.shards_again += 1

    # Blocks.

    def _begin(
        self, session: _ReceivedSession, counter: int, shard: int, k: int, m: int, length: int
    ) -> _Block | None:
        """Begin a block; None: no sender makes such a shard."""
        if not erasure.possible(k, m) or shard >= k + m or not length or length % erasure.ALIGNMENT:
            return None
        self.counters.blocks_lost += self._window(session, counter).reach(counter)
        self._drop_passed(session)
        block = session.blocks[counter] = _Block(k=k, m=m, length=length)
        return block

    def _whole(
        self, session: _ReceivedSession, counter: int, block: _Block, now: float, records: list[RawRecord]
    ) -> None:
        shards = block.shards
        self._done(session, counter)
        lost = block.k - sum(shard < block.k for shard in shards)
        if lost:
            self.counters.blocks_repaired += 1
            self.counters.shards_repaired += lost
            chunks = erasure.code(block.k, block.m).data(shards)
        else:
            chunks = b"".join([shards[shard] for shard in range(block.k)])
        self.counters.blocks += 1
        self._take_values(session, chunks, now, records)

    def _take_values(
        self, session: _ReceivedSession, block: bytes, now: float, records: list[RawRecord]
    ) -> None:
        for value in session.values.add(block, now):
            try:
                record = RawRecord(key_of(value), value)
            except Malformed:
                self.counters.values_malformed += 1
                continue
            self.counters.values += 1
            self.counters.values_bytes += len(value)
            records.append(record)

    def _again(self, session: _ReceivedSession) -> Iterator[bytes]:
        """Yield the datagrams of blocks that are not whole, as if they had come under the newest key."""
        name = session.frames[max(session.frames)][_NAMES_KEY]
        cipher, _ = self._keys[name]
        for counter, block in session.blocks.items():
            for shard, content in block.shards.items():
                nonce = FIELDS.pack(Type.DATA, shard, block.k, block.m, counter)
                yield name + nonce + cipher.encrypt(nonce, content, name + nonce)

    def _window(self, session: _ReceivedSession, counter: int) -> BlockWindow:
        """Return the window of a session. What was sent before it was joined is not this receiver's loss."""
        if session.window is None:
            session.window = BlockWindow(
                self._limits.window, 0 if counter <= self._limits.window else counter
            )
        return session.window

    def _done(self, session: _ReceivedSession, counter: int) -> None:
        block = session.blocks.pop(counter)
        session.held -= len(block.shards) * block.length
        if session.window:
            session.window.finish(counter)

    def _lose(self, session: _ReceivedSession, counter: int) -> None:
        self._done(session, counter)
        self.counters.blocks_lost += 1

    def _pass_by(self, session: _ReceivedSession, floor: int) -> None:
        self.counters.blocks_lost += self._window(session, floor).pass_by(floor)
        self._drop_passed(session)

    def _drop_passed(self, session: _ReceivedSession) -> None:
        """Drop blocks that are below the window now, and count them."""
        if session.window:
            for counter in [counter for counter in session.blocks if counter < session.window.floor]:
                block = session.blocks.pop(counter)
                session.held -= len(block.shards) * block.length

    # Beats.

    def _beat(
        self, session: _ReceivedSession, cipher: AESGCM, header: bytes, view: memoryview, now: float
    ) -> None:
        kind, _, _, _, number = FIELDS.unpack(header[NONCE])
        if number <= session.beats:
            self.counters.beats_old += 1
            return
        try:
            content = cipher.decrypt(header[NONCE], view[HEADER.size :], header)
        except InvalidTag:
            self.counters.bad_tag += 1
            return
        if kind not in (Type.BEAT, Type.END) or len(content) < BEAT.size:
            self.counters.malformed += 1
            return
        self.counters.beats += 1
        session.beats = number
        session.beat = Beat(*BEAT.unpack_from(content))
        session.heard = session.beat_at = now
        self._window(session, session.beat.blocks).expect(session.beat.blocks)
        session.ended = session.ended or kind == Type.END
        if session.told is None:
            session.told = session.beat.blocks, now

    # Keys and sessions.

    def _key_frame(self, datagram: bytes, session: _ReceivedSession | None, now: float) -> None:
        if session and datagram in session.frames.values():
            self.counters.keys_repeated += 1
            return
        refusal = self._ring.glance(datagram)
        if refusal is None:
            tokens = self._of_known if datagram[_SESSION] in self._sessions else self._of_others
            if not tokens.take(now):
                self.counters.keys_over_rate += 1
                return
            opened = self._ring.open(datagram)
            if isinstance(opened, KeyFrame):
                self._take_on(opened, datagram, now)
                return
            refusal = opened
        match refusal:
            case Refusal.DAMAGED:
                self.counters.keys_damaged += 1
            case Refusal.STRANGER:
                self.counters.keys_of_strangers += 1
            case Refusal.BAD_SIGNATURE:
                self.counters.keys_badly_signed += 1
            case Refusal.OTHER_RECEIVER:
                self.counters.keys_for_others += 1

    def _take_on(self, frame: KeyFrame, datagram: bytes, now: float) -> None:
        line = line_of(frame.sender, frame.kind)
        session = self._sessions.get(frame.session)
        if session is None:
            if frame.start <= self._started.get(line, -1):
                self.counters.keys_old += 1
                return
            session = self._open(frame.session, line, frame.start)
            self._started[line] = frame.start
            others = [other for other in self._sessions.values() if other.line == line]
            for other in others[:-_SESSIONS_KEPT]:
                self._close(other)
        elif (session.line, session.start) != (line, frame.start) or frame.number in session.frames:
            self.counters.malformed += 1
            return
        if frame.number <= session.newest - KEYS_KEPT:
            self.counters.keys_old += 1
            return
        self.counters.keys += 1
        session.heard = now
        self._know(session, frame, datagram)

    def _know(self, session: _ReceivedSession, frame: KeyFrame, datagram: bytes) -> None:
        session.newest = max(session.newest, frame.number)
        session.frames[frame.number] = datagram
        session.created[frame.number] = frame.created
        self._keys[datagram[_NAMES_KEY]] = AESGCM(frame.key), session
        for number in [number for number in session.frames if number <= session.newest - KEYS_KEPT]:
            del self._keys[session.frames.pop(number)[_NAMES_KEY]]
            del session.created[number]

    def _open(self, session: bytes, line: str, start: int) -> _ReceivedSession:
        values = Assembler(self._limits.largest, self._limits.value_bytes, self.counters)
        opened = self._sessions[session] = _ReceivedSession(id=session, line=line, start=start, values=values)
        self.counters.sessions += 1
        return opened

    def _close(self, session: _ReceivedSession) -> None:
        """Close a session: what did not come will not come."""
        if session.window:
            self._pass_by(session, session.window.top)
        session.values.close()
        for datagram in session.frames.values():
            del self._keys[datagram[_NAMES_KEY]]
        del self._sessions[session.id]


def _sight(session: _ReceivedSession) -> Sight:
    sender, kind = parted(session.line)
    return Sight(
        sender=sender,
        kind=kind,
        start=session.start,
        key_created=max(list(session.created.values()), default=0),
        key=session.newest,
        heard=session.heard,
        beat=session.beat,
        beat_at=session.beat_at,
        missing=session.window.missing if session.window else 0,
    )
