"""The memory of a receiver over a restart: a state, and what is unfinished.

By the state nothing passes twice, and the sessions' keys are known at once. There is no secret in it: key
frames are sealed for the receiver. What is unfinished is in part in the clear, and never in a file.
"""

import struct
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct.common import strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.link.wire.key_frame import Kind
from aqueduct.link.wire.window import BlockSpan

VERSION = 1
_UNFINISHED = struct.Struct(">8sIQ")  # session, how many datagrams, bytes of chunks
_LENGTH = struct.Struct(">H")  # of a datagram


@dataclass(frozen=True, kw_only=True)
class SessionState:
    session: str  # hexadecimal, as are fingerprints
    line: str
    start: int
    key: int  # the highest number
    beat: int  # the number of the last one; -1: none
    floor: int | None  # as in BlockWindow; None: no block was heard of
    done: tuple[BlockSpan, ...]
    frames: tuple[str, ...] = ()  # key frames in use, base64


@dataclass(frozen=True, kw_only=True)
class ReceiverState:
    version: int
    link: int
    started: Mapping[str, int]  # the last session's start, by line: <sender's fingerprint>/live|resend
    sessions: tuple[SessionState, ...]

    def dumps(self) -> bytes:
        return strict_json.dumps(self)


class Unfinished(NamedTuple):
    """What a session has of blocks and values that are not whole."""

    session: bytes
    datagrams: tuple[bytes, ...]  # of blocks, as they came
    chunks: bytes  # of values, as in a block

    def dumps(self) -> Iterator[bytes]:
        yield _UNFINISHED.pack(self.session, len(self.datagrams), len(self.chunks))
        for datagram in self.datagrams:
            yield _LENGTH.pack(len(datagram))
            yield datagram
        yield self.chunks


def line_of(sender: bytes, kind: Kind) -> str:
    return f"{sender.hex()}/{kind.name.lower()}"


def parted(line: str) -> tuple[str, Kind]:
    """Return the sender's fingerprint in hexadecimal, and the kind. KeyError if this isn't a line."""
    sender, _, kind = line.partition("/")
    return sender, Kind[kind.upper()]


def loads(content: bytes, name: str, link: int) -> ReceiverState:
    """Parse the state file called `name`. Failed: it is damaged; Refused: it is another link's."""
    try:
        state = strict_json.loads(ReceiverState, content)
        if state.version != VERSION:
            raise ValueError
        for session in state.sessions:
            parted(session.line)
            if len(bytes.fromhex(session.session)) != 8 or session.line not in state.started:
                raise ValueError
            for frame in session.frames:
                b64decode(frame, validate=True)
    except (ValueError, KeyError):  # strict_json's Unreadable is one, too
        raise Failed(
            "link-state-unreadable",
            f"{name} is not a state file of a receiving end that this release can read. Without the state, "
            "the receiving end would accept recorded datagrams again. Restore the file. If only the sender "
            "can send to this host, you can move the file to another folder instead.",
        ) from None
    if state.link != link:
        raise Refused(
            "link-state-mismatch",
            f"{name} is the state file of link {state.link}, not of link {link}. Set a separate stateDir "
            "for each link.",
        )
    return state


def loads_unfinished(content: memoryview) -> Iterable[Unfinished]:
    """Read what `Unfinished.dumps` wrote; ValueError or struct.error if it is anything else."""
    at = 0

    def take(size: int) -> memoryview:
        nonlocal at
        at += size
        if at > len(content):
            raise ValueError("the file is truncated")
        return content[at - size : at]

    while at < len(content):
        session, datagrams, chunks = _UNFINISHED.unpack(take(_UNFINISHED.size))
        came = tuple(bytes(take(*_LENGTH.unpack(take(_LENGTH.size)))) for _ in range(datagrams))
        yield Unfinished(session, came, bytes(take(chunks)))
