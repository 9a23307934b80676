"""Send topics over a one-way link, receive them, and send missing records again.

upstream is the sending end of a link, downstream the receiving end. Both run until they get SIGTERM or
SIGINT. create writes a bundle: a file that lists the missing offsets of a ledger. resend sends these
offsets again; run it at the sending end. lost lists missing and lost ranges of a ledger, the newest first,
with the time of the oldest entry of the ledger that has the range. keygen creates the keys of both ends.

upstream, downstream, create, lost and resend read options from a file (--config), then from the environment
(AQUEDUCT_DIODE_TARGET_IP is --target-ip), then from the command line. The last value wins.

Exit codes:
  0  done
  1  failed
  2  an option cannot be used
  3  done, but some missing offsets cannot be sent again, or it is unknown what is missing; or lost lists a
     range
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aqueduct
from aqueduct.cli.optional_packages import diode_packages
from aqueduct.cli.termination import until_signal
from aqueduct.common import timestamps
from aqueduct.common.offset_sets import size
from aqueduct.common.wording import count, some
from aqueduct.errors import ExitCode, Refused, labelled
from aqueduct.link import options
from aqueduct.link.options import Common, Create, Downstream, ListLosses, Resend, Upstream
from aqueduct.work.progress import Counter

if TYPE_CHECKING:
    from aqueduct.link.ledger.losses import LostRange

Run = Callable[[Any, argparse.Namespace], ExitCode]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    keygen = commands.add_parser("keygen", help="create a key pair")
    keygen.add_argument(
        "--kind", choices=["receiver", "sender"], required=True, help="end that keeps the private key"
    )
    keygen.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="directory for both files; it must exist"
    )
    keygen.add_argument("--name", required=True, help="name of the files: NAME.key (mode 0600) and NAME.pub")
    keygen.add_argument(
        "--x25519",
        action="store_true",
        help="receiver key without ML-KEM-768, for a link with an MTU below 1500",
    )
    keygen.set_defaults(run=_keygen)
    ends: tuple[tuple[str, type[Common], Run, str], ...] = (
        ("upstream", Upstream, _upstream, "run the sending end: send topics over the link"),
        ("downstream", Downstream, _downstream, "run the receiving end: write what arrives to Kafka"),
        ("create", Create, _create, "write a bundle that lists the missing offsets of a ledger"),
        ("lost", ListLosses, _lost, "list the newest missing and lost ranges, and when each was noticed"),
        ("resend", Resend, _resend, "send the offsets of a bundle, or of one partition, again"),
    )
    for name, kind, runs, summary in ends:
        command = commands.add_parser(name, help=summary, argument_default=argparse.SUPPRESS)
        help_ = "file with these options, YAML or .properties"
        command.add_argument("--config", type=Path, metavar="FILE", default=None, help=help_)
        for setting in options.known(kind):
            command.add_argument(
                *_spellings(setting.kebab, setting.camel),
                dest=f"of_{setting.camel}",
                action=_Once,
                metavar="VALUE",
                help=setting.option.help.replace("%", "%%"),
            )
        for nothing in options.MEANINGLESS:
            spellings = _spellings(options.kebab(nothing), nothing)
            command.add_argument(*spellings, dest=f"of_{nothing}", action=_Once, help=argparse.SUPPRESS)
        if kind is Resend:
            command.add_argument(
                "--dry-run", action="store_true", default=False, help="show what would be sent; send nothing"
            )
        command.set_defaults(run=_from_options(kind, runs))


def _spellings(kebab: str, camel: str) -> dict[str, None]:
    return dict.fromkeys((f"--{kebab}", f"--{camel}"))


class _Once(argparse.Action):
    """An option that may be given once, in one of its spellings."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _: str | None = None,
    ) -> None:
        if hasattr(namespace, self.dest):
            raise argparse.ArgumentError(self, "is given twice; remove one")
        setattr(namespace, self.dest, values)


def _from_options(kind: type[Common], run: Run) -> Callable[[argparse.Namespace], ExitCode]:
    def command(args: argparse.Namespace) -> ExitCode:
        given = {
            name.removeprefix("of_"): value for name, value in vars(args).items() if name.startswith("of_")
        }
        with diode_packages():
            settings = options.build(kind, args.config, os.environ, given, _warn)
            _log(settings)
            return run(settings, args)

    return command


def _warn(sentence: str) -> None:
    print(f"aqueduct: warning: {sentence}", file=sys.stderr)


def _log(settings: Common) -> None:
    """Log what we say; what libraries log stays unsaid, or is in our sentences."""
    try:
        file = settings.log_file_name
        handler = logging.FileHandler(file) if file else logging.StreamHandler()
    except OSError as error:
        raise Refused(
            "file-unwritable", f"logFileName {settings.log_file_name} cannot be written: {error.strerror}."
        ) from None
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s {settings.id}: %(message)s"))
    log = logging.getLogger(aqueduct.__name__)
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if settings.log_level == "WARN" else settings.log_level)


