"""The receiving end of a link with a network that loses datagrams at random, each by itself.

python -m bench.lossy PERCENT FILE [NAMESPACE]

In a network namespace it listens there, and writes to Kafka from here.
"""

import ctypes
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aqueduct.cli import main
from aqueduct.link import udp

_LIBC = ctypes.CDLL(None, use_errno=True)


def lossy(percent: float) -> None:
    receive, chance = udp.ReceivingSocket.receive, random.Random(1)  # noqa: S311

    def receive_some(self: udp.ReceivingSocket, seconds: float) -> tuple[memoryview, int]:
        data, size = receive(self, seconds)
        if not size:
            return data, size
        starts = range(0, len(data), size)
        lost = [start for start in starts if chance.random() * 100 < percent]
        if not lost:
            return data, size
        kept = [data[start : start + size] for start in starts if start not in lost]
        return memoryview(b"".join(kept)), size if kept else 0

    udp.ReceivingSocket.receive = receive_some  # type: ignore[method-assign]


def elsewhere(namespace: str) -> None:
    listen = udp.ReceivingSocket.__init__

    def listen_there(self: udp.ReceivingSocket, *arguments: Any) -> None:
        with entered(namespace):
            listen(self, *arguments)

    udp.ReceivingSocket.__init__ = listen_there  # type: ignore[method-assign, assignment]


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Move this thread into the namespace; a socket stays in the namespace in which it was made."""
    here, there = (os.open(path, os.O_RDONLY) for path in ("/proc/self/ns/net", f"/run/netns/{namespace}"))
    _enter(there)
    try:
        yield
    finally:
        _enter(here)
        os.close(here)
        os.close(there)


def _enter(descriptor: int) -> None:
    """Enter a namespace; os.setns exists from Python 3.12 on."""
    if _LIBC.setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    if float(sys.argv[1]):
        lossy(float(sys.argv[1]))
    if len(sys.argv) > 3:
        elsewhere(sys.argv[3])
    sys.exit(main(["diode", "downstream", sys.argv[2]]))
