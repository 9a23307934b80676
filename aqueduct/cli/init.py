"""Create your own repository: an inventory, settings of Ansible, and a check for CI.

Sites whose names begin with `lake` or `dw` are lakes. Each lake mirrors the topics of all sites that are not
lakes. The first lake keeps the backups of these sites. Edit the inventory afterwards. The README of the new
repository has the commands.

The repository installs its release from package indexes. With --from, it installs the package (.whl) and the
collection (.tar.gz) in a folder. The repository contains relative paths to these files, so do not move them.

Nothing is overwritten. Exit code: 0 done, 1 the repository cannot be written, 2 a name is invalid, a file
exists, or a file of the release is missing.
"""

import argparse
from pathlib import Path

from aqueduct.control_node.starter.repository import Plan, create
from aqueduct.control_node.starter.requirements import ReleaseRequirements
from aqueduct.control_node.starter.sites import is_name, parse_sites
from aqueduct.errors import ExitCode, Refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, help="folder of the new repository; it may exist")
    add("--sites", metavar="NAME,...", default="pro1,lake1", help="names of the sites; default: %(default)s")
    add("--name", metavar="NAME", default="estate", help="name of the inventory; default: %(default)s")
    add("--lab", action="store_true", help="use containers on this machine instead of hosts")
    add(
        "--from",
        dest="release_folder",
        metavar="FOLDER",
        type=Path,
        help="install the release from the files in this folder; default: from package indexes",
    )


def run(args: argparse.Namespace) -> int:
    if not is_name(args.name):
        raise Refused(
            "inventory-name-invalid",
            f"{args.name!r} in --name cannot name an inventory: begin with a lower-case letter, and use "
            "lower-case letters and digits only. Nothing was written.",
        )
    sites = parse_sites(args.sites)
    if args.release_folder is None:
        requirements = ReleaseRequirements.from_indexes()
    else:
        requirements = ReleaseRequirements.from_files(args.release_folder, args.folder)
    plan = Plan(name=args.name, sites=sites, is_lab=args.lab, requirements=requirements)
    for path in create(args.folder, plan):
        print(args.folder / path)
    print(f"Continue with {args.folder / 'README.md'}.")
    return ExitCode.DONE
