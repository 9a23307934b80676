"""Write topics into tables: each record becomes one row of its table, or of the table of rejected records.

Without an action, the command lands: it reads new records and commits them to the tables. Commits are
recorded in a log below each table's folder; readers never see uncommitted records. You can kill the command
at any time and start it again. Only one process can land a table at a time. Positions are also committed as
the consumer group aqueduct-land-<database>.<table>, so that Kafka's tools show the lag.

Actions:
  - status shows how far each table has landed.
  - verify compares tables with their topics.
  - compact joins small files of each table. It can run beside a landing.
  - reset moves tables to other offsets of their topics, back or ahead. One commit removes the rows from
    there on; the next landing writes them again.
  - replay --bad converts rejected records again, with the present declarations. Records that match become
    rows; the others stay rejected. It can run beside a landing.

Without --execute, reset and replay only show what they would do.

Exit codes:
  0  done; without an action, the report counts rejected records
  1  a table failed, or another process lands it; the report lists what was committed before
  2  refused: a declaration or an argument cannot be used; the metastore has another table of that name;
     reset: an offset does not exist, or goes back in a compacted topic; replay: a table has columns of
     headers, which its table of rejected records does not store, or cannot be changed as declared
  3  done, except for the items in the report:
     - landing: records that were deleted before they were read; batches that decompress to more than
       100 MiB; topics that were deleted or re-created; partitions that cannot be read further; a group
       offset that could not be committed; a Hive metastore that is behind; with --fail-on-poison, rejected
       records
     - status: topics that do not exist or were re-created; partitions that have no leader, or whose log was
       truncated; a Hive metastore that is behind or does not answer
     - verify: tables that differ from their topics or from what readers see; items that could not be
       compared
     - compact: replaced files of an Iceberg table, which remain if the metastore was not given or is behind
     - reset: topics that --to-time skips, because they were deleted, re-created or compacted
     - replay: files that cannot be read; a Hive metastore that is behind
"""

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqueduct.cli import common, declared_tables, duration, report_file, selection, timestamp_argument
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.cli.selection import PORTS
from aqueduct.common.topic_names import TopicPartition
from aqueduct.errors import ExitCode, Failed, LeftOut, Refused
from aqueduct.kafka import client_config

if TYPE_CHECKING:
    from aqueduct.land.declaration import LandTable
    from aqueduct.land.metrics import LandFigures
    from aqueduct.land.order import LandOrder
    from aqueduct.land.run import Lander
    from aqueduct.work.workers import Workers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = (
        "status: show position and lag; verify: compare tables with topics; compact: join small files; "
        "reset: land again from other offsets; replay: convert rejected records again; default: land"
    )
    add("what", nargs="?", choices=("status", "verify", "compact", "reset", "replay"), help=help_)
    common.add_cluster(parser)
    _add_tables(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--until-caught-up", action="store_true", help="land the records that exist at the start, then exit"
    )
    when.add_argument(
        "--every",
        metavar="DURATION",
        type=duration.period,
        help="keep running, one round per interval, such as 60s; a table's own `every` overrides it",
    )
    _add_changes(parser)
    add("--fail-on-poison", action="store_true", help="exit with 3 if records are rejected")
    common.add_metrics(parser)
    common.add_run(parser)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the options that declare tables and their metastore."""
    add = parser.add_argument
    add(
        "--declarations",
        metavar="FILE",
        type=Path,
        required=True,
        help="YAML list of tables, as in the variable land_tables",
    )
    add(
        "--location",
        metavar="URL",
        required=True,
        help="folder of all tables: s3://bucket/prefix, gs://, az://, hdfs://host:port/path or file:///path",
    )
    catalogue = parser.add_mutually_exclusive_group()
    catalogue.add_argument(
        "--metastore",
        metavar="URL,...",
        type=metastores,
        default=(),
        help="add tables to this Hive metastore: thrift://host:port, or several addresses of it; no Kerberos",
    )
    catalogue.add_argument(
        "--no-metastore",
        action="store_true",
        help="write only folders and logs (default)",
    )
    add(
        "--tables",
        metavar="A.B,C.D",
        type=selection.names,
        default=(),
        help="only these declared tables; default: all",
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the options of reset and replay."""
    add = parser.add_argument
    to = parser.add_mutually_exclusive_group()
    to.add_argument(
        "--to-offsets",
        metavar="T:P:O,...",
        type=_offsets,
        help="reset: next offset of each partition, as topic:partition:offset,...",
    )
    to.add_argument(
        "--to-time",
        metavar="TIME",
        type=timestamp_argument.parse,
        help="reset: continue at the first record of this time, such as 2026-01-31T18:00:00Z",
    )
    add("--bad", action="store_true", help="replay: convert rejected records again (required)")
    add("--execute", action="store_true", help="reset, replay: write the changes; default: only show them")


