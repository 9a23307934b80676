"""A link's receiving end, a real process with a real broker, under datagrams that no sender of ours makes.

    python tests/fuzz_link.py [--datagrams N] [--seed S]

They come from who listens to the link (what crossed, changed in all ways), from who has the receiver's
public key as well (sessions of a stranger's own), and from two senders that the receiver knows: one seals for
another receiver, one has gone mad and sends authentic nonsense. Afterwards the good sender's stream must go
on where it stood, the raw topic hold what that one sent and nothing else, each datagram be counted once, and
memory be bounded. `script/fuzz-link` runs a million.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from kit import clients

from aqueduct.common import timestamps
from aqueduct.common.keys import ReceiverKey, ReceiverPublicKey, SenderKey, load
from aqueduct.link import keygen, udp
from aqueduct.link.wire import frame, key_frame
from aqueduct.link.wire.blocks import CHUNK
from aqueduct.link.wire.datagram import BEAT, FIELDS, HEADER, Send, Type, prefix, split
from aqueduct.link.wire.frame import Announcement, Frame
from aqueduct.link.wire.key_frame import BODY, SIGNATURE, Kind
from aqueduct.link.wire.sender import Session, SessionSettings
from servers.broker import Broker, running
from servers.process import free_ports

LINK = 7
PAYLOAD = 1472  # an MTU of 1,500
SECONDS = 60  # that anything may take
MOST_MEMORY = 256 << 20  # bytes that the process may grow by
STRANGERS, FORGED = 20, 300
PARTITIONS = 2

# How a datagram is counted that is not taken; each of them must have happened.
REFUSALS = (
    "not_of_the_link", "other_version", "other_link", "unknown_session", "bad_tag", "malformed",
    "shards_again", "shards_old", "beats_old", "keys_repeated", "keys_damaged", "keys_of_strangers",
    "keys_badly_signed", "keys_for_others", "keys_over_rate",
)  # fmt: skip
COUNTED_ONCE = (*REFUSALS, "shards", "beats", "keys", "shards_spare", "keys_old")
# What comes of a mad sender's authentic nonsense.
OF_NONSENSE = ("blocks_malformed", "blocks_lost", "values_oversized", "values_malformed")


@dataclass(frozen=True)
class Outcome:
    sent: Mapping[str, int]  # datagrams by kind
    counters: Mapping[str, int]
    seconds: float
    memory: tuple[int, int]  # bytes: before, and the most
    dropped: int  # datagrams, by the kernel
    faults: tuple[str, ...]  # what should not be


# What is sent

Make = Callable[[], bytes]


@dataclass(frozen=True)
class Nonsense:
    """A session whose data key is ours: what it says is authentic."""

    session: bytes
    key: bytes

    def key_frame(self, receiver: ReceiverPublicKey, sender: SenderKey, start: int) -> bytes:
        return key_frame.seal(
            receiver, sender, link=LINK, session=self.session, number=1, start=start, created=start,
            kind=Kind.RESEND, key=self.key,
        )  # fmt: skip

    def datagram(self, of: tuple[int, int, int, int, int], content: bytes) -> bytes:
        """Build a datagram. `of`: type, shard, k, m, counter."""
        nonce = FIELDS.pack(*of)
        header = prefix(LINK) + self.session + (1).to_bytes(4) + nonce
        return header + AESGCM(self.key).encrypt(nonce, content, header)


@dataclass
class Attack:
    """The maker of datagrams; `recorded` are a real session's."""

    chance: random.Random
    recorded: list[bytes]
    strangers: list[bytes]
    forged: list[bytes]
    misdirected: list[bytes]
    mad: Nonsense  # its blocks are near each other
    madder: Nonsense  # they are anywhere
    _block: int = 0
    kinds: dict[str, tuple[int, Make]] = field(init=False)  # with a weight

    def __post_init__(self) -> None:
        self.kinds = {
            "replayed": (5, self._any),
            "with bits flipped": (25, self._flipped),
            "with a field changed": (20, self._changed),
            "cut": (8, self._cut),
            "with a tail": (5, self._grown),
            "of two": (8, self._spliced),
            "noise": (4, self._noise),
            "a header and noise": (8, self._headed_noise),
            "a stranger's": (8, lambda: self.chance.choice(self.strangers)),
            "forged keys": (3, lambda: self.chance.choice(self.forged)),
            "for another receiver": (1, lambda: self.chance.choice(self.misdirected)),
            "authentic nonsense": (5, self._nonsense),
        }

    def datagrams(self, count: int) -> Iterator[tuple[str, bytes]]:
        names = list(self.kinds)
        weights = [weight for weight, _ in self.kinds.values()]
        for name in self.chance.choices(names, weights, k=count):
            yield name, self.kinds[name][1]()

    def _any(self) -> bytes:
        return self.chance.choice(self.recorded)

    def _some(self) -> bytes:
        pool = self.chance.choices((self.recorded, self.strangers, self.forged), (8, 1, 1))[0]
        return self.chance.choice(pool)

    def _flipped(self) -> bytes:
        data = bytearray(self._some())
        bits = len(data) * 8
        # Half of them where the header and a key frame's fields are.
        among = bits if self.chance.random() < 0.5 else min(bits, SIGNATURE * 8)
        for at in {self.chance.randrange(among) for _ in range(self.chance.choice((1, 1, 1, 2, 8)))}:
            data[at // 8] ^= 1 << at % 8
        return bytes(data)

    def _changed(self) -> bytes:
        """Change one field of the header, often to a value at an edge."""
        data = self._some()
        fields = list(HEADER.unpack_from(data))
        at = self.chance.randrange(len(fields))
        if isinstance(fields[at], bytes):
            fields[at] = self.chance.randbytes(len(fields[at]))
        else:
            bits = (0, 8, 8, 32, 0, 32, 8, 8, 8, 8, 64)[at]
            edges = (0, 1, fields[at] + 1, fields[at] - 1, (1 << bits) - 1, self.chance.getrandbits(bits))
            fields[at] = self.chance.choice(edges) % (1 << bits)
        return HEADER.pack(*fields) + data[HEADER.size :]

    def _cut(self) -> bytes:
        data = self._some()
        return data[: self.chance.choice((0, 1, HEADER.size, self.chance.randrange(len(data))))]

    def _grown(self) -> bytes:
        return self._some() + self.chance.randbytes(self.chance.randint(1, 60))

    def _spliced(self) -> bytes:
        at = self.chance.choice((8, 20, HEADER.size, self.chance.randrange(PAYLOAD)))
        return self._some()[:at] + self._some()[at:]

    def _noise(self) -> bytes:
        return self.chance.randbytes(self.chance.choice((0, 1, 31, 32, 48, PAYLOAD, 9000)))

    def _headed_noise(self) -> bytes:
        kind = self.chance.choice((0, 1, 2, 3, 4, 255))
        session = self.chance.choice(self.recorded)[8:20]
        fields = FIELDS.pack(kind, *self.chance.randbytes(3), self.chance.getrandbits(64))
        return prefix(LINK) + session + fields + self.chance.randbytes(self.chance.choice((0, 15, 16, 1424)))

    def _nonsense(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.05:
            kind = chance.choice((Type.BEAT, Type.BEAT, Type.END, 4, 200))
            blocks = chance.choice((self._block, chance.getrandbits(64)))
            content = BEAT.pack(blocks, chance.getrandbits(64))[: chance.choice((0, 8, 16, 16, 16))]
            who = self.madder if kind == Type.END or blocks > self._block else self.mad
            return who.datagram((kind, 0, 0, 0, chance.getrandbits(32)), content)
        self._block += 1
        who, near = self.mad, chance.choice((0, 0, 1, 5, 2000))
        counter = max(0, self._block - near)
        if chance.random() < 0.1:
            who, counter = self.madder, chance.getrandbits(chance.choice((8, 63, 64)))
        k = chance.choice((1, 1, 1, 1, 2, 200, chance.getrandbits(8)))
        m = chance.choice((0, 1, 30, chance.getrandbits(8)))
        shard = chance.choice((0, 0, k - 1 & 255, chance.getrandbits(8)))
        return who.datagram((Type.DATA, shard, k, m, counter), self._chunks())

    def _chunks(self) -> bytes:
        """Build what a block may hold, or may not."""
        chance = self.chance
        parts = []
        for _ in range(chance.choice((1, 1, 3, 10))):
            part = chance.randbytes(chance.choice((0, 1, 20, 100)))
            length = chance.choice((len(part), len(part) + 1, 500, chance.getrandbits(32)))
            start = chance.choice((0, 0, 1, len(part), chance.getrandbits(32)))
            size = chance.choice((len(part), len(part), len(part) + 1, chance.getrandbits(32)))
            parts.append(CHUNK.pack(chance.choice((1, chance.getrandbits(64))), length, start, size) + part)
        content = b"".join(parts)
        aligned = -len(content) % 16 if chance.random() < 0.95 else chance.randrange(16)
        return content + bytes(aligned)


def value(number: int, size: int) -> bytes:
    """Build a frame of the good sender's that is unlike all others."""
    return frame.pack(
        Frame(
            topic="good",
            topic_id=UUID(int=1),
            partition=number % PARTITIONS,
            first=number,
            last=number,
            batches=os.urandom(size),
        )
    )


def strangers_datagrams(receiver: ReceiverPublicKey) -> Iterator[bytes]:
    """Yield whole sessions, as ours are, but that nobody knows who signed them."""
    for _ in range(STRANGERS):
        session = Session(
            SessionSettings(link=LINK, payload=PAYLOAD),
            SenderKey.generate(),
            receiver,
            now=0,
            start=timestamps.now(),
        )
        sends = session.due(0, timestamps.now())
        told = Announcement(
            topic="evil", topic_id=UUID(int=2), partition=0, first=0, end=100, compacted=False
        )
        for each in (
            frame.pack(
                Frame(
                    topic="evil", topic_id=UUID(int=2), partition=0, first=0, last=9, batches=b"evil" * 1000
                )
            ),
            frame.pack(told),
        ):
            sends += session.add(each, 0)
        for send in [*sends, *session.end(timestamps.now())]:
            yield from split(send)


def forged_keys(receiver: ReceiverPublicKey, known: SenderKey) -> Iterator[bytes]:
    """Yield key frames that claim to be a known sender's."""
    for number in range(FORGED):
        forger = SenderKey.generate()
        made = key_frame.seal(
            receiver, forger, link=LINK, session=os.urandom(8), number=1 + number % 3,
            start=timestamps.now() + number, created=timestamps.now(), kind=Kind(number % 2),
            key=os.urandom(32),
        )  # fmt: skip
        start, created, kind, to, _ = BODY.unpack_from(made, HEADER.size)
        body = BODY.pack(start, created, kind, to, known.public.fingerprint)
        signed = made[: HEADER.size] + body + made[HEADER.size + BODY.size : -SIGNATURE]
        yield signed + forger.sign(signed)


# Who sends and who receives


class Target:
    """The process, and the way to it."""

    def __init__(self, broker: Broker, folder: Path, raw: str) -> None:
        self._folder, self._raw, self._broker = folder, raw, broker
        for kind, name in (("receiver", "down"), ("receiver", "other"), ("sender", "up"), ("sender", "mad")):
            keygen.make(kind, folder, name, x25519=False)  # type: ignore[arg-type]
        (folder / "state").mkdir()
        self._port, self._metrics = *free_ports(1, socket.SOCK_DGRAM), *free_ports(1)
        options = {
            "bootstrapServers": broker.plaintext, "targetIP": "127.0.0.1", "targetPort": self._port,
            "link": LINK, "rawTopic": raw, "stateDir": folder / "state",
            "privateKeyFiles": folder / "down.key",
            "senderPublicKeyFile": f"{folder}/up.pub,{folder}/mad.pub",
            "metricsPort": self._metrics,
        }  # fmt: skip
        (folder / "down.properties").write_text("".join(f"{key}={each}\n" for key, each in options.items()))
        address = udp.resolve("127.0.0.1", self._port)
        self._sender = udp.SendingSocket(address)
        # As much as the receiver gets; what is under way must fit, and a datagram takes more than its bytes.
        probe = udp.ReceivingSocket(udp.resolve("127.0.0.1", 0))
        self._room = probe.buffer_bytes // 2
        probe.close()
        self._under_way = 0
        self.sent = 0  # to this process

    def start(self) -> None:
        with (self._folder / "log").open("a") as log:
            command = [sys.executable, "-m", "aqueduct.cli", "diode", "downstream"]
            command += ["--config", str(self._folder / "down.properties")]
            self._process = subprocess.Popen(command, stderr=log)
        self.sent = 0
        self.until(lambda: self.counters().get("datagrams") == 0, "the start")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        if code := self._process.wait(SECONDS):
            raise AssertionError(f"exit code {code}: {self.said()}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        return (self._folder / "log").read_text()[-2000:]

    def counters(self) -> dict[str, int]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._metrics}/metrics", timeout=SECONDS
            ) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:  # it does not listen yet
            return {}
        start, end = "aqueduct_diode_downstream_", "_total "
        split_up = (line.removeprefix(start).partition(end) for line in lines if line.startswith(start))
        return {name: int(float(figure)) for name, found, figure in split_up if found}

    def memory(self, which: str = "VmRSS") -> int:
        """Return bytes that are resident; VmHWM: the most there ever were."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(f"{which}:")[2].split()[0]) * 1024

    def throw(self, datagrams: list[bytes], size: int) -> None:
        """Throw datagrams: those of a session's size in sends of many, like a sender's, others one by one."""
        alike = [each for each in datagrams if len(each) == size]
        sends = [alike, *([each] for each in datagrams if len(each) != size)]
        for send in filter(None, sends):
            self._sender.send(send, max(1, len(send[0])))
        self.sent += len(datagrams)
        self._under_way += sum(len(each) + 2304 for each in datagrams)
        if self._under_way > self._room:
            self.settle()

    def send(self, sends: list[Send]) -> list[bytes]:
        """Throw the good sender's sends as datagrams, and return these."""
        found = [each for send in sends for each in split(send)]
        for each in found:
            self.throw([each], len(each))
        return found

    def dropped(self) -> int:
        """Return datagrams that never came to the process, by the kernel's own count."""
        for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == self._port:
                return int(fields[-1])
        raise AssertionError(f"nothing listens at {self._port}: {self.said()}")

    def settle(self) -> None:
        """Wait until all that was sent has come, or was dropped."""
        self.until(
            lambda: self.counters().get("datagrams", 0) + self.dropped() == self.sent, "taking all datagrams"
        )
        self._under_way = 0

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            if self._process.poll() is not None:
                raise AssertionError(
                    f"the receiving end is gone, code {self._process.returncode}: {self.said()}"
                )
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{what} took too long; sent {self.sent}: {self.counters()} {self.said()}"
                )
            time.sleep(0.002)

    def written(self) -> Counter[tuple[bytes, bytes]]:
        """Return the raw topic's records."""
        messages = clients.read(self._broker, self._raw, *range(PARTITIONS))
        return Counter((message.key() or b"", message.value() or b"") for message in messages)


