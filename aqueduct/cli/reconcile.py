"""Compare topics at a source, or at several sources, with their copies at a target, record by record.

The command compares, for each partition, the number of records, the key, value, headers and timestamp of
each record, and the order. If they differ, it lists offsets of the source that are missing in the target,
offsets of the target that are in no source, and records out of order. Offsets themselves may differ. It
compares the records that were committed when it started, and only reads. A source can also be a backup
store: then the target is compared with a snapshot.

Exit codes:
  0  both ends are equal
  1  an end cannot be read
  2  an argument cannot be used
  3  the ends differ, a part of the pattern matches no topic, or no record has the header of --header
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.optional_packages import spark_packages
from aqueduct.errors import Refused
from aqueduct.kafka import client_config
from aqueduct.kafka.client_config import End
from aqueduct.store.url import SCHEMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    servers, file = "HOST:PORT,...", "FILE"
    add(
        "--source",
        metavar=servers,
        type=_servers_or_store,
        action="append",
        required=True,
        help="brokers of the source, repeat for several sources; or the URL of one backup store",
    )
    add("--target", metavar=servers, type=_servers, required=True, help="brokers of the target")
    common.add_snapshot(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    add("--client-config", metavar=file, help="Kafka client properties of both ends")
    add(
        "--source-config",
        metavar=file,
        action="append",
        help="Kafka client properties of the source; with several sources: one file for all, or one for each",
    )
    add("--target-config", metavar=file, help="Kafka client properties of the target")
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

    stores = [source for source in args.source if source.startswith(SCHEMES)]
    if len(stores) > 1 or (stores and len(args.source) > 1):
        raise Refused("option-conflict", "A store must be the only source. Pass one --source.")
    if args.snapshot is not None and not stores:
        raise Refused("option-required", "--snapshot needs a store as --source.")
    sources: tuple[ComparedEnd, ...]
    if stores:
        report_file.outside(args.report, stores[0])
        trust, keys = common.trust(args), common.private_keys(args)
        sources = (
            store_reader.open_snapshot("source", stores[0], args.snapshot, trust=trust, private_keys=keys),
        )
    else:
        sources = _ends("source", args.source, args.source_config or [args.client_config])
    (target,) = _ends("target", [args.target], [args.target_config or args.client_config])
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
            f"--{role}-config is passed {len(files)} times for {len(servers)} ends. Pass it once, or once "
            f"for each --{role}.",
        )
    configs = [client_config.load(file, for_tasks=True) for file in files]
    return tuple(
        End(role, bootstrap_servers, config)
        for bootstrap_servers, config in zip(servers, configs * (len(servers) // len(configs)), strict=True)
    )


def _servers(text: str) -> str:
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is a store; give it as --source, and brokers here")
    return selection.servers(text)


def _servers_or_store(text: str) -> str:
    return text if text.startswith(SCHEMES) else selection.servers(text)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a header; write NAME=VALUE")
    return name, value.encode()
