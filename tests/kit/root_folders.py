"""Folders of root that a service can enter, for tests in which the service attacks root."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def root_folder() -> Iterator[Path]:
    """Yield a folder of root that every user can enter. Folders of pytest are closed to other users."""
    path = Path(tempfile.mkdtemp(prefix="aqueduct-root-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)
