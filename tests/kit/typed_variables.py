"""Variables that a Jinja expression uses without a conversion to their type."""

from collections.abc import Iterator
from typing import Any

import jinja2
from jinja2 import nodes


class _Everything(dict[str, Any]):
    """Stands for all filters and tests of Ansible, because the parser needs only their names."""

    def __missing__(self, name: str) -> Any:
        return lambda *_, **__: None

    def __contains__(self, name: object) -> bool:
        return True


def environment() -> jinja2.Environment:
    made = jinja2.Environment(autoescape=True)
    made.filters = made.tests = _Everything()
    return made


PARSER = environment()


def bare(node: nodes.Node) -> str | None:
    """Return the name of a variable that is used without a conversion."""
    while isinstance(node, nodes.Filter) and node.name in {"default", "d"} and node.node:
        node = node.node
    return node.name if isinstance(node, nodes.Name) else None


def decided(tree: nodes.Template, *, condition: bool) -> Iterator[nodes.Node]:
    """Yield the expressions that are evaluated as true or false."""
    for each in tree.find_all((nodes.If, nodes.CondExpr)):
        yield each.test
    for each in tree.find_all((nodes.And, nodes.Or)):
        yield from (each.left, each.right)
    for each in tree.find_all(nodes.Not):
        yield each.node
    if condition:
        for output in tree.find_all(nodes.Output):
            yield from output.nodes
