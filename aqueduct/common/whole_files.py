"""Files that are written whole or not at all, and through no link."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(
    path: Path,
    content: bytes,
    *,
    scratch: str = "",
    mode: int | None = None,
    owner: tuple[int, int] | None = None,
) -> None:
    """Replace a file at once, on its disk. A link in the place of the file is replaced, too.

    `scratch` is the name of the file until it is whole, and replaces one that a killed run has left; by
    default it is random. Without a `mode`, the umask decides. `owner`: user and group, if they are others
    than this process has.
    """
    name = scratch or _random(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if scratch:
            with suppress(FileNotFoundError):
                os.unlink(scratch, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                status = os.fstat(descriptor)
                if owner is not None and owner != (status.st_uid, status.st_gid):
                    os.fchown(descriptor, *owner)
                if mode is not None:
                    os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            os.replace(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def probe(path: Path) -> None:
    """Make and remove the random file of `write_whole`; OSError where that may not be done."""
    scratch = path.parent / _random(path)
    os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    scratch.unlink()


def _random(path: Path) -> str:
    return f".{path.name}.{secrets.token_hex(8)}"
