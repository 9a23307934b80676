"""Files of keys and of state, each written whole or not at all."""

import os
from pathlib import Path

from aqueduct.errors import Failed


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file completely, or not at all, also if the machine stops in the middle."""
    beside = path.with_name(path.name + ".new")
    try:
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Failed("link-file-unwritable", f"{path} cannot be written: {error.strerror}.") from None
