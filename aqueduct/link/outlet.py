"""One link's sending side: a session and its socket, with a limit of bits per second."""

import logging
import time
from collections.abc import Iterable

from aqueduct.common import timestamps
from aqueduct.common.keys import ReceiverPublicKey, SenderKey, load
from aqueduct.errors import Refused
from aqueduct.link import udp
from aqueduct.link.options import Sending, Target
from aqueduct.link.wire.datagram import LARGEST_SEND, Send, payload_of
from aqueduct.link.wire.key_frame import Kind
from aqueduct.link.wire.sender import Session, SessionSettings

LARGEST_PAYLOAD = payload_of(9000, 4)  # unless told otherwise: loopback would allow 64 KB
END_TIMES, END_PAUSE_SECONDS = 5, 0.05
# What a clock may say, in milliseconds since 1970: not before there was a link, nor a hundred years later.
CLOCK_FROM = 1_735_689_600_000  # 2025-01-01
CLOCK_TO = 4_891_363_200_000  # 2125-01-01

log = logging.getLogger(__name__)


class Outlet:
    """The sending side of one link. Times called `now` are time.monotonic()'s. First `begin` it."""

    session: Session

    def __init__(self, settings: Sending, target: Target, kind: Kind) -> None:
        """Prepare to send. Refused if a key, an address, a size or this host's clock can't be used."""
        check_clock()
        self.target = target
        self._receiver = load(ReceiverPublicKey, settings.public_key_file)
        self._sender = load(SenderKey, settings.signing_key_file)
        address = udp.resolve(target.host, target.port)
        self._settings = SessionSettings(
            link=target.link,
            payload=_payload(settings, address),
            kind=kind,
            parity=settings.parity,
            interleave=settings.interleave,
            linger=settings.linger / 1000,
            rotate=settings.generate_new_symmetric_key_every,
        )
        self._bits_per_second = settings.bits_per_second
        self._free_at = 0.0
        self._socket = udp.SendingSocket(address, settings.nic)

    def begin(self, start: int) -> None:
        """Begin a session with this start. Refused if a datagram can't hold its key."""
        self.session = Session(
            self._settings, self._sender, self._receiver, now=time.monotonic(), start=start
        )

    @property
    def refused(self) -> int:
        """Datagrams that the kernel would not take."""
        return self._socket.refused

    @property
    def next_due(self) -> float:
        return self.session.next_due

    def open(self) -> None:
        """Send what is due until the receiver has the key, as far as can be known."""
        while (now := time.monotonic()) < self.session.opens:
            self.tick(now)
            time.sleep(max(0.0, min(self.session.next_due, self.session.opens) - time.monotonic()))

    def add(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._send(self.session.add(value, time.monotonic()))

    def tick(self, now: float) -> None:
        if now >= self.session.next_due:
            self._send(self.session.due(now, timestamps.now()))

    def end(self) -> None:
        """Send what waits, and, some times, that nothing follows."""
        for _ in range(END_TIMES):
            self._send(self.session.end(timestamps.now()))
            time.sleep(END_PAUSE_SECONDS)

    def close(self) -> None:
        self._socket.close()

    def _send(self, sends: list[Send]) -> None:
        for send in sends:
            if self._bits_per_second:
                self._pace(sum(map(len, send)) * 8)
            self._socket.send(send, self.session.size)

    def _pace(self, bits: int) -> None:
        """Wait for the rate. What was not used is not saved up, but for the clock's own coarseness."""
        now = time.monotonic()
        self._free_at = max(self._free_at, now - 0.005)
        if self._free_at > now:
            time.sleep(self._free_at - now)
        self._free_at += bits / self._bits_per_second if self._bits_per_second else 0.0


def _payload(settings: Sending, address: udp.Address) -> int:
    most = payload_of(settings.mtu or udp.mtu(address, settings.nic), address.ip_version)
    if settings.payload_size > most:
        raise Refused(
            "datagram-size-unsuitable",
            f"payloadSize {settings.payload_size} is too large for the MTU: datagrams to {address} can "
            f"contain at most {most} bytes. Reduce payloadSize.",
        )
    return settings.payload_size or min(most, LARGEST_PAYLOAD, LARGEST_SEND)


def check_clock() -> None:
    """Check this host's clock.

    Refused if a session that began now would be a replay for ever, or make all later ones replays.
    """
    if not CLOCK_FROM <= timestamps.now() < CLOCK_TO:
        year = 1970 + timestamps.now() // (365.2425 * 86_400_000)
        raise Refused(
            "clock-wrong",
            f"The clock of this host is wrong: its year is {year:.0f}. Set the clock first. A receiving end "
            "rejects a session that began before its last session.",
        )


def begin_after(last: int) -> int:
    """Return a session's start: now, but later than the start of the last one of its kind.

    Both in milliseconds since 1970. One that began earlier would be taken for a replay of an old recording.
    """
    if (behind := last - timestamps.now()) >= 0:
        log.warning(
            "the clock of this host was set back: the previous session began %.0f s after the present time "
            "of the clock. The start of the new session is set to directly after the start of the previous "
            "session",
            behind / 1000,
        )
    return max(timestamps.now(), last + 1)
