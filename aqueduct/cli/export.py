"""Write the records of a snapshot to Parquet or Avro files, in one directory for each topic.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType,
headers. With --declarations, a topic of a table gets the columns of that table. Records that do not match
them go to files whose names begin with _bad.
A file appears only when it is complete. _export.json, the list of all files, is written last. If a run is
interrupted, run the same command again: it resumes, and writes nothing twice.

Exit code: 0 done, rejected records are counted in the report; 3 done, but some records are missing, which the
output lists (deleted before the backup, expired, or not readable), or records were rejected and
--fail-on-poison is given; 1 failed, or the store or the export is damaged; 2 refused, nothing was written,
for example because the directory contains something else.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from aqueduct.cli import common, declared_tables, report_file, selection
from aqueduct.cli.optional_packages import spark_packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    common.add_store(parser)
    common.add_snapshot(parser)
    common.add_at_least(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    add(
        "--to",
        metavar="URL",
        required=True,
        help="target directory, a URL as for --store: new, empty, or with an earlier run of this export",
    )
    add("--format", choices=("parquet", "avro"), required=True, help="format of the files")
    add(
        "--topics",
        metavar="A,B",
        type=selection.names,
        default=(),
        help="exact names of topics; default: all",
    )
    common.add_window(parser)
    add(
        "--declarations",
        metavar="FILE",
        type=Path,
        help="YAML list of tables, in the format of the variable land_tables: columns for their topics",
    )
    add("--fail-on-poison", action="store_true", help="exit with 3 if records are rejected")
    add("--skip-verify", action="store_true", help="do not verify the stored objects before writing")
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.snapshots.export import report
        from aqueduct.snapshots.export import run as export
        from aqueduct.snapshots.export.order import ExportOrder, FileFormat
        from aqueduct.snapshots.restore.request import Request, parse_instance
        from aqueduct.work.workers import Workers

    for location in (args.store, args.to):
        report_file.outside(args.report, location)
    started = datetime.now(UTC)
    order = ExportOrder(
        store=args.store,
        to=args.to,
        format=FileFormat(args.format),
        request=Request(
            names=tuple((name, name) for name in dict.fromkeys(args.topics)),
            instance=parse_instance(args.instance),
            window=common.window(args),
        ),
        tables=declared_tables.tables(args.declarations) if args.declarations else (),
        snapshot=args.snapshot,
        at_least=args.at_least,
        trust=common.trust(args),
        private_keys=common.private_keys(args),
        skip_verify=args.skip_verify,
    )
    with Workers("aqueduct export", common.spark(args)) as workers:
        outcome = export.main(order, workers)
    code = workers.exit_code(report.exit_code(outcome, fail_on_poison=args.fail_on_poison))
    print(report.text(outcome))
    if report_file.is_requested(args):
        report_file.deliver(args, "export", code, started, workers.reported(report.report(outcome)))
    return code
