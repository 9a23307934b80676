"""`aqueduct` in one process, whatever the size of the work: as on a host without PySpark.

python -m bench.alone VERB...
"""

import sys


def command(*arguments: str) -> list[str]:
    """Return the command of a verb: by Spark if a master is among the arguments, else in one process."""
    program = "aqueduct.cli" if "--master" in arguments else "bench.alone"
    return [sys.executable, "-m", program, *arguments]


if __name__ == "__main__":
    sys.modules["pyspark"] = None  # type: ignore[assignment]
    from aqueduct.cli import main

    sys.exit(main())
