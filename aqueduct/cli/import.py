"""Create a snapshot from the files of another backup program, in a new store.

--format kafka-backup: a backup of OSO's kafka-backup, 0.2.0 to 0.17.4. --from is its directory, whose name is
the backup_id. --format s3-binary: files of Lenses' Stream Reactor S3 sink, 2.1.0 to 4.2.0, with STOREAS
Bytes_KeyAndValueWithSizes. --from is the prefix of the sink. Other layouts are refused.

Partitions, offsets, keys, values, headers, timestamps and group offsets are imported, as far as the format
contains them. The output lists what the format lacks. `aqueduct verify` and `restore` accept the new store as
any other. The snapshot is committed at the end. If a run is interrupted, run the same command again.

Exit code: 0 done; 3 done, but the files lack something, which the output lists; 1 a file is damaged or
missing, nothing was committed; 2 refused, for example because of an unknown layout.
"""

import argparse
from datetime import UTC, datetime

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.optional_packages import spark_packages

FORMATS = ("kafka-backup", "s3-binary")
MOST_REPLICAS = 32_767


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--from",
        metavar="URL",
        required=True,
        dest="source",
        help="directory or prefix of the other program's files",
    )
    add("--format", choices=FORMATS, required=True, help="format of these files")
    common.add_store(parser)
    add(
        "--replication-factor",
        metavar="N",
        type=selection.whole(most=MOST_REPLICAS),
        default=3,
        help="replication factor of restored topics, limited to the number of brokers; default 3",
    )
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.snapshots.importer import report
        from aqueduct.snapshots.importer.run import ImportOrder, bring_in
        from aqueduct.work.workers import Workers

    for folder in (args.store, args.source):
        report_file.outside(args.report, folder)
    started = datetime.now(UTC)
    order = ImportOrder(
        source=args.source, layout=args.format, store=args.store, replication_factor=args.replication_factor
    )
    with Workers("aqueduct import", common.spark(args)) as workers:
        outcome = bring_in(order, workers)
        code = workers.exit_code(report.exit_code(outcome))
        print(report.text(outcome))
        if report_file.is_requested(args):
            report_file.deliver(args, "import", code, started, workers.reported(report.report(outcome)))
    return code
