"""Whether the file of a private key is its owner's alone."""

import os
from pathlib import Path

OTHERS = 0o077
GROUP_READS = 0o040


def is_exposed(path: Path, mode: int) -> bool:
    """Tell whether others than its owner may use a file of this mode.

    systemd lets a service read a credential by an ACL, where the file system has these, and the mode then
    shows the ACL's mask as a right of the group. The folder of credentials lets nobody else in.
    """
    others = mode & OTHERS
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder and path.absolute().parent == Path(folder):
        others &= ~GROUP_READS
    return others != 0
