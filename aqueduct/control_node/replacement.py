"""Replaces the estate's own authority in three steps, between which all hosts get what is new.

First hosts trust the new one, too; then it signs, and all keys are made anew; then hosts trust it alone. So
nobody is a stranger to anybody at any moment, and who has an old key is one in the end.

Which step was the last is told by the files: `ca.pem` has who is trusted, `ca.key` is the key that signs, and
`next.key` the one that will. `rolled-out` says of which of these states all hosts are.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from cryptography import x509

from aqueduct.control_node.certificates import (
    AUTHORITY,
    PEM,
    Authority,
    have_key,
    load_authority,
    self_signed,
    write,
)
from aqueduct.errors import Refused

NEXT, ROLLED_OUT = "next.key", "rolled-out"


def take_step(step: str, folder: Path, now: datetime) -> bool:
    """Take a step; return whether anything changed. One that was taken before is none again.

    Refused, with nothing done, if the step before was not taken, or has not come to all hosts.
    """
    return STEPS[step](folder, load_authority(folder), now)


def _introduce(folder: Path, authority: Authority, now: datetime) -> bool:
    if _both(authority):
        if not (folder / NEXT).exists():
            raise Refused(
                "authority-step-early",
                f"The authority of {folder} is already replaced. Run the step retire.",
            )
        return False
    key, _ = have_key(folder / NEXT)
    certificate = self_signed(key, f"{AUTHORITY} of {now:%Y-%m-%d %H:%M:%S}", now)
    write(folder / "ca.pem", authority.trusted.encode() + certificate.public_bytes(PEM), 0o644)
    return True


def _switch(folder: Path, authority: Authority, _: datetime) -> bool:
    if not _both(authority):
        raise Refused("authority-step-early", f"{folder} has no new authority. Run the step introduce first.")
    if not (folder / NEXT).exists():
        return False
    _check_rolled_out(folder, "trust the new authority. Run the step introduce again")
    (folder / NEXT).replace(folder / "ca.key")
    return True


def _retire(folder: Path, authority: Authority, _: datetime) -> bool:
    if not _both(authority):
        return False
    if (folder / NEXT).exists():
        raise Refused(
            "authority-step-early",
            f"The new authority of {folder} has signed nothing yet. Run the step switch first.",
        )
    _check_rolled_out(folder, "have keys of the new authority. Run the step switch again")
    write(folder / "ca.pem", authority.certificate.public_bytes(PEM), 0o644)
    return True


STEPS: dict[str, Callable[[Path, Authority, datetime], bool]] = {
    "introduce": _introduce,
    "switch": _switch,
    "retire": _retire,
}


def note_rolled_out(folder: Path) -> bool:
    """Note that all hosts are of the present state; return whether that is new."""
    if _rolled_out(folder):
        return False
    write(folder / ROLLED_OUT, _state(folder).encode())
    return True


def _both(authority: Authority) -> bool:
    return len(x509.load_pem_x509_certificates(authority.trusted.encode())) > 1


def _check_rolled_out(folder: Path, milestone: str) -> None:
    if not _rolled_out(folder):
        raise Refused(
            "authority-step-early",
            f"It is unknown whether all hosts {milestone}.",
        )


def _rolled_out(folder: Path) -> bool:
    noted = folder / ROLLED_OUT
    return noted.exists() and noted.read_text() == _state(folder)


def _state(folder: Path) -> str:
    signing = load_authority(folder)
    return hashlib.sha256(signing.trusted.encode() + signing.certificate.public_bytes(PEM)).hexdigest()
