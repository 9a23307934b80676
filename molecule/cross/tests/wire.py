"""What is between the two ends of a link: a network that is as bad as it is told to be.

The kernel of a test's machine may have no netem, so datagrams go through a relay in user space at the sending
host, whose firewall hands them to it and lets pass what it sends on. Neither end knows of it.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import Lab

RELAY = Path(__file__).resolve().parents[3] / "tests/kit/relay.py"
ANSWER_SECONDS = 600


class Wire:
    """Of the link that goes to `port`. Until this is closed nothing crosses but by the relay."""

    def __init__(self, lab: Lab, sender: str, receiver: str, port: int) -> None:
        self._lab, self._sender = lab, sender
        here, there = (lab.variables[host]["lab_link"]["address"] for host in (sender, receiver))
        listen, source = port + 1_000, port + 2_000
        places = {"listen": (here, listen), "source": (here, source), "target": (there, port)}
        program = ("python3", "-c", RELAY.read_text(), json.dumps(places))
        self._process = lab.start(sender, *program)
        assert self._answer() == "ready\n"
        self._table = f"relay_{port}"
        # No connection tracking: what is on its way already is diverted, too.
        rules = f"""
            table ip {self._table} {{
                chain output {{
                    type route hook output priority raw;
                    ip daddr {there} udp dport {port} udp sport != {source} \\
                        ip daddr set {here} udp dport set {listen}
                }}
            }}"""
        lab.run(sender, "nft", "--file", "-", stdin=rules)

    def close(self) -> None:
        self._lab.run(self._sender, "nft", "delete", "table", "ip", self._table)
        self._process.communicate(timeout=ANSWER_SECONDS)

    @contextmanager
    def bad(self, seed: int = 0, **faults: float) -> Iterator[Counter[str]]:
        """With these of relay.Faults; afterwards the counter holds what they did."""
        before, counted = self.tell(faults=faults, seed=seed), Counter[str]()
        try:
            yield counted
        finally:
            counted += self.tell(faults={}, seed=seed) - before

    def tell(self, **order: object) -> Counter[str]:
        """Returns what it has counted until now."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Counter(json.loads(self._answer()))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        watch = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watch.start()
        try:
            return self._process.stdout.readline()
        finally:
            watch.cancel()
