"""The plan that an operator has read: a file with which a confirmed run compares its own plan."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from aqueduct.common import strict_json
from aqueduct.errors import Refused

T = TypeVar("T")


def load(plan_type: type[T], path: Path, *, unreadable: type[Refused]) -> T | None:
    """Read a plan; None, with a printed sentence, if no plan was stored.

    Raise `unreadable` if the file cannot be read, or has anything else.
    """
    try:
        return strict_json.loads(plan_type, path.read_bytes())
    except FileNotFoundError:
        print("No plan was read before, so this one is compared with none.")
        return None
    except OSError as error:
        raise unreadable(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise unreadable(
            f"{path} is damaged, or does not have a plan that was stored to be read ({error}). Make the plan "
            "again, and read it. Nothing was done.",
        ) from None


def refuse(differences: Sequence[str], *, changed: type[Refused]) -> None:
    """Raise `changed` for a plan that differs from the one that was read."""
    if differences:
        raise changed(
            f"{' '.join(differences)} Make the plan again, read it, and confirm that one. Nothing was done.",
        )
