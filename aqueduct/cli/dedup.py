"""Write each record that crossed a one-way link to its clean topic once, and missing offsets to a ledger.

The command reads the raw topics of one or more links. It writes records and ledger in the same
transactions, so you can kill it at any time and start it again. The ledger is in the gap topic, which must
be compacted and have as many partitions as each raw topic. Create the clean topics first, with at least as
many partitions as the topics at the source.

Exit codes:
  0  done
  1  failed
  2  a topic or an argument cannot be used
  3  done, but at least one of these applies (the output says which):
     - a record of a raw topic cannot be read, or its content can be neither written nor listed
     - a frame cannot be written; the ledger lists its offsets as missing
     - a sender is silent (--silence-after), so it is unknown what is missing
     - a sender announces fewer offsets than the ledger contains, so it is unknown what is missing
     - no record of a topic in --topics has crossed
     - a raw topic was re-created or truncated, and is read again
"""

import argparse
import time
from typing import TYPE_CHECKING

from aqueduct.cli import common, duration, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.common.topic_names import parse_renames
from aqueduct.common.wording import count
from aqueduct.errors import ExitCode, Refused
from aqueduct.kafka import client_config
from aqueduct.link.options import SILENCE_SECONDS

if TYPE_CHECKING:
    from aqueduct.link.dedup.run import DedupOrder
    from aqueduct.link.dedup.share import DedupCounts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_cluster(parser)
    add = parser.add_argument
    add("--raw-topics", metavar="R1,R2", type=selection.names, required=True, help="raw topics to read")
    add("--gap-topic", metavar="TOPIC", required=True, help="topic that contains the ledger")
    add(
        "--topics",
        metavar="A,B:C",
        help="source topics to write; B:C writes source topic B to clean topic C; default: all",
    )
    add(
        "--gap-grace",
        metavar="DURATION",
        type=duration.parse,
        default=30,
        help="how late announced offsets may arrive before they count as missing; default 30s",
    )
    add(
        "--silence-after",
        metavar="DURATION",
        type=duration.period,
        default=SILENCE_SECONDS,
        help="report a sender from which nothing arrived for this long; default 3m",
    )
    common.add_spark(parser)
    common.add_metrics(parser)
    add(
        "--with-gaps",
        action="store_true",
        help="with --retire: retire the topic even if offsets of it are missing",
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--every",
        metavar="DURATION",
        type=duration.period,
        help="keep running, and look for new topics at this interval, such as 30s",
    )
    group.add_argument(
        "--until-caught-up",
        action="store_true",
        help="process what the raw topics contain at the start, then exit",
    )
    group.add_argument(
        "--retire",
        metavar="TOPIC",
        help="remove TOPIC, which was deleted at the source, from the ledger, then exit",
    )


def run(args: argparse.Namespace) -> ExitCode:
    if args.with_gaps and not args.retire:
        raise Refused("option-required", "--with-gaps needs --retire.")
    with spark_packages():
        from aqueduct.link.dedup import run as dedup
        from aqueduct.link.dedup.metrics import DedupFigures
        from aqueduct.work.workers import Workers
    order = dedup.DedupOrder(
        end=client_config.end("cluster", args.bootstrap_server, args.command_config, for_tasks=True),
        raw_topics=args.raw_topics,
        gap_topic=args.gap_topic,
        topics=parse_renames(args.topics) if args.topics else None,
        grace_seconds=args.gap_grace,
        every_seconds=args.every,
        silence_seconds=args.silence_after,
    )
    done_so_far = DedupFigures()

    def tell(counts: "DedupCounts", seconds: float) -> None:
        done_so_far.add(counts, time.time())
        print(dedup.sentence(counts, seconds), flush=True)

    with Workers("aqueduct dedup", common.spark(args)) as workers:
        if args.retire:
            return _retire(order, args.retire, with_gaps=args.with_gaps)
        common.serve_metrics(args, done_so_far.all, workers)
        counts = dedup.run(order, workers, tell)
    odd = counts.malformed or counts.quarantined or counts.unlisted or counts.contradicted or counts.silent
    return ExitCode.INCOMPLETE if odd or counts.rewound else ExitCode.DONE


def _retire(order: "DedupOrder", topic: str, *, with_gaps: bool) -> ExitCode:
    from aqueduct.link.dedup.retire import retire

    total = retire(order.end, order.group, order.raw_topics, order.gap_topic, topic, with_gaps=with_gaps)
    print(
        f"{topic} is retired: {count(total.partitions, 'partition')}. {count(total.missing, 'offset')} that "
        f"were missing and {total.lost} that were lost are listed no more."
    )
    return ExitCode.DONE
