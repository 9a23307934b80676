"""Records of more than three fields that are made by position: `python tests/positional_records.py`.

Nobody can read `Fit(a, b, c, d)` without its declaration. Ruff's PLR0917 bounds parameters in the same way.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_FIELDS = 3
BY_POSITION = {
    "Range",  # topic, partition, start, stop: a partition as Kafka writes it, and two offsets
    "Index",  # columns of one array, made and joined in their order
}


def records(source: str) -> Iterator[tuple[int, str, int]]:
    """Yield the line, name and number of fields of each dataclass whose fields have positions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any(map(_by_position, node.decorator_list)):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            yield (
                node.lineno,
                node.name,
                sum("ClassVar" not in ast.unparse(field.annotation) for field in fields),
            )


def _by_position(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    options = decorator.keywords if isinstance(decorator, ast.Call) else []
    return ast.unparse(name) == "dataclass" and not any(option.arg == "kw_only" for option in options)


def main() -> int:
    long = [
        f"{path.relative_to(ROOT)}:{line}: {name} has {fields} fields, so it needs kw_only=True."
        for folder in ("aqueduct", "plugins", "spark_apps")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name, fields in records(path.read_text())
        if fields > MOST_FIELDS and name not in BY_POSITION
    ]
    print("\n".join(long) or f"No record of more than {MOST_FIELDS} fields is made by position.")
    return bool(long)


if __name__ == "__main__":
    sys.exit(main())
