"""aqueduct restore as a Spark application: what `spark-submit` is given, with the verb's own arguments."""

import sys

from aqueduct.cli import main

if __name__ == "__main__":
    sys.exit(main(["restore", *sys.argv[1:]]))
