"""Messages about data folders of Kafka nodes."""

from aqueduct.messages.message import Area, DeclaredMessage

DATA_FOLDERS = (
    DeclaredMessage(
        id="data-folder-missing",
        area=Area.DATA_FOLDERS,
        meaning="The data folder of the node does not exist, or is not a folder.",
        fix="Create the folder for the user of the node, or pass the folder that the node uses.",
    ),
    DeclaredMessage(
        id="data-folder-unreadable",
        area=Area.DATA_FOLDERS,
        meaning="A data folder of a Kafka node, or a file in it, cannot be read.",
        fix="Pass a folder of `log.dirs`, and run the command as the user of the node.",
    ),
    DeclaredMessage(
        id="data-folder-unwritable",
        area=Area.DATA_FOLDERS,
        meaning="A file of a data folder of a Kafka node cannot be written or moved.",
        fix="Correct the cause in the message, and run the command again as the user of the node.",
    ),
    DeclaredMessage(
        id="data-folder-unidentified",
        area=Area.DATA_FOLDERS,
        meaning=(
            "`meta.properties` of a data folder does not contain the node ID and the cluster ID of the "
            "folder."
        ),
        fix=(
            "If the folder contains logs, restore `meta.properties` from a backup of the host. Otherwise, "
            "format the folder."
        ),
    ),
    DeclaredMessage(
        id="broker-running",
        area=Area.DATA_FOLDERS,
        meaning="A running broker uses the data folder. Nothing was done.",
        fix="Stop the broker, and run the command again.",
    ),
)
