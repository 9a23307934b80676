"""The plan that an operator read. A confirmed run compares its own plan with this file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from aqueduct.common import strict_json
from aqueduct.errors import Refused

T = TypeVar("T")


def load(plan_type: type[T], path: Path, *, unreadable: type[Refused]) -> T | None:
    """Read a stored plan. Print a note and return None if no plan was stored.

    Raise `unreadable` if the file cannot be read, or does not contain a plan.
    """
    try:
        return strict_json.loads(plan_type, path.read_bytes())
    except FileNotFoundError:
        print("No stored plan exists, so this plan is not compared with an earlier plan.")
        return None
    except OSError as error:
        raise unreadable(
            f"Cannot read {path}: {error.strerror}. Create the plan again, and read it. Nothing was done."
        ) from None
    except ValueError as error:
        raise unreadable(
            f"Cannot use {path}: it is damaged, or it is not a stored plan ({error}). Create the plan again, "
            "and read it. Nothing was done.",
        ) from None


def refuse(differences: Sequence[str], *, changed: type[Refused]) -> None:
    """Raise `changed` if the plan differs from the plan that the operator read."""
    if differences:
        raise changed(
            f"{' '.join(differences)} Create the plan again, read it, and confirm the new plan. Nothing was "
            "done.",
        )
