import sys

from aqueduct.cli import main

sys.exit(main())
