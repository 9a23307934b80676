"""Key files, which nobody but their owner may read, and state that is written whole or not at all."""

import os
import stat
from pathlib import Path
from typing import TypeVar

from aqueduct.errors import Failed, Refused
from aqueduct.link.wire.keys import ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey

AnyKey = TypeVar("AnyKey", ReceiverKey, ReceiverPublicKey, SenderKey, SenderPublicKey)


def load(kind: type[AnyKey], path: Path) -> AnyKey:
    """Load a key; Refused if the file is another one's, or a private key that others can read."""
    try:
        text, mode = path.read_text(errors="replace"), stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}.") from None
    key = kind.parse(text, str(path))
    if kind in (ReceiverKey, SenderKey) and mode & 0o077:
        raise Refused(f"{path} can be read by others than its owner: chmod 0600 {path}")
    return key


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
        raise Failed(f"{path} can't be written: {error.strerror}.") from None