def metastores(text: str) -> tuple[tuple[str, int], ...]:
    """Return the addresses of a metastore; for argparse's `type`."""
    addresses = []
    for address in text.split(","):
        host, _, port = address.removeprefix("thrift://").rpartition(":")
        if not address.startswith("thrift://") or not host or not port.isdecimal() or int(port) not in PORTS:
            raise argparse.ArgumentTypeError(f"{address!r} is not a metastore; write thrift://host:9083")
        addresses.append((host.strip("[]"), int(port)))
    return tuple(addresses)


def run(args: argparse.Namespace) -> int:
    with spark_packages():
        from aqueduct.land import report, status
        from aqueduct.land.order import LandOrder
        from aqueduct.work.workers import Workers

    report_file.outside(args.report, args.location)
    end = client_config.end("cluster", args.bootstrap_server, args.command_config, for_tasks=True)
    order = LandOrder(
        end=end,
        location=args.location,
        tables=declared_tables.tables(args.declarations, args.tables),
        metastores=args.metastore,
    )
    _refuse_options_of_other_actions(args)
    started = datetime.now(UTC)
    if args.what == "status":
        statuses = status.status(order)
        code, content = report.status_code(statuses), report.status_report(statuses)
        page = report.status_text(statuses)
        return _told(args, started, _ActionOutcome(code=code, text=page, content=content))
    with Workers("aqueduct land", common.spark(args)) as workers:
        if args.what is None:
            return _land(args, order, workers)
        outcome = _ACTIONS[args.what](args, order, workers)
        return _told(
            args,
            started,
            replace(
                outcome,
                code=workers.exit_code(outcome.code),
                content=workers.reported(outcome.content),
            ),
        )


def _refuse_options_of_other_actions(args: argparse.Namespace) -> None:
    if args.what is None and not (args.until_caught_up or args.every):
        raise Refused("option-required", "aqueduct land needs --until-caught-up or --every DURATION.")
    if args.what and (args.until_caught_up or args.every or args.fail_on_poison or args.metrics_port):
        raise Refused(
            "option-conflict",
            f"aqueduct land {args.what} does not accept --until-caught-up, --every, --fail-on-poison "
            "or --metrics-port.",
        )
    if (args.what == "reset") != (_reset_target(args) is not None):
        raise Refused(
            "option-required" if args.what == "reset" else "option-conflict",
            "aqueduct land reset needs --to-offsets or --to-time, and no other action accepts them.",
        )
    if (args.what == "replay") != args.bad:
        raise Refused(
            "option-required" if args.what == "replay" else "option-conflict",
            "aqueduct land replay needs --bad, and no other action accepts it.",
        )
    if args.execute and args.what not in ("reset", "replay"):
        raise Refused("option-conflict", "--execute is for aqueduct land reset and replay.")


def _reset_target(args: argparse.Namespace) -> Any:
    """Return the offsets by partition, or the time, to which a reset moves tables; None without an option."""
    return args.to_time if args.to_offsets is None else args.to_offsets


@dataclass(frozen=True, kw_only=True)
class _ActionOutcome:
    """What an action did or found."""

    code: ExitCode
    text: str
    content: Mapping[str, Any]  # of the report
    failed: Sequence[Failed | None] = ()  # of each table


def _verify(_: argparse.Namespace, order: "LandOrder", workers: "Workers") -> _ActionOutcome:
    from aqueduct.land import report, verify

    verified = verify.verify(order, workers)
    return _ActionOutcome(
        code=report.verified_code(verified),
        text=report.verified_text(verified),
        content=report.verified_report(verified),
    )


def _compact(_: argparse.Namespace, order: "LandOrder", workers: "Workers") -> _ActionOutcome:
    from aqueduct.land import compact, report

    compacted = compact.compact(order, workers)
    return _ActionOutcome(
        code=report.changed_code(compacted),
        text=report.compacted_text(compacted),
        content=report.compacted_report(compacted),
        failed=[table.failed for table in compacted],
    )


def _replay(args: argparse.Namespace, order: "LandOrder", workers: "Workers") -> _ActionOutcome:
    from aqueduct.land import replay, report

    replayed = replay.replay(order, execute=args.execute, workers=workers)
    return _ActionOutcome(
        code=report.changed_code(replayed),
        text=report.replayed_text(replayed, executed=args.execute),
        content=report.replayed_report(replayed),
        failed=[table.failed for table in replayed],
    )


