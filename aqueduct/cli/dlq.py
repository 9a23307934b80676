"""Count, show and replay dead-letter records: records that a sink of Kafka Connect could not process.

list counts dead-letter records by topic, connector, origin and error class, with the oldest and the newest
one. show prints the newest ones with keys and headers; values only with --values. Both only read.

replay sends dead-letter records back to their original topics. Run it when the cause is fixed. Each record is
sent once, however often the command is run or killed: the ledger topic stores which records were sent, in the
same transactions. Only consumers that read uncommitted records can see a record of a killed replay twice.
Partitions and timestamps stay the same. Connect's headers (__connect.errors.*) are removed, and the header
aqueduct.replay counts how often a record was sent back. Records that are not selected stay for a later
replay. A record that fails again becomes a new dead-letter record.

Exit code: 0 done, 3 some records cannot be read or sent back and are listed, or no record matches the
selection, 1 failed (the same command resumes), 2 invalid arguments.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aqueduct.cli import common, letter_report, report_file, selection, timestamp_argument
from aqueduct.cli.optional_packages import connect_packages
from aqueduct.common.wording import count, some
from aqueduct.errors import ExitCode, Refused, labelled
from aqueduct.estate.patterns import PatternError, matcher
from aqueduct.kafka import client, client_config

if TYPE_CHECKING:
    from aqueduct.connect.letter_reading import LetterCensus
    from aqueduct.connect.replay import Replayed, ReplayOrder


CLIENT = "aqueduct-dlq"
SHOWN, MOST_SHOWN = 10, 1_000  # dead-letter records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_list(commands)
    _add_show(commands)
    _add_replay(commands)


def _add_list(commands: Any) -> None:
    """Add the command that counts dead-letter records."""
    listing = commands.add_parser("list", help="count dead-letter records by connector, topic and cause")
    common.add_cluster(listing)
    listing.add_argument(
        "--dlq",
        metavar="TOPIC",
        action="append",
        default=[],
        help="a dead-letter topic; may be repeated; default: all topics whose names end with -dlq",
    )
    _add_choice(listing)
    _add_reading(listing)
    listing.set_defaults(run=_list)


def _add_show(commands: Any) -> None:
    """Add the command that prints dead-letter records."""
    showing = commands.add_parser("show", help="print dead-letter records, the newest ones first")
    common.add_cluster(showing)
    showing.add_argument("--dlq", metavar="TOPIC", required=True, help="the dead-letter topic")
    _add_choice(showing)
    showing.add_argument(
        "--records",
        metavar="N",
        type=selection.whole(1, MOST_SHOWN),
        default=SHOWN,
        help=f"print at most N records; default {SHOWN}",
    )
    showing.add_argument("--values", action="store_true", help="print values, too, which may be secret")
    showing.add_argument(
        "--bytes",
        metavar="N",
        type=selection.whole(1, 1_000_000),
        default=1_000,
        help="print at most N bytes of a key, a value and a header; default 1,000",
    )
    _add_reading(showing)
    showing.set_defaults(run=_show)


def _add_replay(commands: Any) -> None:
    """Add the command that sends dead-letter records back."""
    replay = commands.add_parser("replay", help="send dead-letter records back to their topics")
    add = replay.add_argument
    common.add_cluster(replay)
    add("--dlq", metavar="TOPIC", required=True, help="the dead-letter topic")
    add(
        "--topic",
        metavar="PATTERN",
        dest="declared",
        type=_topics,
        action="append",
        default=[],
        help="permitted target topic, as a name or a regular expression (Java); records of other topics "
        "are skipped; may be repeated; default: any",
    )
    add(
        "--to", metavar="TOPIC", help="send to this topic instead; with fewer partitions, modulo their number"
    )
    _add_choice(replay)
    add(
        "--ledger",
        metavar="TOPIC",
        help="topic that stores which records were sent; default aqueduct.dlq.replayed",
    )
    add("--dry-run", action="store_true", help="only show which records would be sent")
    report_file.add_arguments(replay)
    replay.set_defaults(run=_replay)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose dead-letter records."""
    add = parser.add_argument
    add(
        "--error-class",
        metavar="A,B",
        type=selection.names,
        default=(),
        help="only records that failed with this exception: full class name, or its last part",
    )
    add("--connector", metavar="NAME", help="only records that this connector could not process")
    add(
        "--from",
        metavar="TIME",
        dest="from_time",
        type=timestamp_argument.parse,
        help="only records from this time on",
    )
    add("--to-time", metavar="TIME", type=timestamp_argument.parse, help="only records up to this time")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", metavar="NAME", help="only records of this original topic")
    add(
        "--newest",
        metavar="N",
        type=selection.positive,
        help="read only the newest N offsets of each partition; default: all",
    )
    add(
        "--ledger",
        metavar="TOPIC",
        help="topic that lists the replayed records; default aqueduct.dlq.replayed",
    )
    add("--json", action="store_true", help="print JSON for programs")


def _list(args: argparse.Namespace) -> ExitCode:
    census = _census(args, tuple(args.dlq), 0)
    if args.json:
        print(json.dumps(letter_report.document(census), indent=2))
    else:
        print(letter_report.table(census))
    return _finish(census)


def _show(args: argparse.Namespace) -> ExitCode:
    census = _census(args, (args.dlq,), args.records)
    if args.json:
        document = letter_report.letters_document(census, with_values=args.values)
        print(json.dumps(document, indent=2))
    else:
        print(letter_report.letters_text(census, with_values=args.values))
    return _finish(census)


