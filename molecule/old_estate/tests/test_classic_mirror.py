"""Classic mirrors that are killed lose no record. Duplicates are reported."""

import itertools
import json
import os
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from lab import Lab, Record, wait_until
from old_site import ENSEMBLE, LAKE, LAKE_SECOND
from writer import Writer

from demo.flights import Flight, flights
from demo.offsets import watermarks

TOPIC, PARTITIONS = "departures", range(4)
UNIT = "mirror_maker@old"
HOSTS = (LAKE, LAKE_SECOND)
SEEDS = range(1, 6) if os.environ.get("AQUEDUCT_ALL_SEEDS") else range(1, 2)
ENOUGH = 2_000  # records, so that a fault has some before it and some after it


@dataclass(frozen=True)
class Mirrored:
    """What both ends have at the end, by partition, and how many the source's brokers acknowledged."""

    acknowledged: int
    source: dict[int, list[Record]]
    lake: dict[int, list[Record]]

    @property
    def doubled(self) -> dict[int, int]:
        return {at: len(self.lake[at]) - len(set(self.lake[at])) for at in PARTITIONS}


def departures() -> Iterator[Flight]:
    """Yield flights that are told from those of an earlier run, too."""
    run = ("run", secrets.token_bytes(8))
    for flight in itertools.chain.from_iterable(map(flights, ("EWR", "JFK", "LGA"))):
        yield replace(flight, headers=(*flight.headers, run))


def ends(lab: Lab, host: str) -> dict[int, int]:
    """Return the end of each partition."""
    asked = Consumer({**lab.client(host), "group.id": "ends"})
    try:
        return {at: watermarks(asked, TopicPartition(TOPIC, at))[1] for at in PARTITIONS}
    finally:
        asked.close()


def committed(lab: Lab) -> dict[int, int]:
    """Return up to where the flow's group has committed at the source."""
    [flow] = lab.mirrors
    asked = Consumer({**lab.client(ENSEMBLE), "group.id": flow.group})
    try:
        places = asked.committed([TopicPartition(TOPIC, at) for at in PARTITIONS], timeout=60)
        return {place.partition: place.offset for place in places}
    finally:
        asked.close()


def arrive(lab: Lab, records: int = ENOUGH) -> None:
    """Wait until so many more records are in the lake."""
    least = sum(wait_until("the lake's ends", lambda: ends(lab, LAKE)).values()) + records
    wait_until(f"{records:,} more records in the lake", lambda: sum(ends(lab, LAKE).values()) >= least)


def kill(lab: Lab, chance: random.Random, seed: int) -> None:
    """kill -9 of the process that has carried most lately; of both, sometimes."""
    hosts = HOSTS if chance.random() < 0.5 else (chance.choice(HOSTS),)
    print(f"seed {seed}: kill -9 of {UNIT} on {' and '.join(hosts)}")
    for host in hosts:
        lab.kill(host, UNIT)


def restart(lab: Lab, seed: int) -> None:
    """A host of the mirror, with a broker of the lake, has a power cut."""
    print(f"seed {seed}: {LAKE_SECOND} is restarted as by a power cut")
    lab.restart(LAKE_SECOND)


@pytest.fixture(scope="module")
def mirrored(lab: Lab) -> Mirrored:
    chances = [random.Random(seed) for seed in SEEDS]  # noqa: S311 (a seed that can be repeated)
    before = sum(wait_until("the source's ends", lambda: ends(lab, ENSEMBLE)).values())
    writer = Writer(lab, ENSEMBLE, TOPIC, "dispatch", departures(), chances[0])
    writer.start()
    try:
        arrive(lab)
        for seed, chance in zip(SEEDS, chances, strict=True):
            for fault in chance.sample(("kill", "restart"), 2):
                if fault == "kill":
                    kill(lab, chance, seed)
                else:
                    restart(lab, seed)
                arrive(lab, chance.randint(ENOUGH, 2 * ENOUGH))
    finally:
        writer.stop()  # other tests read the same topic
    acknowledged = before + writer.finish()
    wait_until("its position at the end", lambda: committed(lab) == ends(lab, ENSEMBLE))
    found = Mirrored(acknowledged, lab.read(ENSEMBLE, TOPIC), lab.read(LAKE, TOPIC))
    print(f"{acknowledged:,} departures were written; {sum(found.doubled.values()):,} are twice in the lake")
    return found


def test_mirror_loses_no_record_and_keeps_partition_order(mirrored: Mirrored) -> None:
    assert sum(map(len, mirrored.source.values())) == mirrored.acknowledged > ENOUGH
    for at in PARTITIONS:
        sent = mirrored.source[at]
        assert len(set(sent)) == len(sent), "flights must be told apart"
        assert list(dict.fromkeys(mirrored.lake[at])) == sent


def test_reconcile_names_exactly_what_is_doubled(lab: Lab, mirrored: Mirrored) -> None:
    assert sum(mirrored.doubled.values()) > 0, "a kill before a commit must have doubled some"
    done = lab.play("reconcile")
    report = json.loads((lab.reports / "old-lake.json").read_text())
    rows = {each["partition"]: each for each in report["partitions"] if each["topic"] == TOPIC}
    assert {at: row["target"]["extra"]["records"] for at, row in rows.items()} == mirrored.doubled
    assert {row["sources"][0]["missing"]["records"] for row in rows.values()} == {0}
    assert done.returncode != 0
    for at, doubled in mirrored.doubled.items():
        named = f"{TOPIC}-{at}: {doubled:,} record{'s' * (doubled != 1)} of the target"
        assert (named in done.stdout) == (doubled > 0), done.stdout


def test_the_comparison_can_fail(mirrored: Mirrored) -> None:
    """A record dropped or changed places with its neighbour is seen."""
    there = list(dict.fromkeys(mirrored.lake[0]))
    for broken in (there[1:], [there[1], there[0], *there[2:]]):
        assert broken != mirrored.source[0]
