"""Make a snapshot of what another program has stored, so that who changes over loses no history.

--format kafka-backup: a backup of OSO's kafka-backup, 0.2.0 to 0.17.4; --from names its folder, which is
called after the backup_id. --format s3-binary: files of Lenses' Stream Reactor S3 sink, 2.1.0 to 4.2.0,
STOREAS Bytes_KeyAndValueWithSizes; --from names the sink's prefix. Other layouts are refused.

Keys, values, headers, times, offsets, partitions and groups' offsets are kept as far as they are there; what
such a store lacks is named. The store must be a new one. `aqueduct verify` and `restore` then take it.
Nothing counts until the end: a run that is killed is run again.

Exit code: 0 done, 3 done but for what it names (what is not in such a store), 1 a file is damaged or lost,
and nothing was committed, 2 the arguments can't be right, or the layout is not known.
"""

import argparse
from datetime import UTC, datetime

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.extra import spark_packages

FORMATS = ("kafka-backup", "s3-binary")
MOST_REPLICAS = 32_767


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--from", metavar="URL", required=True, dest="source", help="where the other program stored it")
    add("--format", choices=FORMATS, required=True, help="how")
    common.add_store(parser)
    add(
        "--replication-factor",
        metavar="N",
        type=selection.whole(most=MOST_REPLICAS),
        default=3,
        help="of restored topics, for no such store tells it; default 3, or as many as there are brokers",
    )
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.foreign import report
        from aqueduct.foreign.run import ImportOrder, bring_in
        from aqueduct.work.workers import Workers

    for folder in (args.store, args.source):
        report_file.outside(args.report, folder)
    started = datetime.now(UTC)
    order = ImportOrder(args.source, args.format, args.store, args.replication_factor)
    with Workers("aqueduct import", common.spark(args)) as workers:
        outcome = bring_in(order, workers)
        code = report.exit_code(outcome)
        print(report.text(outcome))
        if args.report:
            report_file.write(args.report, "import", code, started, report.report(outcome) | workers.ran())
    return code