def fuzz(broker: Broker, folder: Path, count: int, seed: int, tell: Callable[[str], None]) -> Outcome:
    """Throw `count` datagrams, from this seed, at a process of its own that writes to its own topic."""
    target = Target(broker, folder, clients.create(broker, clients.unique("raw"), PARTITIONS))
    target.start()
    try:
        return _fuzz(target, folder, count, random.Random(seed), tell)  # noqa: S311
    finally:
        target.kill()


def _fuzz(
    target: Target, folder: Path, count: int, chance: random.Random, tell: Callable[[str], None]
) -> Outcome:
    receiver = load(ReceiverKey, folder / "down.key").public
    other = load(ReceiverKey, folder / "other.key").public
    good, mad = (load(SenderKey, folder / f"{name}.key") for name in ("up", "mad"))
    expected: Counter[bytes] = Counter()

    def values(*sizes: int) -> list[bytes]:
        made = [value(len(expected) + number, size) for number, size in enumerate(sizes)]
        expected.update(made)
        return made

    session, recorded = _begin(target, good, receiver)
    for each in values(1, 100, 1000, 1400, 1500, 30_000, 400_000, 600_000):
        recorded += target.send(session.add(each, time.monotonic()))
    recorded += target.send(session.flush())
    target.settle()
    # Of these only a part comes; the rest when all is over.
    held = [split(send) for each in values(50_000, 200) for send in [*session.add(each, 0), *session.flush()]]
    for send in held:
        target.throw(send[::2], len(send[0]))
        recorded += send[::2]
    sessions = [Nonsense(os.urandom(8), os.urandom(32)) for _ in range(2)]
    for number, of in enumerate(sessions):
        target.throw([of.key_frame(receiver, mad, timestamps.now() + number)], session.size)
    target.settle()
    assert target.counters()["keys"] == 4, target.counters()

    wrong = Session(
        SessionSettings(link=LINK, payload=PAYLOAD), good, other, now=0, start=timestamps.now() + 1000
    )
    misdirected = [each for send in wrong.due(0, timestamps.now()) for each in split(send)]
    attack = Attack(
        chance, recorded, list(strangers_datagrams(receiver)), list(forged_keys(receiver, good)), misdirected,
        *sessions,
    )  # fmt: skip
    memory = target.memory()
    sent: Counter[str] = Counter()
    began = time.monotonic()
    batch: list[bytes] = []
    for name, datagram in attack.datagrams(count):
        sent[name] += 1
        batch.append(datagram)
        if len(batch) == 40:
            target.throw(batch, session.size)
            batch = []
        if sent.total() % 100_000 == 0:
            tell(f"{sent.total():,} of {count:,} datagrams; {target.memory() >> 20} MiB")
    target.throw(batch, session.size)
    target.settle()
    seconds = time.monotonic() - began

    for send in held:
        target.throw(send[1::2], len(send[0]))
    target.send([*session.add(values(3000)[0], 0), *session.flush()])
    target.settle()
    again, _ = _begin(target, good, receiver)
    target.send([*again.add(values(5000)[0], 0), *again.flush()])
    target.settle()
    target.until(lambda: target.counters()["written"] >= len(expected), "writing")
    counters = target.counters()
    most, dropped = target.memory("VmHWM"), target.dropped()
    target.stop()
    # What it kept of all that must be no trouble, either.
    target.start()
    last, _ = _begin(target, good, receiver)
    target.send([*last.add(values(2000)[0], 0), *last.flush()])
    target.settle()
    target.stop()
    faults = list(_faults(counters, target.written(), expected, most - memory))
    return Outcome(sent, counters, seconds, (memory, most), dropped, tuple(faults))


