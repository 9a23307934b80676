"""Show the state of the whole estate, the worst first, with a remedy for each finding.

`playbooks/status.yml` collects facts from all hosts, and shows the state. It also writes the facts to a file,
which is the input of this command. The command contacts no host and changes nothing.

If no host was asked about an object, or the asked host did not answer, its state is unknown.

Exit code: 0 all is well; 3 an object is in the state "needs action" or "unknown"; 1 no host answered; 2
refused, because of an invalid option or an unreadable file.
"""

import argparse
import json
from pathlib import Path

from aqueduct.cli import report_file
from aqueduct.cli.optional_packages import connect_packages
from aqueduct.common import timestamps
from aqueduct.errors import ExitCode, Failed, Refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--facts",
        metavar="FILE",
        type=Path,
        required=True,
        help="file of facts that playbooks/status.yml wrote",
    )
    add("--site", metavar="SITE", default="", help="show only the objects of this site")
    add("--verbose", action="store_true", help="also show a table of all objects for each section")
    add(
        "--html",
        metavar="FILE",
        type=report_file.file,
        help="also write the state as an HTML page, which loads nothing from the network",
    )
    add(
        "--metrics",
        metavar="FILE",
        type=report_file.file,
        help="also write metrics for the textfile collector of Prometheus's node exporter",
    )
    add("--json", action="store_true", help="print the state as JSON")


def run(args: argparse.Namespace) -> int:
    with connect_packages():
        from aqueduct.control_node.status import metrics, report
        from aqueduct.control_node.status.evaluation import evaluate
        from aqueduct.control_node.status.page import page

    try:
        source = json.loads(args.facts.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON"
        raise Refused("facts-file-invalid", f"Cannot read {args.facts}: {reason}.") from None
    declared, facts, unreachable = report.read_facts(source)
    sites = sorted({declared_object.site for declared_object in declared if declared_object.site})
    if args.site and args.site not in sites:
        raise Refused(
            "facts-file-invalid", f"The estate has no site {args.site}. Its sites: {', '.join(sites)}."
        )
    estate = evaluate(declared, facts, unreachable=unreachable, site=args.site)
    for file, content in ((args.html, page), (args.metrics, metrics.text)):
        if file:
            _write(file, content(estate))
    if args.json:
        print(json.dumps(report.document(estate), indent=2))
    else:
        print(f"As of {timestamps.text(estate.asked)}. {report.text(estate, verbose=args.verbose)}")
    if estate.exit_code == ExitCode.FAILED and not args.json:
        raise Failed("estate-not-asked", "No host answered, so nothing is known about the estate.")
    return estate.exit_code


def _write(file: Path, content: str) -> None:
    try:
        file.write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise Failed("report-not-writable", f"{file} cannot be written: {error.strerror}.") from None
