"""An unreliable network: passes datagrams from one address to another, with faults from a seed.

The argument of the program is '{"listen": [HOST, PORT], "source": [HOST, PORT], "target": [HOST, PORT]}'. It
reads one command a line from stdin, and answers each line with its counters:

    {"seed": 3, "faults": {"lose": 0.05}}
    {"record": true}
    {"replay": true}
"""

import json
import random
import socket
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

Address = tuple[str, int]


@dataclass(frozen=True)
class Faults:
    """The faults of a relay, as shares of all datagrams."""

    lose: float = 0
    burst: float = 0  # with which one begins: it and up to `longest` after it are lost
    longest: int = 0
    double: float = 0
    delay: float = 0  # until some others have passed
    flip: float = 0  # one bit


class Relay:
    def __init__(
        self,
        target: Address | int,
        seed: int = 1,
        *,
        listen: Address = ("127.0.0.1", 0),
        source: Address = ("", 0),
    ) -> None:
        self.faults = Faults()
        self.counted: Counter[str] = Counter()
        self.recorded: list[bytes] | None = None  # what came in, if wanted
        self._chance = random.Random(seed)  # noqa: S311
        self._target = ("127.0.0.1", target) if isinstance(target, int) else target
        self._held: list[bytes] = []
        self._burst = 0  # that are still to be lost
        self._in = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._in.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self._in.bind(listen)
        self._in.settimeout(0.2)
        self.port = self._in.getsockname()[1]
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._out.bind(source)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def bad(self, faults: Faults, seed: int) -> None:
        """Add faults to the link from now on."""
        self._chance.seed(seed)
        self._burst = 0
        self.faults = faults

    def send(self, data: bytes) -> None:
        """Send a datagram without faults."""
        self._out.sendto(data, self._target)

    def replay(self) -> None:
        for data in list(self.recorded or ()):
            self.send(data)
            self.counted["replayed"] += 1

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
            with suppress(OSError):  # a full queue loses it, as a network would
                self._pass(data)

    def _pass(self, data: bytes) -> None:
        self.counted["in"] += 1
        faults = self.faults
        if self._burst:
            self._burst -= 1
            self.counted["lost"] += 1
            return
        fault = self._chance.random()
        if fault < faults.lose:
            self.counted["lost"] += 1
            return
        if (fault := fault - faults.lose) < faults.burst:
            self.counted["bursts"] += 1
            self.counted["lost"] += 1
            self._burst = self._chance.randrange(faults.longest + 1)
            return
        if (fault := fault - faults.burst) < faults.double:
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


def main() -> None:
    places = {name: (place[0], place[1]) for name, place in json.loads(sys.argv[1]).items()}
    relay = Relay(places["target"], listen=places["listen"], source=places["source"])
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "faults" in order:
            relay.bad(Faults(**order["faults"]), order["seed"])
        if "record" in order:
            relay.recorded = []
        if "replay" in order:
            relay.replay()
        print(json.dumps(relay.counted), flush=True)
    relay.stop()


if __name__ == "__main__":
    main()
