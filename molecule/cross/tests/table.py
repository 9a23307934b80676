"""All faults on one estate, and what two readers of its clusters say of each: the ledger's, and our own."""

import json
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import edge_cases
from crossing import DOWNSTREAM, MASTER, SOURCE, TARGET, UPSTREAM, WORKERS, Crossing, Entries, Listed
from faults import DEDUP, FAULTS, PARTITIONS, SENDER, Fault, Stage
from lab import Lab, Record, wait_until
from spark_cluster import SparkCluster
from wire import Wire

SECOND = "diode_upstream@enclave-second"
RAW = ("diode-raw-pro1", "diode-raw-second")

Gaps = dict[int, list[tuple[int, int]]]  # first and last offset, by partition
Offsets = dict[int, list[tuple[int, Record]]]  # records with their offsets, by partition
Topic = dict[int, list[Record]]


@dataclass
class Row:
    """One fault, from one seed."""

    fault: Fault
    seed: int
    done: str = ""
    repaired: int = 0  # datagrams
    sent: Offsets = field(default_factory=dict)  # what should cross
    arrived: Topic = field(default_factory=dict)  # before anything was sent again
    gaps: Gaps = field(default_factory=dict)  # in the ledger then
    lost: int = 0  # that the ledger calls lost
    afterwards: Topic = field(default_factory=dict)
    gaps_afterwards: Gaps = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return self.fault.topic(self.seed)

    @property
    def missing(self) -> Listed:
        """The truth: offsets of what should have arrived and did not, by the records themselves."""
        return {
            number: {offset for offset, record in sent if record not in there}
            for number, sent in self.sent.items()
            for there in [set(self.arrived[number])]
        }

    @property
    def listed_records(self) -> Listed:
        """What of the listed offsets holds a record that should cross."""
        held = {number: {offset for offset, _ in sent} for number, sent in self.sent.items()}
        listed = offsets_of(self.gaps)
        return {number: listed.get(number, set()) & offsets for number, offsets in held.items()}

    @property
    def false_gaps(self) -> Gaps:
        """Those in which no record is missing: all their offsets are aborted, compacted, withheld or there.

        A gap may have such offsets beside those of missing records, with which they were sent.
        """
        found = {
            number: [
                (first, last)
                for first, last in gaps
                if not any(first <= offset <= last for offset in self.missing.get(number, ()))
            ]
            for number, gaps in self.gaps.items()
        }
        return {number: gaps for number, gaps in found.items() if gaps}

    def differences(self) -> list[str]:
        """Of what is there in the end; empty where it has each record once. No two records are alike."""
        found = []
        for number, sent in self.sent.items():
            here, there = {record for _, record in sent}, Counter(self.afterwards[number])
            lacking, doubled = len(here - there.keys()), there.total() - len(there)
            # Compaction goes on at the source.
            strange = 0 if self.fault.source == edge_cases.COMPACTED else len(there.keys() - here)
            if lacking or doubled or strange:
                found.append(f"partition {number}: {lacking} lacking, {doubled} doubled, {strange} strange")
        return found

    def steps_back(self, came: dict[int, dict[int, int]]) -> list[tuple[int, int, int]]:
        """Where order was lost: partition, and two offsets of which the later one stands first although it
        did not come first. `came`: when each offset did, by partition."""
        found = []
        for number, sent in self.sent.items():
            offset_of = {record: offset for offset, record in sent}
            offsets = [offset_of[record] for record in self.afterwards[number] if record in offset_of]
            found += [
                (number, a, b) for a, b in pairwise(offsets) if a > b and came[number][a] >= came[number][b]
            ]
        return found

    def __str__(self) -> str:
        cells: tuple[object, ...] = (
            self.seed,
            self.fault.name,
            total(self.sent),
            total(self.arrived),
            self.repaired,
            total(self.listed_records),
            total(self.missing),
            "equal" if not self.differences() else "NOT EQUAL",
            self.done,
        )
        return line(cells)


HEAD = ("seed", "fault", "sent", "arrived", "repaired", "in the ledger", "truth", "after the resend", "how")


@dataclass
class Outcome:
    rows: list[Row]
    bundled: int = 0  # offsets that the first bundle listed
    packets_out: tuple[int, int] = (0, 0)  # of the receiving host by the link's card, before and after
    came: list[dict[str, dict[int, dict[int, int]]]] = field(default_factory=list)  # by link; see arrivals

    def __str__(self) -> str:
        rule = "|--:|---|--:|--:|--:|--:|--:|---|---|"
        return "\n".join((line(HEAD), rule, *map(str, self.rows))) + "\n"


