"""The command line: `aqueduct VERB`.

A verb is a module of this package with `add_arguments(parser)` and `run(args) -> int`, or with commands that
each set `run`; its docstring is the verb's help. Only the verb that is called is imported, so a host without
Spark can run the others.
"""

import argparse
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import aqueduct
from aqueduct.cli import config_file, former_options, output, report_file
from aqueduct.common.wording import PrintableStream
from aqueduct.errors import AqueductError, Refused

VERBS = {
    "backup": "back up topics and consumer groups to an object store",
    "completion": "print a script that completes commands in bash or zsh",
    "dedup": "write each record of a one-way link once, and list missing offsets in a ledger",
    "diode": "send and receive topics over a one-way link",
    "dlq": "count, show and replay dead-letter records of Kafka Connect",
    "doctor": "find faults that stop clients, brokers or connectors without an error",
    "drill": "restore a snapshot into a scratch cluster, and compare the result with the store",
    "environment": "pack the Python packages that the workers of a Spark cluster need",
    "export": "write the records of a snapshot to Parquet or Avro files",
    "files": "back up and restore directories of files, incrementally",
    "groups": "show the lag of consumer groups, and whether they keep up",
    "health": "report problems of a cluster or a broker",
    "import": "create a snapshot from the files of another backup program",
    "init": "create your own repository, with an inventory to edit",
    "land": "write topics to Hive or Iceberg tables, each record once",
    "mirror": "report the state of one mirror",
    "prune": "delete old snapshots from a store",
    "quorum": "back up the metadata of KRaft controllers, and form a new quorum from it",
    "reconcile": "compare source and target of a flow, record by record",
    "repair": "make partitions available again whose brokers returned with other ids",
    "replicate": "mirror topics to another cluster, batch by batch, each record once",
    "restore": "restore a snapshot to a cluster",
    "rewrap": "change who can decrypt an encrypted backup, without writing the data again",
    "snapshots": "list the snapshots in a store",
    "status": "show the state of the whole estate, worst first",
    "switch": "move the positions of a flow to its other mirror engine",
    "transactions": "find hanging transactions, and end them",
    "verify": "check a snapshot for damage",
    "zookeeper": "back up, compare and restore the data of a ZooKeeper ensemble",
}


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.set_defaults(prog=self.prog)  # of the parser of the verb, or of its command

    def error(self, message: str) -> NoReturn:
        raise Refused("usage-error", f"{message}; see {self.prog} --help.")


def build_parser(verbs: Iterable[str] = VERBS) -> argparse.ArgumentParser:
    """Build the parser that lists every verb and has the arguments of those in `verbs`, which it imports."""
    parser = _Parser(prog="aqueduct", description=aqueduct.__doc__)
    parser.add_argument("--version", action="version", version=f"aqueduct {version(aqueduct.DISTRIBUTION)}")
    commands = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, summary in VERBS.items():
        command = commands.add_parser(verb, help=summary)
        if verb in verbs:
            module = import_module(f"{__name__}.{verb}")
            command.description = module.__doc__
            command.formatter_class = argparse.RawDescriptionHelpFormatter
            module.add_arguments(command)
            output.add_option(command)
            config_file.add_option(command)
            former_options.accept(command)
            if hasattr(module, "run"):
                command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit code (`aqueduct.errors.ExitCode`, 130: interrupted, 141: broken pipe)."""
    if argv is None:
        _use_utf8()
        argv = sys.argv[1:]
    # What clusters and stores answer is in tables, findings and errors alike.
    with redirect_stdout(PrintableStream(sys.stdout)), redirect_stderr(PrintableStream(sys.stderr)):
        return _run(argv)


def _run(argv: Sequence[str]) -> int:
    started = datetime.now(UTC)
    args = argparse.Namespace()
    try:
        parser = build_parser(argv[:1])
        arguments = config_file.expanded(parser, argv)
        former_options.warn(parser, arguments)
        args = parser.parse_args(arguments)
        with output.of_run(args) as stdout:
            code = int(args.run(args))
            stdout.end(code)
        sys.stdout.flush()
    except AqueductError as error:
        print(f"aqueduct: {error.labelled}", file=sys.stderr)
        _report_error(args, started, error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read our output has gone. Python flushes stdout once more at its exit: let that succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _report_error(args: argparse.Namespace, started: datetime, error: AqueductError) -> None:
    """Add an error to the JSON for other programs: on stdout (--json), and in the report."""
    if getattr(args, "json", False) and not output.prints_report(args):
        print(json.dumps({"error": report_file.error_entry(error)}, indent=2))
    words = args.prog.split()[1:] if hasattr(args, "prog") else []
    verb = " ".join([*words, *filter(None, [getattr(args, "what", None)])])
    try:
        report_file.write_error(args, verb, started, error)
    except AqueductError as other:
        print(f"aqueduct: {other.labelled}", file=sys.stderr)


def _use_utf8() -> None:
    """Start anew where Python takes names for another encoding's; have output never fail for a letter.

    In a locale such as ISO-8859-1, names of files and topics would have other letters than elsewhere, in what
    is stored, too (PEP 540).
    """
    if sys.getfilesystemencoding() != "utf-8":
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")
