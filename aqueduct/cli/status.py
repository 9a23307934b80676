"""Show the state of the whole estate, the worst first, with a remedy for each finding.

With --inventory, the command runs the playbook `aqueduct.estate.status`, which queries all hosts of an
inventory in parallel, and writes its reports.

With --facts, it evaluates the file of facts that the playbook wrote, and contacts no host.

With --estate, it queries the exporters of all hosts of the group `monitoring`, and the brokers, all at once
and within --patience. It needs no Ansible, and runs on any host. It reports objects that are visible in the
metrics, or with the ACL Describe of the principal `monitoring-<site>`. All other objects are unknown. Hosts
of the group have the files for --estate and --command-config. On these hosts, run the command as the user
monitoring, in the sandbox of its service (docs/security.md, in_sandbox):
`in_sandbox monitoring '' /opt/aqueduct/base/bin/aqueduct status --config /etc/aqueduct/status/status.yml`.

The command changes nothing. If no host was queried about an object, or the queried host did not answer, the
state of the object is unknown.

Exit code: 0 all is well; 3 an object is in the state "needs action" or "unknown"; 1 no host answered; 2
refused, because of an invalid option or an unreadable file.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from aqueduct.cli import report_file, selection, status_playbook
from aqueduct.cli.optional_packages import connect_packages
from aqueduct.common import timestamps
from aqueduct.errors import ExitCode, Failed, Refused
from aqueduct.kafka import client_config

PATIENCE_SECONDS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--facts", metavar="FILE", type=Path, help="file of facts that playbooks/status.yml wrote"
    )
    source.add_argument(
        "--estate",
        metavar="FILE",
        type=Path,
        help="file that playbooks/monitoring.yml wrote (estate.json): query the exporters and clusters in it",
    )
    source.add_argument(
        "--inventory",
        metavar="PATH",
        type=Path,
        action="append",
        help="inventory whose hosts are queried with Ansible; may be repeated",
    )
    add(
        "--reports",
        metavar="FOLDER",
        type=Path,
        help="with --inventory: folder of the playbook's reports; default: reports, beside the inventory",
    )
    add(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="with --estate: Kafka client properties with the certificate of monitoring-<site>",
    )
    add(
        "--patience",
        metavar="SECONDS",
        type=selection.positive,
        default=PATIENCE_SECONDS,
        help=f"with --estate: time limit of all queries together; default {PATIENCE_SECONDS}",
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

    source = _source(args)
    declared, facts, unreachable = report.read_facts(source)
    sites = sorted({declared_object.site for declared_object in declared if declared_object.site})
    if args.site and args.site not in sites:
        raise Refused(
            "facts-file-invalid", f"The estate has no site {args.site}. Its sites: {', '.join(sites)}."
        )
    with connect_packages():
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


def _source(args: argparse.Namespace) -> Any:
    """Return a file of facts, which is read or made now."""
    if args.facts:
        return _json(args.facts, "facts-file-invalid")
    if args.inventory:
        return status_playbook.ask(args.inventory, args.site, args.reports)
    return _asked(args)


def _asked(args: argparse.Namespace) -> Any:
    """Ask what the file of --estate lists; return a file of facts."""
    from aqueduct.control_node.status.exporter_facts import read_estate
    from aqueduct.control_node.status.scraping import gather

    if args.command_config is None:
        raise Refused("usage-error", "--estate needs a certificate. Add --command-config.")
    estate = read_estate(_json(args.estate, "estate-file-invalid"))
    client = client_config.load(args.command_config)
    sites = [args.site] if args.site else []
    return gather(estate, client, args.command_config, args.patience, sites)


def _json(file: Path, id_: str) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON"
        raise Refused(id_, f"Cannot read {file}: {reason}.") from None


def _write(file: Path, content: str) -> None:
    try:
        file.write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise Failed("report-not-writable", f"{file} cannot be written: {error.strerror}.") from None
