"""Messages about imports of backups of other programs."""

from aqueduct.messages.message import Area, DeclaredMessage

IMPORT = (
    DeclaredMessage(
        id="import-source-unknown",
        area=Area.IMPORT,
        meaning=(
            "The location of `--from` does not contain a backup of the program and the versions in the "
            "message."
        ),
        fix="Correct `--from` and `--layout`. The guide lists the supported versions.",
    ),
    DeclaredMessage(
        id="import-manifest-invalid",
        area=Area.IMPORT,
        meaning=(
            "The backup of the other program lists topics, offsets, files or groups that cannot exist. "
            "Nothing was committed."
        ),
        fix="Find out which program or user changed the backup, and import an undamaged copy.",
    ),
    DeclaredMessage(
        id="import-file-missing",
        area=Area.IMPORT,
        meaning="A file that the backup lists does not exist. Nothing was committed.",
        fix="Copy the file from a copy of the backup.",
    ),
    DeclaredMessage(
        id="import-file-damaged",
        area=Area.IMPORT,
        meaning=(
            "A file does not have the format of the other program, or does not match the manifest of the "
            "backup. Nothing was committed."
        ),
        fix="Copy the file from a copy of the backup.",
    ),
    DeclaredMessage(
        id="import-file-repeated",
        area=Area.IMPORT,
        meaning="The backup contains two files for the same offset, so it is unknown which file is correct.",
        fix="Find out which file is correct, and move the other file out of the backup.",
    ),
    DeclaredMessage(
        id="import-store-not-empty",
        area=Area.IMPORT,
        meaning="The store of an import already contains snapshots.",
        fix="Pass a new store with `--store`, and restore from the new store.",
    ),
    DeclaredMessage(
        id="import-source-lacks",
        area=Area.IMPORT,
        meaning=(
            "Backups of the other program do not contain the item in the message, so the snapshot does "
            "not contain it."
        ),
        fix="After a restore, set the missing items that you need, such as topic settings and ACLs.",
    ),
    DeclaredMessage(
        id="import-offsets-counted",
        area=Area.IMPORT,
        meaning=(
            "Each file contains only its last offset. Aqueduct calculated the offsets of the other records "
            "from the last offset, so these offsets may be too high."
        ),
        fix=(
            "If an application stores offsets outside Kafka, compare these offsets with the records. "
            "Otherwise, no action is needed."
        ),
    ),
    DeclaredMessage(
        id="import-records-differ",
        area=Area.IMPORT,
        meaning=(
            "Two files have different records at the same offsets. The records of the first file were "
            "imported."
        ),
        fix=(
            "Find out whether the topic was re-created. If it was, import the other files into a separate "
            "store."
        ),
    ),
    DeclaredMessage(
        id="import-offsets-unexplained",
        area=Area.IMPORT,
        meaning="Some offsets have no record, and the backup does not contain the reason.",
        fix=(
            "If the source cluster still exists, compare the records with it. Transactions and "
            "compaction also leave offsets without a record."
        ),
    ),
)
