"""Whether only the owner of a private key file can access it."""

import os
from pathlib import Path

OTHERS = 0o077
GROUP_READS = 0o040


def is_exposed(path: Path, mode: int) -> bool:
    """Return whether a file of this mode is accessible to other users than its owner.

    For a credential of systemd, the right of the group to read is ignored: systemd gives the service an ACL,
    whose mask appears as the group's rights. No other user can enter the folder of credentials.
    """
    others = mode & OTHERS
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder and path.absolute().parent == Path(folder):
        others &= ~GROUP_READS
    return others != 0
