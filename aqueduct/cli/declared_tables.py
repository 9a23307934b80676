"""Tables that a file declares."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct.common.wording import some
from aqueduct.errors import Refused

if TYPE_CHECKING:
    from aqueduct.land.declaration import LandTable


def tables(file: Path, chosen: Sequence[str] = ()) -> "tuple[LandTable, ...]":
    """Read the declarations; of all tables, or of those that are wanted."""
    import yaml

    from aqueduct.land import declaration

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            "file-unreadable",
            f"Cannot read --declarations {file}: {getattr(error, 'strerror', None) or error}.",
        ) from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise Refused(
            "yaml-invalid", f"{file} is not YAML{line}: {getattr(error, 'problem', None) or error}."
        ) from None
    declared = declaration.parse(content, str(file))
    names = [table.full_name for table in declared]
    if absent := [name for name in chosen if name not in names]:
        raise Refused(
            "table-undeclared",
            f"--tables: {file} declares no table {some(absent)}; it declares {some(names)}.",
        )
    return tuple(table for table in declared if not chosen or table.full_name in chosen)
