"""Files that are replaced atomically, without following links."""

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
    """Replace a file atomically and durably (fsync). A link with this name is replaced, not followed.

    `scratch`: the temporary name of the new file, random by default; a file of this name is replaced.
    `mode`: by default, the umask decides. `owner`: user and group, by default those of this process.
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
    """Create and remove a temporary file as `write_whole` does; OSError if this process may not do so."""
    scratch = path.parent / _random(path)
    os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    scratch.unlink()


def _random(path: Path) -> str:
    return f".{path.name}.{secrets.token_hex(8)}"
