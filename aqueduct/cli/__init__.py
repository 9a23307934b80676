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
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import aqueduct
from aqueduct.cli import config_file, report_file
from aqueduct.errors import AqueductError, Refused
from aqueduct.wording import printable

VERBS = {
    "backup": "back up topics and groups to an object store",
    "dedup": "make clean topics of what crossed a link, and a ledger of what is missing",
    "diode": "send topics over a one-way link, and take them",
    "dlq": "send dead letters of Kafka Connect back to their topics",
    "doctor": "name what silently stops a part of the estate",
    "drill": "restore a snapshot into a scratch cluster, and look whether it came back",
    "environment": "pack what the Python workers of a Spark cluster need",
    "export": "write a snapshot as files of Parquet or Avro",
    "files": "back up folders of files, incrementally, and write them back",
    "health": "say what is wrong with a cluster or a broker",
    "import": "make a snapshot of what another program has stored",
    "land": "land topics in tables of ORC files, each record once",
    "mend": "bring partitions back whose brokers came back with other ids",
    "mirror": "tell how one MirrorMaker flow is doing",
    "prune": "remove old snapshots from a store, and what they alone name",
    "quorum": "keep what a KRaft cluster's controllers know, and form a new quorum from it",
    "reconcile": "compare two ends of a flow, record by record",
    "replicate": "mirror topics to another cluster, batch by batch, each record once",
    "restore": "write a snapshot of a store back to a cluster",
    "rewrap": "let others open an encrypted backup, without writing it again",
    "snapshots": "list what a store holds",
    "status": "show the state of the whole estate, worst first",
    "transactions": "find transactions that hang, and end them",
    "verify": "read a snapshot and say what is damaged",
    "zookeeper": "back up, compare and write back what a ZooKeeper ensemble keeps",
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
    parser.add_argument("--version", action="version", version=f"aqueduct {version('aqueduct')}")
    commands = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, summary in VERBS.items():
        command = commands.add_parser(verb, help=summary)
        if verb in verbs:
            module = import_module(f"{__name__}.{verb}")
            command.description = module.__doc__
            command.formatter_class = argparse.RawDescriptionHelpFormatter
            module.add_arguments(command)
            config_file.add_option(command)
            if hasattr(module, "run"):
                command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; its exit code (`aqueduct.errors.ExitCode`, 130: interrupted, 141: broken pipe)."""
    if argv is None:
        _use_utf8()
        argv = sys.argv[1:]
    started = datetime.now(UTC)
    args = argparse.Namespace()
    try:
        parser = build_parser(argv[:1])
        args = parser.parse_args(config_file.expanded(parser, argv))
        code = int(args.run(args))
        sys.stdout.flush()
    except AqueductError as error:
        print(f"aqueduct: {printable(error.labelled)}", file=sys.stderr)
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
    """Add an error to the JSON for other programs: on stdout (--json), and in the report (--report)."""
    if getattr(args, "json", False):
        print(json.dumps({"error": report_file.error_entry(error)}, indent=2))
    words = args.prog.split()[1:] if hasattr(args, "prog") else []
    verb = " ".join([*words, *filter(None, [getattr(args, "what", None)])])
    try:
        report_file.write_error(args, verb, started, error)
    except AqueductError as other:
        print(f"aqueduct: {printable(other.labelled)}", file=sys.stderr)


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
