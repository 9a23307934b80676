"""Make clean topics of what crossed a link: each record once, and a ledger of what is missing.

Reads the raw topics of one link or several, writes records and ledger in the same transactions, and may be
killed at any moment. The gap topic must be compacted and have as many partitions as each raw topic.

Exit code: 0 done; 1 failed; 2 a topic can't be used or the arguments can't be right; 3 something in a raw
topic can't be read or written, which is named and missing, or its sender is silent, or announces less than
the ledger knows of: so what is missing is not known; or nothing of a topic of --topics has crossed.
"""

import argparse
import time
from typing import TYPE_CHECKING

from aqueduct.cli import common, duration, selection
from aqueduct.cli.extra import spark_packages
from aqueduct.errors import ExitCode, Refused
from aqueduct.kafka import client_config
from aqueduct.link.options import SILENCE_SECONDS
from aqueduct.names import parse_renames
from aqueduct.wording import count

if TYPE_CHECKING:
    from aqueduct.link.dedup.run import DedupOrder
    from aqueduct.link.dedup.share import DedupCounts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_cluster(parser)
    add = parser.add_argument
    add("--raw-topics", metavar="R1,R2", type=selection.names, required=True)
    add("--gap-topic", metavar="TOPIC", required=True, help="where the ledger is")
    add(
        "--topics",
        metavar="A,B:C",
        help="topics to write, by their names at the source; B:C writes B to topic C; default: all",
    )
    add(
        "--gap-grace",
        metavar="DURATION",
        type=duration.parse,
        default=30,
        help="time after which announced offsets that did not arrive are missing; default 30s",
    )
    add(
        "--silence-after",
        metavar="DURATION",
        type=duration.period,
        default=SILENCE_SECONDS,
        help="without a word of a sender, after which that is told; default 3m",
    )
    common.add_spark(parser)
    common.add_metrics(parser)
    add("--with-gaps", action="store_true", help="retire a topic although some of it is missing")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--every",
        metavar="DURATION",
        type=duration.period,
        help="keep running; look for new topics at this interval",
    )
    group.add_argument(
        "--until-caught-up", action="store_true", help="end when everything there has been processed"
    )
    group.add_argument(
        "--retire",
        metavar="TOPIC",
        help="remove from the ledger a topic that its source no longer has, and end",
    )


def run(args: argparse.Namespace) -> ExitCode:
    if args.with_gaps and not args.retire:
        raise Refused("--with-gaps needs --retire.")
    with spark_packages():
        from aqueduct.link.dedup import run as dedup
        from aqueduct.link.dedup.metrics import DedupFigures
        from aqueduct.work.workers import Workers
    order = dedup.DedupOrder(
        end=client_config.end("cluster", args.bootstrap_servers, args.client_config, for_tasks=True),
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
    return ExitCode.INCOMPLETE if odd else ExitCode.DONE


def _retire(order: "DedupOrder", topic: str, *, with_gaps: bool) -> ExitCode:
    from aqueduct.link.dedup.retire import retire

    total = retire(order.end, order.group, order.raw_topics, order.gap_topic, topic, with_gaps=with_gaps)
    print(
        f"{topic} is retired: {count(total.partitions, 'partition')}. {count(total.missing, 'offset')} that "
        f"were missing and {total.lost} that were lost are listed no more."
    )
    return ExitCode.DONE
