"""The daemon that forks Spark's Python workers. It first imports the modules that their tasks need.

Modules are then imported once, and workers share their memory. A worker imports other modules itself.
"""

import gc
import os
from contextlib import suppress
from importlib import import_module

MODULES = "AQUEDUCT_MODULES"  # environment variable with the names of the modules, separated by commas


def main() -> None:
    from pyspark import (
        daemon,
    )  # not at the top, because the driver, which imports this module, does not need it

    for name in os.environ[MODULES].split(","):
        with suppress(ImportError):  # a task that needs the module reports the error
            import_module(name)
    gc.collect()
    gc.freeze()  # garbage collection in a worker would write to, and so copy, all shared pages with objects
    daemon.manager()


if __name__ == "__main__":
    main()
