"""A bad network: takes datagrams at one port of this machine and gives them to another, with faults."""

import random
import socket
import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Faults:
    """Shares of all datagrams."""

    lose: float = 0
    double: float = 0
    delay: float = 0  # until some others have passed
    flip: float = 0  # one bit


class Relay:
    def __init__(self, target: int, seed: int = 1) -> None:
        self.faults = Faults()
        self.counted: Counter[str] = Counter()
        self.recorded: list[bytes] | None = None  # what came in, if wanted
        self._chance = random.Random(seed)  # noqa: S311
        self._target = "127.0.0.1", target
        self._held: list[bytes] = []
        self._in = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._in.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self._in.bind(("127.0.0.1", 0))
        self._in.settimeout(0.2)
        self.port = self._in.getsockname()[1]
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, data: bytes) -> None:
        """Past all faults."""
        self._out.sendto(data, self._target)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._in.close()
        self._out.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                data = self._in.recv(1 << 16)
            except TimeoutError:
                self._release(0)
                continue
            if self.recorded is not None:
                self.recorded.append(data)
            self._pass(data)

    def _pass(self, data: bytes) -> None:
        self.counted["in"] += 1
        fault = self._chance.random()
        faults = self.faults
        if fault < faults.lose:
            self.counted["lost"] += 1
            return
        fault -= faults.lose
        if fault < faults.double:
            self.counted["doubled"] += 1
            self.send(data)
        elif (fault := fault - faults.double) < faults.delay:
            self.counted["delayed"] += 1
            self._held.append(data)
            self._release(30)
            return
        elif fault - faults.delay < faults.flip:
            self.counted["flipped"] += 1
            at = self._chance.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << self._chance.randrange(8)]) + data[at + 1 :]
        self.send(data)

    def _release(self, above: int) -> None:
        if len(self._held) > above:
            self._chance.shuffle(self._held)
            for each in self._held:
                self.send(each)
            self._held.clear()
