"""aqueduct import as a Spark application: what `spark-submit` is given."""

import sys
from collections.abc import Sequence

from aqueduct import cli


def main(argv: Sequence[str]) -> int:
    """Run the verb with its own arguments, and return its exit code."""
    return cli.main(["import", *argv])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
