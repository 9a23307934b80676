"""Compare the two ends of a flow: topics at their source, or at several, with those at the target.

Per partition: the number of records; key, value, headers and timestamp of each; and their order. Where they
differ, it says which offsets of the source are missing in the target, which of the target's are in no source,
or where the order differs. Offsets need not be the same. Read is what was committed when the command started.
A source may be a store: then it is a snapshot that the target is compared with.

Exit code: 0 equal, 3 unequal, or no record carries the header of --header, 1 an end can't be read, 2 the
arguments can't be right.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from aqueduct.cli import common, report_file, selection
from aqueduct.cli.extra import spark_packages
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
        help="brokers of a source; repeat for each of several; or a store, alone (s3://, file:// ...)",
    )
    add("--target", metavar=servers, type=_servers, required=True)
    common.add_snapshot(parser)
    common.add_trust(parser)
    common.add_private_key(parser)
    add("--client-config", metavar=file, help="Kafka client properties, for both ends")
    add(
        "--source-config",
        metavar=file,
        action="append",
        help="for the source; for several: one, or one for each",
    )
    add("--target-config", metavar=file, help="for the target")
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument(
        "--topics", metavar="A,B:C", help="by name; B:C is B at the source and C at the target"
    )
    topics.add_argument(
        "--topics-pattern", metavar="REGEX", help="by whole name at the source, without __..."
    )
    add("--target-prefix", metavar="PREFIX", default="", help="prefix of the topics' names at the target")
    add("--header", metavar="NAME=VALUE", type=_header, help="compare only records that carry this header")
    common.add_run(parser)


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    with spark_packages():
        from aqueduct.reconcile import report, store_reader
        from aqueduct.reconcile.flow import ComparedFlow, ComparedTopics
        from aqueduct.reconcile.run import reconcile
        from aqueduct.reconcile.stored import ComparedEnd
        from aqueduct.work.workers import Workers

    stores = [source for source in args.source if source.startswith(SCHEMES)]
    if len(stores) > 1 or (stores and len(args.source) > 1):
        raise Refused("A store is compared alone: give one --source.")
    if args.snapshot is not None and not stores:
        raise Refused("--snapshot is one of a store's: give that as --source.")
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

    code = report.exit_code(flow, verdicts)
    print(report.text(flow, verdicts))
    if args.report:
        report_file.write(
            args.report, "reconcile", code, started, report.report(flow, verdicts) | workers.ran()
        )
    return code


def _ends(role: str, servers: Sequence[str], files: Sequence[str | None]) -> tuple[End, ...]:
    """Pair each source with its file: one for each, or one for all."""
    if len(files) not in (1, len(servers)):
        raise Refused(
            f"--{role}-config is given {len(files)} times for {len(servers)} ends; once, or for each."
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