def _begin(target: Target, sender: SenderKey, receiver: ReceiverPublicKey) -> tuple[Session, list[bytes]]:
    """Begin a session that the receiver knows. Keys are repeated: it verifies only so many a second."""
    now = time.monotonic()
    session = Session(
        SessionSettings(link=LINK, payload=PAYLOAD, linger=1e9),
        sender,
        receiver,
        now=now,
        start=timestamps.now(),
    )
    before = target.counters()["keys"]
    sent = target.send(session.due(now, timestamps.now()))

    def known() -> bool:
        target.send(session.due(max(time.monotonic(), session.next_due), timestamps.now()))
        target.settle()
        return target.counters()["keys"] >= before + 2

    target.until(known, "taking on a session")
    return session, sent


def _faults(
    counters: Mapping[str, int],
    written: Counter[tuple[bytes, bytes]],
    expected: Counter[bytes],
    grown: int,
) -> Iterator[str]:
    for name in (*REFUSALS, *OF_NONSENSE):
        if not counters[name]:
            yield f"nothing was counted as {name}"
    if (told := sum(counters[name] for name in COUNTED_ONCE)) != counters["datagrams"]:
        yield f"of {counters['datagrams']} datagrams {told} are counted by kind"
    if grown > MOST_MEMORY:
        yield f"it grew by {grown >> 20} MiB"
    wanted = Counter({(frame.key_of(each), each): times for each, times in expected.items()})
    for (key, _), times in (wanted - written).items():
        yield f"{key!r} is missing {times} times"
    for (key, _), times in (written - wanted).items():
        yield f"{key!r} is there {times} times too often"
    for name in ("dropped", "refused"):
        if counters[name]:
            yield f"{counters[name]} values were {name}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/fuzz-link")
    parser.add_argument("--datagrams", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    args = parser.parse_args()

    def tell(line: str) -> None:
        print(line, flush=True)

    tell(f"seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="aqueduct-fuzz-") as name:
        folder = Path(name)
        with running(folder / "broker") as broker:
            outcome = fuzz(broker, folder, args.datagrams, args.seed, tell)
    width = max(map(len, (*outcome.sent, *outcome.counters)))
    for title, figures in (("sent", outcome.sent), ("counted by the receiving end", outcome.counters)):
        print(f"\n{title}")
        for what, number in figures.items():
            print(f"  {what:{width}} {number:>12,}")
    before, most = (each >> 20 for each in outcome.memory)
    total = sum(outcome.sent.values())
    print(
        f"\n{total:,} datagrams in {outcome.seconds:.0f} s, of which the kernel dropped {outcome.dropped:,}"
    )
    print(f"memory: {before} MiB before, {most} MiB at most")
    for fault in outcome.faults:
        print(f"fault: {fault}", file=sys.stderr)
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
