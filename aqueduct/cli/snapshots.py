"""List the snapshots of a store, the newest last.

"records" and "bytes" are what a restore of the snapshot writes. "stored bytes" is its size in the store.
"gaps" is the number of offset ranges that Kafka deleted before they were backed up. If manifests of a
snapshot are lost or damaged, the line shows the reason. A number that is missing from the list was pruned.

Below are the topics that have several instances: full copies of a compacted topic, or topics of the same name
that were deleted and re-created. For each instance, the list shows in which snapshots it is ACTIVATE
(current) or PASSIVATE (previous). A restore uses the ACTIVATE one, unless --instance selects another.

Exit code: 0 done; 1 the store cannot be read, or a manifest is lost or damaged; 2 refused, for example
because of an invalid option.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from aqueduct.cli import common
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.common import timestamps
from aqueduct.common.wording import count, some
from aqueduct.errors import ExitCode, Failed

if TYPE_CHECKING:
    from aqueduct.store.snapshots import Broken, Summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.store.backends import open_store
        from aqueduct.store.catalog import Catalog
        from aqueduct.store.keyring import Keyring

    objects = open_store(args.store)
    keys = Keyring(objects, common.private_keys(args))
    summaries = Catalog.open(objects, common.trust(args), keys).summaries()
    broken = _print_json(summaries) if args.json else _print_page(summaries)
    if not broken:
        return ExitCode.DONE
    number = sum(each.through - each.number + 1 for each in broken)
    which = some(each.numbers for each in broken)
    error = Failed(
        "snapshot-unusable",
        f"{count(number, 'snapshot')} of {args.store} cannot be used: {which}. Restore lost or damaged "
        "objects from a copy of the store.",
    )
    if not args.json:
        raise error
    print(f"aqueduct: {error.labelled}", file=sys.stderr)  # stdout has the list: one JSON document
    return error.exit_code


Listed = Iterable["Summary | Broken"]


def _print_json(summaries: Listed) -> "list[Broken]":
    """Print the list as JSON; return the unusable snapshots."""
    whole, broken = [], []
    for summary in summaries:
        if isinstance(summary, Failed):
            broken.append(summary)
            print(f"aqueduct: {summary.labelled}", file=sys.stderr)
        else:
            whole.append(_json(summary))
    print(json.dumps(whole, indent=2))
    return broken


def _json(summary: "Summary") -> dict[str, Any]:
    return {
        "id": summary.number,
        "created": timestamps.text(summary.created),
        "topics": summary.topics,
        "records": summary.records,
        "bytes": summary.unpacked_bytes,
        "gaps": summary.gaps,
        "newest_record": None if summary.newest_time is None else timestamps.text(summary.newest_time),
        "generations": [
            {"topic": topic, "instance": f"g{number}", "state": state}
            for topic, number, state in summary.generations
        ],
    }


def _print_page(summaries: Listed) -> "list[Broken]":
    """Print each snapshot as soon as it is read; return the unusable snapshots."""
    row = "{:>10}  {:<24}  {:>7}  {:>15}  {:>19}  {:>19}  {:>5}"
    print(row.format("id", "created", "topics", "records", "bytes", "stored bytes", "gaps"))
    history, several, broken = _History(), set[str](), []
    for summary in summaries:
        if isinstance(summary, Failed):
            broken.append(summary)
            print(f"{summary.numbers:>10}  {summary.why}")
            continue
        history.add(summary)
        several |= {topic for topic, _, _ in summary.generations}
        print(
            row.format(
                summary.number,
                timestamps.text(summary.created),
                summary.topics,
                f"{summary.records:,}",
                f"{summary.unpacked_bytes:,}",
                f"{summary.stored_bytes:,}",
                summary.gaps,
            )
        )
    for line in history.lines(several):
        print(line)
    return broken


class _History:
    """The states of each instance of a topic, with the snapshots in which it has them."""

    def __init__(self) -> None:
        # by topic and number of the instance: state, first and last snapshot
        self._spans: dict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
        self._before = 0

    def add(self, summary: "Summary") -> None:
        for topic, number, state in summary.instances:
            spans = self._spans[topic, number]
            if spans and spans[-1][0] == state and spans[-1][2] == self._before:
                spans[-1] = state, spans[-1][1], summary.number
            else:
                spans.append((state, summary.number, summary.number))
        self._before = summary.number

    def lines(self, topics: Collection[str]) -> Iterator[str]:
        for (topic, number), spans in sorted(self._spans.items()):
            if topic in topics:
                states = (
                    f"{state} {f'{first} to {last}' if first < last else first}"
                    for state, first, last in spans
                )
                yield f"{topic} g{number}: {', '.join(states)}"
