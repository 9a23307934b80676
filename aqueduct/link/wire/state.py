"""The memory of a receiver over a restart, so that nothing passes twice. There is no secret in it."""

from collections.abc import Mapping
from dataclasses import dataclass

from aqueduct import strict_json
from aqueduct.errors import Failed, Refused
from aqueduct.link.wire.key_frame import Kind
from aqueduct.link.wire.window import BlockSpan

VERSION = 1


@dataclass(frozen=True)
class SessionState:
    session: str  # hexadecimal, as are fingerprints
    line: str
    start: int
    key: int  # the highest number
    beat: int  # the number of the last one; -1: none
    floor: int | None  # as in BlockWindow; None: no block was heard of
    done: tuple[BlockSpan, ...]


@dataclass(frozen=True)
class ReceiverState:
    version: int
    link: int
    started: Mapping[str, int]  # the last session's start, by line: <sender's fingerprint>/live|resend
    sessions: tuple[SessionState, ...]

    def dumps(self) -> bytes:
        return strict_json.dumps(self)


def line_of(sender: bytes, kind: Kind) -> str:
    return f"{sender.hex()}/{kind.name.lower()}"


def parted(line: str) -> tuple[str, Kind]:
    """Return the sender's fingerprint in hexadecimal, and the kind. KeyError if this isn't a line."""
    sender, _, kind = line.partition("/")
    return sender, Kind[kind.upper()]


def loads(data: bytes, name: str, link: int) -> ReceiverState:
    """Parse the state file called `name`. Failed: it is damaged; Refused: it is another link's."""
    try:
        state = strict_json.loads(ReceiverState, data)
        if state.version != VERSION:
            raise ValueError
        for each in state.sessions:
            parted(each.line)
            if len(bytes.fromhex(each.session)) != 8 or each.line not in state.started:
                raise ValueError
    except (ValueError, KeyError):  # strict_json's Unreadable is one, too
        raise Failed(
            f"{name} isn't a state of a link's receiver that this release can read. Without it a recording "
            "of what crossed could be played again: restore it, or remove it if none but the sender can send."
        ) from None
    if state.link != link:
        raise Refused(
            f"{name} is the state of link {state.link}, not {link}: give each link its own stateDir."
        )
    return state
