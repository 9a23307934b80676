"""python -m bench.crossover [--verb NAME]... [--scale FACTOR] [--runs N]

The figures of aqueduct.work.crossover: seconds for a GB, in one process and by Spark, from two sizes of data.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from aqueduct.work.crossover import GB, Speed, Verb, crossover
from aqueduct.work.options import LOCAL, local_cores
from bench import backup, restore
from bench.data import DATA, Data, delete, fill
from bench.measured import CommandFailed, Usage
from bench.rounds import MODES, ONE_PROCESS, SPARK, Estate, estate, rounds
from bench.tell import machine, say, table

RECORDS = 3_000_000, 12_000_000
NAMES = "small", "large"  # of the topics
VERBS = Verb.BACKUP, Verb.RESTORE, Verb.VERIFY, Verb.EXPORT, Verb.RECONCILE
READ = {Verb.RECONCILE: 2}  # bytes read for each byte of a topic


@dataclass(frozen=True, kw_only=True)
class Line:
    """The usage of a verb in one of the modes: with the small and with the large topic."""

    verb: Verb
    mode: str
    sizes: tuple[int, int]  # bytes
    usages: tuple[Usage, Usage]

    @property
    def speed(self) -> float:
        """Return the seconds for a GB beyond start-up."""
        return self._slope([each.seconds for each in self.usages])

    @property
    def cpu_speed(self) -> float:
        return self._slope([each.cpu_seconds for each in self.usages])

    @property
    def start(self) -> float:
        """Return the seconds that would remain without data."""
        return self.usages[0].seconds - self.speed * self.sizes[0] / GB

    def _slope(self, seconds: Sequence[float]) -> float:
        return (seconds[1] - seconds[0]) / (self.sizes[1] - self.sizes[0]) * GB

    def cells(self) -> list[str]:
        each = [f"{cell:.1f}" for usage in self.usages for cell in (usage.seconds, usage.cpu_seconds)]
        figures = self.start, self.speed, self.cpu_speed
        return [self.verb, self.mode, *each, *(f"{figure:.1f}" for figure in figures)]


def commands(where: Estate, topic: str, mode: str) -> Mapping[Verb, Callable[[], Usage]]:
    """Return what is run of each verb; each run writes into what is new, and removes it."""
    url = where.url("local", f"store-of-{topic}")
    options = MODES[mode]
    ends = (
        *("--source-bootstrap-server", where.servers),
        *("--target-bootstrap-server", where.servers),
        *("--topics", topic),
    )
    return {
        Verb.BACKUP: partial(backup.back_up, where, topic, "local", mode),
        Verb.RESTORE: partial(restore.restore, where, topic, url, "--skip-verify", *options),
        Verb.VERIFY: partial(where.aqueduct, "verify", "--store", url, *options),
        Verb.EXPORT: partial(restore.export, where, topic, url, "parquet", "--skip-verify", *options),
        Verb.RECONCILE: partial(where.aqueduct, "reconcile", *ends, *options),
    }


def lines(where: Estate, data: Sequence[Data], verbs: Sequence[Verb], runs: int) -> list[Line]:
    """Measure the verbs in turn, in both modes and at both sizes."""
    keys = [*product(verbs, MODES, (each.name for each in data))]
    every = [commands(where, topic, mode)[verb] for verb, mode, topic in keys]
    found = dict(zip(keys, rounds(runs, every), strict=True))
    small, large = data
    return [
        Line(
            verb=verb,
            mode=mode,
            sizes=(READ.get(verb, 1) * small.bytes, READ.get(verb, 1) * large.bytes),
            usages=(found[verb, mode, small.name], found[verb, mode, large.name]),
        )
        for verb, mode in product(verbs, MODES)
    ]


def figures(found: Sequence[Line]) -> list[list[str]]:
    """Return a row a verb: its figures, and the crossover in GB on some numbers of cores by them."""
    by_name = {(line.verb, line.mode): line for line in found}
    rows = []
    for verb in dict.fromkeys(line.verb for line in found):
        one, spark = (by_name[verb, mode] for mode in (ONE_PROCESS, SPARK))
        speed = Speed(one.speed, spark.speed)
        sizes = [crossover(verb, cores, speed=speed) for cores in (2, 4, 8, 16)]
        told = ["never" if size == math.inf else f"{size / GB:.1f}" for size in sizes]
        rows.append(
            [verb, f"{speed.process:.2f}", f"{speed.spark:.2f}", f"{spark.start - one.start:.1f}", *told]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/crossover")
    parser.add_argument("--verb", action="append", type=Verb, choices=VERBS)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    data = [
        replace(DATA["log-lines"], name=name, records=int(records * args.scale))
        for name, records in zip(NAMES, RECORDS, strict=True)
    ]
    with estate() as where:
        for each in data:
            say(f"Writing {each.bytes / 1e6:,.0f} MB")
            fill(where.servers, each)
            where.back_up(each.name, where.url("local", f"store-of-{each.name}"))
        say("Measuring")
        found = lines(where, data, args.verb or VERBS, args.runs)
        for each in data:
            delete(where.servers, each.name)
    head = [f"{what}, {each.bytes / 1e6:,.0f} MB" for each in data for what in ("s", "CPU s")]
    beyond = ["start-up s", "s/GB", "CPU s/GB"]
    print(f"{machine()} {local_cores(LOCAL)} cores, median of {args.runs}.\n")
    print(table(["verb", "run by", *head, *beyond], [line.cells() for line in found]))
    cores = [f"GB on {number} cores" for number in (2, 4, 8, 16)]
    print()
    print(table(["verb", "one process s/GB", "Spark s/GB", "start-up s more", *cores], figures(found)))


if __name__ == "__main__":
    try:
        main()
    except CommandFailed as error:
        say(f"This failed: {error}")
        sys.exit(1)
