"""Makes a pair of keys, once."""

from pathlib import Path
from typing import Literal

from aqueduct.common.keys import Algorithm, ReceiverKey, SenderKey
from aqueduct.errors import Refused
from aqueduct.link import files


def make(kind: Literal["receiver", "sender"], folder: Path, name: str, *, x25519: bool) -> tuple[Path, Path]:
    """Make the files of the private and the public key. Refused if one exists already."""
    if "/" in name or not name or name.startswith("."):
        raise Refused(
            "key-file-not-created",
            f"{name!r} is not a valid name for key files. Use a name without / and without a dot at the "
            "beginning.",
        )
    if not folder.is_dir():
        raise Refused("key-file-not-created", f"--out {folder} is not a folder.")
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    for path in (private, public):
        if path.exists():
            raise Refused("key-file-not-created", f"{path} already exists. Choose another name.")
    algorithm = Algorithm.X25519 if x25519 else Algorithm.HYBRID
    key = ReceiverKey.generate(algorithm) if kind == "receiver" else SenderKey.generate()
    files.write(private, key.text().encode())
    files.write(public, key.public.text().encode(), mode=0o644)
    return private, public
