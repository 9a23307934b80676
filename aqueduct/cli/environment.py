"""Pack Aqueduct and the packages of its tasks into an archive for the Python workers of a Spark cluster.

The archive contains the packages as they are installed on this host. Pass it to spark-submit (--archives
env.tar.gz#environment) or to a verb (--conf spark.archives=env.tar.gz#environment). The name after # is
arbitrary. Workers then need only Spark, and Python of the same minor version as this host.

Exit codes:
  0  done
  1  the archive cannot be written, or a package is not as it was installed
  2  a package is missing on this host, or the file name cannot be used
"""

import argparse
from pathlib import Path

from aqueduct.common.wording import count
from aqueduct.errors import ExitCode
from aqueduct.work import environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", metavar="FILE", type=Path, required=True, help="archive to write, such as env.tar.gz"
    )


def run(args: argparse.Namespace) -> int:
    packages = environment.write(args.out)
    print(f"{args.out}: {count(len(packages), 'package')}, {args.out.stat().st_size / 1e6:.1f} MB")
    print("\n".join(packages))
    return ExitCode.DONE
