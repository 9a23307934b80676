"""Key pairs of OpenSSL for encrypted backups."""

from pathlib import Path

from aqueduct.cli import main
from aqueduct.common.keys import ReceiverKey, load
from aqueduct.errors import ExitCode


class Pair:
    """A key pair, as `aqueduct diode keygen` makes it."""

    def __init__(self, folder: Path, name: str) -> None:
        argv = ["diode", "keygen", "--kind", "receiver", "--out", str(folder), "--name", name]
        assert main(argv) == ExitCode.DONE
        self.private, self.public = folder / f"{name}.key", folder / f"{name}.pub"
        self.opens = ["--private-key", str(self.private)]
        self.key = load(ReceiverKey, self.private)
        self.fingerprint = self.key.public.fingerprint.hex()