def _census(args: argparse.Namespace, topics: tuple[str, ...], most_shown: int) -> "LetterCensus":
    with connect_packages():
        from aqueduct.connect import letter_reading, replay_ledger
        from aqueduct.connect.dead_letters import Choice

    _check_times(args)
    query = letter_reading.LetterQuery(
        topics=topics,
        ledger=args.ledger or replay_ledger.TOPIC,
        choice=Choice(
            error_classes=args.error_class,
            connector=args.connector,
            first_time=args.from_time,
            last_time=args.to_time,
        ),
        origin_topic=args.topic,
        newest=args.newest,
        most_shown=most_shown,
        most_bytes=args.bytes if most_shown else 0,
    )
    end = client_config.end("cluster", args.bootstrap_server, args.command_config)
    with client.connect(end, CLIENT) as connected:
        return letter_reading.read_census(connected, query)


def _finish(census: "LetterCensus") -> ExitCode:
    """Print what is not known, and return the exit code."""
    sentences = [f"{skipped}." for skipped in census.unknown]
    if not census.topics and not census.unknown:
        message = "The client may describe no topic that ends with -dlq. Check its rights, or use --dlq."
        sentences.append(labelled("dead-letter-topics-unknown", message))
    if census.absent and census.has_letters:
        absent = some(sorted(census.absent))
        message = f"No dead-letter record has {absent}. Check --connector, --error-class and --topic."
        sentences.append(labelled("dead-letter-name-unknown", message))
    for sentence in sentences:
        print(f"aqueduct: {sentence}", file=sys.stderr)
    return ExitCode.INCOMPLETE if sentences else ExitCode.DONE


def _check_times(args: argparse.Namespace) -> None:
    if None not in (args.from_time, args.to_time) and args.from_time > args.to_time:
        raise Refused("time-window-empty", "--from is later than --to-time. Exchange the times.")


def _replay(args: argparse.Namespace) -> ExitCode:
    started = datetime.now(UTC)
    with connect_packages():
        from aqueduct.connect import replay, replay_ledger
        from aqueduct.connect.dead_letters import Choice

    ledger = args.ledger or replay_ledger.TOPIC
    if args.dlq in (args.to, ledger) or args.to == ledger:
        raise Refused("option-conflict", "--dlq, --to and --ledger must be different topics.")
    _check_times(args)
    order = replay.ReplayOrder(
        end=client_config.end("cluster", args.bootstrap_server, args.command_config),
        topic=args.dlq,
        ledger=ledger,
        choice=Choice(
            error_classes=args.error_class,
            connector=args.connector,
            first_time=args.from_time,
            last_time=args.to_time,
        ),
        to=args.to,
        dry_run=args.dry_run,
        declared=tuple(args.declared),
    )
    outcome = replay.replay(order)
    print(_page(outcome, args.dry_run))
    for note in _notes(outcome, order):
        print(f"aqueduct: {note}", file=sys.stderr)
    code = ExitCode.INCOMPLETE if outcome.left_out or outcome.absent else ExitCode.DONE
    if report_file.is_requested(args):
        report_file.deliver(args, "dlq replay", code, started, _report(outcome))
    return code


def _notes(outcome: "Replayed", order: "ReplayOrder") -> Iterator[str]:
    """Yield what an option names that does not exist."""
    if outcome.absent:
        message = f"No dead-letter record in {order.topic} has {some(outcome.absent)}."
        yield labelled("dead-letter-name-unknown", f"{message} Check --connector, --error-class and --topic.")
    if outcome.ledger_made:
        message = (
            f"Topic {order.ledger} was created as the ledger. Records that another ledger lists were sent "
            "again: if there is one, check --ledger."
        )
        yield labelled("ledger-created", message)


def _topics(pattern: str) -> Callable[[str], bool]:
    """Parse topics as a sink declares them (`topics`, `topics.regex`); for argparse's `type`."""
    try:
        return matcher(pattern)
    except PatternError as error:
        raise argparse.ArgumentTypeError(f"{pattern} does not compile: {error}") from None


def _page(outcome: "Replayed", dry_run: bool) -> str:
    total = sum(outcome.sent.values())
    most_first = sorted(outcome.reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    lines = [f"{number:>9}  {connector}  {error}" for (connector, error), number in most_first]
    if lines:
        lines = [f"{'records':>9}  connector  error", *lines]
    fate = "would be sent back" if dry_run else "sent back"
    lines += [
        f"{count(total, 'dead-letter record')} {fate}; {outcome.before:,} sent back before; "
        f"{outcome.others:,} not selected."
    ]
    lines += [
        labelled(reason.id, f"{count(number, 'dead-letter record')} cannot be sent back: {reason.why}.")
        for reason, number in sorted(outcome.left_out.items())
    ]
    return "\n".join(lines)


def _report(outcome: "Replayed") -> dict[str, object]:
    return {
        "partitions": [
            {"topic": topic, "partition": partition, "records": number}
            for (topic, partition), number in sorted(outcome.sent.items())
        ],
        "errors": [
            {"connector": connector, "error_class": error, "records": number}
            for (connector, error), number in sorted(outcome.reasons.items())
        ],
        "before": outcome.before,
        "not_chosen": outcome.others,
        "absent_names": list(outcome.absent),
        "left_out": [
            {"id": reason.id, "what": count(number, "dead-letter record"), "why": reason.why}
            for reason, number in sorted(outcome.left_out.items())
        ],
    }
