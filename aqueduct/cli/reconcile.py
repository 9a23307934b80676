"""Compare topics at a source, or at several sources, with their copies at a target, record by record.

The command compares, for each partition, the number of records, the key, value, headers and timestamp of
each record, and the order. If they differ, it lists offsets of the source that are missing in the target,
offsets of the target that are in no source, and records out of order. Offsets themselves may differ. It
compares the records that were committed when it started, and only reads. With --store, the target is
compared with a snapshot of a backup store.

Exit codes:
  0  both ends are equal
  1  an end cannot be read
  2  an argument cannot be used
  3  the ends differ, nothing of a topic or of a part of the pattern was compared, or no record has the
     header of --header
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.errors import Refused
from aqueduct.kafka import client_config
from aqueduct.kafka.client_config import End
from aqueduct.store.url import SCHEMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    servers, file = "HOST:PORT,...", "FILE"
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument(
        "--source-bootstrap-server",
        metavar=servers,
        type=_servers,
        action="append",
        default=[],
        help="brokers of the source; repeat for several sources",
    )
    sources.add_argument(
        "--store",
        metavar="URL",
        action="append",
        default=[],
        help="backup store whose snapshot is compared with the target, instead of brokers of a source",
    )
    former = sources.add_argument(
        "--source", type=_servers_or_store, action=_FormerSource, default=[], help=argparse.SUPPRESS
    )
    former.option_strings = ["--source-bootstrap-server", "--store"]  # what the warning shows
    add(
        "--target-bootstrap-server",
        metavar=servers,
        type=_servers,
        required=True,
        help="brokers of the target",
    )
    common.add_snapshot(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    add("--command-config", metavar=file, help="Kafka client properties of both ends")
    add(
        "--source-command-config",
        metavar=file,
        action="append",
        help="Kafka client properties of the source; with several sources: one file for all, or one for each",
    )
    add("--target-command-config", metavar=file, help="Kafka client properties of the target")
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument(
        "--topics", metavar="A,B:C", help="topics by name; B:C compares B at the source with C at the target"
    )
    topics.add_argument(
        "--topics-pattern",
        metavar="REGEX",
        help="regular expression for whole topic names at the source; __ names match only if it contains __",
    )
    add(
        "--target-prefix",
        metavar="PREFIX",
        default="",
        help="prefix of the topic names at the target, such as pro1.",
    )
    add("--header", metavar="NAME=VALUE", type=_header, help="compare only records that carry this header")
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    with spark_packages():
        from aqueduct.mirror.reconcile import report, store_reader
        from aqueduct.mirror.reconcile.flow import ComparedFlow, ComparedTopics
        from aqueduct.mirror.reconcile.run import reconcile
        from aqueduct.mirror.reconcile.stored import ComparedEnd
        from aqueduct.work.workers import Workers

    if len(args.store) > 1 or (args.store and args.source_bootstrap_server):
        raise Refused("option-conflict", "A store must be the only source. Pass one --store.")
    if args.snapshot is not None and not args.store:
        raise Refused("option-required", "--snapshot needs --store.")
    sources: tuple[ComparedEnd, ...]
    if args.store:
        (store,) = args.store
        report_file.outside(args.report, store)
        trust, keys = common.trust(args), common.private_keys(args)
        sources = (
            store_reader.open_snapshot("source", store, args.snapshot, trust=trust, private_keys=keys),
        )
    else:
        files = args.source_command_config or [args.command_config]
        sources = _ends("source", args.source_bootstrap_server, files)
    target_file = args.target_command_config or args.command_config
    (target,) = _ends("target", [args.target_bootstrap_server], [target_file])
    flow = ComparedFlow(target, sources, args.header)
    topics = ComparedTopics.parse(args.topics, args.topics_pattern, args.target_prefix)
    with Workers("aqueduct reconcile", common.spark(args)) as workers:
        verdicts = reconcile(flow, topics, workers)

    unmatched = topics.unmatched({part.topic for verdict in verdicts for part in verdict.lane.sources})
    code = workers.exit_code(report.exit_code(flow, verdicts, unmatched))
    print(report.text(flow, verdicts, unmatched))
    if report_file.is_requested(args):
        content = workers.reported(report.report(flow, verdicts, unmatched))
        report_file.deliver(args, "reconcile", code, started, content)
    return code


def _ends(role: str, servers: Sequence[str], files: Sequence[str | None]) -> tuple[End, ...]:
    """Pair each source with its file: one for each, or one for all."""
    if len(files) not in (1, len(servers)):
        raise Refused(
            "option-count-mismatch",
            f"--{role}-command-config is passed {len(files)} times for {len(servers)} ends. Pass it once, or "
            f"once for each --{role}-bootstrap-server.",
        )
    configs = [client_config.load(file, for_tasks=True) for file in files]
    return tuple(
        End(role, bootstrap_servers, config)
        for bootstrap_servers, config in zip(servers, configs * (len(servers) // len(configs)), strict=True)
    )


def _servers(text: str) -> str:
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is a store; pass it as --store, and brokers here")
    return selection.servers(text)


class _FormerSource(argparse._AppendAction):
    """`--source`, which accepted brokers and the URL of a store."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        dest = "store" if values.startswith(SCHEMES) else "source_bootstrap_server"
        setattr(namespace, dest, [*getattr(namespace, dest), values])


def _servers_or_store(text: str) -> str:
    return text if text.startswith(SCHEMES) else selection.servers(text)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not a header; write NAME=VALUE")
    return name, value.encode()
