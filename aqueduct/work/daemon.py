"""Spark's daemon, which forks its Python workers: it loads before what their tasks need.

So that is loaded once, and its memory is shared. A worker loads the rest.
"""

import gc
import os
from contextlib import suppress
from importlib import import_module

MODULES = "AQUEDUCT_MODULES"  # variable of its environment: their names, with a comma between them


def main() -> None:
    from pyspark import daemon  # not at the top: Spark's driver has no use for it

    for name in os.environ[MODULES].split(","):
        with suppress(ImportError):  # what a task lacks it says itself
            import_module(name)
    gc.collect()
    gc.freeze()  # a worker's collections would write to, and so copy, all pages with objects
    daemon.manager()


if __name__ == "__main__":
    main()
