"""List the snapshots of a store, newest last.

Records and bytes (as Kafka has them) are all that a restore of that snapshot brings; gaps are ranges of
offsets that Kafka had deleted before they were read. Then come the generations of compacted topics, of the
newest snapshot (with --json of each): restore takes the ACTIVATE one, PASSIVATE is the one before it.

Exit code: 0 done, 1 the store can't be read or is damaged, 2 the arguments can't be right.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aqueduct.cli.extra import spark_packages
from aqueduct.errors import ExitCode

if TYPE_CHECKING:
    from aqueduct.store.snapshots import Summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--store", metavar="URL", required=True, help="s3://bucket/prefix, gs://, az:// or file:///directory")
    add("--json", action="store_true", help="a list for programs")


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.io.object_store import open_store
        from aqueduct.store.catalog import Catalog

    summaries = Catalog.open(open_store(args.store)).summaries()
    if args.json:
        print(json.dumps([_json(each) for each in summaries], indent=2))
    else:
        for line in _lines(summaries):
            print(line)  # at once: what was read stays told if the next manifest is damaged
    return ExitCode.DONE


def _json(summary: "Summary") -> dict[str, Any]:
    return {
        "id": summary.number,
        "created": _time(summary.created),
        "topics": summary.topics,
        "records": summary.records,
        "bytes": summary.unpacked_bytes,
        "gaps": summary.gaps,
        "generations": [
            {"topic": topic, "instance": f"g{number}", "state": state}
            for topic, number, state in summary.generations
        ],
    }


def _lines(summaries: "Iterator[Summary]") -> Iterator[str]:
    row = "{:>10}  {:<24}  {:>7}  {:>15}  {:>19}  {:>19}  {:>5}"
    yield row.format("id", "created", "topics", "records", "bytes", "stored bytes", "gaps")
    newest = None
    for newest in summaries:
        yield row.format(
            newest.number,
            _time(newest.created),
            newest.topics,
            f"{newest.records:,}",
            f"{newest.unpacked_bytes:,}",
            f"{newest.stored_bytes:,}",
            newest.gaps,
        )
    generations = defaultdict(list)
    for topic, number, state in newest.generations if newest else ():
        generations[topic].append(f"g{number} {state}")
    for topic, states in sorted(generations.items()):
        yield f"{topic}: {', '.join(states)}"


def _time(milliseconds: int) -> str:
    """RFC 3339."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
