"""The receiving end of a link with a network that loses datagrams at random, each by itself.

python -m bench.lossy PERCENT FILE
"""

import random
import sys

from aqueduct.cli import main
from aqueduct.io import udp


def lossy(percent: float) -> None:
    receive, chance = udp.Receiver.receive, random.Random(1)  # noqa: S311

    def receive_some(self: udp.Receiver, seconds: float) -> tuple[memoryview, int]:
        data, size = receive(self, seconds)
        if not size:
            return data, size
        starts = range(0, len(data), size)
        lost = [start for start in starts if chance.random() * 100 < percent]
        if not lost:
            return data, size
        kept = [data[start : start + size] for start in starts if start not in lost]
        return memoryview(b"".join(kept)), size if kept else 0

    udp.Receiver.receive = receive_some  # type: ignore[method-assign]


if __name__ == "__main__":
    if float(sys.argv[1]):
        lossy(float(sys.argv[1]))
    sys.exit(main(["diode", "downstream", sys.argv[2]]))
