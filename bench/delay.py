"""A line between this network namespace and another one, on which each packet takes some time.

python -m bench.delay NAMESPACE

Each line of stdin is the milliseconds each way from then on; it is answered with a line. Some kernels have no
netem, so packets pass from one TUN device to another through this process. TCP at both ends is the kernel's:
windows, buffers and retransmissions are real.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.lossy import entered

HERE, THERE = "198.18.78.1", "198.18.78.2"  # RFC 2544: for benchmarks
DEVICES = "aqueduct-d0", "aqueduct-d1"
MTU = 1500
QUEUE = 10_000  # packets that wait for this process
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
AT_ONCE = 64  # packets that are read before others are written


class Line:
    """The end of a line at site A, which reaches an address of a namespace."""

    def __init__(self, relay: "subprocess.Popen[str]", namespace: str) -> None:
        self.namespace = namespace
        self.address = THERE
        self._relay = relay

    @property
    def enter(self) -> Sequence[str]:
        """Return how a command begins that runs at the far end."""
        return "ip", "netns", "exec", self.namespace

    def delay(self, milliseconds: int) -> None:
        """Let each packet take so long from now on."""
        if not (self._relay.stdin and self._relay.stdout):
            raise RuntimeError("the relay has no pipes")
        print(milliseconds, file=self._relay.stdin, flush=True)
        if not self._relay.stdout.readline():
            raise SystemExit("The line's process has ended: it needs /dev/net/tun and CAP_NET_ADMIN.")


@contextmanager
def line(namespace: str = "aqueduct-bench-far") -> Iterator[Line]:
    """Yield a line to a new namespace, without a delay at first."""
    _ip("netns", "add", namespace)
    try:
        _ip("-n", namespace, "link", "set", "lo", "up")
        command = [sys.executable, "-m", "bench.delay", namespace]
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as relay:
            try:
                made = Line(relay, namespace)
                made.delay(0)
                yield made
            finally:
                relay.kill()
    finally:
        _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)  # noqa: S603, S607
    if done.returncode:
        raise SystemExit(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@dataclass
class _Way:
    """One direction: packets that are on their way, each with the time when it arrives."""

    source: int
    target: int
    packets: deque[tuple[float, bytes]] = field(default_factory=deque)

    def read(self, seconds: float) -> None:
        for _ in range(AT_ONCE):
            try:
                packet = os.read(self.source, 1 << 16)
            except BlockingIOError:
                return
            self.packets.append((time.monotonic() + seconds, packet))

    def write(self, now: float) -> None:
        while self.packets and self.packets[0][0] <= now:
            os.write(self.target, self.packets.popleft()[1])


class _Relay:
    def __init__(self, here: int, there: int) -> None:
        self.seconds = 0.0
        self._ways = {here: _Way(here, there), there: _Way(there, here)}

    def run(self) -> None:
        while True:
            due = [way.packets[0][0] for way in self._ways.values() if way.packets]
            wait = max(0.0, min(due) - time.monotonic()) if due else None
            for source in select.select([*self._ways], [], [], wait)[0]:
                self._ways[source].read(self.seconds)
            now = time.monotonic()
            for way in self._ways.values():
                way.write(now)


def _device(name: str, address: str) -> int:
    """Make a device in the namespace of this thread, and return what its packets pass through."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    _ip("address", "add", f"{address}/30", "dev", name)
    _ip("link", "set", name, "mtu", str(MTU), "txqueuelen", str(QUEUE), "up")
    return descriptor


def main(namespace: str) -> None:
    here = _device(DEVICES[0], HERE)
    with entered(namespace):
        there = _device(DEVICES[1], THERE)
    relay = _Relay(here, there)
    threading.Thread(target=relay.run, daemon=True).start()
    for milliseconds in sys.stdin:
        relay.seconds = int(milliseconds) / 1000
        print(milliseconds.strip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
