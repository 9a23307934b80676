"""The one-way link of the lab: what the demo does to it, and what its ends and its ledger tell."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from aqueduct.common.offset_sets import size
from aqueduct.common.topic_names import TopicPartition
from aqueduct.estate.links import Link
from aqueduct.link.ledger.entry import LedgerPartition, partitions
from demo.lab import Lab, to_the_end
from demo.offsets import watermarks

CARD = "eth1"
TABLE = "inet demo"
LOST_PERCENT = 2
# The link is cut when so many records were sent, until so many more were.
BEFORE_CUT, IN_CUT = 20_000, 5_000
UPSTREAM_PORT, DOWNSTREAM_PORT = 9810, 9830
WAIT_SECONDS = 600.0
TOPIC = "flights"

Moments = Mapping[int, Callable[[], None]]  # what is to be done when so many records were written


@dataclass(frozen=True)
class Figures:
    """The figures of both ends, counted since they started."""

    sent: int  # records
    repaired: int  # datagrams that were lost and made again from parity
    lost: int  # blocks

    def since(self, before: "Figures") -> "Figures":
        return Figures(self.sent - before.sent, self.repaired - before.repaired, self.lost - before.lost)


@dataclass(frozen=True)
class Crossing:
    lab: Lab
    link: Link

    # What its ends count

    def figures(self) -> Figures:
        sending = self._metrics(self.link.upstream, UPSTREAM_PORT)
        receiving = self._metrics(self.link.downstream, DOWNSTREAM_PORT)
        return Figures(
            sent=sending["upstream_records"],
            repaired=receiving["downstream_shards_repaired"],
            lost=receiving["downstream_blocks_lost"],
        )

    def _metrics(self, host: str, port: int) -> Mapping[str, int]:
        return {
            family.name.removeprefix("aqueduct_diode_"): int(sum(sample.value for sample in family.samples))
            for family in text_string_to_metric_families(self.lab.metrics(host, port))
        }

    def listed(self) -> int:
        """Return the offsets in the bundle that playbooks/resend.yml carried out."""
        file = self.lab.reports / f"bundle-{self.link.source}-{self.link.target}.json"
        bundle = json.loads(file.read_text())
        return size(gap for each in bundle["results"] for gap in each["gaps"])

    def resent(self) -> int:
        """Return the records of the last resend, by its journal."""
        said = self.lab.journal(self.link.upstream, "--unit=aqueduct-diode-resend", "--lines=5")
        [*_, records] = re.findall(r"with ([\d,]+) records? in them", said) or ["0"]
        return int(records.replace(",", ""))

    # What is lost on purpose

    @contextmanager
    def bad(self) -> Iterator[Moments]:
        """Make the link lose some of all that is sent; and at moments of the stream, by its records, all."""
        start = self.figures().sent
        self._lose_some()
        try:
            yield {
                BEFORE_CUT: lambda: self._when_sent(start + BEFORE_CUT, self._lose_all),
                BEFORE_CUT + IN_CUT: lambda: self._when_sent(start + BEFORE_CUT + IN_CUT, self._lose_some),
            }
        finally:
            self._nft(f"add table {TABLE}; delete table {TABLE}")

    def _when_sent(self, records: int, act: Callable[[], None]) -> None:
        self.wait(lambda: self.figures().sent >= records, "records to be sent")
        act()

    def _lose_some(self) -> None:
        """Lose packets, each with all the datagrams that the kernel sends at once."""
        self._drop(f"numgen random mod 100 < {LOST_PERCENT}")

    def _lose_all(self) -> None:
        self._drop("")

    def _drop(self, which: str) -> None:
        """Drop datagrams at the receiving network card, before the receiving end."""
        chain = f"chain {TABLE} input"
        self._nft(
            f"add table {TABLE}; add {chain} {{ type filter hook input priority 0; }}; flush {chain}; "
            f"add rule {TABLE} input iifname {CARD} {which} drop"
        )

    def _nft(self, commands: str) -> None:
        self.lab.run(self.link.downstream, "nft", commands)

    # What the ledger says

    def missing(self) -> int:
        """Return the number of offsets that the ledger lists as missing."""
        return sum(size(each.current.gaps) for each in self._ledger().values() if each.current)

    def untold(self) -> int:
        """Return offsets of the source that have neither arrived nor are listed as missing."""
        ledger = self._ledger()
        with self.lab.reading(self.lab.brokers[self.link.source], TOPIC) as (consumer, places):
            ends = {place.partition: watermarks(consumer, place)[1] for place in places}
        return sum(
            max(0, end - _next(ledger.get(TopicPartition(TOPIC, number)))) for number, end in ends.items()
        )

    def _ledger(self) -> Mapping[TopicPartition, LedgerPartition]:
        newest: dict[str, str] = {}
        with self.lab.reading(self.lab.brokers[self.link.target], self.link.gap_topic) as reading:
            for message in to_the_end(*reading):
                if value := message.value():
                    newest[(message.key() or b"").decode()] = value.decode()
                else:
                    newest.pop((message.key() or b"").decode(), None)
        return partitions(newest)

    # Whether both ends are equal

    def compare(self) -> dict[str, object]:
        """Compare both ends by `aqueduct reconcile`.

        No host sees both ends, and no host's key may read at both: the control node's does.
        """
        report = self.lab.reports / f"{self.link.source}-{self.link.target}.json"
        source, target = (
            self.lab.address(self.lab.brokers[site]) for site in (self.link.source, self.link.target)
        )
        command = [
            sys.executable,
            "-m",
            "aqueduct.cli",
            "reconcile",
            *("--source-bootstrap-server", source),
            *("--target-bootstrap-server", target),
        ]
        command += [
            *("--topics", TOPIC),
            *("--command-config", str(self.lab.admin_config)),
            *("--report", str(report)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
        if done.returncode not in (0, 3):
            raise SystemExit(f"demo: both ends of the link can't be compared: {done.stderr.strip()}")
        found: dict[str, object] = json.loads(report.read_text())
        return found

    def wait(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not reached():
            if time.monotonic() > deadline:
                raise SystemExit(f"demo: the link waited {WAIT_SECONDS:g} s in vain for {what}.")
            time.sleep(0.5)


def _next(partition: LedgerPartition | None) -> int:
    return partition.current.next if partition and partition.current else 0
