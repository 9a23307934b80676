"""Pack what the Python workers of a Spark cluster need, for --archives.

The archive holds Aqueduct and the packages of its tasks, as they are installed here. Give it to spark-submit
(`--archives env.tar.gz#environment`) or to a verb (`--conf spark.archives=env.tar.gz#environment`): workers
then need nothing but Spark and Python of this host's minor version. Any name after the # will do.

Exit code: 0 done, 1 it can't be written, 2 a package is missing here or the name can't be right.
"""

import argparse
from pathlib import Path

from aqueduct.errors import ExitCode
from aqueduct.wording import count
from aqueduct.work import environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="such as env.tar.gz")


def run(args: argparse.Namespace) -> int:
    packages = environment.write(args.out)
    print(f"{args.out}: {count(len(packages), 'package')}, {args.out.stat().st_size / 1e6:.1f} MB")
    print("\n".join(packages))
    return ExitCode.DONE