def _reset(args: argparse.Namespace, order: "LandOrder", workers: "Workers") -> _ActionOutcome:
    from aqueduct.land import report, reset

    moved = reset.reset(order, reset.ResetOrder(_reset_target(args), args.execute), workers)
    return _ActionOutcome(
        code=report.changed_code(moved),
        text=report.reset_text(moved, executed=args.execute),
        content=report.reset_report(moved),
        failed=[table.failed for table in moved],
    )


_ACTIONS = {"verify": _verify, "compact": _compact, "replay": _replay, "reset": _reset}


def _told(args: argparse.Namespace, started: datetime, outcome: _ActionOutcome) -> ExitCode:
    """Print and write what an action did, and return the exit code."""
    print(outcome.text)
    for error in filter(None, outcome.failed):
        print(f"aqueduct: {error.labelled}", file=sys.stderr)
    if report_file.is_requested(args):
        report_file.deliver(args, f"land {args.what}", outcome.code, started, outcome.content)
    return outcome.code


def _land(args: argparse.Namespace, order: "LandOrder", workers: "Workers") -> int:
    from aqueduct.land import watch
    from aqueduct.land.metrics import LandFigures

    done_so_far = LandFigures((table.full_name for table in order.tables), time.time())
    common.serve_metrics(args, done_so_far.all, workers)
    if args.every is None:
        return _land_rounds(args, order, workers, done_so_far)
    with watch.watching(watch.servers(order), done_so_far):
        return _land_rounds(args, order, workers, done_so_far)


def _land_rounds(
    args: argparse.Namespace, order: "LandOrder", workers: "Workers", done_so_far: "LandFigures"
) -> int:
    from aqueduct.land import report
    from aqueduct.land.absent_columns import Unseen
    from aqueduct.land.run import Lander
    from aqueduct.land.table_log import Lost

    unseen = Unseen()
    lander, landing = None, False  # what is refused later may come right again: another declaration, a topic
    due = dict.fromkeys(order.tables, 0.0)  # when, by the monotonic clock
    left_out: dict[str, LeftOut] = {table.full_name: () for table in order.tables}  # in each one's last round
    while True:
        started = datetime.now(UTC)
        began = time.monotonic()
        now = [table for table in order.tables if due[table] <= began]
        again = {table.full_name for table in now}  # tables that use the shorter wait
        try:
            lander = lander or Lander(order, workers, unseen, again=landing)
            landed = lander.until_caught_up(now)
        except (Failed, Refused) as error:
            if args.every is None or (isinstance(error, Refused) and not landing):
                raise
            done_so_far.add(None, {}, time.time())
            report_file.write_error(args, "land", started, error)
            args.output.end(error.exit_code)
            workers.ran()  # nothing of this round is in the next one's report
            print(f"aqueduct: {error.labelled}", file=sys.stderr, flush=True)
            lander = None  # its log is read again, which finishes what was committed
        else:
            landing = True
            again = {
                outcome.table
                for outcome in landed
                if outcome.failed or outcome.left_out != left_out[outcome.table]
            }
            left_out |= {outcome.table: outcome.left_out for outcome in landed}
            done_so_far.add(landed, _lags(lander, now) if args.metrics_port else {}, time.time())
            failed = [outcome.failed for outcome in landed if outcome.failed]
            code = workers.exit_code(report.exit_code(landed, fail_on_poison=args.fail_on_poison))
            print(report.text(landed, time.monotonic() - began), flush=True)
            for failure in failed:
                print(f"aqueduct: {failure.labelled}", file=sys.stderr, flush=True)
            if report_file.is_requested(args):
                report_file.deliver(args, "land", code, started, workers.reported(report.report(landed)))
            args.output.end(code)
            if args.every is None or any(isinstance(failure, Lost) for failure in failed):
                return code
            lander = None if failed else lander
        due |= {table: began + _wait(table, args.every, table.full_name in again) for table in now}
        time.sleep(max(0.0, min(due.values()) - time.monotonic()))


def _wait(table: "LandTable", every: int, again: bool) -> int:
    """Return the seconds until a table's next round; `again`: the shorter time, because of a failure."""
    own = table.every or every
    return min(own, every) if again else own


def _lags(lander: "Lander", tables: "Sequence[LandTable]") -> dict[str, int]:
    with suppress(Failed, Refused):  # the next round says why
        return lander.lags(tables)
    return {}


def _offsets(text: str) -> "dict[TopicPartition, int]":
    offsets = {}
    for position in text.split(","):
        match = re.fullmatch(r"(.+):(\d+):(\d+)", position)
        if not match:
            raise argparse.ArgumentTypeError(f"{position!r} is not topic:partition:offset")
        partition = TopicPartition(match[1], int(match[2]))
        if partition in offsets:
            raise argparse.ArgumentTypeError(f"{partition} is listed twice")
        offsets[partition] = int(match[3])
    return offsets
