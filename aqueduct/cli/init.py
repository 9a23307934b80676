"""Create your own repository: an inventory, settings of Ansible, and a check for CI.

Sites whose names begin with `lake` or `dw` are lakes: each mirrors the topics of all other sites. The first
lake keeps their backups. Edit the inventory afterwards. The README of the new repository has the commands.

Nothing is overwritten. Exit code: 0 done, 1 it cannot be written, 2 a name is invalid, or a file exists.
"""

import argparse
from pathlib import Path

from aqueduct.control_node.starter.repository import Plan, create
from aqueduct.control_node.starter.sites import is_name, parse_sites
from aqueduct.errors import ExitCode, Refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, help="the new repository; it may exist")
    add("--sites", metavar="NAME,...", default="pro1,lake1", help="the sites; default: %(default)s")
    add("--name", metavar="NAME", default="estate", help="the inventory; default: %(default)s")
    add("--lab", action="store_true", help="containers on this machine instead of hosts")


def run(args: argparse.Namespace) -> int:
    if not is_name(args.name):
        raise Refused(
            "inventory-name-invalid",
            f"{args.name!r} in --name cannot name an inventory: begin with a lower-case letter, and use "
            "lower-case letters and digits only. Nothing was written.",
        )
    plan = Plan(name=args.name, sites=parse_sites(args.sites), is_lab=args.lab)
    for path in create(args.folder, plan):
        print(args.folder / path)
    print(f"Continue with {args.folder / 'README.md'}.")
    return ExitCode.DONE
