"""Messages about exports of a snapshot."""

from aqueduct.messages.message import Area, DeclaredMessage

EXPORT = (
    DeclaredMessage(
        id="export-folder-taken",
        area=Area.EXPORT,
        meaning=(
            "The folder of `--to` has files of something else, or an export of another snapshot, selection "
            "or version."
        ),
        fix="Pass a folder with `--to` that is empty or does not exist.",
    ),
    DeclaredMessage(
        id="export-state-damaged",
        area=Area.EXPORT,
        meaning="A file that records the progress of an export cannot be read.",
        fix="Pass another folder with `--to`. The damaged export cannot be continued.",
    ),
    DeclaredMessage(
        id="export-files-changed",
        area=Area.EXPORT,
        meaning="Files of an export are missing, have another size, or are not of this export.",
        fix="Find out who changed the folder, and export to another one with `--to`.",
    ),
    DeclaredMessage(
        id="export-count-mismatch",
        area=Area.EXPORT,
        meaning="The number of exported records is not the number in the snapshot.",
        fix="Run `aqueduct verify` for the snapshot, and export to another folder.",
    ),
    DeclaredMessage(
        id="export-name-reserved",
        area=Area.EXPORT,
        meaning="A topic has the name of a file or folder that each export has.",
        fix="Pass the other topics with `--topics`.",
    ),
    DeclaredMessage(
        id="export-table-unusable",
        area=Area.EXPORT,
        meaning=(
            "A topic is declared for several tables, or for a table with `sql`, so the columns of its files "
            "are unknown."
        ),
        fix="Declare the topic for one table without `sql`.",
    ),
)
