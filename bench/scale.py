"""python -m bench.scale [--topics N] [--partitions P] [--runs R] [--segments K] [--busy SHARE] ...

What a store costs that grows: an estate is made up, its runs are committed by the product's own code, and
then each verb's work over its manifests is done in a process of its own, whose time, memory and requests
count. No data is there: objects below topics/ are only listed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aqueduct.snapshots.backup import verify
from aqueduct.snapshots.prune import run as prune
from aqueduct.snapshots.prune.policy import KeepPolicy
from aqueduct.snapshots.restore.plan import plan as plan_restore
from aqueduct.snapshots.restore.plan import shares
from aqueduct.snapshots.restore.request import Request
from aqueduct.store import names
from aqueduct.store.backends import open_editable
from aqueduct.store.catalog import Catalog
from aqueduct.store.snapshots import Broken
from bench.counted import Counted
from bench.estate import Estate
from bench.estate import run as run_once
from bench.tell import machine, say, table

POLICIES = {
    "--keep-last 10": KeepPolicy(last=10),
    "--keep-daily 7 --keep-weekly 4 --keep-monthly 12": KeepPolicy(daily=7, weekly=4, monthly=12),
    "--keep-days 30": KeepPolicy(days=30),
}


@dataclass(frozen=True)
class Told:
    """What one step took, in a process of its own."""

    step: str
    seconds: float
    cpu_seconds: float
    memory_bytes: int  # the process's largest, with everything that it imported
    requests: dict[str, int]
    read_bytes: int
    written_bytes: int
    dollars: float


@dataclass(frozen=True)
class Place:
    """A store of an estate, after so many runs."""

    url: str
    estate: Estate
    runs: int

    def objects(self) -> Counted:
        newest = time.time() - 60

        def below(prefix: str) -> Iterator[Any]:
            return self.estate.objects(self.runs, newest) if prefix == "topics" else iter(())

        return Counted(open_editable(self.url), below)


def grow(place: Place) -> None:
    """Commit runs."""
    began = time.monotonic()
    catalog = Catalog.open_or_make(open_editable(place.url))
    for number in range(max(catalog.numbers(), default=0) + 1, place.runs + 1):
        run_once(catalog, place.estate, place.estate.survey(number), number)
        if number % 50 == 0:
            say(f"{number} runs after {time.monotonic() - began:.0f} s")


def manifests(place: Place) -> str:
    """Return a sentence: what the manifests come to, beside what they name."""
    sizes = [each.size for each in place.objects().list(names.SNAPSHOTS)]
    objects = [each.size for each in place.estate.objects(place.runs, 0)]
    share = 100 * sum(sizes) / max(1, sum(objects))
    return (
        f"{len(sizes):,} manifests: {sum(sizes) / 1e6:,.1f} MB, the largest {max(sizes) / 1e6:,.2f} MB, the "
        f"newest {sizes[-1] / 1e6:,.2f} MB. They name {len(objects) // 2:,} segments, "
        f"{sum(objects) / 1e9:,.1f} GB: {share:.3f} % of that."
    )


# The steps. Each returns what is measured, when it has made ready what comes from elsewhere.


def start(place: Place, objects: Counted) -> Callable[[], object]:
    """Nothing: what the process takes by itself."""
    return lambda: None


def survey(place: Place, objects: Counted) -> Callable[[], object]:
    """What a cluster told of 120,000 partitions is in memory."""
    place.estate.survey(place.runs)
    return lambda: None


def next_run(place: Place, objects: Counted, found_at: int) -> Callable[[], object]:
    found = place.estate.survey(found_at)
    return lambda: run_once(Catalog.open_or_make(objects), place.estate, found, place.runs + 1)


def snapshots(place: Place, objects: Counted) -> Callable[[], object]:
    def listed() -> None:
        for each in Catalog.open(objects).summaries():
            if isinstance(each, Broken):
                raise each

    return listed


def restore(place: Place, objects: Counted, *topics: str) -> Callable[[], object]:
    def planned() -> None:
        request = Request(tuple((name, name) for name in topics))
        list(shares(plan_restore(Catalog.open(objects).snapshot(), request).lanes))

    return planned


def verified(place: Place, objects: Counted) -> Callable[[], object]:
    class Workers:
        """Takes the tasks, and does none."""

        def per_task(self, *_: object) -> None:
            return None

        def parallel(self, _: int) -> Callable[..., list[Any]]:
            return lambda function, tasks, size: []

    return lambda: verify.verify(place.url, None, Workers())  # type: ignore[arg-type]


def pruned(place: Place, objects: Counted, policy: KeepPolicy) -> Callable[[], object]:
    order = prune.PruneOrder(store=place.url, keep=policy, copied_through=1 << 30, sample_bytes=0)
    return lambda: prune.prune(order)


STEPS: dict[str, Callable[[Place, Counted], Callable[[], object]]] = {
    "start": start,
    "survey": survey,
    "backup, nothing new": lambda place, objects: next_run(place, objects, place.runs),
    "backup": lambda place, objects: next_run(place, objects, place.runs + 1),
    "snapshots": snapshots,
    "restore, plan of all": restore,
    "restore, plan of one topic": lambda place, objects: restore(place, objects, place.estate.names[0]),
    "verify, its tasks": verified,
    **{f"prune {policy}": partial(pruned, policy=keep) for policy, keep in POLICIES.items()},
}


def step(name: str, place: Place) -> Told:
    """Do one step, in this process."""
    objects = place.objects()
    action = STEPS[name](place, objects)
    with (
        patch.object(prune, "open_editable", lambda _: objects),
        patch.object(verify, "open_store", lambda _: objects),
    ):
        began, used = time.perf_counter(), time.process_time()
        action()
        seconds, used = time.perf_counter() - began, time.process_time() - used
    made = objects.requests
    return Told(
        name, seconds, used, _peak(), dict(made.of), made.read_bytes, made.written_bytes, made.dollars
    )


def _peak() -> int:
    """Return this process's largest memory; getrusage's would have that of who started it, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def measured(name: str, place: Place, *, keep: bool = False) -> Told:
    """Do one step in a process of its own; what it wrote is removed again."""
    folder = Path(place.url.removeprefix("file://")) / "snapshots"
    before = set(folder.iterdir())
    arguments = json.dumps({"step": name, "url": place.url, "runs": place.runs, **asdict(place.estate)})
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "bench.scale", "--step", arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for path in set(folder.iterdir()) - before:
        path.unlink()
    return Told(**json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/scale")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=12, help="of each topic")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=0, help="that the first run finds, in all partitions")
    parser.add_argument(
        "--busy", type=float, default=0.01, help="share of partitions that grow from run to run"
    )
    parser.add_argument("--minutes", type=int, default=60, help="from run to run")
    parser.add_argument(
        "--store", type=Path, help="where it is made, or was; default: a folder that is removed"
    )
    parser.add_argument("--only", action="append", help="steps")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        given = json.loads(args.step)
        estate = Estate(**{each.name: given[each.name] for each in fields(Estate)})
        print(json.dumps(asdict(step(given["step"], Place(given["url"], estate, given["runs"])))))
        return
    estate = Estate(args.topics, args.partitions, args.segments, busy=args.busy, minutes=args.minutes)
    with folder(args.store) as where:
        place = Place(where.absolute().as_uri(), estate, args.runs)
        say(f"Committing {args.runs:,} runs over {estate.all_partitions:,} partitions")
        grow(place)
        print(machine())
        print(manifests(place))
        rows = []
        for name in args.only or STEPS:
            say(name)
            told = measured(name, place)
            rows.append(
                [
                    name,
                    f"{told.seconds:.1f}",
                    f"{told.cpu_seconds:.1f}",
                    f"{told.memory_bytes / 1e6:,.0f}",
                    *(f"{told.requests.get(kind, 0):,}" for kind in ("GET", "PUT", "LIST")),
                    f"{told.read_bytes / 1e6:,.1f}",
                    f"{told.written_bytes / 1e6:,.1f}",
                    f"{1000 * told.dollars:.2f}",
                ]
            )
        print(
            table(
                [
                    "what",
                    "s",
                    "CPU s",
                    "memory MB",
                    "GET",
                    "PUT",
                    "LIST",
                    "MB read",
                    "MB written",
                    "$ for 1,000",
                ],
                rows,
            )
        )


@contextmanager
def folder(given: Path | None) -> Iterator[Path]:
    if given:
        given.mkdir(parents=True, exist_ok=True)
        yield given
    else:
        with tempfile.TemporaryDirectory(prefix="aqueduct-scale-") as name:
            yield Path(name)


if __name__ == "__main__":
    main()
