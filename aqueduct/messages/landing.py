"""Messages of landings."""

from aqueduct.messages.message import Area, DeclaredMessage

LANDING = (
    DeclaredMessage(
        id="landing-option-misplaced",
        area=Area.LANDING,
        meaning="A table declares an option that its format does not have.",
        fix="Remove the option.",
    ),
    DeclaredMessage(
        id="table-file-misread",
        area=Area.LANDING,
        meaning="Java's ORC readers refuse a file that an earlier version wrote, or read other times in it.",
        fix="Run `aqueduct land compact`, or `aqueduct land reset` to the first offset of the file.",
    ),
)
