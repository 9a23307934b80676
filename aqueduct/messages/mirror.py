"""Messages about mirrors."""

from aqueduct.messages.message import Area, DeclaredMessage

MIRROR = (
    DeclaredMessage(
        id="mirror-workers-running",
        area=Area.MIRROR,
        meaning="A position of a mirror must be moved, and one of the mirror's workers runs.",
        fix="Stop the mirror on all its hosts, and start it again.",
    ),
    DeclaredMessage(
        id="classic-positions-unchecked",
        area=Area.MIRROR,
        meaning=(
            "A classic mirror stores its position without the topic's id. If a topic was re-created or cut "
            "and has grown past the position, the mirror continues in its middle, and nothing shows it. The "
            "warning does not change the exit code."
        ),
        fix=(
            "Compare both ends with `aqueduct reconcile`. Stop the mirror before you re-create a topic at "
            "its source."
        ),
    ),
    DeclaredMessage(
        id="synchronised-groups-unchecked",
        area=Area.MIRROR,
        meaning=(
            "A topic was re-created or cut at the source of a mirror. The offsets that MirrorMaker committed "
            "at the target for consumer groups were not checked."
        ),
        fix="Compare the groups' offsets at both ends before a consumer moves to the target.",
    ),
)
