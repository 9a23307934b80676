"""Write a snapshot's records as files of Parquet or Avro, in a folder of each topic.

Columns are those of Spark's source of Kafka: key, value, topic, partition, offset, timestamp, timestampType,
headers. With declarations, as `aqueduct land` takes them, topics that a table takes have its columns instead,
and records that don't fit go to files whose names begin with _bad. Nothing appears before it is whole, and
_export.json, the list of all files, comes last; the same command after a crash resumes and repeats nothing.

Exit code: 0 done, with bad records counted in the report; 3 done but for what it names (records that were
deleted before they were backed up, that have expired or can't be opened; bad ones with --fail-on-poison);
1 failed or damage found; 2 refused before anything was written: the folder has something else, or arguments
can't be right.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from aqueduct.cli import common, declared, report_file, selection
from aqueduct.cli.extra import spark_packages


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
        help="an empty folder or none yet, as --store; of this export alone",
    )
    add("--format", choices=("parquet", "avro"), required=True, help="of the files")
    add("--topics", metavar="A,B", type=selection.names, default=(), help="by name; default: all")
    common.add_window(parser)
    add(
        "--declarations",
        metavar="FILE",
        type=Path,
        help="YAML: a list as land_tables; columns of their topics",
    )
    add("--fail-on-poison", action="store_true", help="exit code 3 if records can't be rows")
    add("--skip-verify", action="store_true", help="don't read the objects' digests before the first write")
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.export import report
        from aqueduct.export import run as export
        from aqueduct.export.order import ExportOrder, FileFormat
        from aqueduct.restore.request import Request, parse_instance
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
        tables=declared.tables(args.declarations) if args.declarations else (),
        snapshot=args.snapshot,
        at_least=args.at_least,
        trust=common.trust(args),
        private_keys=common.private_keys(args),
        skip_verify=args.skip_verify,
    )
    with Workers("aqueduct export", common.spark(args)) as workers:
        outcome = export.main(order, workers)
    code = report.exit_code(outcome, fail_on_poison=args.fail_on_poison)
    print(report.text(outcome))
    if args.report:
        report_file.write(args.report, "export", code, started, report.report(outcome) | workers.ran())
    return code