def _keygen(args: argparse.Namespace) -> ExitCode:
    with diode_packages():
        from aqueduct.link import keygen

        private, public = keygen.make(args.kind, args.out, args.name, x25519=args.x25519)
    use = "encrypt for this key" if args.kind == "receiver" else "check signatures of this key"
    print(f"Keep {private} secret. Copy {public} to the hosts that {use}.")
    return ExitCode.DONE


def _upstream(settings: Upstream, _: argparse.Namespace) -> ExitCode:
    from aqueduct.link import metrics, upstream

    upstream.run(settings, until_signal(), metrics.publishing(settings.metrics_port, metrics.upstream))
    return ExitCode.DONE


def _downstream(settings: Downstream, _: argparse.Namespace) -> ExitCode:
    from aqueduct.link import downstream, metrics

    downstream.run(settings, until_signal(), metrics.publishing(settings.metrics_port, metrics.downstream))
    return ExitCode.DONE


def _create(settings: Create, _: argparse.Namespace) -> ExitCode:
    from aqueduct.link import create

    outcome = create.create(settings)
    if settings.resend_file_name is None:
        print(outcome.bundle)
    else:
        try:
            settings.resend_file_name.write_text(outcome.bundle + "\n")
        except OSError as error:
            raise Refused(
                "file-unwritable", f"{settings.resend_file_name} cannot be written: {error.strerror}."
            ) from None
        if outcome.offsets or not outcome.left_out:
            resent = f"{count(outcome.offsets, 'offset')} to be sent again"
            print(f"{resent}; {settings.resend_file_name} lists them.")
    for sentence in (*outcome.fresh, *outcome.left_out):
        print(sentence, file=sys.stderr)
    return ExitCode.INCOMPLETE if outcome.left_out else ExitCode.DONE


def _lost(settings: ListLosses, _: argparse.Namespace) -> ExitCode:
    from aqueduct.link.losses import losses

    found = losses(settings)
    if settings.format == "json":
        print(json.dumps([_lost_entry(lost) for lost in found.ranges], indent=2))
    else:
        for lost in found.ranges:
            offsets = count(lost.last - lost.first + 1, "offset")
            place = f"{lost.partition.topic}-{lost.partition.partition}"
            when = f"{timestamps.text(lost.noticed)}{' or earlier' if lost.is_latest else ''}"
            print(f"{when}  {lost.kind:<7}  {place}  {lost.first} to {lost.last} ({offsets})")
        if found.has_entries and not found.ranges:
            print("Nothing is missing or lost.")
    if not found.has_entries:
        message = f"The ledger in {settings.topic} has no entry, so what is missing is not known."
        print(f"aqueduct: {labelled('link-ledger-empty', message)}", file=sys.stderr)
    return ExitCode.INCOMPLETE if found.ranges or not found.has_entries else ExitCode.DONE


def _lost_entry(lost: "LostRange") -> dict[str, Any]:
    return {
        "topic": lost.partition.topic,
        "partition": lost.partition.partition,
        "topic_id": lost.topic_id,
        "kind": lost.kind,
        "first": lost.first,
        "last": lost.last,
        "noticed": timestamps.text(lost.noticed),
        "or_earlier": lost.is_latest,
    }


def _resend(settings: Resend, args: argparse.Namespace) -> ExitCode:
    from aqueduct.link import resend

    progress = Counter("offset")
    try:
        outcome = resend.run(settings, dry_run=args.dry_run, progress=progress)
    finally:
        progress.end()
    fate = "would be sent" if args.dry_run else f"sent, with {count(outcome.records, 'record')} in them"
    withheld = f"; the filter withheld {count(outcome.withheld, 'record')}" if outcome.withheld else ""
    print(f"{count(outcome.offsets, 'offset')} {fate}{withheld}.")
    for unsent in outcome.gone:
        print(f"{unsent.topic_partition}: {unsent.start} to {unsent.stop - 1} cannot be sent any more.")
    for unsent in outcome.beyond:
        span = f"{unsent.topic_partition}: {unsent.start} to {unsent.stop - 1}"
        print(f"{span} cannot be sent: beyond the last stable offset of the source.")
    for sentence in outcome.misfits:
        print(f"Skipped: {sentence}")
    if outcome.others:
        offsets = count(sum(size(partition.gaps) for partition in outcome.others), "offset")
        named = some(f"{partition.topic}-{partition.partition}" for partition in outcome.others)
        message = (
            f"Skipped {offsets} of {count(len(outcome.others), 'partition')} of the bundle ({named}). These "
            "partitions are not in the topics of this link, or are outside partitionStartValue and "
            "partitionStopValue. Also send the bundle over the link of these topics."
        )
        print(f"aqueduct: {labelled('bundle-partition-uncovered', message)}", file=sys.stderr)
    incomplete = outcome.gone or outcome.beyond or outcome.misfits
    return ExitCode.INCOMPLETE if incomplete else ExitCode.DONE
