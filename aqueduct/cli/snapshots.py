"""List the snapshots of a store, newest last.

Records and bytes (as Kafka has them) are all that a restore of that snapshot brings; gaps are ranges of
offsets that Kafka had deleted before they were read. A snapshot whose manifests are lost or damaged is named
with the reason; a number that is not there, and that nothing builds on, was pruned. Then come the instances
of topics that have several, and in which snapshots each was ACTIVATE and PASSIVATE: generations of compacted
topics, and what a topic was before it was recreated. Restore takes the ACTIVATE one of its snapshot, unless
its --instance says another.

Exit code: 0 done, 1 the store can't be read or a manifest is damaged, 2 the arguments can't be right.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from aqueduct import moments
from aqueduct.cli import common
from aqueduct.cli.extra import spark_packages
from aqueduct.errors import ExitCode, Failed
from aqueduct.wording import count, some

if TYPE_CHECKING:
    from aqueduct.store.snapshots import Broken, Summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_store(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    parser.add_argument("--json", action="store_true", help="a list for programs")


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
    error = Failed(
        "snapshot-unusable",
        f"{count(len(broken), 'snapshot')} of {args.store} cannot be used: {some(broken)}. Restore lost or "
        "damaged objects from a copy of the store.",
    )
    if not args.json:
        raise error
    print(f"aqueduct: {error.labelled}", file=sys.stderr)  # stdout has the list: one JSON document
    return error.exit_code


Listed = Iterable["Summary | Broken"]


def _print_json(summaries: Listed) -> list[int]:
    """Print JSON; return the numbers of the snapshots that can't be used."""
    whole, broken = [], []
    for summary in summaries:
        if isinstance(summary, Failed):
            broken.append(summary.number)
            print(f"aqueduct: {summary.labelled}", file=sys.stderr)
        else:
            whole.append(_json(summary))
    print(json.dumps(whole, indent=2))
    return broken


def _json(summary: "Summary") -> dict[str, Any]:
    return {
        "id": summary.number,
        "created": moments.text(summary.created),
        "topics": summary.topics,
        "records": summary.records,
        "bytes": summary.unpacked_bytes,
        "gaps": summary.gaps,
        "newest_record": None if summary.newest_time is None else moments.text(summary.newest_time),
        "generations": [
            {"topic": topic, "instance": f"g{number}", "state": state}
            for topic, number, state in summary.generations
        ],
    }


def _print_page(summaries: Listed) -> list[int]:
    """Print a page, line by line as it is read; return the numbers of snapshots that can't be used."""
    row = "{:>10}  {:<24}  {:>7}  {:>15}  {:>19}  {:>19}  {:>5}"
    print(row.format("id", "created", "topics", "records", "bytes", "stored bytes", "gaps"))
    history, several, broken = _History(), set[str](), []
    for summary in summaries:
        if isinstance(summary, Failed):
            broken.append(summary.number)
            print(f"{summary.number:>10}  {summary.why}")
            continue
        history.add(summary)
        several |= {topic for topic, _, _ in summary.generations}
        print(
            row.format(
                summary.number,
                moments.text(summary.created),
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
    """In which snapshots each instance of a topic was what."""

    def __init__(self) -> None:
        # state, first and last snapshot; by topic and number
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