def line(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(f"{each:,}" if isinstance(each, int) else str(each) for each in cells) + " |"


def total(by_partition: Listed | Offsets | Topic) -> int:
    return sum(map(len, by_partition.values()))


def inflict_all(crossing: Crossing, seeds: range) -> Outcome:
    lab = crossing.lab
    rows = [Row(fault, seed) for fault in FAULTS for seed in (seeds if fault.seeded else seeds[:1])]
    outcome = Outcome(rows)
    before = crossing.packets_out()
    ready(crossing, rows)
    with (
        closing(Wire(lab, UPSTREAM, DOWNSTREAM, 9777)) as first,
        closing(Wire(lab, UPSTREAM, DOWNSTREAM, 9778)) as second,
    ):
        stage = Stage(lab, crossing, SparkCluster(lab, "enclave", MASTER, WORKERS), first, second)
        lab.run(UPSTREAM, "systemctl", "start", SENDER, SECOND)
        for of_second in (False, True):
            topics = [row.topic for row in rows if row.fault.second == of_second]
            crossing.wait_until_sent(*topics, second=of_second)  # so it follows them
        for row in rows:
            inflict(stage, row)
        read_first(crossing, rows)
        resend(crossing, outcome)
    outcome.came = [arrivals(lab, raw) for raw in RAW]
    for row in rows:
        row.afterwards = lab.read(TARGET, row.topic)
    outcome.packets_out = before, crossing.packets_out()
    return outcome


def ready(crossing: Crossing, rows: list[Row]) -> None:
    """The topics are there before anything comes; what is to have holes before it crosses has them."""
    lab = crossing.lab
    lab.run(UPSTREAM, "systemctl", "stop", SENDER, SECOND)
    for row in rows:
        edge_cases.make(lab, TARGET, row.topic, PARTITIONS, **row.fault.target)
    lab.run(DOWNSTREAM, "systemctl", "restart", DEDUP)  # it looks for new topics from time to time
    for row in rows:
        edge_cases.make(lab, SOURCE, row.topic, PARTITIONS, **row.fault.source)
    for row in rows:
        if row.fault.source == edge_cases.COMPACTED:
            compacted = edge_cases.fill_compacted(lab, SOURCE, row.topic)
            wait_until("holes in the compacted topic", compacted, every=1)


def inflict(stage: Stage, row: Row) -> None:
    second = row.fault.second
    before = repaired(stage.crossing, second)
    row.done = row.fault.inflict(stage, row.topic, row.seed)
    after = repaired(stage.crossing, second)
    row.repaired = after - before if after >= before else after  # it began anew
    print(f"seed {row.seed}: {row.fault.name}: {row.done}", flush=True)


def repaired(crossing: Crossing, second: bool) -> int:
    return int(crossing.figures(DOWNSTREAM, second)["downstream_shards_repaired_total"])


def read_first(crossing: Crossing, rows: list[Row]) -> None:
    """Once the ledger has heard of everything."""
    for row in rows:
        read = crossing.lab.read_offsets(SOURCE, row.topic)
        row.sent = {
            number: [(offset, record) for offset, record in records if row.fault.crosses(record)]
            for number, records in read.items()
        }
    ends = {
        (row.topic, number): records[-1][0] for row in rows for number, records in row.sent.items() if records
    }

    def at_rest() -> dict[str, Entries] | None:
        found = crossing.ledgers()
        behind = [place for place, end in ends.items() if found[place[0]][place[1]]["next"] <= end]
        assert not behind, behind
        for row in rows:
            row.arrived = crossing.lab.read(TARGET, row.topic)
        return found if crossing.ledgers() == found else None

    found = wait_until("the ledger to tell of all", at_rest)
    for row in rows:
        row.gaps = listed(found[row.topic])
        row.lost = sum(len(entry["lost"]) for entry in found[row.topic].values())


def listed(entries: Entries) -> Gaps:
    return {number: [(first, last) for first, last in entry["gaps"]] for number, entry in entries.items()}


def offsets_of(gaps: Gaps) -> Listed:
    return {
        number: {offset for first, last in several for offset in range(first, last + 1)}
        for number, several in gaps.items()
    }


def resend(crossing: Crossing, outcome: Outcome) -> None:
    """The bundle is made, carried over and sent, until nothing is missing."""
    lab = crossing.lab
    for _ in range(3):
        created = lab.play("resend", "--limit", "site_enclave")
        assert created.returncode == 0, created.stdout
        bundle = json.loads((lab.inventory / "reports/bundle-pro1-enclave.json").read_text())
        outcome.bundled = outcome.bundled or sum(
            last - first + 1 for each in bundle["results"] for first, last in each["gaps"]
        )
        sent = lab.play("resend", "--limit", "site_pro1")
        assert sent.returncode == 0, sent.stdout
        try:
            wait_until("an empty ledger", lambda: missing(crossing) == 0, 180)  # else some were lost again
        except AssertionError as error:
            print(error, flush=True)
        else:
            break
    found = crossing.ledgers()
    for row in outcome.rows:
        row.gaps_afterwards = listed(found[row.topic])


def missing(crossing: Crossing) -> int:
    return sum(total(offsets_of(listed(entries))) for entries in crossing.ledgers().values())


def arrivals(lab: Lab, raw: str) -> dict[str, dict[int, dict[int, int]]]:
    """Where in a raw topic each offset came first, by topic and partition."""
    found: dict[str, dict[int, dict[int, int]]] = {}
    for records in lab.read(TARGET, raw).values():
        for position, record in enumerate(records):
            assert record.key is not None
            topic, partition, first, last, *rest = record.key.decode().split("/")
            if rest:  # an announcement
                continue
            places = found.setdefault(topic, {}).setdefault(int(partition), {})
            for offset in range(int(first), int(last) + 1):
                places.setdefault(offset, position)
    return found
