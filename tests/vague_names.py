"""How many variables have a name that says nothing: `python tests/vague_names.py` fails above the limit.

It counts all bindings of names in the package and the plugins: of variables, parameters and fields.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VAGUE = {
    "at", "data", "done", "each", "found", "item", "known", "obj", "place", "said", "there", "thing", "told",
    "val", "wanted", "what", "why",
}  # fmt: skip
LIMIT = 0.02


def bindings(source: str) -> Iterator[str]:
    """Yield each name that a module binds, once for each binding, without `self` and `cls`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg


def main() -> int:
    total, vague = 0, Counter[str]()
    for path in sorted(path for folder in ("aqueduct", "plugins") for path in (ROOT / folder).rglob("*.py")):
        names = list(bindings(path.read_text()))
        total += len(names)
        vague[str(path.relative_to(ROOT))] = sum(name in VAGUE for name in names)
    share = vague.total() / total
    print(f"{vague.total()} of {total} bindings have a name that says nothing ({share:.1%}).")
    if share <= LIMIT:
        return 0
    worst = ", ".join(f"{path} ({number})" for path, number in vague.most_common(10))
    print(f"The limit is {LIMIT:.0%}. Give names of the domain; most are in {worst}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
