"""Text in HTML."""

from html import escape

from aqueduct.common.wording import printable
from aqueduct.control_node.status.model import ObjectState


def safe(text: object) -> str:
    """Return a text for HTML, attributes too: markup and control characters in it are shown, not obeyed."""
    return escape(printable(str(text)), quote=True)


def css_class(state: ObjectState) -> str:
    return state.name.lower().replace("_", "-")
