"""The report of a run: a JSON document that other programs read, in a file or on standard output."""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from aqueduct.cli.output import prints_report
from aqueduct.common.whole_files import probe, write_whole
from aqueduct.errors import AqueductError, Failed, Refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", metavar="FILE", type=file, help="write a report as JSON")
    parser.add_argument("--json", action="store_true", help="print the report, as JSON, instead of text")


def is_requested(args: argparse.Namespace) -> bool:
    return args.report is not None or args.json


def outside(path: Path | None, store: str) -> None:
    """Check that the report would not be one of the store's own files; else Refused."""
    folder = store.removeprefix("file://")
    if path and folder != store and path.resolve().is_relative_to(Path(unquote(folder)).resolve()):
        raise Refused(
            "report-inside-store",
            f"--report {path} is inside the store {store}, whose objects it could overwrite.",
        )


def deliver(
    args: argparse.Namespace, verb: str, exit_code: int, started: datetime, findings: Mapping[str, Any]
) -> None:
    """Write the report to a file (--report), print it (--json), or both. Times are RFC 3339."""
    report = _document(verb, exit_code, started, findings)
    if args.report:
        _store(args.report, report)
    if args.json:
        args.output.print_document(report)


def write(path: Path, verb: str, exit_code: int, started: datetime, findings: Mapping[str, Any]) -> None:
    """Write a report to a file."""
    _store(path, _document(verb, exit_code, started, findings))


def _document(verb: str, exit_code: int, started: datetime, findings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "verb": verb,
        "exit_code": exit_code,
        "started": started.isoformat(timespec="milliseconds"),
        "ended": datetime.now(started.tzinfo).isoformat(timespec="milliseconds"),
        **findings,
    }


def _store(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report whole or not at all."""
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    try:
        # A file name can have bytes that are not UTF-8. They are escaped as in JSON.
        write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise Failed(
            "report-not-writable", f"The report {path} cannot be written: {error.strerror}."
        ) from None


def error_entry(error: AqueductError) -> dict[str, str]:
    """Return an error as JSON has it."""
    return {"id": error.id, "message": str(error)}


def write_error(args: argparse.Namespace, verb: str, started: datetime, error: AqueductError) -> None:
    """Report a run that ended with an error, if a report was asked for.

    No file is written if its path is what was refused, or inside a store: the error may have occurred
    before the verb checked the path.
    """
    path: Path | None = getattr(args, "report", None)
    content = {"error": error_entry(error)}
    if prints_report(args):
        args.output.print_document(_document(verb, error.exit_code, started, content))
    if path is None or error.id in _OF_REPORTS:
        return
    for store in _stores(args):
        outside(path, store)
    write(path, verb, error.exit_code, started, content)


_OF_REPORTS = "report-inside-store", "report-not-writable"


def _stores(args: argparse.Namespace) -> Iterator[str]:
    """Yield the file:// stores among the values of options, whatever the options are called."""
    for value in vars(args).values():
        for text in value if isinstance(value, list | tuple) else (value,):
            if isinstance(text, str):
                yield from re.findall(r"file:///[^,]*", text)
    if hasattr(args, "backups"):  # of files
        yield f"file://{quote(str(args.backups.resolve()))}"


def file(text: str) -> Path:
    """Parse a file's path, for argparse's `type`: refused before the work, not when it is reported."""
    path = Path(text)
    try:
        if path.exists() and not path.is_file():
            raise argparse.ArgumentTypeError(f"{text!r} is not a file")
        probe(path)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be written: {error.strerror}; pass a file in an existing, writable directory"
        ) from None
    return path
