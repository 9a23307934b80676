"""Messages about mirrors."""

from aqueduct.messages.message import Area, DeclaredMessage

MIRROR = (
    DeclaredMessage(
        id="mirror-workers-running",
        area=Area.MIRROR,
        meaning="A position of a mirror must be moved, and one of the mirror's workers runs.",
        fix="Stop the mirror on all its hosts, and start it again.",
    ),
)
