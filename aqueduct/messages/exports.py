"""Messages about exports of a snapshot."""

from aqueduct.messages.message import Area, DeclaredMessage

EXPORT = (
    DeclaredMessage(
        id="export-folder-taken",
        area=Area.EXPORT,
        meaning=(
            "The folder of `--to` contains other files, or an export of another snapshot, another selection "
            "or another version."
        ),
        fix="Pass an empty or new folder with `--to`.",
    ),
    DeclaredMessage(
        id="export-state-damaged",
        area=Area.EXPORT,
        meaning="A file with the progress of an export cannot be read.",
        fix="Pass another folder with `--to`. The damaged export cannot be continued.",
    ),
    DeclaredMessage(
        id="export-files-changed",
        area=Area.EXPORT,
        meaning=(
            "Files of an export are missing or have another size, or the folder contains files that the "
            "export did not write."
        ),
        fix="Find out which program or user changed the folder, and export to another folder with `--to`.",
    ),
    DeclaredMessage(
        id="export-count-mismatch",
        area=Area.EXPORT,
        meaning="The number of exported records differs from the number of records in the snapshot.",
        fix="Run `aqueduct verify` for the snapshot, and export to another folder.",
    ),
    DeclaredMessage(
        id="export-name-reserved",
        area=Area.EXPORT,
        meaning="A topic has the same name as a file or folder that every export contains.",
        fix="Pass only the other topics with `--topics`.",
    ),
    DeclaredMessage(
        id="export-table-unusable",
        area=Area.EXPORT,
        meaning=(
            "A topic is declared for several tables, or for a table with `sql`. The columns of the exported "
            "files are unknown."
        ),
        fix="Declare the topic for one table without `sql`.",
    ),
)
